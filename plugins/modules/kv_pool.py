#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: kv_pool
short_description: Calculate the size of a vLLM KV cache before the start
version_added: 0.1.0
description:
  - Says what vLLM will print at its start (block size, blocks, tokens, concurrency), exactly and without a GPU, from a
    model's C(config.json), the options of C(vllm serve), the bytes left for the cache and vLLM's version.
  - With O(sequences) and O(tokens_per_sequence) also the inverse, the least memory that holds them.
  - An architecture or option that isn't known, and a start that vLLM would refuse, is an answer with RV(error), no
    failure. Only a parameter of the wrong type fails.
  - Reads at most the file of O(config), on the host that it runs on.
options:
  config:
    description: The content of the model's C(config.json), or the path of the file.
    type: raw
    required: true
  flags:
    description:
      - Options of C(vllm serve) by name, with underscores or dashes. Those that don't concern the cache are ignored.
      - C(speculative_config) may hold C(draft_config), the content of the drafter's own C(config.json).
    type: dict
    default: {}
  env:
    description: Variables of the container; C(VLLM_ALLOW_LONG_MAX_MODEL_LEN) concerns the cache.
    type: dict
    default: {}
  available_kv_bytes:
    description: Bytes left for the cache on each rank, as C(Available KV cache memory) in vLLM's log. Without it
      O(available_kv_gib) counts, then C(kv_cache_memory_bytes) in O(flags), then the least for O(sequences).
    type: int
  available_kv_gib: {description: The same in GiB., type: float}
  vllm_version:
    description: vLLM's version, from 0.11. A release newer than those known is sized like the newest, with a hint.
    type: str
    required: true
  sequences: {description: The number of sequences that shall fit at once., type: int}
  tokens_per_sequence: {description: "Tokens of each of them, prompt and answer together.", type: int}
  total_memory_bytes:
    description: The memory that the GPU reports; with O(non_kv_bytes) the result also has the utilization.
    type: int
  non_kv_bytes: {description: "The part of it for weights, runtime and graphs.", type: int}
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Size the pool of a start
  gb10.fleet.kv_pool:
    config: /srv/models/nano/config.json
    flags: {kv_cache_dtype: fp8, max_model_len: 8192, max_num_seqs: 1}
    available_kv_gib: 15.9
    vllm_version: 0.23.0
  delegate_to: localhost

- name: Ask for the least memory that holds four sequences of 32768 tokens
  gb10.fleet.kv_pool:
    config: /srv/models/nano/config.json
    flags: {kv_cache_dtype: fp8, max_model_len: 32768, max_num_seqs: 4}
    sequences: 4
    tokens_per_sequence: 32768
    vllm_version: 0.23.0
  delegate_to: localhost
"""

RETURN = r"""
error:
  description: Why there is no answer, vLLM's own words where it would refuse, and what to do. No other key but
    RV(findings) then.
  returned: when it can't be sized or vLLM would refuse
  type: str
findings:
  description: The same as findings with C(rule), C(place), C(found), C(expected), C(remedy) and C(source); or hints on
    the basis of the answer.
  returned: with an error or a hint
  type: list
  elements: dict
vllm_version: {description: The version that it was sized for., returned: success, type: str}
block_size:
  description: Tokens of a block, of the group with the smallest.
  returned: success
  type: int
  sample: 4176
num_blocks: {description: Blocks of the pool., returned: success, type: int, sample: 1330}
tokens:
  description: The tokens that vLLM prints. Up to 0.20.0 these are blocks of one group, since then concurrency times
    length; compare RV(max_concurrency) or RV(bytes_per_request) across versions.
  returned: success
  type: int
  sample: 1815893
max_concurrency:
  description: Requests of RV(max_model_len) that fit at once, as printed.
  returned: success
  type: float
  sample: 221.67
max_concurrency_exact: {description: "The same, not rounded.", returned: success, type: float}
max_model_len: {description: "The longest request, as decided.", returned: success, type: int, sample: 8192}
page_size_bytes: {description: Bytes of one layer's block on a rank., returned: success, type: int, sample: 2138112}
groups:
  description: Groups of layers with a block table of their own, on the first pipeline stage, each with C(kind),
    C(layers), C(block_size), C(page_size_bytes), C(count), C(window) of sliding and C(spec_blocks) of recurrent layers.
  returned: success
  type: list
  elements: dict
resolved:
  description: The values that vLLM derives from the options, such as C(prefix_caching) and C(max_num_batched_tokens).
  returned: success
  type: dict
bytes_per_request:
  description: Bytes that a request of RV(max_model_len) takes on a rank.
  returned: success
  type: int
  sample: 76972032
later_startup_error:
  description: vLLM prints these figures and then stops with this error.
  returned: when it does
  type: str
later_startup_remedy:
  description: The setting that prevents it.
  returned: with RV(later_startup_error)
  type: str
kv_cache_memory_bytes:
  description: The least C(--kv-cache-memory-bytes) that holds the workload.
  returned: with O(sequences)
  type: int
  sample: 295059456
gpu_memory_utilization:
  description: The least C(--gpu-memory-utilization) that does.
  returned: with O(sequences), O(total_memory_bytes) and O(non_kv_bytes)
  type: float
  sample: 0.2214
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

# What `api.kv_pool` calls. The module runs on hosts, to which Ansible would send all that `api` imports, 1 MB.
from ..module_utils._engines.vllm.kv import size_pool

_ARGUMENTS: dict[str, dict[str, Any]] = {
    "config": {"type": "raw", "required": True},
    "flags": {"type": "dict", "default": {}},
    "env": {"type": "dict", "default": {}},
    "available_kv_bytes": {"type": "int"},
    "available_kv_gib": {"type": "float"},
    "vllm_version": {"type": "str", "required": True},
    "sequences": {"type": "int"},
    "tokens_per_sequence": {"type": "int", "no_log": False},
    "total_memory_bytes": {"type": "int"},
    "non_kv_bytes": {"type": "int"},
}


def main() -> None:
    module = AnsibleModule(argument_spec=_ARGUMENTS, supports_check_mode=True)
    module.exit_json(changed=False, **size_pool(module.params))


if __name__ == "__main__":
    main()
