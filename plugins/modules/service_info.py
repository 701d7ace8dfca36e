#!/usr/bin/python
# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: service_info
short_description: Read one service on its host
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Reads the service's systemd unit, its health, what its engine printed at this start, and, once it is healthy,
    the answer to one real request through the service's own endpoint.
  - M(gb10.fleet.service_ready) repeats this until the service answers.
options:
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
    description: The file in which the service's supervisor says how it goes.
    type: path
    required: true
  key_file:
    description: A file on the host that holds the API key in the engine's form.
    type: path
  key_form:
    description: The text of O(key_file), with C(%s) for the key as JSON.
    type: str
    default: "%s"
  boot_lines:
    description: A regular expression for the lines of this start's log that tell of its memory.
    type: str
    default: ""
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Ask the service
  gb10.fleet.service_info:
    unit: gb10-service-nano.service
    container: gb10-service-nano
    url: http://127.0.0.1:8003
    health: /health
    request:
      path: /v1/chat/completions
      body: {model: nemotron-nano, messages: [{role: user, content: Say hello.}], max_tokens: 24}
      answers: [[choices, 0, message, content]]
    status_file: /run/gb10-fleet/nano/status.json
  register: nano
"""

RETURN = r"""
unit:
  description: C(active), C(sub), C(result), C(restarts), C(invocation) and C(started), the day, of the unit.
  returned: always
  type: dict
supervisor:
  description: What its supervisor says, as docs/architecture.md lists it; V(null) before it says anything.
  returned: always
  type: dict
health:
  description: C(status) and C(text) of C(/health); status 0 when nothing answered.
  returned: always
  type: dict
reply:
  description: C(ok), C(answer), C(fingerprint) and C(error) of the request; V(null) while not healthy.
  returned: always
  type: dict
memory_total_bytes:
  description: The host's memory.
  returned: always
  type: int
boot_log:
  description: The last lines of this start's journal that O(boot_lines) matches; none without it.
  returned: always
  type: list
  elements: str
log_tail:
  description: The last lines of this start's journal.
  returned: always
  type: list
  elements: str
"""

import re
from functools import partial

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.fleet.plugins.module_utils._rank.service import read_key
from ansible_collections.gb10.fleet.plugins.module_utils._verify.service import read_service

TAIL_LINES = 30
BOOT_LINES = 1000


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "container": {"type": "str", "required": True},
            "url": {"type": "str", "required": True},
            "health": {"type": "str", "required": True},
            "request": {
                "type": "dict",
                "required": True,
                "options": {
                    "path": {"type": "str", "required": True},
                    "body": {"type": "dict", "required": True},
                    "answers": {"type": "list", "elements": "list", "required": True},
                },
            },
            "status_file": {"type": "path", "required": True},
            "key_file": {"type": "path", "no_log": False},
            "key_form": {"type": "str", "default": "%s", "no_log": False},
            "boot_lines": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    options = module.params
    run = partial(module.run_command, handle_exceptions=False)
    try:
        wanted = {name: options[name] for name in ("unit", "container", "url", "health", "request", "status_file")}
        reading = read_service(run, key=read_key(options["key_file"], options["key_form"]), **wanted)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{options['unit']}: {error}")
    lines, wanted = reading.pop("log").splitlines(), options["boot_lines"]
    shown = [line for line in lines if re.search(wanted, line)][-BOOT_LINES:] if wanted else []
    module.exit_json(changed=False, boot_log=shown, log_tail=lines[-TAIL_LINES:], **reading)


if __name__ == "__main__":
    main()
