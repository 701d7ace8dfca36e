#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway_ready
short_description: Prove that the gateway of a host does what clients need
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Asks the gateway over TLS as a client does. Without a key it has to refuse, with the first client's it has to list
    the planned models, and bring an answer of each that is asked in JSON.
  - Waits some seconds for a gateway that has just read its files.
options:
  proof:
    description: C(proof) of C(gateway) in the host's slice of the plan.
    type: dict
    required: true
  clients:
    description: The owner's file of clients and their keys on the controller.
    type: path
  key:
    description: The key of a client, which the action reads in O(clients).
    type: str
attributes:
  check_mode:
    description: Is skipped, since a gateway that was not started has no answer.
    support: partial
    details: Reads nothing and says so.
  diff_mode:
    description: Changes nothing, so there is no diff.
    support: none
  action:
    description: Reads the client's key on the controller, also one that ansible-vault encrypted.
    support: full
"""

EXAMPLES = r"""
- name: Prove the gateway
  gb10.fleet.gateway_ready:
    proof: "{{ fleet_slice.gateway.proof }}"
    clients: secrets/clients.yml
"""

RETURN = r"""
answers:
  description: What each model answered, by its name.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.gateway import GatewayError, prove


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "proof": {"type": "dict", "required": True},
            "clients": {"type": "path"},
            "key": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,  # its action asks nothing then
    )
    try:
        answers = prove(module.params["proof"], module.params["key"] or "")
    except (GatewayError, OSError, ValueError) as problem:
        module.fail_json(msg=f"the gateway: {problem} [gateway]")
    module.exit_json(changed=False, answers=answers)


if __name__ == "__main__":
    main()
