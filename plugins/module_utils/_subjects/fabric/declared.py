# SPDX-License-Identifier: GPL-3.0-or-later
"""``fleet_fabric`` as its owner writes it, read into segments: cables, switches and other links with their ends.

An end is written ``host:port`` (``spark-2:1``), on a link ``host:interface`` (``spark-2:enP7s7``). What is refused here
can be seen without any address: unknown hosts and ports, a port used twice, a cable that joins unlike ports.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count as numbers_from
from typing import Any, Literal, Protocol

from ..._base import worded
from ..._base.findings import Finding, did_you_mean, fabric_error
from ..._base.place import Place
from ..._base.schema import check
from .hardware import MTU_MAX, MTU_MIN, PORTS, RAILS
from .spec import FABRIC, MTU, FabricDeclared

Kind = Literal["cable", "switch", "link"]


class HostFacts(Protocol):
    """What the planner knows of an inventory host; `_plan.declared.Host` is one."""

    @property
    def address(self) -> str:
        """The address or name that the controller reaches the host by."""


@dataclass(frozen=True, order=True)
class End:
    """One end of a segment. port is a CX-7 port (0 or 1), or an interface's name on a link."""

    host: str
    port: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Segment:
    """A cable, a switch or another link, before it has addresses.

    ends are sorted, so that it does not matter in which order they were written. index is the place in the pool, None
    for addresses by hand. numbers: an end's host number on a switch. addresses: by hand, one a half (one on a link).
    """

    kind: Kind
    name: str
    place: Place
    ends: tuple[End, ...]
    index: int | None = None
    numbers: Mapping[End, int] = field(default_factory=dict)
    addresses: Mapping[End, Sequence[str]] = field(default_factory=dict)
    mtu: int | None = None


@dataclass(frozen=True)
class Fabric:
    """The checked declaration: the settings with their defaults filled in, and the usable segments by name."""

    settings: FabricDeclared
    segments: tuple[Segment, ...]


_MTU = Place(variable="fleet_fabric", option="mtu")


def read_fabric(written: object, hosts: Mapping[str, HostFacts]) -> tuple[Fabric, list[Finding]]:
    """The declaration and every problem. A segment with a problem is left out of what is returned."""
    settings, findings = check(FABRIC, {} if written is None else written, Place(variable="fleet_fabric"))
    if findings:
        return Fabric(check(FABRIC, {}, "")[0], ()), findings
    settings["hotplug"] = settings["hotplug"] or "off"
    findings += _mtu_problems(_MTU, settings["mtu"])
    segments, problems = _segments(settings)
    findings += problems
    findings += _speed_problems(settings["speeds"], segments)
    rules = {
        segment.place: [*_segment_problems(segment, hosts, segments), *_keeper_problems(settings["keeper"], segment)]
        for segment in segments
    }
    for place, problems in _twice(segments).items():
        rules[place] += problems
    findings += [finding for found in rules.values() for finding in found]
    findings += _crossed_pairs([segment for segment in segments if not rules[segment.place]])
    usable = sorted((segment for segment in segments if not rules[segment.place]), key=lambda segment: segment.name)
    return Fabric(settings, tuple(usable)), findings


def _speed_problems(speeds: Mapping[str, int], segments: Sequence[Segment]) -> Iterator[Finding]:
    """Speeds of ports that no cable and no switch uses, and two speeds for one cable."""
    used = {str(end): segment for segment in segments for end in segment.ends if segment.kind != "link"}
    for end, speed in speeds.items():
        place = Place(variable="fleet_fabric").below("speeds", end)
        if end not in used:
            found = "no cable and no switch has this port"
            yield fabric_error("fabric-speed-unused", place, found=found, remedy=did_you_mean(end, used))
            continue
        others = [str(other) for other in used[end].ends if str(other) in speeds and speeds[str(other)] != speed]
        if used[end].kind == "cable" and others:
            found = f"{speed} Gb/s, and {speeds[others[0]]} at its other end {others[0]}"
            remedy = "write the speed of one end"
            yield fabric_error("fabric-speeds-differ", place, found=found, expected="one speed a cable", remedy=remedy)


