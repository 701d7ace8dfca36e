# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections that prove something, and words for those that sudo refuses. On hosts: tests/fabric/test_reach.py."""

from __future__ import annotations

import subprocess

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.gb10.fleet.plugins.plugin_utils._new_connection import use_new_connections
from ansible_collections.gb10.fleet.plugins.plugin_utils._sudo import refuse_without_terminal


class Connection:
    """As far as it is asked."""

    def __init__(self, transport: str, ssh_args: str | None) -> None:
        self.transport, self.ssh_args, self.resets = transport, ssh_args, 0

    def reset(self) -> None:
        self.resets += 1

    def get_option(self, name: str) -> str | None:
        assert name == "ssh_args"
        return self.ssh_args

    def set_option(self, name: str, value: str) -> None:
        assert name == "ssh_args"
        self.ssh_args = value


def test_ssh_itself_shares_no_connection_then_whatever_the_owner_wrote() -> None:
    connection = Connection("ssh", "-o ControlMaster=auto -o ControlPersist=60s -o ControlPath=/tmp/mine")
    use_new_connections(connection)
    words = f"{connection.ssh_args} -o ControlMaster=auto -o ControlPath=/tmp/common".split()
    settings = subprocess.run(["ssh", "-F", "none", *words, "-G", "titan"], capture_output=True, text=True, check=True)
    assert connection.resets == 1
    assert "controlmaster false" in settings.stdout
    assert "controlpath" not in settings.stdout


def test_what_is_not_ssh_is_only_reset() -> None:
    connection = Connection("local", None)
    use_new_connections(connection)
    assert (connection.resets, connection.ssh_args) == (1, None)


def test_sudo_without_a_terminal_is_named_and_nothing_else() -> None:
    with pytest.raises(AnsibleActionFail, match="sudo-needs-tty"):
        refuse_without_terminal({"module_stderr": "sudo: sorry, you must have a tty to run sudo\n"})
    refuse_without_terminal({"module_stderr": "Traceback: ..."})
    refuse_without_terminal({"state": {}})
