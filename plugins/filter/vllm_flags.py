# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: vllm_flags
short_description: Return the vLLM options of a service on a host
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - The options of C(vllm serve) that the plan has decided for a service on a host, for your own templates.
  - Fails for a service or a host that the plan does not have, and for a service of another engine.
positional: _input, service, host
options:
  _input: {description: The result of M(gb10.fleet.plan)., type: dict, required: true}
  service: {description: The service's name., type: str, required: true}
  host: {description: "One of its hosts. Without it, the first of them, which answers the clients.", type: str}
"""

EXAMPLES = r"""
- name: Decide everything
  gb10.fleet.plan:
  register: fleet_plan

- name: Show how long a request to the service code may be
  ansible.builtin.debug:
    msg: "{{ (fleet_plan | gb10.fleet.vllm_flags('code'))['max-model-len'] }}"

- name: Write the options of the service code on spark-2 into a file
  ansible.builtin.copy:
    content: "{{ fleet_plan | gb10.fleet.vllm_flags('code', 'spark-2') | ansible.builtin.to_nice_yaml }}"
    dest: code-on-spark-2.yml
    mode: "0644"
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description:
    - Values by option, without dashes. V(true) is the bare option, V(false) its C(--no-) form, a list several words, a
      map a word of JSON.
    - Empty on a host where only a Ray node runs.
  type: dict
  sample: {max-model-len: 131072, enable-prefix-caching: true, kv-cache-dtype: fp8}
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils import api
from ..module_utils._base.findings import FleetError


def vllm_flags(fleet: object, service: str, host: str | None = None) -> dict[str, Any]:
    if not isinstance(fleet, Mapping) or "plan" not in fleet:
        raise AnsibleFilterError(
            "gb10.fleet.vllm_flags takes what gb10.fleet.plan returned; register its result: register: fleet_plan"
        )
    try:
        return api.vllm_flags(fleet["plan"], service, host)
    except FleetError as problem:
        raise AnsibleFilterError(f"gb10.fleet.vllm_flags: {problem}") from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"vllm_flags": vllm_flags}
