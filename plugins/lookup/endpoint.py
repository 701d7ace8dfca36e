# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: endpoint
short_description: Return the URL, key file and CA of a service
version_added: 0.2.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Plans the fleet of this inventory, and says of a service what a client needs, for playbooks of your own. Reaches no
    host, and reads no key. C(no_log) is not needed, the key stays in its file.
  - Where the fleet has a gateway, the answer is the gateway's.
options:
  _terms:
    description: Names of services, as C(fleet_services) has them.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Tell a program where the model is
  ansible.builtin.template:
    src: program.env.j2
    dest: /etc/program.env
    mode: "0600"
  vars:
    chat: "{{ lookup('gb10.fleet.endpoint', 'chat') }}"
    # in the template: OPENAI_BASE_URL={{ chat.url }}, OPENAI_API_KEY={{ lookup('file', chat.key_file) }}
"""

RETURN = r"""
_list:
  description: A map for each name. C(url) is the endpoint, C(model) the name in requests, C(key_file) a file of the
    controller with the key. C(clients_file) has the keys of the gateway's clients, C(ca_file) the CA to trust. A value
    that does not apply is V(null).
  type: list
  elements: dict
  sample: [{url: "http://192.168.1.31:8000/v1", model: chat, key_file: /site/.fleet/keys/chat.key, ca_file: null}]
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ..module_utils._base.findings import FleetError, did_you_mean, finding_of
from ..module_utils._base.plan import Plan
from ..module_utils._base.ranks import rank_of
from ..module_utils._plan.inventory_files import inventory_folder
from ..module_utils._plan.sources import read_sources
from ..plugin_utils._planning import inventory_of


class LookupModule(LookupBase):  # type: ignore[misc]  # ansible-core carries no types
    def run(
        self, terms: list[object], variables: Mapping[str, object] | None = None, **_options: Any
    ) -> list[dict[str, Any]]:
        found = dict(variables or {})
        try:
            folder = Path(inventory_folder(found.get("inventory_dir")))
            plan = read_sources(inventory_of(found, folder)).planned()
        except FleetError as problem:
            raise AnsibleError(f"gb10.fleet.endpoint: {problem}") from None
        return [endpoint(plan, str(term)) for term in terms]


def endpoint(plan: Plan, name: str) -> dict[str, Any]:
    """What a client of a service needs. AnsibleError where the plan has no such service."""
    if name not in plan["services"]:
        declared = {row["service"] for row in plan["summary"]}
        errors = [finding_of(row).sentence() for row in plan["findings"] if row["severity"] == "error"]
        why = errors[0] if name in declared and errors else did_you_mean(name, plan["services"])
        raise AnsibleError(f"gb10.fleet.endpoint: no service {name!a} is planned; {why}")
    service, gateway = plan["services"][name], plan["gateway"]
    if gateway:
        return {
            "url": gateway["url"],
            "model": next(row["model"] for row in gateway["models"] if name in row["services"]),
            "key_file": None,
            "clients_file": gateway["clients"],
            "ca_file": gateway["ca"],
        }
    head = rank_of(plan, name, service["hosts"][0])
    return {
        "url": service["endpoint"],
        "model": service["served_name"],
        "key_file": head["key"]["source"] if head["key"] else None,
        "clients_file": None,
        "ca_file": head["tls"]["ca"] if head["tls"] else None,
    }
