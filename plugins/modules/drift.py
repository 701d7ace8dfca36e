# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: drift
short_description: Compare hosts with the plan and report the differences
version_added: 0.1.0
description:
  - Compares what M(gb10.fleet.drift_info) registered as C(drift_reading) on each host with the plan, and shows it.
  - A run on all hosts of the plan also writes C(report.json), C(report.html), C(junit.xml) and C(gb10_drift.prom),
    keeps its history beside them, and gives the report to C(fleet_drift.hook) when something is new. Not in check mode.
options:
  plan: {description: "The plan, as M(gb10.fleet.plan) returns it.", type: dict, required: true}
  hosts: {description: The hosts that were asked., type: list, elements: str, required: true}
  folder: {description: Where reports and history are kept on the controller., type: path, required: true}
  speeds:
    description: The folder of the controller with the runs that what M(gb10.fleet.bench_services) registered as
      C(drift_bench) on each host is compared with; empty to compare nothing.
    type: path
    default: ""
  service: {description: Compare only this service; empty for everything., type: str, default: ""}
  format: {description: The form of the output., type: str, choices: [text, json], default: text}
extends_documentation_fragment:
  - gb10.fleet.attributes.on_controller
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Compare
  gb10.fleet.drift:
    plan: "{{ fleet_plan.plan }}"
    hosts: "{{ fleet_plan.hosts }}"
    folder: /var/lib/gb10-fleet/drift
"""

RETURN = r"""
verdict:
  description: V(clean), V(drift), or V(unknown) when something could not be read and no drift was found.
  returned: success
  type: str
exit_code: {description: "The exit code of C(drift.yml), V(0), V(2) or V(1).", returned: success, type: int}
"""
