#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: client_info
short_description: Read how the clients of the gateway on a host do
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Reads the systemd unit of each, and whether it answers a look at its health. Signs in nowhere and asks no model, so
    it takes seconds.
  - C(status.yml) shows the result.
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
options:
  clients:
    description: C(clients) of the host's slice of the plan.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Look at the clients of this host
  gb10.fleet.client_info:
    clients: "{{ fleet_slice.clients }}"
"""

RETURN = r"""
clients:
  description:
    - Each client with C(client), C(unit), C(health) (C(answers) where all is well, else C(no answer), or what its unit
      is) and C(problems), which are sentences with their remedies.
  returned: always
  type: list
  elements: dict
"""

from functools import partial

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.client import read_client


def main() -> None:
    module = AnsibleModule(
        argument_spec={"clients": {"type": "list", "elements": "dict", "required": True}},
        supports_check_mode=True,
    )
    run = partial(module.run_command, handle_exceptions=False)
    try:
        clients = [read_client(run, client) for client in module.params["clients"]]
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"the clients of this host can't be read: {error}")
    module.exit_json(changed=False, clients=clients)


if __name__ == "__main__":
    main()
