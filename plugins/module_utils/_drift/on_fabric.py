# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Cables, addresses, frames, RDMA devices and GIDs: `_fabric.judge` over what the hosts read of themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._drift.difference import SITE, Difference, Unknown
from ansible_collections.gb10.fleet.plugins.module_utils._fabric.judge import judge, where
from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding

# What the role fabric puts right; anything else is a cable, a machine or its firmware.
_REPAIRED = {"fabric-link-down", "fabric-mtu", "fabric-address", "fabric-no-gid"}
# What also comes of a host at the other end that is off.
_OF_THE_PEER = {"fabric-no-carrier", "fabric-no-peer", "fabric-frames"}


def of_fabric(
    host: str, plan: Mapping[str, Any], readings: Mapping[str, Mapping[str, Any]], silent: Collection[str]
) -> Iterator[Difference | Unknown]:
    """One host's rails. readings: of all hosts that could be read, since they tell whose MAC address answers.

    silent: hosts that were asked and did not answer.
    """
    fabric = plan["hosts"][host]["fabric"]
    places = {where(host, one["name"]): one for one in fabric["interfaces"]}
    for finding in judge(host, fabric, readings):
        peers = {peer["host"] for peer in places[finding.place]["peers"]}
        if finding.rule in _OF_THE_PEER and peers & {*silent}:
            away = ", ".join(sorted(peers & {*silent}))
            yield Unknown(host, _resource(host, finding), f"{finding.found}, and {away} could not be read")
        else:
            yield _difference(host, finding)


def _resource(host: str, finding: Finding) -> str:
    return finding.place.removeprefix(f"{host}: ")


def _difference(host: str, finding: Finding) -> Difference:
    repairs = SITE if finding.rule in _REPAIRED else ""
    return Difference(
        host=host,
        resource=_resource(host, finding),
        rule=finding.rule,
        want=finding.expected,
        have=finding.found,
        severity=finding.severity,
        remedy=f"ansible-playbook {SITE} -l {host}" if repairs else finding.remedy,
        repairs=repairs,
        reason=finding.reason,
        source=finding.source,
    )
