#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: service_unit
short_description: Start, stop, restart, enable and disable systemd units
version_added: 0.1.0
description:
  - Reads the units in one call, compares, and asks systemd only for the units that differ.
  - In check mode a unit that is not there counts as one that an earlier task of the run would have brought.
  - A unit that is not there is stopped and disabled already. Outside of check mode it can't be started or enabled, and
    the module names it before it changes anything.
  - A unit that is masked is refused in check mode too, since starting it would fail.
options:
  name:
    description: The units, with their suffix. They change in this order.
    type: list
    elements: str
    required: true
  state:
    description: The state to bring. V(restarted) and V(reloaded) change always. A unit at rest is started by both.
    type: str
    choices: [started, stopped, restarted, reloaded]
  enabled:
    description: Whether each starts at boot. A unit that systemd can't enable (static, generated) keeps its ways.
    type: bool
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
"""

EXAMPLES = r"""
- name: Keep a program's own service from starting
  gb10.fleet.service_unit:
    name: [haproxy.service]
    state: stopped
    enabled: false
"""

RETURN = r"""
changed_units:
  description: The units that were changed, or would be.
  returned: success
  type: list
  elements: str
  sample: [haproxy.service]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.probe.parts import UnreadableError, bounded_run
from ..module_utils._host.probe.units import read_units
from ..module_utils._host.settings.units import decide, refusal

COMMAND_SECONDS = 60


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "list", "elements": "str", "required": True},
            "state": {"type": "str", "choices": ["started", "stopped", "restarted", "reloaded"]},
            "enabled": {"type": "bool"},
        },
        required_one_of=[("state", "enabled")],
        supports_check_mode=True,
    )
    names = module.params["name"]
    try:
        found = read_units(bounded_run(COMMAND_SECONDS), names)
    except UnreadableError as problem:
        module.fail_json(msg=f"systemd's units can't be read: {problem}")
    changes = {name: decide(found[name], module.params["state"], module.params["enabled"]) for name in names}
    problems = [refusal(name, found[name], change, module.check_mode) for name, change in changes.items()]
    if sentences := [problem.sentence() for problem in problems if problem]:
        module.fail_json(msg="\n".join(sentences))
    if not module.check_mode:
        for name, change in changes.items():
            for verb in change.verbs:
                ask(module, verb, name)
    changed = [name for name, change in changes.items() if change.verbs]
    module.exit_json(changed=bool(changed), changed_units=changed, diff=[changes[name].diff(name) for name in changed])


def ask(module: AnsibleModule, verb: str, name: str) -> None:
    code, _out, error = module.run_command(["systemctl", verb, name])
    if code:
        module.fail_json(msg=f"systemctl {verb} {name}: {error.strip()}; journalctl -u {name} -n 50 says more")


if __name__ == "__main__":
    main()
