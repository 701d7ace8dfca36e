#!/usr/bin/python
# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_ready
short_description: Wait until a service answers a real request
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Waits until the service answers one real request through its own endpoint, showing progress, and compares what its
    engine printed at this start with the plan.
  - Waits through a start that dies, as the service's supervisor tries again within its budget; fails, with the reason,
    when it gives up.
options:
  service:
    description: The service's name in C(fleet_services).
    type: str
    required: true
  unit:
    description: The systemd unit that owns the service's container.
    type: str
    required: true
  container:
    description: The service's container. The key is sent only where nobody else can answer.
    type: str
    required: true
  url:
    description: The endpoint as the host itself reaches it, without C(/v1).
    type: str
    required: true
  health:
    description: Path below O(url) that answers 200 once requests may come.
    type: str
    required: true
  request:
    description: What is asked, as the service's engine gives it.
    type: dict
    required: true
    suboptions:
      path:
        description: Path below O(url).
        type: str
        required: true
      body:
        description: The JSON body.
        type: dict
        required: true
      answers:
        description:
          - Keys and indexes that lead through the JSON reply to where the answer may be; the first that is not empty
            counts.
        type: list
        elements: list
        required: true
  status_file:
    description: The file on the host in which the service's supervisor says how it goes.
    type: str
    required: true
  key_file:
    description: A file on the host that holds the API key in the engine's form.
    type: str
  key_form:
    description: The text of O(key_file), with C(%s) for the key as JSON.
    type: str
    default: "%s"
  engine:
    description: What serves it, the recipe's C(engine).
    type: str
    required: true
  boot_lines:
    description: A regular expression for the lines of this start's log that tell of its memory.
    type: str
    default: ""
  expected:
    description: What the plan promised, as far as it can know it.
    type: dict
    default: {}
    suboptions:
      release:
        description: The image's release of its engine.
        type: str
      kv_tokens:
        description: Tokens in the KV pool, expected.
        type: int
      kv_tokens_low:
        description: The least that they may be; the same number where the plan is exact.
        type: int
      kv_tokens_high:
        description: The most that they may be.
        type: int
  requested_bytes:
    description: Bytes that the service's C(--gpu-memory-utilization) stands for; without it there is no C(record).
    type: int
  ranks:
    description: How many ranks have to compute the answer.
    type: int
    default: 1
  timeout:
    description: Seconds to wait at most.
    type: int
    default: 1800
attributes:
  check_mode:
    description: Is skipped in check mode, since nothing was started.
    support: partial
    details: Reads nothing and says so.
  diff_mode:
    description: Changes nothing, so there is no diff.
    support: none
  action:
    description: Runs on the controller and reads the host through M(gb10.fleet.service_info).
    support: full
"""

EXAMPLES = r"""
- name: Wait for the answer
  gb10.fleet.service_ready:
    service: nano
    unit: gb10-service-nano.service
    container: gb10-service-nano
    url: http://127.0.0.1:8003
    health: /health
    request:
      path: /v1/chat/completions
      body: {model: nemotron-nano, messages: [{role: user, content: Say hello.}], max_tokens: 24}
      answers: [[choices, 0, message, content]]
    expected: {kv_tokens: 292320, kv_tokens_low: 292320, kv_tokens_high: 292320}
    engine: vllm
    status_file: /run/gb10-fleet/nano/status.json
"""

RETURN = r"""
service:
  description: The service's name.
  returned: success
  type: str
state:
  description: Always V(serving).
  returned: success
  type: str
answer:
  description: The model's answer.
  returned: success
  type: str
boot:
  description: What its engine printed about its memory and KV cache at this start.
  returned: success
  type: dict
comparison:
  description: How the KV pool that was printed compares with the plan, in a few words; empty where nothing is known.
  returned: success
  type: str
  sample: KV pool 292,320 tokens, as planned
record:
  description: What the start has shown of its memory, for M(gb10.fleet.observation_record); V(null) if its log has
    nothing of it.
  returned: success
  type: dict
findings:
  description: Where the running service differs from the plan.
  returned: success
  type: list
  elements: dict
problems:
  description: The findings as sentences.
  returned: success
  type: list
  elements: str
"""
