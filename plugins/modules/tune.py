# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: tune
short_description: Search for the fastest settings of a service
version_added: 0.1.0
description:
  - Decides what is tried next, by all runs so far, and keeps them beside the inventory, so that a search goes on where
    it was ended. What the plan refuses, or warns of anew, is never tried.
extends_documentation_fragment:
  - gb10.fleet.attributes.on_controller
attributes:
  check_mode: {description: "Says what would be tried first, and keeps nothing.", support: full}
  diff_mode: {description: What to write is shown at the end as a diff; no file of the owner's changes., support: none}
options:
  step:
    description: V(begin) checks what is asked, V(next) decides what is tried next, V(record) keeps what became of it,
      V(end) shows what was found.
    type: str
    choices: [begin, next, record, end]
    required: true
  asked:
    description: What the search is about, the same in all steps.
    type: dict
    required: true
    suboptions:
      service: {description: A service., type: str, required: true}
      goal: {description: "What it is to serve, as V(64 users, ttft_p95 < 2 s).", type: str, required: true}
      runs: {description: "How many starts the search may take, at least 2.", type: int, default: 25}
      pairs:
        description: How many starts of what serves now and of the best prove it at the end, in turns; at least 2.
        type: int
        default: 3
      rounds:
        description: How often each start is measured; one more round warms up. At least 1.
        type: int
        default: 3
      hours: {description: How long all of it may take., type: float, default: 8}
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
  description: The files by which its hosts put back what serves now when they are left alone.
  returned: V(begin)
  type: dict
load: {description: What its head is given to measure it., returned: V(begin) and V(next), type: dict}
point: {description: What is sent., returned: V(begin), type: dict}
most: {description: Over how many runs a playbook must loop., returned: V(begin), type: int}
over: {description: Whether nothing is to be tried any more., returned: V(next), type: bool}
run:
  description: What is tried, C(kind) and C(candidate), and when it C(began).
  returned: V(next), while it is not over
  type: dict
slices:
  description: By host its slice with this service alone, as tried.
  returned: V(next), while it is not over
  type: dict
limit_s: {description: How long its start may take., returned: "V(next), while it is not over", type: int}
round_s:
  description: How long one round of its measurement may take.
  returned: V(next), while it is not over
  type: int
better: {description: Whether something better was found and proved., returned: V(end), type: bool}
"""
