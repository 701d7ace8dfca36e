# SPDX-License-Identifier: GPL-3.0-or-later
"""Connections that are surely new: a change is confirmed by the proof that SSH still comes in, as no old one can."""

from typing import Any

# A shared connection may outlive the way to the host, whether Ansible or the owner's own ssh configuration keeps it.
# One that a change has cut says nothing; without the last two ssh would wait for hours.
_OPTIONS = "-o ControlMaster=no -o ControlPath=none -o ServerAliveInterval=5 -o ServerAliveCountMax=2"


def use_new_connections(connection: Any) -> None:
    """From now on each command of this task opens a connection of its own, over whatever jump hosts lead there."""
    connection.reset()
    if connection.transport == "ssh":
        written = connection.get_option("ssh_args") or ""
        # ssh takes the first value that it is given, and these come before the owner's other arguments.
        connection.set_option("ssh_args", f"{_OPTIONS} {written}".strip())
