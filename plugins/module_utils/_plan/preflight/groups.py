# SPDX-License-Identifier: GPL-3.0-or-later
"""What has to be the same on all hosts of a service."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

from ..._base import worded
from ..._base.findings import Finding
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
    here, there, place = states[head], states[host], Place(service=group["service"])
    facts = (("architecture", here["architecture"], there["architecture"]), ("driver", here["driver"], there["driver"]))
    for what, ours, theirs in facts:
        if None not in (ours, theirs) and ours != theirs:
            yield worded.host_error(
                "preflight-rank-differs/fact", place, host=host, head=head, what=what, theirs=theirs, ours=ours
            )
    images = [(states[name]["images"] or {}).get(group["image"]) for name in (head, host)]
    if not group["pinned"] and None not in images and images[0] != images[1]:
        image = group["image"]
        yield worded.host_error("preflight-rank-differs/image", place, image=image, host=host, head=head)
