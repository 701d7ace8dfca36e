# SPDX-License-Identifier: GPL-3.0-or-later
"""What is declared of machines that were read: their fabric as it is, or a new one, and what they serve.

The planner itself judges what is proposed: nothing is written that a plan would refuse.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._base.gb10 import fact
from ..._engines.recipes.recipe import Library
from ..._host.netplan.document import PATH as NETPLAN
from ..._subjects.fabric.hardware import HALVES, RAILS, interfaces_of
from ..._subjects.fabric.plan import plan_fabric
from ..._subjects.fabric.spec import FABRIC, MTU
from .adopt import Adopted, adopted
from .reading import Reading

Port = tuple[str, int]


@dataclass(frozen=True)
class Cabling:
    """cables: pairs of ports. switches: the ports that all receive each other. notes: what of it is neither."""

    cables: Sequence[tuple[Port, Port]]
    switches: Sequence[Sequence[Port]]
    notes: Sequence[str]


def cabling(readings: Mapping[str, Reading]) -> Cabling:
    """A host may send anything: halves and hosts that this run does not know count for nothing."""
    seen = _seen(readings)
    cables: list[tuple[Port, Port]] = []
    switches: list[Sequence[Port]] = []
    notes = []
    for ports in _joined(seen):
        one, other = ports[0], ports[-1]
        # a host's own frames don't count, also where it has both its ports in one switch
        is_whole = all(seen.get(port, set()) == {far for far in ports if far[0] != port[0]} for port in ports)
        if len(ports) == 1:
            notes.append(f"{shown(one)} has light and receives nobody: a switch, or a machine that is not in this run")
        elif len(ports) == 2 and is_whole:
            cables.append((one, other))
        elif is_whole:
            switches.append(ports)
        elif len(ports) == 2:
            near, far = (one, other) if other in seen.get(one, ()) else (other, one)
            notes.append(f"{shown(near)} receives {shown(far)}, which does not receive it; run this again")
        else:
            notes.append(f"some of {', '.join(map(shown, ports))} receive more than others; run this again")
    return Cabling(cables, switches, notes)


def _joined(seen: Mapping[Port, set[Port]]) -> list[list[Port]]:
    """The ports that frames join, each group sorted."""
    groups: list[set[Port]] = []
    for port, far in seen.items():
        mine = {port, *far}
        met = [group for group in groups if group & mine]
        groups = [*(group for group in groups if group not in met), mine.union(*met)]
    return sorted(sorted(group) for group in groups)


def shown(port: Port) -> str:
    """As ``fleet_fabric`` has it."""
    return f"{port[0]}:{port[1]}"


def _seen(readings: Mapping[str, Reading]) -> dict[Port, set[Port]]:
    """For each port with light the ports of other hosts whose frames came."""
    found: dict[Port, set[Port]] = {
        (host, RAILS[name].port): set()
        for host, reading in readings.items()
        for name, half in reading["halves"].items()
        if name in RAILS and half["carrier"]
    }
    for host, reading in readings.items():
        for item in reading["seen"]:
            if item["half"] in RAILS and item["far"] in RAILS and item["host"] in readings and item["host"] != host:
                found.setdefault((host, RAILS[item["half"]].port), set()).add((item["host"], RAILS[item["far"]].port))
    return found


# Of 10.0.0.0/8 and 172.16.0.0/12 what home routers, Docker and NVIDIA Sync don't take by themselves.
_POOLS = ("192.168.100.0/22", "10.188.0.0/22", "172.29.0.0/22", "10.77.192.0/22", "192.168.224.0/22")
_PRIVATE = ("192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8")
_PREFIX, _POOL_SIZE, _WIDEST = 24, 22, 8
_MANAGEMENT = FABRIC["options"]["management"]["options"]["interface"]["default"]
# A machine whose memory is that of the usual one, but for what its firmware keeps.
_SAME_MEMORY = 0.03
_LINK_LOCAL = ipaddress.IPv4Network("169.254.0.0/16")


@dataclass(frozen=True)
class Host:
    """How a machine was reached, and what it showed. address: empty for this very machine. user: where not all have the
    same account, its own; empty where ssh's own files name it."""

    address: str
    reading: Reading
    user: str = ""


@dataclass(frozen=True)
class Proposal:
    """fabric: as ``fleet_fabric`` has it. services: what serves there now. notes: sentences for the owner."""

    fabric: Mapping[str, Any]
    services: Mapping[str, Adopted]
    notes: Sequence[str] = field(default_factory=list)


def settings_of(reading: Reading) -> dict[str, int]:
    """What ``fleet_host`` has to say of a machine."""
    return memory_settings(reading["memory_kib"])


def memory_settings(kib: int) -> dict[str, int]:
    """Its memory, where it is another than the usual one."""
    return {"memory_kib": kib} if abs(kib / fact("hardware", "memory_total_kib") - 1) > _SAME_MEMORY else {}


