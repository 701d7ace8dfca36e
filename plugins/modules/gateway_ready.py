#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: gateway_ready
short_description: Test a host's gateway, or a client of it, as people use it
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Asks the gateway over TLS as a client does. Without a key it must refuse, with the first client's it must list
    the planned models, and bring an answer of each that is asked in JSON.
  - Or uses O(client) as people do, on its host. Open WebUI must let its first account in, list the gateway's
    models, and bring an answer of one. Hermes Agent must refuse a client without its key, and answer one with it.
  - Waits some seconds for a gateway that has just read its files, and some minutes for a client that
    starts for the first time.
options:
  client: {description: The client to use; the gateway is asked if it is left out., type: str}
  proof:
    description: C(proof) of C(gateway) in the host's slice of the plan, or of the client in its C(clients).
    type: dict
    required: true
  secret:
    description: A file on the controller, of O(client) its own secret, of the gateway the owner's file of clients and
      their keys.
    type: path
  elsewhere:
    description: Hosts by model. If such a model gives no answer, the gateway is tested without it.
    type: dict
    default: {}
  key: {description: "The client's secret, or the first key of that file, which the action reads.", type: str}
attributes:
  check_mode:
    description: Is skipped, since what was not started has no answer.
    support: partial
    details: Reads nothing and says so.
  diff_mode: {description: "Changes nothing, so there is no diff.", support: none}
  action: {description: "Reads O(secret) on the controller, also one that ansible-vault encrypted.", support: full}
"""

EXAMPLES = r"""
- name: Prove the gateway
  gb10.fleet.gateway_ready:
    proof: "{{ fleet_slice.gateway.proof }}"
    secret: secrets/clients.yml

- name: Prove the clients
  gb10.fleet.gateway_ready:
    client: "{{ item.name }}"
    proof: "{{ item.proof }}"
    secret: "{{ (item.secrets | last).source }}"
  loop: "{{ fleet_slice.clients }}"
"""

RETURN = r"""
answers:
  description: Each model's answer, by the model's name; with O(client), of one model through it, by the client's name.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._operations.verify import client, gateway


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "client": {"type": "str"},
            "proof": {"type": "dict", "required": True},
            "secret": {"type": "path", "no_log": False},  # a path
            "elsewhere": {"type": "dict", "default": {}},
            "key": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,  # its action asks nothing then
    )
    name, asked = module.params["client"], (module.params["proof"], module.params["key"] or "")
    try:
        answers = {name: client.prove(*asked)} if name else gateway.prove(*asked, module.params["elsewhere"])
    except (client.ClientError, gateway.GatewayError, OSError, ValueError) as problem:
        what = f"the client {name}: {problem} [client]" if name else f"the gateway: {problem} [gateway]"
        module.fail_json(msg=what)
    module.exit_json(changed=False, answers=answers)


if __name__ == "__main__":
    main()
