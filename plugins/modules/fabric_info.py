#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: fabric_info
short_description: Read a host's fabric interfaces, neighbours and RDMA devices
version_added: 0.1.0
description:
  - Reads the planned interfaces, who is at their other ends, and their RDMA devices, as data.
    C(gb10.fleet.fabric_check) judges it.
  - Writes nothing. Neighbours are asked by ARP from the interface itself, and pinged with whole packets.
options:
  interfaces:
    description: The host's interfaces, C(interfaces) of its fabric slice of the plan.
    type: list
    elements: dict
    required: true
  candidates:
    description: Addresses of other hosts' rails. A wrong neighbour is found by its answer for one of them.
    type: list
    elements: str
    default: []
  ask: {description: Ask the neighbours. Without it only the host itself is read., type: bool, default: true}
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Read the fabric
  gb10.fleet.fabric_info:
    interfaces: "{{ fabric_plan.interfaces }}"
  register: fabric_reading
"""

RETURN = r"""
reading:
  description: C(links) and C(asked) by interface, C(rdma) by device, C(adapter), what hot-plug has done.
  returned: success
  type: dict
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._subjects.fabric.hardware import RAILS
from ..module_utils._subjects.fabric.reading import ask_neighbours, read_adapter, read_links, read_rdma


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "interfaces": {"type": "list", "elements": "dict", "required": True},
            "candidates": {"type": "list", "elements": "str", "default": []},
            "ask": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    interfaces = module.params["interfaces"]
    run = partial(module.run_command, handle_exceptions=False)
    links = read_links(run, [*(interface["name"] for interface in interfaces), *RAILS])
    asked: dict[str, Any] = {}
    if module.params["ask"]:
        peers = {interface["name"]: _addresses(interface) for interface in interfaces}
        asked = ask_neighbours(run, links, peers, module.params["candidates"])
    rdma = read_rdma([interface["rdma_device"] for interface in interfaces if interface["rdma_device"]])
    adapter = read_adapter(run, [interface["name"] for interface in interfaces if interface["rdma_device"]])
    module.exit_json(changed=False, reading={"links": links, "asked": asked, "rdma": rdma, "adapter": adapter})


def _addresses(interface: Mapping[str, Any]) -> list[str]:
    return [peer["address"] for peer in interface["peers"] if peer["address"]]


if __name__ == "__main__":
    main()