def propose(hosts: Mapping[str, Host], own_networks: Iterable[str], library: Library, *, take_over: bool) -> Proposal:
    """own_networks: those of the controller. library: the shipped recipes. take_over: take the network as it is, where
    it can be; what it is stays as it is."""
    readings = {name: host.reading for name, host in hosts.items()}
    found = cabling(readings)
    notes = [*found.notes, *(f"cable: {a[0]} port {a[1]} and {b[0]} port {b[1]}" for a, b in found.cables)]
    notes += [f"switch: {', '.join(map(shown, ports))}, since each receives all others" for ports in found.switches]
    fabric: dict[str, Any] = {}
    if found.cables or found.switches:
        fabric, words = _fabric(hosts, found.cables, found.switches, own_networks, take_over)
        notes += words
    services, words = adopted(readings, library)
    return Proposal(fabric, services, [*notes, *words])


def _fabric(
    hosts: Mapping[str, Host],
    cables: Sequence[tuple[Port, Port]],
    switches: Sequence[Sequence[Port]],
    own_networks: Iterable[str],
    take_over: bool,
) -> tuple[dict[str, Any], list[str]]:
    """As it is, where all of it can stay; else new addresses; with the reason."""
    notes = []
    segments = [*cables, *switches]
    management, words = _management(hosts)
    notes += words
    has_addresses = any(_addresses(hosts, port) or any(_masters(hosts, port)) for ports in segments for port in ports)
    if has_addresses and take_over:
        bare = [
            ports
            for ports in segments
            if not any(_addresses(hosts, port) or any(_masters(hosts, port)) for port in ports)
        ]
        cabled, switched = [one for one in cables if one not in bare], [one for one in switches if one not in bare]
        as_it_is, why = _as_it_is(hosts, cabled, switched)
        if not why:
            why = _refused(as_it_is | management, hosts)
        if not why:
            notes += [f"{' and '.join(map(shown, ports))} have no address and stay as they are" for ports in bare]
            return as_it_is | management, [*notes, _kept(hosts)]
        notes.append(f"the network of the cables can't stay as it is: {why}")
    ours = _ours(hosts, cables, switches, own_networks) | management
    if why := _refused(ours, hosts):
        return {}, [*notes, f"no fleet_fabric is written: {why}"]
    if has_addresses or _foreign(hosts):
        notes.append(f"the first site.yml gives the cables addresses of {ours.get('pool', _POOLS[0])}" + _moved(hosts))
    return ours, notes


def _refused(fabric: Mapping[str, object], hosts: Mapping[str, Host]) -> str:
    """The first error of a plan with this fabric; empty without one."""
    errors = [finding for finding in plan_fabric(fabric, hosts)[1] if finding.severity == "error"]
    words = [(f"{error.place}: {error.found}", error.reason, error.remedy) for error in errors[:1]]
    return "; ".join(word for row in words for word in row if word)


def _as_it_is(
    hosts: Mapping[str, Host], cables: Sequence[tuple[Port, Port]], switches: Sequence[Sequence[Port]]
) -> tuple[dict[str, Any], str]:
    """The fabric that the hosts have; or the first reason why it can't be declared."""
    ports = [port for ports in (*cables, *switches) for port in ports]
    for port in ports:
        if master := next(filter(None, _masters(hosts, port)), ""):
            return {}, f"{shown(port)} is a part of {master}; a plan gives each half an address of its own"
        if why := _unusual(port, _addresses(hosts, port), [*_networks({port[0]: hosts[port[0]]})]):
            return {}, why
    mtus = {half["mtu"] for port in ports for half in _halves(hosts, port) if half["addresses"]}
    if len(mtus) > 1:
        return {}, f"its halves carry packets of {' and '.join(map(str, sorted(mtus)))} bytes; expected one MTU"
    both = {port: [address[0] for address in _addresses(hosts, port) if address] for port in ports}
    fabric: dict[str, Any] = {"keeper": "others"}
    fabric |= {"mtu": max(mtus)} if mtus != {MTU} else {}
    if cables:
        fabric["cables"] = [{"addresses": {shown(port): both[port] for port in cable}} for cable in cables]
    if switches:
        fabric["switches"] = {
            f"switch{place or ''}": {"ports": {shown(port): both[port] for port in one}}
            for place, one in enumerate(switches)
        }
    return fabric, ""


def _halves(hosts: Mapping[str, Host], port: Port) -> list[Any]:
    found = hosts[port[0]].reading["halves"]
    return [found[name] for name in interfaces_of(port[1]) if name in found]


def _masters(hosts: Mapping[str, Host], port: Port) -> list[str]:
    return [half["master"] for half in _halves(hosts, port)]


def _addresses(hosts: Mapping[str, Host], port: Port) -> list[list[str]]:
    """The addresses of each half; empty where neither has one."""
    found = [[address for address in half["addresses"] if _interface(address)] for half in _halves(hosts, port)]
    return found if any(found) else []


