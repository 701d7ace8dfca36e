#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: service_trial
short_description: Keep a trial of a service alive and read its progress
version_added: 0.1.0
description:
  - While a service is tried with another definition, its host restores the earlier definition by itself as soon as
    nobody has run this module for O(seconds).
  - Says what the service's supervisor reports, and whether the way back is kept.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  service: {description: The service's name., type: str, required: true}
  seconds:
    description: The time for the next step, in seconds. With 0 no deadline is moved.
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Go on with the trial for ten minutes
  gb10.fleet.service_trial:
    service: chat
    seconds: 600
"""

RETURN = r"""
kept: {description: Whether the host keeps what the service went by before., returned: success, type: bool}
state:
  description: Of the status of the supervisor that runs; empty while it reports none.
  returned: success
  type: str
ended:
  description: Why the last epoch of the supervisor that runs ended; empty where it has not.
  returned: success
  type: str
"""

import json
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base import layout
from ..module_utils._on_host.trial import alone, move, read_index


def main() -> None:
    module = AnsibleModule(
        argument_spec={"service": {"type": "str", "required": True}, "seconds": {"type": "int", "default": 0}},
        supports_check_mode=True,
    )
    service, seconds = module.params["service"], module.params["seconds"]
    deadline = Path(layout.deadline(service))
    if seconds and not module.check_mode:
        with alone(deadline):
            move(deadline, seconds)
    status = _status(module, service)
    module.exit_json(
        changed=False,
        kept=read_index(Path(layout.way_back(service))) is not None,
        state=str(status.get("state") or ""),
        ended=str(status.get("last_end") or ""),
    )


def _status(module: AnsibleModule, service: str) -> dict[str, Any]:
    """What the supervisor says that runs now, and not what the one before it has left."""
    words = ["systemctl", "show", "--value", "--property", "ExecMainStartTimestampMonotonic", layout.unit(service)]
    _code, out, _error = module.run_command(words)
    file = Path(layout.status_file(service))
    try:
        started = time.time() - time.monotonic() + int(out) / 1e6
        if file.stat().st_mtime < started:
            return {}
        found: dict[str, Any] = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found


if __name__ == "__main__":
    main()
