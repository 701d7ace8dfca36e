#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: fabric_bandwidth
short_description: Measure RDMA bandwidth between hosts
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Runs C(ib_write_bw) as planned, first as server on the listening hosts, then as client, both halves of a port
    separately and together. Reads the RDMA devices' byte counters before and after.
  - Where programs can't use RDMA it says so and measures nothing.
options:
  state:
    description: V(listening) starts the servers, each for one client and for half an hour at most. V(measured) runs the
      clients.
    type: str
    choices: [listening, measured]
    required: true
  plan: {description: C(bandwidth) of the host's fabric slice of the plan., type: dict, required: true}
  hosts:
    description: The hosts of the run. Nothing is measured against another host, since it does not listen.
    type: list
    elements: str
    required: true
  seconds: {description: The length of each measurement., type: int, default: 5}
attributes:
  check_mode: {description: Nothing is started in check mode., support: full}
  diff_mode: {description: "Changes nothing that lasts, so there is no diff.", support: none}
"""

EXAMPLES = r"""
- name: Measure
  gb10.fleet.fabric_bandwidth:
    state: measured
    plan: "{{ fabric_plan.bandwidth }}"
    hosts: "{{ ansible_play_hosts }}"
"""

RETURN = r"""
result:
  description: Whether it was C(possible), the C(message) if not, C(virtualization), C(speeds) and C(iommu) by
    interface, what was C(measured), and the peers that were C(left_out).
  returned: success
  type: dict
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._subjects.fabric import perftest
from ..module_utils._subjects.fabric.reading import (
    counters,
    keep_measured,
    read_iommu,
    read_links,
    run_together,
    verbs,
    virtualization,
)

SERVER_LIFE_S = 1800
# Connecting, and the report of the other side.
CLIENT_PATIENCE_S = 30


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["listening", "measured"], "required": True},
            "plan": {"type": "dict", "required": True},
            "hosts": {"type": "list", "elements": "str", "required": True},
            "seconds": {"type": "int", "default": 5},
        },
        supports_check_mode=True,
    )
    run = partial(module.run_command, handle_exceptions=False)
    plan, seconds, hosts = module.params["plan"], module.params["seconds"], module.params["hosts"]
    possible, message = verbs(run)
    if module.check_mode:
        possible, message = False, "check mode measures nothing"
    result: dict[str, Any] = {"possible": possible, "message": message, "virtualization": virtualization(run)}
    if possible and module.params["state"] == "listening":
        for server in plan["listen"]:
            if server["client"] in hosts:
                _listen(module, server, seconds)
    elif possible:
        listening = [peer for peer in plan["measure"] if peer["peer"] in hosts]
        names = [rail["interface"] for peer in listening for rail in peer["rails"]]
        result["speeds"] = {name: link["speed_mbps"] for name, link in read_links(run, names).items()}
        result["iommu"] = read_iommu(names)
        result["measured"] = [peer | {"rails": _measure(peer["rails"], seconds)} for peer in listening]
        alone = [
            (measured_peer, measured_peer["rails"][0])
            for measured_peer in result["measured"]
            if len(measured_peer["rails"]) == 1
        ]
        keep_measured({
            rail["interface"]: {"gbps": rail["gbps"], "peer": one["peer"],
                                "speed_mbps": result["speeds"].get(rail["interface"]) or 0}
            for one, rail in alone if rail["gbps"] is not None
        })  # fmt: skip
        partners = {peer["peer"] for peer in plan["measure"]} | {server["client"] for server in plan["listen"]}
        result["left_out"] = sorted(partners - {*hosts})
    module.exit_json(changed=False, result=result)


def _listen(module: AnsibleModule, server: Mapping[str, Any], seconds: int) -> None:
    """A server as a unit of its own: it ends with its client, or by itself."""
    unit = f"gb10-perftest-{server['port']}"
    module.run_command(["systemctl", "stop", unit])
    limits = ["--collect", "--quiet", f"--property=RuntimeMaxSec={SERVER_LIFE_S}", f"--unit={unit}"]
    command = perftest.command(server["device"], server["port"], seconds)
    module.run_command(["systemd-run", *limits, *command], check_rc=True)


def _measure(rails: Sequence[Mapping[str, Any]], seconds: int) -> list[dict[str, Any]]:
    """All rails at the same time."""
    before = {rail["device"]: counters(rail["device"])["xmit"] for rail in rails}
    commands = [perftest.command(rail["device"], rail["port"], seconds, rail["server"]) for rail in rails]
    outputs = run_together(commands, seconds + CLIENT_PATIENCE_S)
    return [_result(rail, output, before[rail["device"]]) for rail, output in zip(rails, outputs, strict=True)]


def _result(rail: Mapping[str, Any], output: str, before: int | None) -> dict[str, Any]:
    after = counters(rail["device"])["xmit"]
    counted = None if before is None or after is None else after - before
    try:
        bandwidth = perftest.parse(output)
    except perftest.NoResultError as words:
        return {**rail, "gbps": None, "message": str(words), "payload_bytes": 0, "counted_bytes": counted}
    return {**rail, "gbps": bandwidth.gbps, "message": "", "payload_bytes": bandwidth.payload_bytes,
            "counted_bytes": counted}  # fmt: skip


if __name__ == "__main__":
    main()