def _keeper_problems(keeper: str, segment: Segment) -> Iterator[Finding]:
    """Addresses that others give can't be computed."""
    if keeper == "others" and not segment.addresses:
        yield worded.fabric_error("fabric-keeper-addresses", segment.place)


def _mtu_problems(place: Place, mtu: int | None) -> Iterator[Finding]:
    if mtu is None:
        return
    if not MTU_MIN <= mtu <= MTU_MAX:
        remedy = f"write {MTU}, or 1500 where a switch can't carry more"
        reason = "the interface refuses any other MTU"
        yield fabric_error(
            "fabric-mtu-range", place, found=str(mtu), expected=f"{MTU_MIN} to {MTU_MAX}", remedy=remedy, reason=reason
        )
    elif mtu < MTU and place == _MTU:
        yield worded.fabric_hint("fabric-mtu-small", place, found=str(mtu), expected=str(MTU), mtu=MTU)


# Reading ----------------------------------------------------------------------------------------------------------


def _segments(settings: FabricDeclared) -> tuple[list[Segment], list[Finding]]:
    segments: list[Segment] = []
    findings: list[Finding] = []
    for position, written in enumerate(settings["cables"]):
        place = Place(variable="fleet_fabric").below("cables", position)
        cable: dict[str, Any] = {"ends": written} if isinstance(written, list) else dict(written)
        if ("ends" in cable) == ("addresses" in cable) or ("index" in cable and "addresses" in cable):
            found = "keys " + ", ".join(sorted(cable)) if cable else "an empty map"
            expected = "either ends (with an index where needed) or addresses"
            remedy = "write {ends: [spark-2:1, spark-3:1], index: 0}, or the addresses of both ends by hand"
            findings.append(fabric_error("fabric-cable-form", place, found=found, expected=expected, remedy=remedy))
            continue
        addresses = {_end(end): both for end, both in cable.get("addresses", {}).items()}
        ends = tuple(sorted(addresses or map(_end, cable["ends"])))
        name = "--".join(map(str, ends))
        segments.append(Segment("cable", name, place, ends, cable.get("index"), addresses=addresses))
    for name, switch in settings["switches"].items():
        ports = {_end(end): value for end, value in switch["ports"].items()}
        numbers = {end: value for end, value in ports.items() if isinstance(value, int)}
        by_hand = {end: value for end, value in ports.items() if not isinstance(value, int)}
        place = Place(variable="fleet_fabric").below("switches", name)
        if numbers and by_hand:
            remedy = "give every port a number, or every port its addresses"
            findings.append(worded.fabric_error("fabric-switch-form", place, remedy=remedy))
            continue
        segments.append(Segment("switch", name, place, tuple(sorted(ports)), switch.get("index"), numbers, by_hand))
    for position, link in enumerate(settings["links"]):
        place = Place(variable="fleet_fabric").below("links", position)
        by_hand = {_end(end): [address] for end, address in link["addresses"].items()}
        ends = tuple(sorted(by_hand))
        name = "--".join(map(str, ends))
        segments.append(Segment("link", name, place, ends, addresses=by_hand, mtu=link.get("mtu")))
    return _numbered(segments), findings


def _numbered(segments: Sequence[Segment]) -> list[Segment]:
    """Segments without an index get the lowest that nobody wrote, in the order written: cables, then switches."""
    written = {segment.index for segment in segments}
    free = (index for index in numbers_from() if index not in written)
    return [one if one.addresses or one.index is not None else replace(one, index=next(free)) for one in segments]


def _end(written: str) -> End:
    host, _, port = written.partition(":")
    return End(host, port)


# Refusing ---------------------------------------------------------------------------------------------------------


