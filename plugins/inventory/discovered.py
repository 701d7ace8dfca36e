# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later
DOCUMENTATION = r"""
name: discovered
short_description: Find Sparks and use them as an inventory
version_added: 0.2.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Looks in the same places as C(gb10.fleet.init_hosts), which are NVIDIA Sync's list, ssh's files, the neighbour table
    and answers to one multicast question. Logs in with a key, and takes each machine that has the GPU of a GB10.
  - Asks nothing, changes nothing, and keeps no host key. A warning names each machine left out, with its remedy.
  - Each host has C(ansible_host), and C(gb10_maker), C(gb10_product), C(gb10_ota), C(gb10_memory_gib), C(gb10_mac).
    C(fleet_host.memory_kib) is set where the memory is not that of the usual machine.
  - Its file ends in C(gb10.yml) or C(gb10.yaml). With O(cache) Ansible's own cache keeps what was found.
extends_documentation_fragment:
  - constructed
  - inventory_cache
options:
  plugin:
    description: Says that a file is this plugin's.
    type: str
    required: true
    choices: [gb10.fleet.discovered]
  hosts:
    description: Names or addresses. Without them machines are looked for.
    type: list
    elements: str
    default: []
  user:
    description: The account there, unless ssh's files give another account than this account's name.
    type: str
    default: ""
"""

EXAMPLES = r"""
# site.gb10.yml
plugin: gb10.fleet.discovered
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/gb10
cache_timeout: 3600
keyed_groups:
  - {key: gb10_maker, prefix: maker}
groups:
  small: gb10_memory_gib < 100
"""

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable

from ..module_utils._operations.init.decide import memory_settings
from ..module_utils._operations.init.find import host_name
from ..module_utils._operations.init.login import Login, Refused
from ..module_utils._operations.init.look import look_around
from ..plugin_utils._reached import log_into, named_hosts, ssh_arguments
from ..plugin_utils._screen import warn


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):  # type: ignore[misc]
    NAME = "gb10.fleet.discovered"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and path.endswith(("gb10.yml", "gb10.yaml"))

    def parse(self, inventory: object, loader: object, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        self.load_cache_plugin()
        key, kept = self.get_cache_key(path), bool(self.get_option("cache"))
        found = self._cache.get(key) if kept and cache else None
        if found is None:
            found = _found(self.get_option("hosts"), self.get_option("user"))
            if kept and found:
                self._cache[key] = found
        for name, variables in found.items():
            self.inventory.add_host(name)
            for variable, value in variables.items():
                self.inventory.set_variable(name, variable, value)
            strict = self.get_option("strict")
            self._set_composite_vars(self.get_option("compose"), variables, name, strict=strict)
            self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict=strict)
            self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, name, strict=strict)


def _found(hosts: list[str], user: str) -> dict[str, dict[str, Any]]:
    """The variables of each Spark."""
    wrong = [item for item in [*hosts, user] if item and not host_name(item)]
    if wrong:
        raise AnsibleParserError(f"{wrong[0]!a} is no name; expected hosts and user of letters, digits, . and -")
    arguments = ssh_arguments({})
    logins = log_into(look_around([host_name(host) for host in hosts]), user, arguments)
    sparks = {one: login for one, login in logins.items() if isinstance(login, Login) and login.is_spark}
    for one, login in logins.items():
        if one not in sparks:
            warn(f"left out: {login.why if isinstance(login, Refused) else f'{one.name}: it has no GB10'}")
    if not sparks:
        warn("gb10.fleet.discovered found no Spark; name them in its file: hosts: [192.168.1.40]")
    by_way = {one.name: login for one, login in sparks.items()}
    rows = named_hosts(sparks, user, arguments)
    found = [(row, by_way[row["address"] or "localhost"]) for row in rows]
    for row, login in found:
        if row["name"] != login.hostname:
            words = (
                f"{row['address']} calls itself {login.hostname}, as another machine does, and is {row['name']} here"
            )
            warn(f"{words}; give it a name of its own: sudo hostnamectl set-hostname NAME")
    return {row["name"]: _variables(row, login) for row, login in found}


def _variables(row: Mapping[str, str], login: Login) -> dict[str, Any]:
    way = {"ansible_host": row["address"]} if row["address"] else {"ansible_connection": "local"}
    settings = memory_settings(login.memory_kib) if login.memory_kib else {}
    return {
        **way,
        **({"ansible_user": row["user"]} if row["user"] else {}),
        "ansible_python_interpreter": "/usr/bin/python3",
        **{f"gb10_{name}": value for name, value in login.shown.items()},
        "gb10_memory_gib": login.memory_kib >> 20,
        "gb10_mac": login.mac,
        **({"fleet_host": settings} if settings else {}),
    }
