# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: vllm_lint
short_description: Check a vLLM launch before it starts
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Checks options, values and C(VLLM_*) variables against the catalogue of the image's vLLM release, and their
    combinations against the rules in C(docs/rules.md).
  - Reaches no host and no network. The module P(gb10.fleet.vllm_lint#module) takes the same as options.
options:
  _input:
    description:
      - A map with what is known of the launch. The module P(gb10.fleet.vllm_lint#module) documents its keys.
      - A check that lacks a fact stays silent.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Refuse a launch with mistakes
  ansible.builtin.assert:
    that: launch | gb10.fleet.vllm_lint | selectattr('severity', 'eq', 'error') | length == 0
  vars:
    launch:
      image: vllm/vllm-openai:v0.24.0
      argv: [nvidia/Qwen3.6-35B-A3B-NVFP4, --moe-backend, marlin, --gpu-memory-utilization, "0.8"]
      env: {VLLM_USE_FLASHINFER_MOE_FP4: "1"}
"""

RETURN = r"""
_value:
  description:
    - The findings, errors first. Each is a map with C(rule), C(kind) (V(catalogue), V(combination),
      V(memory) or V(host)),
      C(severity) (V(error), V(warning) or V(hint)), C(place), C(found), C(expected), C(remedy), C(reason),
      C(source), and C(silenced),
      the owner's reason where the rule is silenced.
  type: list
  elements: dict
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.lint.judge import lint_map


def vllm_lint(launch: Any) -> list[dict[str, Any]]:
    if not isinstance(launch, Mapping):
        wanted = "a map with argv, env, image or vllm_version, and model"
        raise AnsibleFilterError(f"gb10.fleet.vllm_lint takes {wanted}, not {type(launch).__name__}")
    return lint_map(launch)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"vllm_lint": vllm_lint}
