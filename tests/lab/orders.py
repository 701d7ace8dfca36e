# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a running lab is asked to do: power, cables, status, commands in its network or on its hosts."""

from __future__ import annotations

import json
import os
import socket
from typing import Any, NoReturn

from .errors import LabError
from .lifecycle import init_process
from .workspace import Running, Workspace

_SECONDS = 60


def running_lab(workspace: Workspace) -> Running:
    running = Running.find(workspace.state)
    if running is None:
        raise LabError(f"no lab is up in {workspace.directory}: lab -d {workspace.directory} up")
    return running


def send(workspace: Workspace, order: dict[str, Any]) -> dict[str, Any]:
    """One order to the lab's daemon. Returns {"hosts": {name: "on" or "off"}, "cables": [text]} as afterwards."""
    running_lab(workspace)
    try:
        answer = json.loads(_ask(workspace, json.dumps(order)))
    except (OSError, json.JSONDecodeError) as error:
        raise LabError(f"the lab's daemon does not answer ({error}): see {workspace.log}") from error
    if "refused" in answer:
        raise LabError(answer["refused"])
    done: dict[str, Any] = answer["done"]
    return done


def _ask(workspace: Workspace, line: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_SECONDS)
        connection.connect(str(workspace.control))
        with connection.makefile("rw", encoding="utf-8") as stream:
            stream.write(line + "\n")
            stream.flush()
            return stream.readline()


def power(workspace: Workspace, action: str, host: str) -> str:
    """on, off, or cycle: both. Returns what the host is then; "on" is the moment its systemd starts."""
    check_host(running_lab(workspace), host)
    if action in ("off", "cycle"):
        send(workspace, {"power": "off", "host": host})
    if action in ("on", "cycle"):
        send(workspace, {"power": "on", "host": host})
    state: str = send(workspace, {})["hosts"][host]
    return state


def status(workspace: Workspace) -> dict[str, Any]:
    """{"directory", "up", "hosts": {name: {"address", "power"}}, "cables": [text]}."""
    running = Running.find(workspace.state)
    if running is None:
        return {"directory": str(workspace.directory), "up": False, "hosts": {}, "cables": []}
    now = send(workspace, {})
    return {
        "directory": str(workspace.directory),
        "up": True,
        "hosts": {host: {"address": running.lab.address(host), "power": state} for host, state in now["hosts"].items()},
        "cables": now["cables"],
    }


def check_host(running: Running, host: str) -> None:
    if host not in running.lab.hosts:
        raise LabError(f"the lab has no host {host}; it has {', '.join(running.lab.hosts)}")


def host_command(workspace: Workspace, host: str, command: list[str]) -> list[str]:
    """What runs a command on a host, as its root and without SSH."""
    check_host(running_lab(workspace), host)
    init = init_process(workspace, host)
    if init is None:
        raise LabError(f"{host} is off: lab power on {host}")
    # The shell stays out of the host's process namespace and forks the command into it. nsenter's own fork would stop
    # itself with a child that a host's shutdown stops, and never reap it: the host could not end.
    forked = ["sh", "-c", '"$@"; exit $?', "sh", *command]
    return ["nsenter", "--target", str(init), "--all", "--no-fork", "--", *forked]


def become_host_command(workspace: Workspace, host: str, command: list[str]) -> NoReturn:
    """Replace this process by `host_command`."""
    words = host_command(workspace, host, command)
    os.execvp(words[0], words)


def become_network_command(workspace: Workspace, command: list[str]) -> NoReturn:
    """Replace this process by one with this machine's files and the lab's network."""
    running = running_lab(workspace)
    os.execvp("nsenter", ["nsenter", f"--net=/proc/{running.keeper}/ns/net", "--", *command])


def become_ssh(workspace: Workspace, host: str, command: list[str]) -> NoReturn:
    check_host(running_lab(workspace), host)
    os.execvp("ssh", ["ssh", "-F", str(workspace.ssh_config), host, *command])
