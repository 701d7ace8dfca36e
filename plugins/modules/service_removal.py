#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: service_removal
short_description: Remove services that are no longer declared on a host
version_added: 0.1.0
description:
  - Removes those that were ordered to be removed, and those that are declared on other hosts of the run. Their unit is
    stopped and disabled, their container removed, and the files that were written for them. Images and weights stay.
  - The gateway is removed alike, as C(gateway). Its package stays.
  - All others stay, above all those that another inventory wrote.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  host: {description: This host's name in the inventory., type: str, required: true}
  removal:
    description: The facts that decide, C(removal) of M(gb10.fleet.plan). Nothing is removed where it is empty.
    type: dict
    required: true
  alive:
    description: The hosts that the run still goes on with. A service that is declared on others stays here.
    type: list
    elements: str
    required: true
  beside:
    description:
      - Removes nothing unless a unit of another inventory is on the host, which then stays as that inventory keeps it.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Remove what was retired
  gb10.fleet.service_removal:
    host: "{{ inventory_hostname }}"
    removal: "{{ fleet_plan.removal }}"
    alive: "{{ ansible_play_hosts }}"
"""

RETURN = r"""
removed:
  description: The services that were removed, or would be, each with C(service), C(unit), C(container), C(files),
    C(folders) and C(hosts), where it is declared now.
  returned: success
  type: list
  elements: dict
others:
  description: The units of other inventories on the host, each with the inventory's name.
  returned: success
  type: list
  elements: str
"""

import shutil
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base import layout
from ..module_utils._operations.undo.survey import foreign
from ..module_utils._subjects.services.reading import read_units
from ..module_utils._subjects.services.undeclared import REMOVED, Undeclared, undeclared


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "required": True},
            "removal": {"type": "dict", "required": True},
            "alive": {"type": "list", "elements": "str", "required": True},
            "beside": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    removal = module.params["removal"]
    run = {**removal, "alive": module.params["alive"]}
    others = foreign(run.get("inventory", ""))
    is_beside = module.params["beside"]
    asked = removal and (others or not is_beside)
    found = undeclared(read_units(), module.params["host"], run) if asked else []
    leaving = [item for item in found if item.fate in REMOVED]
    diff = {"before": "".join(f"{line}\n" for item in leaving for line in _parts(item)), "after": ""}
    if not module.check_mode:
        for item in leaving:
            _remove(module, item)
        if leaving:
            module.run_command(["systemctl", "daemon-reload"], check_rc=True)
    if is_beside and others:
        module.warn(
            f"another inventory keeps this host: {', '.join(others)}; only the services of this one are removed, and "
            "their images and models stay until it prunes [remove-beside]"
        )
    removed = [finding.as_dict() for finding in leaving]
    module.exit_json(changed=bool(leaving), removed=removed, others=others, diff=diff)


def _parts(one: Undeclared) -> list[str]:
    there = [path for path in (*one.files, *one.folders) if Path(path).exists()]
    return [*there, *([f"container {one.container}"] if one.container else [])]


def _remove(module: AnsibleModule, one: Undeclared) -> None:
    """The unit's file goes last: until then a run that was cut off finds it again."""
    beside = [Path(path).name for path in one.files if path.startswith(f"{layout.UNITS}/") and Path(path).exists()]
    module.run_command(["systemctl", "disable", "--now", one.unit, *sorted({*beside} - {one.unit})], check_rc=True)
    if one.container and (docker := module.get_bin_path("docker")):
        # its supervisor removes it, where there still is one
        module.run_command([docker, "rm", "--force", "--volumes", one.container])
    for folder in one.folders:
        shutil.rmtree(folder, ignore_errors=True)
    for path in reversed(one.files):
        Path(path).unlink(missing_ok=True)


if __name__ == "__main__":
    main()
