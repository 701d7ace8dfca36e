# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that were found, logged into: each once, by the name that it calls itself."""

import getpass
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible import constants as C  # noqa: N812 - as Ansible calls it
from ansible.plugins.loader import connection_loader

from ..module_utils._operations.init.find import Machine
from ..module_utils._operations.init.login import Login, Refused
from ..module_utils._operations.init.look import account, log_in, log_in_here

HERE = "localhost"
# A machine that calls itself so would be this one, or all of them.
_OF_ANSIBLE = {HERE, "all", "ungrouped", "init_hosts"}


def ssh_arguments(variables: Mapping[str, object]) -> list[str]:
    """What Ansible gives ssh beside its own."""
    connection_loader.get("ssh", class_only=True)  # whose options are known from here on
    found = []
    for name in ("ssh_common_args", "ssh_extra_args"):
        found += shlex.split(
            C.config.get_config_value(name, plugin_type="connection", plugin_name="ssh", variables=variables) or ""
        )
    key = C.config.get_config_value(
        "private_key_file", plugin_type="connection", plugin_name="ssh", variables=variables
    )
    return [*found, *(["-i", key] if key else [])]


def log_into(machines: Sequence[Machine], user: str, arguments: Sequence[str]) -> dict[Machine, Login | Refused]:
    def enter(machine: Machine) -> Login | Refused:
        if machine.name == HERE:
            return log_in_here() or Refused("this machine shows no name; see what uname -n prints")
        return log_in(machine.name, user, arguments)

    with ThreadPoolExecutor(16) as pool:
        return dict(zip(machines, pool.map(enter, machines), strict=True))


def named_hosts(sparks: dict[Machine, Login], user: str, arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Each machine once, by its own name: two ways to one machine show one address of its RJ45 socket."""
    found: dict[str, dict[str, Any]] = {}
    seen: set[tuple[str, str]] = set()
    mine = getpass.getuser()
    for one, login in sparks.items():
        if (login.mac, login.hostname) in seen:
            continue
        seen |= {(login.mac, login.hostname)} if login.mac else set()
        names = (login.hostname, *(f"{login.hostname}-{number}" for number in range(2, 99)))
        name = next(new for new in names if new not in found and new not in _OF_ANSIBLE)
        way = "" if one.name == HERE else one.name
        found[name] = {
            "name": name,
            "address": way,
            "user": user or (mine if way and not one.user and account(way, arguments) == mine else ""),
            "password": "",
        }
    return [*found.values()]