def _segment_problems(
    segment: Segment, hosts: Mapping[str, HostFacts], segments: Sequence[Segment]
) -> Iterator[Finding]:
    for end in segment.ends:
        if end.host not in hosts:
            remedy = did_you_mean(end.host, hosts)
            yield worded.fabric_error("fabric-unknown-host", segment.place, remedy=remedy, host=end.host)
        yield from _port_problems(segment, end, segments)
    if segment.kind == "cable" and segment.ends[0].host == segment.ends[1].host:
        remedy = "write the host that the other end goes to"
        yield worded.fabric_error("fabric-same-host", segment.place, remedy=remedy, host=segment.ends[0].host)
    yield from _mtu_problems(segment.place.below("mtu"), segment.mtu)


def free_ports(host: str, segments: Sequence[Segment]) -> list[str]:
    """The ports of a host that no cable and no switch takes."""
    taken = {end.port for segment in segments for end in segment.ends if end.host == host}
    return [port for port in map(str, PORTS) if port not in taken]


def _or_free(host: str, segments: Sequence[Segment]) -> str:
    free = " or ".join(f"{host}:{port}" for port in free_ports(host, segments))
    return f"write {free}, which is free" if free else f"both ports of {host} have a cable: take one out"


def _port_problems(segment: Segment, end: End, segments: Sequence[Segment]) -> Iterator[Finding]:
    if segment.kind == "link":
        if end.port in RAILS:
            port = RAILS[end.port].port
            remedy = f"write a cable or a switch with {end.host}:{port}"
            yield worded.fabric_error("fabric-link-on-rail", segment.place, remedy=remedy, end=end, port=port)
    elif end.port not in map(str, PORTS):
        known = RAILS.get(end.port)
        remedy = f"write {end.host}:{known.port}" if known else _or_free(end.host, segments)
        yield worded.fabric_error("fabric-unknown-port", segment.place, remedy=remedy, port=end.port, host=end.host)


def _twice(segments: Sequence[Segment]) -> dict[Place, list[Finding]]:
    """Each place that uses a port which a second place uses too."""
    users: dict[End, list[Place]] = {}
    for segment in segments:
        for end in segment.ends:
            users.setdefault(end, []).append(segment.place)
    problems: dict[Place, list[Finding]] = {}
    for end, places in sorted(users.items()):
        if len(places) == 1:
            continue
        for place, count in Counter(places).items():
            others = sorted(other.text for other in {*places} - {place}) if count == 1 else [place.text]
            found = f"{end} is used by " + ", ".join(others) + " too"
            remedy = f"a port takes one cable: {_or_free(end.host, segments)}"
            problems.setdefault(place, []).append(
                fabric_error("fabric-port-twice", place, found=found, expected="one use a port", remedy=remedy)
            )
    return problems


def _crossed_pairs(segments: Sequence[Segment]) -> Iterator[Finding]:
    """Cables that join unlike ports of two hosts which no third host links; in a ring they are right."""
    cables = [segment for segment in segments if segment.kind == "cable"]
    for cable in cables:
        first, second = cable.ends
        if first.port == second.port or _hosts_joined(first.host, cables) != {first.host, second.host}:
            continue
        remedy = f"leave it; or swap the two plugs at {second.host}, and write both cables so"
        for kept, moved in ((first, second), (second, first)):
            if kept.port in free_ports(moved.host, segments):
                remedy = f"leave it; or plug it into port {kept.port} on both sides, and write {moved.host}:{kept.port}"
                break
        found = f"port {first.port} of {first.host} goes to port {second.port} of {second.host}"
        yield worded.fabric_hint("fabric-crossed-pair", cable.place, found=found, remedy=remedy)


def _hosts_joined(start: str, cables: Iterable[Segment]) -> set[str]:
    """All hosts that can be reached from one over cables."""
    joined, seen = {start}, set[str]()
    while joined != seen:
        seen = set(joined)
        joined |= {end.host for cable in cables if seen & {e.host for e in cable.ends} for end in cable.ends}
    return joined
