#!/usr/bin/python
# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: rank_state
short_description: Read how the ranks of a host's services do
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Reads each rank's systemd unit, what its supervisor says, and the host's memory. Asks no model, so it takes no time.
  - C(status.yml) shows the result of all hosts as one table.
options:
  ranks:
    description: The ranks, C(ranks) of the host's slice of the plan.
    type: list
    elements: dict
    required: true
    suboptions:
      service:
        description: The service's name.
        type: str
        required: true
      unit:
        description: The systemd unit that runs the rank's supervisor.
        type: str
        required: true
      rank:
        description: The rank, 0 for the head.
        type: int
        required: true
      ranks:
        description: How many ranks the service has.
        type: int
        required: true
      definition:
        description: The plan's definition of the service, a sha256.
        type: str
        required: true
      memory_floor_bytes:
        description: So much of the host's memory has to stay free.
        type: int
        required: true
      file:
        description: What the supervisor goes by.
        type: path
        required: true
      status_file:
        description: What the supervisor says.
        type: path
        required: true
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Look at the ranks of this host
  gb10.fleet.rank_state:
    ranks: "{{ fleet_plan.plan.hosts[inventory_hostname].ranks }}"
  register: ranks
"""

RETURN = r"""
ranks:
  description:
    - Each rank as asked for, with C(unit), C(told) (the supervisor's status, as docs/architecture.md lists it),
      C(definition) that it goes by, C(wanted), the plan's, and C(memory) of the host.
    - C(health) is one word, C(serving) where all is well; C(problems) are sentences with their remedies.
  returned: always
  type: list
  elements: dict
"""

from functools import partial

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.fleet.plugins.module_utils._probe.parts import UnreadableError
from ansible_collections.gb10.fleet.plugins.module_utils._verify.ranks import health, problems, read_ranks

RANK = {
    "service": {"type": "str", "required": True},
    "unit": {"type": "str", "required": True},
    "rank": {"type": "int", "required": True},
    "ranks": {"type": "int", "required": True},
    "definition": {"type": "str", "required": True},
    "memory_floor_bytes": {"type": "int", "required": True},
    "file": {"type": "path", "required": True},
    "status_file": {"type": "path", "required": True},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={"ranks": {"type": "list", "elements": "dict", "required": True, "options": RANK}},
        supports_check_mode=True,
    )
    try:
        ranks = read_ranks(partial(module.run_command, handle_exceptions=False), module.params["ranks"])
    except (OSError, ValueError, UnreadableError) as error:
        module.fail_json(msg=f"the ranks of this host can't be read: {error}")
    judged = [
        {**rank, "health": health(rank), "problems": [problem.sentence() for problem in problems(rank)]}
        for rank in ranks
    ]
    module.exit_json(changed=False, ranks=judged)


if __name__ == "__main__":
    main()
