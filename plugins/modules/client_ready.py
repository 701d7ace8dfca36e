#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: client_ready
short_description: Prove that a client of the gateway does what its people need
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Uses the client on its host as people do. Open WebUI has to let its first account in, to list the gateway's models,
    and to bring an answer of one. Hermes Agent has to refuse who has no key, and to answer who has.
  - Waits some minutes for a client that starts for the first time.
options:
  client:
    description: The client.
    type: str
    required: true
  proof:
    description: C(proof) of the client in C(clients) of the host's slice of the plan.
    type: dict
    required: true
  secret:
    description: The file of the client's own secret on the controller.
    type: path
  key:
    description: That secret, which the action reads.
    type: str
attributes:
  check_mode:
    description: Is skipped, since a client that was not started has no answer.
    support: partial
    details: Reads nothing and says so.
  diff_mode:
    description: Changes nothing, so there is no diff.
    support: none
  action:
    description: Reads the secret on the controller, also one that ansible-vault encrypted.
    support: full
"""

EXAMPLES = r"""
- name: Prove the clients
  gb10.fleet.client_ready:
    client: "{{ item.name }}"
    proof: "{{ item.proof }}"
    secret: "{{ (item.secrets | last).source }}"
  loop: "{{ fleet_slice.clients }}"
"""

RETURN = r"""
client:
  description: The client.
  returned: success
  type: str
answer:
  description: What a model answered through it.
  returned: success
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.client import ClientError, prove


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "client": {"type": "str", "required": True},
            "proof": {"type": "dict", "required": True},
            "secret": {"type": "path", "no_log": False},  # a path
            "key": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,  # its action asks nothing then
    )
    client = module.params["client"]
    try:
        answer = prove(module.params["proof"], module.params["key"] or "")
    except (ClientError, OSError, ValueError) as problem:
        module.fail_json(msg=f"the client {client}: {problem} [client]")
    module.exit_json(changed=False, client=client, answer=answer)


if __name__ == "__main__":
    main()
