#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: host_update
short_description: Update a host's packages and firmware, or roll packages back
version_added: 0.1.0
description:
  - One step of C(gb10.fleet.update) on one host. A record on the host keeps the finished steps. A run that was cut off
    goes on from there, and a second run of the same step changes nothing.
  - Restarts nothing; C(restart) says whether that is due.
options:
  state:
    description:
      - V(refreshed) fetches package lists and fwupd's metadata.
      - V(kept) fetches what comes and what a way back needs, and changes nothing else.
      - V(installed) installs what was judged and nothing else, without removing a package.
      - V(restored) puts the packages back. Firmware can't be.
      - V(absent) keeps no way back any more.
    type: str
    choices: [refreshed, kept, installed, restored, absent]
    required: true
  judged:
    description:
      - With V(kept) what the controller has judged and decided, C(steps), C(firmware), C(units), C(expected), C(known),
        C(seconds) and, where services were measured, C(figures).
    type: dict
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
"""

EXAMPLES = r"""
- name: Install what was judged
  gb10.fleet.host_update:
    state: installed
  become: true
  register: installed
"""

RETURN = r"""
restart: {description: Whether the host must restart now., returned: success, type: bool}
units: {description: The units of services that ran before., returned: success, type: list, elements: str}
seconds: {description: "The times that services took to answer before, by their names.", returned: success, type: dict}
figures:
  description: Their speeds before, by their names, as C(gb10.fleet.bench_services) measured them.
  returned: success
  type: dict
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._operations.update import change
from ..module_utils._operations.update.look import FOLDER, boot_id

# What is due after a step, where the host is still in the boot of it.
_RESTARTS = ("installed", "restored")
NOTHING: dict[str, Any] = {"restart": False, "units": [], "seconds": {}, "figures": {}}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {
                "type": "str",
                "choices": ["refreshed", "kept", "installed", "restored", "absent"],
                "required": True,
            },
            "judged": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    run = partial(module.run_command, handle_exceptions=False, environ_update=change.ENVIRONMENT)
    state = module.params["state"]
    steps: dict[str, Callable[[], Any]] = {
        "kept": lambda: change.keep(run, module.params["judged"]),
        "installed": lambda: change.install(run),
        "restored": lambda: change.restore(run),
    }
    try:
        if state == "refreshed":
            if not module.check_mode:
                change.refresh(run)
            module.exit_json(changed=False, **NOTHING)
        before = None if state == "absent" else change.record()
        if state == "absent":
            changed = FOLDER.exists() if module.check_mode else change.forget()
            module.exit_json(changed=changed, **NOTHING)
        if module.check_mode:
            module.exit_json(changed=True, **NOTHING)
        if state == "restored" and before is None:
            module.exit_json(changed=False, **NOTHING)  # nothing was begun here
        after = steps[state]()
    except (OSError, ValueError, change.UpdateError) as error:
        module.fail_json(msg=str(error))
    words = [f"{step['package']}: {step['have'] or 'not there'} to {step['version']}\n" for step in after["steps"]]
    shown = {"before": "", "after": "".join(words)} if before != after and state == "installed" else {}
    restart = after["stage"] in _RESTARTS and after["boot_id"] == boot_id()
    module.exit_json(
        changed=before != after,
        restart=restart,
        **{key: after[key] for key in ("units", "seconds", "figures")},
        diff=shown,
    )


if __name__ == "__main__":
    main()
