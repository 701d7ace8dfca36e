#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: gateway_info
short_description: Read how the gateway of a host does
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Reads its systemd unit, whether it goes by its files as they are, and which services it sends requests to. Asks no
    model, so it takes no time.
  - C(status.yml) shows the result.
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
options:
  host:
    description: The host's name in the inventory.
    type: str
    required: true
  plan:
    description: C(gateway) of the host's slice of the plan.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Look at the gateway
  gb10.fleet.gateway_info:
    host: "{{ inventory_hostname }}"
    plan: "{{ fleet_slice.gateway }}"
"""

RETURN = r"""
gateway:
  description:
    - C(unit), C(unread) (files that changed since it read them), C(servers) (by model and service C(up), C(status),
      C(running) and C(waiting)), C(why), where they could not be read, and C(holds), by model why its requests wait.
      C(address) is whether this host has the floating one. C(problems) are sentences with their remedies.
  returned: always
  type: dict
"""

from functools import partial

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.gateway import problems
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.service import unit_state
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.reading import (
    has_address,
    read_gateway,
    secret_paths,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={"host": {"type": "str", "required": True}, "plan": {"type": "dict", "required": True}},
        supports_check_mode=True,
    )
    host, plan = module.params["host"], module.params["plan"]
    try:
        unit = unit_state(partial(module.run_command, handle_exceptions=False), plan["unit"])
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"the gateway of this host can't be read: {error}")
    address = has_address(plan["address"]) if plan["address"] else None
    read = {"unit": unit, **read_gateway([*plan["files"], *secret_paths(plan)]), "address": address}
    found = [problem.sentence() for problem in problems(host, plan, read)]
    module.exit_json(changed=False, gateway=read | {"problems": found})


if __name__ == "__main__":
    main()
