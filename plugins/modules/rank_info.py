#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: rank_info
short_description: Read the state of every rank on a host
version_added: 0.1.0
description:
  - Reads each rank's systemd unit, what its supervisor says, and the host's memory. Asks no model, so it takes no time.
  - C(status.yml) shows the result of all hosts as one table.
options:
  services:
    description: The services of the host, C(services) of its slice of the plan.
    type: list
    elements: dict
    required: true
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Look at the ranks of this host
  gb10.fleet.rank_info:
    services: "{{ fleet_slice.services }}"
  register: ranks
"""

RETURN = r"""
ranks:
  description: The rank of each service here, by the form C(ranks) of data/forms/verify.yml. C(health) is one word,
    C(serving) where all is well; C(problems) are sentences with their remedies.
  returned: always
  type: list
  elements: dict
frozen: {description: Sentences on our units here that run and do nothing., returned: always, type: list, elements: str}
lease: {description: The person who changes the host now; empty if there is none., returned: always, type: dict}
ansible_stats: {description: The part of it that ansible-runner and AWX keep., returned: success, type: dict}
"""

from functools import partial
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base import layout
from ..module_utils._host.probe.parts import UnreadableError
from ..module_utils._operations.verify.service import idle_units, read_ranks
from ..module_utils._subjects.services.reading import read_last_run


def main() -> None:
    module = AnsibleModule(
        argument_spec={"services": {"type": "list", "elements": "dict", "required": True}}, supports_check_mode=True
    )
    try:
        ranks = read_ranks(partial(module.run_command, handle_exceptions=False), module.params["services"])
    except (OSError, ValueError, UnreadableError) as error:
        module.fail_json(msg=f"the ranks of this host can't be read: {error}")
    lease = read_last_run(Path(layout.LEASE))
    module.exit_json(changed=False, ranks=ranks, frozen=idle_units(), lease=lease)


if __name__ == "__main__":
    main()
