#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: host_removal
short_description: Restore a host to its state before this collection
version_added: 0.1.0
description:
  - Looks for all that is of our making, and for all that is not as the undo record says, C(/etc/gb10-fleet/undo.json),
    undoes it, and looks again. A difference that is found then is an error.
  - Units are stopped and removed, also those that the plan no longer names; containers, files, secrets, accounts and
    trusted certificates go; files of others and the running kernel get what they had.
  - Refused where a unit of another inventory is on the host. Network and firewall are put back before, by
    M(gb10.fleet.netplan_apply) and M(gb10.fleet.firewall_apply).
  - Docker is restarted where its configuration changes and nothing else runs in it.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  slice:
    description: The host's slice of the plan. It stays on the controller, but for the paths and addresses that it
      names.
    type: dict
    required: true
  state:
    description: V(stopped) only stops our units; V(absent) does all.
    type: str
    choices: [stopped, absent]
    default: absent
  keep:
    description: The files that stay, with the records that identify them. The C(data) are what clients keep for people,
      and what was measured.
    type: list
    elements: str
    choices: [images, models, data]
    default: [images, models, data]
"""

EXAMPLES = r"""
- name: Put the host back
  gb10.fleet.host_removal:
    slice: "{{ fleet_slice }}"
    keep: [models]
"""

RETURN = r"""
undone:
  description: The parts that were restored or removed, or would be.
  returned: success
  type: list
  elements: str
  sample: ["/etc/systemd/system/default.target: is ours, before: a link to /usr/lib/systemd/system/graphical.target"]
stays:
  description: The parts that are not as before, by choice or because their earlier state is unknown; one sentence each.
  returned: success
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base import layout
from ..module_utils._base.findings import FleetError
from ..module_utils._host.probe.files import find_owned
from ..module_utils._operations.undo import record
from ..module_utils._operations.undo.survey import (
    RemovalOrder,
    RemovalStep,
    Run,
    foreign,
    leave,
    locks,
    remove,
    running,
    stays,
    survey,
)

RESTART_DOCKER = ("systemctl", "try-restart", "docker.service")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "slice": {"type": "dict", "required": True},
            "state": {"type": "str", "choices": ["stopped", "absent"], "default": "absent"},
            "keep": {
                "type": "list",
                "elements": "str",
                "choices": ["images", "models", "data"],
                "default": ["images", "models", "data"],
            },
        },
        supports_check_mode=True,
    )
    wanted = module.params["slice"]
    if others := foreign(wanted["inventory"]):
        module.fail_json(
            msg=f"another inventory's on this host: {', '.join(others)}; expected this one's alone: retire them there "
            "first (-e retire=NAME), and run this again [remove-foreign]"
        )
    keep, is_whole = frozenset(module.params["keep"]), module.params["state"] == "absent"
    asked = RemovalOrder((*wanted["paths"], *find_owned(wanted["owns"])), wanted["links"], keep)
    run = module.run_command
    try:
        known, why = record.read()
        if why:
            module.warn(f"{record.FILE} can't be read ({why}): what was there before is not known")
        left = stays(known, keep, wanted["sysctl"]) if is_whole else []
        steps = look(module, asked, known)
        if steps and not module.check_mode:
            left += undo(steps, run)
            prove(module, look(module, asked, known))
        if is_whole and Path(layout.CONFIG).exists():
            # only now: until here a run that was cut off knows what is left
            last = RemovalStep(layout.CONFIG, "is there", "not there", leave)
            steps.append(last)
            left += [] if module.check_mode else undo([last], run)
        for path in [] if module.check_mode else locks():
            remove(path)
    except (FleetError, OSError) as error:
        module.fail_json(msg=f"{error}; what is done stays done: mend that, and run this again [remove]")
    module.exit_json(
        changed=bool(steps),
        undone=[f"{step.place}: {step.found}, before: {step.before}" for step in steps],
        stays=left if steps else [],
        diff={
            "before": "".join(f"{step.place}: {step.found}\n" for step in steps),
            "after": "".join(f"{step.place}: {step.before}\n" for step in steps),
        },
    )


def look(module: AnsibleModule, asked: RemovalOrder, known: dict[str, object] | None) -> list[RemovalStep]:
    if module.params["state"] == "stopped":
        return [*running(module.run_command)]
    return survey(asked, known, module.run_command)


def undo(steps: list[RemovalStep], run: Run) -> list[str]:
    """Take each step, then what they ask for. Returns what could not be done now, in sentences."""
    for step in steps:
        step.act()
    left = []
    for command in dict.fromkeys(command for step in steps for command in step.then):
        if command == RESTART_DOCKER and run(["docker", "ps", "--quiet"])[1].strip():
            left.append("Docker was not restarted, since containers of others run: it goes by its old configuration")
            continue
        code, out, err = run([*command])
        if code:
            raise OSError(f"{' '.join(command)}: {(err or out).strip()[-500:]}")
    run(["systemctl", "reset-failed", "gb10-*"])
    return left


def prove(module: AnsibleModule, found: list[RemovalStep]) -> None:
    """found: by the same look, after all was undone."""
    if found:
        places = "; ".join(f"{step.place}: {step.found}, expected {step.before}" for step in found)
        module.fail_json(msg=f"not as it was before: {places}; run this again, or mend it by hand [remove-left]")


if __name__ == "__main__":
    main()
