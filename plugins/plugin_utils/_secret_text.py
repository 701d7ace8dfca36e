# SPDX-License-Identifier: GPL-3.0-or-later
"""What no plan holds, as it is to be on a host: made of the controller's files, also those of ansible-vault."""

from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._base.managed import Managed


def text_on_host(action: ActionBase, file: Managed) -> str | None:
    """Its text there; None where its source is yet to be made by a run that is only tried.

    AnsibleActionFail, with the source's name and what is wrong, where it can't be read or made use of.
    """
    if action._task.check_mode and not Path(file.source).exists():
        return None
    try:
        return str(file.rendered(action._loader.get_text_file_contents(file.source)))
    except ValueError as problem:
        raise AnsibleActionFail(f"{file.source}: {problem}") from None
