# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: tune
short_description: Search for the fastest settings of a service
version_added: 0.1.0
description:
  - Decides what is tried next, by all runs so far, and keeps them beside the inventory, so that a search goes on where
    it was ended. It never tries a setting that the plan refuses or newly warns of.
extends_documentation_fragment:
  - gb10.fleet.attributes.on_controller
attributes:
  check_mode: {description: "Says what would be tried first, and keeps nothing.", support: full}
  diff_mode: {description: The new settings are shown at the end as a diff; the owner's files stay., support: none}
options:
  step:
    description: V(begin) checks what is asked, V(next) decides what is tried next, V(record) keeps what became of it,
      V(end) shows what was found.
    type: str
    choices: [begin, next, record, end]
    required: true
  asked:
    description: The subject of the search, the same in all steps.
    type: dict
    required: true
    suboptions:
      service: {description: A service., type: str, required: true}
      goal: {description: "The load to serve, as V(64 users, ttft_p95 < 2 s).", type: str, required: true}
      runs: {description: "The number of starts that the search may take, at least 2.", type: int, default: 25}
      pairs:
        description: Starts that prove it at the end, of the present and the best setting in turns; at least 2.
        type: int
        default: 3
      rounds:
        description: The number of measurements of each start; a further round warms up. At least 1.
        type: int
        default: 3
      hours: {description: The time limit of the whole search., type: float, default: 8}
      anew: {description: Forget a search that was ended before it was over., type: bool, default: false}
      hosts: {description: The hosts of the run., type: list, elements: str, required: true}
      folder: {description: The folder on the controller that searches are kept in., type: path, required: true}
  ranks: {description: "By host, C(ranks) of M(gb10.fleet.rank_info).", type: dict}
  seen: {description: C(seen) of M(gb10.fleet.bench_load)., type: dict}
  tried:
    description: C(run) of the step V(next), with C(figures) of M(gb10.fleet.tune_load), or with C(why) where it did not
      start or answer.
    type: dict
"""

EXAMPLES = r"""
- name: Decide what is tried next
  gb10.fleet.tune:
    step: next
    asked:
      service: chat
      goal: 64 users, ttft_p95 < 2 s
      hosts: "{{ ansible_play_hosts_all }}"
      folder: "{{ fleet_plan.observed }}/tune"
    seen: "{{ __tune_seen.seen }}"
  register: tune_next
"""

RETURN = r"""
hosts: {description: "Of the service, the head first.", returned: V(begin), type: list, elements: str}
guard:
  description: The files that let its hosts restore the present service if the controller is gone.
  returned: V(begin)
  type: dict
load: {description: The input of its head for the measurement., returned: V(begin) and V(next), type: dict}
point: {description: The requests to send., returned: V(begin), type: dict}
most: {description: Over how many runs a playbook must loop., returned: V(begin), type: int}
over: {description: Whether the trials are over., returned: V(next), type: bool}
run:
  description: The trial, C(kind) and C(candidate), and the time when it C(began).
  returned: V(next), while it is not over
  type: dict
slices:
  description: By host its slice with only this service, as tried.
  returned: V(next), while it is not over
  type: dict
limit_s: {description: The time limit of its start., returned: "V(next), while it is not over", type: int}
round_s:
  description: The time limit of one round of its measurement.
  returned: V(next), while it is not over
  type: int
better: {description: Whether something better was found and proved., returned: V(end), type: bool}
"""
