# SPDX-License-Identifier: GPL-3.0-or-later
"""Which address every half gets, and what is refused once addresses are known.

A segment takes two subnets of the pool, one a half: number ``2 * index`` and ``2 * index + 1``. The index is what the
owner wrote, or the next free one in the order written (`declared`). So a cable at the end of the list renumbers no
other, and one with an index keeps its addresses wherever it stands.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from ..._base import worded
from ..._base.addresses import ipv4
from ..._base.findings import Finding
from ..._base.place import Place
from .declared import End, HostFacts, Segment
from .hardware import HALVES
from .spec import FabricDeclared

Interface = ipaddress.IPv4Interface
Network = ipaddress.IPv4Network

# Where no pool is written: what the cluster owner began with, and all that follows it in 192.168.0.0/16.
_POOL = range(int(ipaddress.IPv4Address("192.168.100.0")), int(ipaddress.IPv4Address("192.169.0.0")))
# As in the cluster owner's notes: .10 and .11, where the subnet is large enough to have them.
FIRST_NUMBER = 10


@dataclass(frozen=True)
class Addressed:
    """A segment with the addresses of each end, one a half (one on a link)."""

    segment: Segment
    addresses: Mapping[End, Sequence[Interface]]

    def subnets(self) -> list[Network]:
        """The subnet of each half."""
        return [interface.network for interface in self.addresses[self.segment.ends[0]]]


_FABRIC = Place(variable="fleet_fabric")


def allocate(
    settings: FabricDeclared, segments: Sequence[Segment], hosts: Mapping[str, HostFacts]
) -> tuple[list[Addressed], list[Finding]]:
    """Addresses for all segments, and every problem. A segment with a problem is left out of what is returned."""
    pool, findings = _pool(settings["pool"])
    taken, problems = _indices(segments)
    findings += problems
    addressed = []
    for segment in segments:
        if segment.addresses:
            addresses, problems = _by_hand(segment)
        elif pool is None or segment.place not in taken:
            continue
        else:
            addresses, problems = _from_pool(segment, taken[segment.place], pool, settings["prefix"])
        findings += problems
        if not problems:
            addressed.append(Addressed(segment, addresses))
    overlaps = [*_overlaps(addressed), *_management_overlaps(settings, addressed, hosts)]
    refused = {finding.at for finding in overlaps}
    return [cable for cable in addressed if cable.segment.place not in refused], findings + overlaps


# From the pool ----------------------------------------------------------------------------------------------------


def _pool(written: str | None) -> tuple[range | None, list[Finding]]:
    """The addresses that subnets come from."""
    if written is None:
        return _POOL, []
    network, findings = _network(_FABRIC.below("pool"), written)
    if network is None:
        return None, findings
    return range(int(network.network_address), int(network.broadcast_address) + 1), []


def _indices(segments: Iterable[Segment]) -> tuple[dict[Place, int], list[Finding]]:
    """The index of each segment, by its place."""
    users: dict[int, list[Segment]] = {}
    for segment in segments:
        if not segment.addresses:
            users.setdefault(segment.index or 0, []).append(segment)
    free = next(index for index in range(len(users) + 1) if index not in users)
    findings = []
    for index, rivals in sorted(users.items()):
        if len(rivals) == 1:
            continue
        found = f"index {index} is taken by " + " and ".join(segment.name for segment in rivals)
        reason = "an address depends on nothing but its own cable's index, so that no change renumbers the others"
        for rival in rivals:
            findings.append(
                worded.fabric_error(
                    "fabric-index-taken", rival.place, found=found, reason=reason, rival=_with_index(rival, free)
                )
            )
    return {rivals[0].place: index for index, rivals in users.items() if len(rivals) == 1}, findings


def _with_index(segment: Segment, index: int) -> str:
    if segment.kind == "switch":
        return f"{segment.name}: {{index: {index}, ...}}"
    return f"{{ends: [{', '.join(map(str, segment.ends))}], index: {index}}}"


def _from_pool(
    segment: Segment, index: int, pool: range, prefix: int
) -> tuple[dict[End, list[Interface]], list[Finding]]:
    size = 1 << (32 - prefix)
    first = index * len(HALVES)
    if (first + len(HALVES)) * size > len(pool):
        holds = len(pool) // size
        found = f"index {index} needs subnets {first} and {first + 1} of /{prefix}; the pool holds {holds}"
        remedy = "write a larger pool, a longer prefix (28 still gives .10 and .11) or a lower index"
        remedy = remedy if pool == _POOL else f"leave pool out, or {remedy}"
        return {}, [worded.fabric_error("fabric-pool-too-small", segment.place, found=found, remedy=remedy)]
    numbers, problems = _numbers(segment, size)
    if problems:
        return {}, problems
    bases = [pool.start + (first + half) * size for half in HALVES]
    addresses = {
        end: [ipaddress.IPv4Interface((base + number, prefix)) for base in bases] for end, number in numbers.items()
    }
    return addresses, []


def _numbers(segment: Segment, size: int) -> tuple[dict[End, int], list[Finding]]:
    """Each end's number in its subnets."""
    if segment.kind != "switch":
        start = FIRST_NUMBER if size > FIRST_NUMBER + len(segment.ends) else 1
        return {end: start + position for position, end in enumerate(segment.ends)}, []
    problems = []
    users: dict[int, list[str]] = {}
    for end, number in segment.numbers.items():
        users.setdefault(number, []).append(str(end))
    for number, ends in sorted(users.items()):
        if len(ends) > 1:
            found = f"number {number} of {' and '.join(sorted(ends))}"
            remedy = "give each port a number of its own"
            problems.append(worded.fabric_error("fabric-number-taken", segment.place, found=found, remedy=remedy))
        if number > size - 2:
            found = f"number {number} of {ends[0]}"
            remedy = "write a lower number or a shorter prefix"
            problems.append(
                worded.fabric_error("fabric-number-range", segment.place, found=found, remedy=remedy, size=size - 2)
            )
    return dict(segment.numbers), problems


