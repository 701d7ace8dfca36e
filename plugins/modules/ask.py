# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: ask
short_description: Ask a service a question, and show its answer
version_added: 0.2.0
description:
  - Asks the service's own endpoint from its host, shows the answer, and measures the seconds to its first token and the
    tokens a second after that.
options:
  service: {description: A service in C(services) of the host's slice of the plan., type: dict, required: true}
  question:
    description: The question. Without it the variable C(question) is taken as it was typed, braces included.
    type: str
  spoken: {description: The tokens a second that others report., type: float}
  endpoint:
    description: Of the service in C(plan) of M(gb10.fleet.plan). With it a command is shown that asks something.
    type: str
  end: {description: Lines to show below., type: list, elements: str, default: []}
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
attributes:
  action: {description: "Reads the key on the controller, checks what the host answers, and shows it.", support: full}
"""

EXAMPLES = r"""
- name: Ask it
  gb10.fleet.ask:
    service: "{{ fleet_slice.services | first }}"
    question: What is a DGX Spark?
"""

RETURN = r"""
answer: {description: The model's answer., returned: success, type: str}
first_s: {description: Seconds to the first token., returned: success, type: float}
speed:
  description: Tokens a second after the first; V(null) for an answer of one token.
  returned: success
  type: float
"""
