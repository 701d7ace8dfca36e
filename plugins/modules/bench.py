# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: bench
short_description: Plan a benchmark, compare its result and save it
version_added: 0.1.0
description:
  - Without O(seen) it returns the services to look at. With O(seen) it returns the order of the measurements, and
    refuses a comparison that differs in more than was asked. With O(measured) it compares, and keeps runs and a page.
extends_documentation_fragment:
  - gb10.fleet.attributes.on_controller
attributes:
  check_mode: {description: "Says what would be measured, and keeps nothing.", support: full}
  diff_mode: {description: "The results are new, so there is no diff.", support: none}
options:
  plan: {description: C(plan) of M(gb10.fleet.plan)., type: dict, required: true}
  service: {description: A service., type: str, required: true}
  against:
    description: The other side of the comparison, another service or itself (measured in turns with it), or the name of
      an earlier run.
    type: str
    default: ""
  profile:
    description: By what; V(load) is the load generator of the service's own image on its host, V(owner) llama-benchy on
      this machine, through the endpoint.
    type: str
    choices: [load, owner]
    default: load
  endpoint:
    description: The URL that llama-benchy asks, with its C(/v1), in place of the service's own, such as a tunnel's.
    type: str
    default: ""
  changed:
    description: In what they may differ, V(driver), V(engine), V(flags), V(hosts), V(image), V(kernel), V(model),
      V(release) or V(variables).
    type: list
    elements: str
    default: []
  prompts:
    description: Lengths of prompts in tokens, each measured by itself; 512 and 8192, with V(owner) 2048 where it is
      left out.
    type: list
    elements: int
  concurrency:
    description: Numbers of requests at the same time, each measured with the shortest prompt; 4 and 16 where it is left
      out. Not with V(owner).
    type: list
    elements: int
  rates:
    description: Numbers of requests that come in a second, whether or not earlier requests are answered; each measured
      with the shortest prompt. Not with V(owner).
    type: list
    elements: float
    default: []
  depths:
    description: Numbers of tokens that all requests of a run have in common before the shortest prompt, as an earlier
      conversation; a prefix cache holds them. With V(owner) the engine reads them again, and each length of a prompt is
      measured with each, 0 to 32768 where it is left out.
    type: list
    elements: int
  images:
    description: Sizes of an image in each request, C(WIDTHxHEIGHT), each measured by itself and with each
      O(concurrency). Not with V(owner).
    type: list
    elements: str
    default: []
  answer: {description: "Tokens of each answer; 128, with V(owner) 32 where it is left out.", type: int}
  rounds:
    description: The number of measurements of each point, at least 4; a further round warms up. From 9 on, twelve
      figures also have an interval by ranks.
    type: int
    default: 10
  hosts: {description: The hosts of the run., type: list, elements: str, required: true}
  folder: {description: The folder on the controller that runs are kept in., type: path, required: true}
  seen: {description: "By service, C(seen) of M(gb10.fleet.bench_load).", type: dict}
  measured:
    description: Of each of the C(steps) in their order C(figures), C(shown) and C(raw) of
      M(gb10.fleet.bench_load).
    type: list
    elements: dict
  steps: {description: The C(steps) that were measured., type: list, elements: dict}
"""

EXAMPLES = r"""
- name: Decide what is measured
  gb10.fleet.bench:
    plan: "{{ fleet_plan.plan }}"
    service: chat
    hosts: "{{ ansible_play_hosts_all }}"
    folder: "{{ fleet_plan.observed }}/bench"
  register: bench
"""

RETURN = r"""
targets:
  description: The services of the benchmark, each with C(service), C(host), C(load) and C(owner).
  returned: without O(seen)
  type: list
  elements: dict
steps:
  description: The measurements, one after the other, each with C(side), C(service), C(host), C(point), C(round),
    C(seed), C(load) and C(owner).
  returned: with O(seen)
  type: list
  elements: dict
runs: {description: The files that were written., returned: with O(measured), type: list, elements: str}
page: {description: The page that shows them., returned: with O(measured), type: str}
"""
