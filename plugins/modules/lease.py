#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: lease
short_description: Keep other runs from changing a host
version_added: 0.2.0
description:
  - The first task of a run that changes a host takes its lease. The playbooks give it back when they end.
  - It takes over the lease of a run that is over, and with C(-e take_over=PERSON) any lease of that person.
  - Check mode takes none.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  run:
    description: C(run) of M(gb10.fleet.plan). After a wait, a run that would undo the other one is refused.
    type: dict
    default: {}
  holder: {description: The person who takes it. The action fills it in., type: dict, default: {}}
  instead_of: {description: C(token) of the run that is over. The action fills it in., type: str, default: ""}
"""

EXAMPLES = r"""
- name: Take the host's lease
  gb10.fleet.lease:
"""

RETURN = r"""
release:
  description: The command of the controller that gives the lease back.
  returned: success
  type: list
  elements: str
"""

import fcntl
import json
import os
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base import layout
from ..module_utils._subjects.services.reading import read_last_run


def main() -> None:
    options = {name: {"type": "dict", "default": {}} for name in ("holder", "run")}
    options["instead_of"] = {"type": "str", "default": ""}
    module = AnsibleModule(argument_spec=options, supports_check_mode=True)
    mine = module.params["holder"]
    found = take(mine, module.params["instead_of"]) if mine else read_last_run(Path(layout.LEASE))
    module.exit_json(changed=False, holder=found, last_run=read_last_run())


def take(mine: dict[str, str], instead_of: str = "", path: Path = Path(layout.LEASE)) -> dict[str, str]:
    """Who holds it instead; empty when it is ours. The file stays, so that its lock holds; its owner can empty it."""
    path.parent.mkdir(0o755, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = read_last_run(path)
        if found.get("token", "") not in ("", mine["token"], instead_of):
            return found
        file.truncate()
        json.dump(mine, file)
        if os.geteuid() == 0:
            # who connected gives it back without a second login as root
            os.fchown(descriptor, int(os.environ.get("SUDO_UID", "0")), -1)
    return {}


if __name__ == "__main__":
    main()
