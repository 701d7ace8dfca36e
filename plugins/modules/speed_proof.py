# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: speed_proof
short_description: Test that services answer as fast as before a change
version_added: 0.2.0
description:
  - Compares the seconds of the same request, the best of each side, and the figures of a benchmark. Fails where a
    service is slower.
extends_documentation_fragment:
  - gb10.fleet.attributes.on_controller
  - gb10.fleet.attributes.reads_only
options:
  before:
    description: The registered results of a loop over M(gb10.fleet.service_ready), or C(seconds) of this module.
    type: dict
    required: true
  after: {description: The same after the change. Without it nothing is compared., type: dict, default: {}}
  figures_before: {description: C(figures) of M(gb10.fleet.bench_services)., type: dict, default: {}}
  figures_after: {description: The same after the change., type: dict, default: {}}
  least: {description: "The speed that a service must reach, as a part of its speed before.", type: float, default: 0.7}
"""

EXAMPLES = r"""
- name: Refuse a service that is slower
  gb10.fleet.speed_proof:
    before: "{{ asked_before }}"
    after: "{{ asked_after }}"
"""

RETURN = r"""
seconds:
  description: The seconds of each request before, by service. One that was not asked is not among them.
  returned: success
  type: dict
  sample: {chat: [1.2, 1.1, 1.1]}
"""
