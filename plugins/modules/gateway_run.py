#!/usr/bin/python
# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gateway_run
short_description: Have the gateway run, and go by its files as they are now
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Starts the gateway's unit, now and at boot, where it does not run. Where a file of it changed since it last read
    them, also in a run that was cut off, it reads them anew; answers that are under way go on to their end.
  - Asks HAProxy first whether it takes the configuration, and leaves the gateway as it is where it does not.
  - Removes keys of services that the gateway does not reach any more.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  plan:
    description: C(gateway) of the host's slice of the plan.
    type: dict
    required: true
  ca:
    description: The local CA that the host trusts, by which the gateway knows the services; none without it.
    type: path
  written:
    description: Whether one of its files was written in this run, or would be.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Run the gateway
  gb10.fleet.gateway_run:
    plan: "{{ fleet_slice.gateway }}"
"""

RETURN = r"""
did:
  description: What was done, or would be, of V(start), V(reload) and V(enable).
  returned: success
  type: list
  elements: str
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.fleet.plugins.module_utils import _layout
from ansible_collections.gb10.fleet.plugins.module_utils._gateway.reading import (
    CONFIG,
    PROGRAM,
    secret_paths,
    unread,
)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "plan": {"type": "dict", "required": True},
            "ca": {"type": "path"},
            "written": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    plan, ca = module.params["plan"], module.params["ca"]
    secrets = secret_paths(plan)
    leftovers = sorted(str(path) for path in Path(_layout.GATEWAY, "keys").glob("*") if str(path) not in secrets)
    is_active, is_enabled = (_holds(module, word) for word in ("is-active", "is-enabled"))
    changed = unread([*plan["files"], *secrets, *([ca] if ca else [])]) if is_active else []
    did = [] if is_enabled else ["enable"]
    if not is_active or changed is None:
        did.append("start")
    elif changed or module.params["written"]:
        did.append("reload")
    if not module.check_mode:
        for path in leftovers:
            Path(path).unlink()
        if {"start", "reload"} & {*did}:
            _require_valid(module)
        for word in did:
            _systemctl(module, "restart" if word == "start" else word)
    module.exit_json(
        changed=bool(did or leftovers), did=did, diff=_diff(is_active, is_enabled, changed, leftovers, did)
    )


def _diff(
    active: bool, enabled: bool, changed: list[str] | None, leftovers: list[str], did: list[str]
) -> dict[str, Any]:
    before = {"active": active, "enabled": enabled, "unread": changed or [], "files": leftovers}
    after = {"active": True, "enabled": True, "unread": [], "files": []} if did or leftovers else before
    header = _layout.GATEWAY_UNIT
    return {"before": before, "after": after, "before_header": header, "after_header": header}


def _holds(module: AnsibleModule, word: str) -> bool:
    return bool(module.run_command(["systemctl", word, "--quiet", _layout.GATEWAY_UNIT])[0] == 0)


def _require_valid(module: AnsibleModule) -> None:
    code, out, error = module.run_command([PROGRAM, "-q", "-c", "-f", CONFIG])
    if code:
        words = (error or out).strip()[-2000:]
        module.fail_json(msg=f"HAProxy refuses {CONFIG}, and the gateway goes on as it was: {words}")


def _systemctl(module: AnsibleModule, word: str) -> None:
    code, _out, error = module.run_command(["systemctl", word, _layout.GATEWAY_UNIT])
    if code:
        unit = _layout.GATEWAY_UNIT
        module.fail_json(msg=f"systemctl {word} {unit}: {error.strip()}; journalctl -u {unit} -n 50 says more")


if __name__ == "__main__":
    main()
