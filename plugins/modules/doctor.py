# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: doctor
short_description: Report everything that blocks a first run
version_added: 0.1.0
description:
  - Judges the C(drift_reading) that M(gb10.fleet.drift_info) registered on each host by the rules of preflight and
    drift. Shows each obstacle with its remedy, and a table of the hosts.
  - Writes one file a host that can be posted in an issue. It holds no key, no secret and no public address.
  - Fails when a host can't be converged as it is.
options:
  plan: {description: "The plan, as M(gb10.fleet.plan) returns it; not needed with O(source).", type: dict}
  hosts: {description: The hosts that were asked., type: list, elements: str, default: []}
  folder: {description: Where the files are written on the controller., type: path}
  source: {description: "Such a file, which is judged instead of hosts. Nothing is written then.", type: path}
  brief: {description: Show one line where nothing stops a first run., type: bool, default: false}
extends_documentation_fragment:
  - gb10.fleet.attributes.on_controller
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Judge a file that somebody posted
  gb10.fleet.doctor:
    source: spark-2.json
"""

RETURN = r"""
verdicts:
  description: By host V(ready), V(will be changed), V(stops you) or V(could not look).
  returned: always
  type: dict
  sample: {titan: ready}
findings:
  description: By host each obstacle, with C(rule), C(place), C(found), C(expected) and C(remedy).
  returned: always
  type: dict
"""
