# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be the same on all hosts of a service."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

from ..._base.findings import Finding, host_error
from ..._base.place import Place
from ..._base.slice import NeededGroup


class Alike(TypedDict):
    """What is compared of a host's reading. images: identities, by reference."""

    architecture: str | None
    driver: str | None
    images: dict[str, str | None] | None


def of_groups(groups: Sequence[NeededGroup], states: Mapping[str, Alike]) -> Iterator[Finding]:
    """What keeps the ranks of a service from working together.

    groups: ``needs.groups`` of the plan, {service, hosts head first, image, pinned}. states: the readings of the hosts
    that could be read.
    """
    for group in groups:
        head, *others = group["hosts"]
        # without one of them the service is left as it is: `_host.joins.hosts.whole_services`
        for host in others if states.keys() >= {*group["hosts"]} else ():
            yield from _pair(group, head, host, states)


def _pair(group: NeededGroup, head: str, host: str, states: Mapping[str, Alike]) -> Iterator[Finding]:
    here, there = states[head], states[host]
    facts = (("architecture", here["architecture"], there["architecture"]), ("driver", here["driver"], there["driver"]))
    for what, ours, theirs in facts:
        if None not in (ours, theirs) and ours != theirs:
            yield _problem(
                "preflight-rank-differs",
                group,
                found=f"{what} {theirs} on {host}, {ours} on {head}",
                expected=f"the same {what} on all its hosts",
                remedy=f"bring both hosts to the same {what}",
                reason="ranks that differ hang, or answer wrongly",
            )
    images = [(states[name]["images"] or {}).get(group["image"]) for name in (head, host)]
    if not group["pinned"] and None not in images and images[0] != images[1]:
        yield _problem(
            "preflight-rank-differs",
            group,
            found=f"{group['image']} is another image on {host} than on {head}",
            expected="the same image on all its hosts",
            remedy="pin its digest in the recipe or the service, or remove the older one: "
            f"docker image rm {group['image']}",
            reason="a tag moves, and ranks of different builds hang, or answer wrongly",
        )


def _problem(rule: str, group: NeededGroup, *, found: str, expected: str, remedy: str, reason: str) -> Finding:
    return host_error(
        rule, Place(service=group["service"]), found=found, expected=expected, remedy=remedy, reason=reason
    )
