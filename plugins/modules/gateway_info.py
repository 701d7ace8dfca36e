#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: gateway_info
short_description: Read the state of a host's gateway and of its clients
version_added: 0.1.0
description:
  - Reads its systemd unit, whether it goes by its files as they are, and which services it sends requests to. Asks no
    model, so it takes no time.
  - Of each client it reads the systemd unit, and whether it answers a look at its health. It signs in nowhere and asks
    no model, so it takes seconds.
  - C(status.yml) shows the result.
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
options:
  host: {description: The host's name in the inventory., type: str, required: true}
  plan:
    description: C(gateway) of the host's slice of the plan, empty on a host that is none.
    type: dict
    default: {}
  clients: {description: C(clients) of the host's slice of the plan., type: list, elements: dict, default: []}
"""

EXAMPLES = r"""
- name: Look at the gateway and the clients of this host
  gb10.fleet.gateway_info:
    host: "{{ inventory_hostname }}"
    plan: "{{ fleet_slice.gateway }}"
    clients: "{{ fleet_slice.clients }}"
"""

RETURN = r"""
gateway:
  description: The form C(gateway) of data/forms/verify.yml; V(null) on a host that is no gateway.
  returned: always
  type: dict
clients:
  description: Each client, with C(health), C(answers) where all is well, and C(problems), sentences with remedies.
  returned: always
  type: list
  elements: dict
"""

from functools import partial
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.slice import GatewaySlice
from ..module_utils._host.probe.parts import Run
from ..module_utils._operations.verify.client import read_client
from ..module_utils._operations.verify.gateway import problems
from ..module_utils._operations.verify.service import unit_state
from ..module_utils._subjects.gateway.reading import has_address, read_gateway, secret_paths, twins


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "host": {"type": "str", "required": True},
            "plan": {"type": "dict", "default": {}},
            "clients": {"type": "list", "elements": "dict", "default": []},
        },
        supports_check_mode=True,
    )
    host, plan = module.params["host"], module.params["plan"]
    run = partial(module.run_command, handle_exceptions=False)
    try:
        gateway = looked_at(run, host, plan) if plan else None
        clients = [read_client(run, client) for client in module.params["clients"]]
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"the gateway and the clients of this host can't be read: {error}")
    module.exit_json(changed=False, gateway=gateway, clients=clients)


def looked_at(run: Run, host: str, plan: GatewaySlice) -> dict[str, Any]:
    unit = unit_state(run, plan["unit"])
    address = has_address(plan["address"]) if plan["address"] else None
    read = {"unit": unit, **read_gateway([*plan["files"], *secret_paths(plan)]), "address": address}
    read["twins"] = twins(run, plan["address"]) if address and plan["address"] else []
    return read | {"problems": [problem.sentence() for problem in problems(host, plan, read)]}


if __name__ == "__main__":
    main()
