# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: drift_info
short_description: Read everything on a host that the plan describes
version_added: 0.1.0
description:
  - Makes the questions of the host's view of the plan and asks them with one call of M(gb10.fleet.host_info).
  - Never fails. A host that can't be read answers with no state, and with the reason.
  - Compares the API keys that the owner keeps on the controller with the host's, and returns whether they are the same.
options:
  view:
    description: The parts of the plan that the host's reading needs, C(host_view) of P(gb10.fleet.internal#filter).
    type: dict
    required: true
  deep:
    description: Read the weights that are due tonight byte by byte, which takes minutes.
    type: bool
    default: false
  folder:
    description: Where the controller keeps the history, which says what was read when.
    type: path
    required: true
  salt:
    description:
      - The salt for digests of secrets, the same for all hosts of a run and hidden from everybody. With it, a check can
        compare secrets that must be the same on several hosts. Without it each host gets one of its own.
    type: str
    default: ""
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Read the host
  gb10.fleet.drift_info:
    view: "{{ fleet_plan.plan | gb10.fleet.internal('host_view', inventory_hostname) }}"
    folder: /var/lib/gb10-fleet/drift
  register: drift_reading
"""

RETURN = r"""
state:
  description: As M(gb10.fleet.host_info) returns it, with C(asked_between), the controller's clock before and after;
    V(null) for a host that could not be read.
  returned: always
  type: dict
unknown: {description: "Parts that could not be read, each with the reason.", returned: always, type: dict}
why: {description: Why the host could not be read; empty if it could., returned: always, type: str}
"""
