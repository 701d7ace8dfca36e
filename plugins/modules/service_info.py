#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: service_info
short_description: Read the state of one service on its host
version_added: 0.1.0
description:
  - Reads the service's systemd unit, its health, what its engine printed at this start, and, once it is healthy,
    the answer to one real request through the service's own endpoint.
  - M(gb10.fleet.service_ready) repeats this until the service answers.
options:
  service:
    description:
      - Of a service in C(services) of the host's slice of the plan C(unit), C(container), C(status_file) and C(proof),
        which says how it is asked, and C(rows), the lines that end the phases of its start (C(data/starts.yml)).
      - The key is sent only where nobody but its container can answer.
    type: dict
    required: true
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Ask the service
  gb10.fleet.service_info:
    service: "{{ fleet_slice.services | selectattr('name', 'eq', 'nano') | first }}"
  register: nano
"""

RETURN = r"""
unit: {description: The unit's state., returned: always, type: dict}
supervisor:
  description: The supervisor's state, as docs/explanation/architecture.md lists it; V(null) if there is none yet. All
    other keys are as the form C(service) of data/forms/verify.yml has them.
  returned: always
  type: dict
health: {description: The answer of C(/health); status 0 when nothing answered., returned: always, type: dict}
reply: {description: What the request gave; V(null) while not healthy., returned: always, type: dict}
unanswered: {description: The questions that a serving service failed., returned: always, type: str}
memory_total_bytes: {description: The host's memory., returned: always, type: int}
starts: {description: Its last starts by phase., returned: always, type: list, elements: dict}
boot_log: {description: Lines of this start about memory., returned: always, type: list, elements: str}
log_tail: {description: The last lines of this start's journal., returned: always, type: list, elements: str}
"""

import re
from functools import partial

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._on_host.rank.service import read_key
from ..module_utils._operations.verify.service import read_service

TAIL_LINES = 30
BOOT_LINES = 1000


def main() -> None:
    module = AnsibleModule(argument_spec={"service": {"type": "dict", "required": True}}, supports_check_mode=True)
    service = module.params["service"]
    proof = service["proof"]
    run = partial(module.run_command, handle_exceptions=False)
    try:
        reading = read_service(run, service, read_key(proof["key_file"] or None, proof["key_form"]))
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"{service['unit']}: {error}")
    lines, wanted = reading.pop("log").splitlines(), proof["boot_lines"]
    shown = [line for line in lines if re.search(wanted, line)][-BOOT_LINES:] if wanted else []
    module.exit_json(changed=False, boot_log=shown, log_tail=lines[-TAIL_LINES:], **reading)


if __name__ == "__main__":
    main()
