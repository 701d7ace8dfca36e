#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: firewall_apply
short_description: Apply nftables rules that roll back if SSH is cut off
version_added: 0.1.0
description:
  - Converges its nftables table, C(inet gb10_fleet), and touches no other table.
  - Every port that SSH listens on stays open, found on the host itself. New rules are loaded while a timer runs that
    takes them back within 60 seconds unless a new SSH connection, opened afterwards, confirms them; only then they are
    kept over a boot.
  - While rules of another run wait for that, nothing is changed. The action waits for them, and judges by their
    results.
  - Needs nftables and the unit that the role P(gb10.fleet.firewall#role) installs.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  plan:
    description: The C(state) and C(open), C(neighbours), C(meetings) of the host's C(firewall) slice of the plan,
      C(Rules) in C(module_utils/_base/slice.py).
    type: dict
    required: true
  confirm:
    description: Confirm what was loaded before. The action does that by itself, over a new connection.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Close the host but for SSH, an API and a peer
  gb10.fleet.firewall_apply:
    plan:
      state: closed
      open:
        - {port: 8000, protocol: tcp, from: [], reason: the API of qwen3-vl}
      neighbours:
        - {interface: enp1s0f1np1, address: 192.168.100.11}
"""

RETURN = r"""
ssh_ports: {description: Ports of SSH that stay open., returned: always, type: list, elements: int}
unconfirmed: {description: Whether new rules wait to be confirmed., returned: success, type: bool}
unsettled:
  description: Whether another run's rules are neither confirmed nor taken back. Nothing was looked at or changed then.
  returned: success
  type: bool
"""

import contextlib
import os
import shutil
from functools import partial

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.findings import FleetError
from ..module_utils._base.schema import check
from ..module_utils._base.slice import Rules
from ..module_utils._base.typed import spec_of
from ..module_utils._host.netplan.ssh_session import session_port
from ..module_utils._subjects.firewall import host
from ..module_utils._subjects.firewall.ruleset import ruleset


def main() -> None:
    options = {"plan": {"type": "dict", "required": True}, "confirm": {"type": "bool", "default": False}}
    module = AnsibleModule(argument_spec=options, supports_check_mode=True)
    module.params["plan"], findings = check(spec_of(Rules), module.params["plan"], "plan")
    if findings:
        module.fail_json(msg=str(FleetError(*findings)))
    try:
        with contextlib.nullcontext() if module.check_mode else host.alone():
            module.exit_json(**_converge(module))
    except (OSError, ValueError, host.FirewallError) as problem:
        module.fail_json(msg=f"{problem} [firewall]")


def _converge(module: AnsibleModule) -> dict[str, object]:
    # a comment of the owner's may hold what looks like a variable
    run = partial(module.run_command, expand_user_and_vars=False)
    if module.params["confirm"]:
        host.confirm(run)
        return {"changed": True}
    if not module.check_mode and host.is_unsettled(run):
        return {"changed": False, "ssh_ports": [], "unsettled": True}
    ports = host.ssh_ports(run, session_port(os.getppid()))
    before = host.current()
    wanted = ruleset(module.params["plan"], ports, host.networks(run, before))
    # in check mode the role has not installed it yet; without it there is no table either
    has_nft = shutil.which("nft") is not None
    held, planned = host.in_kernel(run, wanted) if has_nft else ("", wanted)
    live = held == planned
    changed = before != wanted or not live
    if changed and not module.check_mode:
        if wanted:
            host.load(run, wanted)
        else:
            host.remove(run)
    return {
        "changed": changed,
        "ssh_ports": ports,
        "unsettled": False,
        "unconfirmed": changed and bool(wanted) and not module.check_mode,
        "diff": _diff(before, wanted, live),
    }


def _diff(before: str, wanted: str, live: bool) -> list[dict[str, str]]:
    rules = {"before": before, "after": wanted, "before_header": str(host.FILE), "after_header": str(host.FILE)}
    header_before = "".join(f"{problem}\n" for problem in host.problems(wanted, live)) if before == wanted else ""
    return [rules, {"before": header_before, "after": "", "before_header": "the kernel", "after_header": "the kernel"}]


if __name__ == "__main__":
    main()