def _interface(text: str) -> ipaddress.IPv4Interface | None:
    try:
        return ipaddress.IPv4Interface(text)
    except ValueError:
        return None


def _unusual(port: Port, halves: Sequence[Sequence[str]], others: Iterable[str]) -> str:
    """Why a port's addresses can't be declared. others: the networks that its host reaches by other interfaces."""
    if not (halves and halves[0]):
        return f"{'only the second' if halves else 'no'} half of {shown(port)} has an address; a plan needs the first"
    if any(len(half) > 1 for half in halves):
        return f"a half of {shown(port)} has several addresses"
    if any(ipaddress.IPv4Interface(half[0]) in _LINK_LOCAL for half in halves if half):
        return f"{shown(port)} has addresses of 169.254.0.0/16, which change; a group needs fixed addresses"
    mine = [ipaddress.IPv4Interface(half[0]).network for half in halves if half]
    met = next((str(one) for one in _narrow(others) if any(map(one.subnet_of, mine))), "")
    return f"{shown(port)} has an address of {met}, which its host reaches by another interface, too" if met else ""


def _ours(
    hosts: Mapping[str, Host],
    cables: Sequence[tuple[Port, Port]],
    switches: Sequence[Sequence[Port]],
    own_networks: Iterable[str],
) -> dict[str, Any]:
    """A fabric with addresses of a pool that meets no network which a host or the controller knows."""
    subnets = len(HALVES) * (len(cables) + len(switches))
    theirs = [*_narrow(_networks(hosts))]
    known = [*theirs, *_narrow(own_networks)]
    size = min(_POOL_SIZE, _PREFIX - (subnets - 1).bit_length())
    usual = [ipaddress.IPv4Network(pool).supernet(new_prefix=size) for pool in _POOLS]
    others = (pool for block in _PRIVATE for pool in ipaddress.IPv4Network(block).subnets(new_prefix=size))
    pools = [*usual, *others]
    # a VPN of the controller may take all there are
    free = next((pool for some in (known, theirs) for pool in pools if not any(map(pool.overlaps, some))), usual[0])
    fabric: dict[str, Any] = {} if str(free) == _POOLS[0] else {"pool": str(free)}
    if cables:
        ends = [[shown(port) for port in cable] for cable in cables]
        several = len(cables) + len(switches) > 1
        fabric["cables"] = [{"ends": one, "index": place} if several else one for place, one in enumerate(ends)]
    if switches:
        fabric["switches"] = {
            f"switch{place or ''}": {
                **({"index": len(cables) + place} if len(cables) + place else {}),
                "ports": {shown(port): number for number, port in enumerate(one, 10)},
            }
            for place, one in enumerate(switches)
        }
    return fabric


def _narrow(networks: Iterable[str]) -> Iterator[ipaddress.IPv4Network]:
    """The networks without those that are a route to everywhere, as a VPN sets it."""
    found = (ipaddress.IPv4Network(item, strict=False) for item in networks if _interface(item))
    return (network for network in found if network.prefixlen >= _WIDEST)


def _networks(hosts: Mapping[str, Host]) -> Iterator[str]:
    """What the hosts reach by other interfaces than the halves, whose networks are what is to change."""
    for host in hosts.values():
        for interface, found in host.reading["networks"].items():
            if interface not in RAILS:
                yield from found


def _management(hosts: Mapping[str, Host]) -> tuple[dict[str, Any], list[str]]:
    """By which interface the hosts are reached, where it is not the usual one."""
    used = {host.reading["management"][0] for host in hosts.values() if host.reading["management"]}
    if used <= {_MANAGEMENT}:
        return {}, []
    if len(used) > 1:
        return {}, [f"hosts have their default route by {', '.join(sorted(used))}: write which is for management"]
    [name] = used
    return {"management": {"interface": name}}, [
        f"the way to the hosts is {name}" + (", which is Wi-Fi" if name.startswith("wl") else "")
    ]


def _foreign(hosts: Mapping[str, Host]) -> list[str]:
    """Files of others that speak for halves."""
    return sorted(
        {claim["path"] for host in hosts.values() for claim in host.reading["claims"] if {*claim["claims"]} & {*RAILS}}
    )


def _kept(hosts: Mapping[str, Host]) -> str:
    files = ", ".join(_foreign(hosts))
    whose = "NVIDIA Sync" if "nvidia-sync" in files else "whoever wrote it"
    known = f"{files}; {whose} keeps it" if files else "no file that is known here sets it, so see that a boot does"
    return f"the network of the cables is taken as it is: {known}; this fleet proves and watches it"


def _moved(hosts: Mapping[str, Host]) -> str:
    files = _foreign(hosts)
    if others := [path for path in files if path != NETPLAN]:
        return f"; run it with -e fabric_foreign=move, which keeps {', '.join(others)} aside"
    return f"; it keeps {NETPLAN} aside" if files else ""
