# SPDX-License-Identifier: GPL-3.0-or-later
"""sudo's message where Ansible says only that a module gave no answer."""

from collections.abc import Mapping

from ansible.errors import AnsibleActionFail

_TTY = (
    "sudo asks for a terminal on this host (`Defaults requiretty`), and so nothing was changed; write "
    "ansible_pipelining: false for this host in the inventory, or `Defaults:USER !requiretty` in its sudoers "
    "[sudo-needs-tty]"
)


def refuse_without_terminal(result: Mapping[str, object]) -> None:
    """Raise AnsibleActionFail, with what to write, for the result of a module that sudo has kept from running so."""
    if "must have a tty to run sudo" in str(result.get("module_stderr", "")):
        raise AnsibleActionFail(_TTY)