# By hand ----------------------------------------------------------------------------------------------------------


def _by_hand(segment: Segment) -> tuple[dict[End, list[Interface]], list[Finding]]:
    addresses: dict[End, list[Interface]] = {}
    problems: list[Finding] = []
    for end, written in sorted(segment.addresses.items()):
        place = segment.place.below("ports" if segment.kind == "switch" else "addresses", end)
        parsed = [_interface(place, text, problems) for text in written]
        addresses[end] = [interface for interface in parsed if interface is not None]
    if problems:
        return {}, problems
    counts = {len(both) for both in addresses.values()}
    if len(counts) > 1:
        found, remedy = "one end has one address and another two", "give each half of each end one"
        return {}, [worded.fabric_error("fabric-ends-differ", segment.place, found=found, remedy=remedy)]
    for half in range(*counts):
        problems += _unlike_networks(segment, {end: both[half] for end, both in addresses.items()})
    return addresses, problems


def _interface(place: Place, text: str, problems: list[Finding]) -> Interface | None:
    expected = "an address with its prefix, like 192.168.100.10/24"
    try:
        interface = ipaddress.IPv4Interface(text)
    except ValueError as reason:
        found = f'"{text}": {reason}'
        problems.append(worded.fabric_error("fabric-address-invalid/interface", place, found=found, expected=expected))
        return None
    network = interface.network
    edges = {network.network_address, network.broadcast_address} if network.prefixlen < 31 else set()
    if "/" not in text or network.prefixlen == 32 or interface.ip in edges or interface.ip.is_multicast:
        found = f'"{text}"' + ("" if "/" in text else " without a prefix")
        problems.append(
            worded.fabric_error("fabric-address-invalid/interface-write", place, found=found, expected=expected)
        )
        return None
    return interface


def _unlike_networks(segment: Segment, addresses: Mapping[End, Interface]) -> Iterator[Finding]:
    networks = sorted({str(interface.network) for interface in addresses.values()})
    if len(networks) > 1:
        found = "the ends are in " + " and ".join(networks)
        remedy = "give all ends of a half addresses of one subnet"
        yield worded.fabric_error("fabric-ends-differ", segment.place, found=found, remedy=remedy)
    ends = sorted(addresses)
    for first, second in combinations(ends, 2):
        if addresses[first].ip == addresses[second].ip:
            found = f"{addresses[first].ip} on {first} and on {second}"
            yield worded.fabric_error("fabric-address-twice", segment.place, found=found)


def _network(place: Place, text: str) -> tuple[Network | None, list[Finding]]:
    try:
        return ipaddress.IPv4Network(text), []
    except ValueError as reason:
        return None, [worded.fabric_error("fabric-network-invalid", place, text=text, its_reason=reason)]


# Overlaps ---------------------------------------------------------------------------------------------------------


def _overlaps(addressed: Sequence[Addressed]) -> Iterator[Finding]:
    """Subnets that two halves, or two segments, share."""
    used = [(subnet, half, cable) for cable in addressed for half, subnet in enumerate(cable.subnets())]
    for (left, _half, first), (right, _other, second) in combinations(used, 2):
        if not left.overlaps(right):
            continue
        place = second.segment.place
        if first is second:
            found = f"both halves of {first.segment.name} in {left if left == right else f'{left} and {right}'}"
            remedy = "give each half a subnet of its own, like 192.168.100.0/24 and 192.168.101.0/24"
            yield worded.fabric_error("fabric-halves-share-subnet", place, found=found, remedy=remedy)
        else:
            found = f"{right} of {second.segment.name} overlaps {left} of {first.segment.name}"
            remedy = "give one of them another index, or other addresses"
            for cable in (first, second):
                yield worded.fabric_error("fabric-overlap", cable.segment.place, found=found, remedy=remedy)


def _management_overlaps(
    settings: FabricDeclared, addressed: Sequence[Addressed], hosts: Mapping[str, HostFacts]
) -> Iterator[Finding]:
    """Subnets that would take a host's way to the controller, or a declared management network."""
    networks: dict[str, Network] = {}
    for position, text in enumerate(settings["management"]["networks"]):
        network, problems = _network(_FABRIC.below("management", "networks", position), text)
        yield from problems
        if network is not None:
            networks[str(network)] = network
    reached = {name: address for name, host in sorted(hosts.items()) if (address := ipv4(host.address))}
    for cable in addressed:
        own = {(end.host, interface.ip) for end, both in cable.addresses.items() for interface in both}
        for subnet in cable.subnets():
            clashes = [
                f"overlaps the management network {text}" for text, net in networks.items() if net.overlaps(subnet)
            ]
            clashes += [
                f"holds the management address of {name} ({ip})"
                for name, ip in reached.items()
                if ip in subnet and (name, ip) not in own
            ]
            if clashes:
                at = cable.segment.place
                yield worded.fabric_error(
                    "fabric-overlap-management", at, subnet=subnet, segment=cable.segment.name, first_clashe=clashes[0]
                )
