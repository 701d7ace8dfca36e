# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: tune_load
short_description: Measure one trial start during a search
version_added: 0.1.0
description:
  - Measures a point round by round, as M(gb10.fleet.bench_load) does, and goes on with the trial before each of them.
extends_documentation_fragment:
  - gb10.fleet.attributes.measures
options:
  load: {description: C(load) of M(gb10.fleet.tune)., type: dict, required: true}
  point: {description: C(point) of M(gb10.fleet.tune)., type: dict, required: true}
  goal: {description: "The goal, whose figures are taken.", type: str, required: true}
  rounds: {description: The number of measurements; a further round warms up., type: int, required: true}
  limit_s: {description: "The time limit of one round, in seconds.", type: int, required: true}
attributes:
  action:
    description: Runs on the controller and measures on the host through M(gb10.fleet.bench_load).
    support: full
"""

EXAMPLES = r"""
- name: Measure it
  gb10.fleet.tune_load:
    load: "{{ tune_next.load }}"
    point: "{{ tune.point }}"
    goal: 64 users, ttft_p95 < 2 s
    rounds: 3
    limit_s: 1800
"""

RETURN = r"""
figures: {description: By name the values of all rounds., returned: success, type: dict}
busy: {description: Whether it failed since others ask the service., returned: failure, type: bool}
"""
