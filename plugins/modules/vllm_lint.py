# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: vllm_lint
short_description: Check a vLLM command line before it starts
version_added: 0.1.0
description:
  - Checks options, values and C(VLLM_*) variables against the catalogue of the image's vLLM release (0.11.0 and
    later), and their combinations against the rules in C(docs/reference/rules.md).
  - Runs on the controller. Reaches no host and no network. Never fails because of its findings.
  - A check that lacks a fact stays silent. Wrong input is also a finding.
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
  - gb10.fleet.attributes.on_controller
options:
  argv:
    description:
      - The words that the container gets after its image. A leading C(vllm serve) or C(python3 -m
        vllm.entrypoints.openai.api_server) is understood, also inside C(bash -c).
    type: list
    elements: raw
  env: {description: "The container's environment, name to text.", type: dict}
  command:
    description: A whole C(docker run) command line instead, as text or as words. Everything else that is given comes
      before its values.
    type: raw
  vllm_version:
    description: The image's vLLM. Without it the version is taken from O(image), where that is known.
    type: str
  image:
    description: The image's reference, or a map with C(reference), C(digest), C(family), C(entrypoint) and
      C(vllm) as in a recipe.
    type: raw
  entrypoint: {description: The replacement of the image's entrypoint., type: str}
  mounts:
    description: Mounts as maps with C(source), C(target) and C(read_only). Not given means not known.
    type: list
    elements: dict
  container:
    description: Other options of C(docker run) by their long names, each a list of texts, such as
      V({"restart":["always"]}).
    type: dict
  model:
    description:
      - Facts of the model, such as C(repository), C(family), C(quant_method), C(quant_algo), C(architecture),
        C(moe), C(hybrid), C(vision), C(audio), C(reasoning), C(native_length), C(weights_bytes), C(gated),
        C(cached), and C(config), the content of its C(config.json).
      - Missing values are taken from the configuration, then from the known facts of the repository.
    type: dict
  host:
    description:
      - Facts of the host, such as C(driver), C(memory_bytes), C(mem_available_bytes), C(utilizations) of its
        other services, C(swap), C(sysctl). A GB10 is assumed.
    type: dict
  group:
    description: Facts of a service over several hosts, C(hosts), C(revisions), C(fabric_addresses).
    type: dict
  service:
    description:
      - The wanted values, C(tools), C(reasoning), C(video), C(media_files), C(profile), C(ready_timeout_s), C(recipe),
        C(restarts), C(address), C(open), and the planned values, C(kv_pool_tokens), C(kv_blocks), C(kv_block_size),
        C(non_kv_bytes).
    type: dict
  catalogue:
    description: The image's own names, as returned by M(gb10.fleet.vllm_catalogue_info), instead of a
      release's.
    type: dict
  silence: {description: "Rules to silence, id to reason. Their findings come marked, as hints.", type: dict}
  place: {description: The text before the place of each finding., type: str}
"""

EXAMPLES = r"""
- name: Check a launch
  gb10.fleet.vllm_lint:
    image: vllm/vllm-openai:v0.24.0
    argv: [nvidia/Qwen3.6-35B-A3B-NVFP4, --moe-backend, marlin, --gpu-memory-utilization, "0.8"]
    env: {VLLM_USE_FLASHINFER_MOE_FP4: "1"}
    silence: {R043: the reasoning is wanted in the answer}
  register: checked

- name: Check a command as documented somewhere
  gb10.fleet.vllm_lint:
    command: docker run --gpus all vllm/vllm-openai:v0.20.0 vllm serve Qwen/Qwen3-0.6B
"""

RETURN = r"""
findings:
  description:
    - All findings, errors first. C(rule) is a stable id. C(kind) is V(catalogue), V(combination), V(memory) or V(host).
      C(severity) is V(error), V(warning) or V(hint). C(place) has its parts in C(part) (V(argv) or V(env)) and
      C(option). C(found), C(expected), C(remedy) and C(reason) are texts; C(source) is the origin of the rule.
    - C(silenced) is your reason if the rule is silenced.
  returned: always
  type: list
  elements: dict
  sample: [{rule: R025, severity: error, place: env VLLM_USE_FLASHINFER_MOE_FP4}]
"""
