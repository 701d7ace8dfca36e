# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: kv_pool
short_description: Size a vLLM KV cache before the start
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Says what vLLM will print at its start, exactly and without a GPU. Or says in C(error) why vLLM would refuse, or why
    it can't be sized. It never fails for a map.
options:
  _input:
    description:
      - A map of the options of the module P(gb10.fleet.kv_pool#module), which describes each. C(config) may be the path
        of a file on the controller. Other keys are ignored.
    type: dict
    required: true
seealso:
  - plugin: gb10.fleet.kv_pool
    plugin_type: module
"""

EXAMPLES = r"""
- name: Show how many requests of 8192 tokens fit
  ansible.builtin.debug:
    msg: "{{ (launch | gb10.fleet.kv_pool).max_concurrency }}"
  vars:
    launch:
      config: "{{ lookup('ansible.builtin.file', 'config.json') | from_json }}"
      flags: {kv_cache_dtype: fp8, max_model_len: 8192}
      available_kv_gib: 15.9
      vllm_version: 0.23.0
"""

RETURN = r"""
_value:
  description:
    - The keys that the module P(gb10.fleet.kv_pool#module) returns, such as C(tokens) and C(max_concurrency).
    - Or C(error), why there is no answer and what to do, with C(findings).
  type: dict
  sample: {vllm_version: 0.23.0, block_size: 4176, num_blocks: 1330, tokens: 1815893, max_concurrency: 221.67}
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ..module_utils import api


def kv_pool(case: object) -> dict[str, Any]:
    if not isinstance(case, Mapping):
        raise AnsibleFilterError(f"gb10.fleet.kv_pool takes a map, not {type(case).__name__}")
    return api.kv_pool(case)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"kv_pool": kv_pool}
