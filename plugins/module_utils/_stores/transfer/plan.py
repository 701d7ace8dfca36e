# SPDX-License-Identifier: GPL-3.0-or-later
"""Who brings an image or a model from where: once into the fleet, then from host to host in a chain.

Each host passes on what it gets while it gets it, so that the origin sends it about once, however many hosts want it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, did_you_mean
from ..._base.place import Place
from ..._base.slice import FabricSlice

# By host, the entries of its ``image_store_plan`` or ``model_store_plan``.
Wanted = Mapping[str, Sequence[Mapping[str, Any]]]
# By host and other host, how the other's SSH is reached from there (address, port), the best way first.
Endpoint = tuple[str, int]
Routes = Mapping[str, Mapping[str, Sequence[Endpoint]]]


def with_sources(
    images: Wanted, models: Wanted, fabric: Mapping[str, FabricSlice], management: Mapping[str, Endpoint]
) -> tuple[dict[str, dict[str, Any]], list[Finding]]:
    """By host the slices ``images`` and ``models``, with ``peers`` in each entry, and ``peer_access``.

    images, models: what each host wants. fabric: each host's slice of it. management: how each host is reached without.
    """
    reach = routes(fabric, management)
    images, problems = with_peers(images, reach)
    models, more = with_peers(models, reach)
    who = access(images, models, fabric=fabric)
    planned = {host: {"images": images[host], "models": models[host], "peer_access": who[host]} for host in who}
    return planned, problems + more


def routes(
    fabric: Mapping[str, FabricSlice], management: Mapping[str, Endpoint]
) -> dict[str, dict[str, list[Endpoint]]]:
    """How hosts reach each other: over the fabric where a cable joins them, and over the management network.

    fabric: each host's slice of `_subjects.fabric.plan.plan_fabric`. management: each host's endpoint there.
    """
    return {
        host: {other: [*_over_fabric(fabric[host], other, end[1]), end] for other, end in management.items()}
        for host in management
    }


def _over_fabric(fabric: FabricSlice, other: str, port: int) -> list[Endpoint]:
    found = [
        (peer["address"], port)
        for interface in fabric["interfaces"]
        for peer in interface["peers"]
        if peer["host"] == other and peer["address"]
    ]
    return found[:1]


def with_peers(wanted: Wanted, reach: Routes) -> tuple[dict[str, list[dict[str, Any]]], list[Finding]]:
    """The same entries, each with the hosts to fetch it from (``peers``), and what is wrong with their sources.

    What comes from a registry or the hub is brought by the first host that wants it, what is built by the one that its
    source names. Archives and folders are each host's own.
    """
    planned: dict[str, list[dict[str, Any]]] = {
        host: [{**entry, "peers": []} for entry in entries] for host, entries in wanted.items()
    }
    findings = [finding for host in wanted for entry in wanted[host] for finding in _problems(host, entry, reach)]
    findings += _circles(wanted)
    for same in _groups(planned):
        hosts = list(same)
        source = same[hosts[0]]["source"]
        origin = source.get("host") or hosts[0]
        if source["kind"] not in ("archive", "path") and origin in reach:
            chain = _chain(origin, [host for host in hosts if host != origin], reach)
            for position, host in enumerate(chain):
                same[host]["peers"] = _peers([*reversed(chain[:position]), origin], reach[host])
    return planned, findings


def _groups(planned: Mapping[str, Sequence[dict[str, object]]]) -> Iterable[dict[str, dict[str, Any]]]:
    """The entries of one thing, by host, in the order of the hosts."""
    groups: dict[str, dict[str, dict[str, Any]]] = {}
    for host, entries in planned.items():
        for entry in entries:
            groups.setdefault(_thing(entry), {})[host] = entry
    return groups.values()


def _circles(wanted: Wanted) -> Iterator[Finding]:
    """Hosts that are to fetch a thing from each other, so that none of them ever has it."""
    sources: dict[tuple[Any, ...], dict[str, str]] = {}
    for host, entries in wanted.items():
        for entry in entries:
            if entry["source"]["kind"] == "host":
                name = tuple(entry.get(key) for key in ("reference", "digest", "repository", "revision"))
                sources.setdefault(name, {})[host] = entry["source"]["host"]
    for name, of_host in sources.items():
        for host in of_host:
            circle = [host]
            while (source := of_host.get(circle[-1])) is not None and source not in circle:
                circle.append(source)
            if source == host and len(circle) > 1:
                at = Place(host=host, thing=str(name[0] or name[2]), option="source.host")
                yield worded.error("source-circle", at, circle=" from ".join([*circle, host]))


def _thing(entry: Mapping[str, object]) -> str:
    return repr([entry.get(key) for key in ("reference", "digest", "repository", "revision", "source")])


def _chain(origin: str, hosts: Sequence[str], reach: Routes) -> list[str]:
    """The order in which hosts pass a thing on: along cables where there are any."""
    chain, rest, last = [], list(hosts), origin
    while rest:
        last = next((host for host in rest if len(reach[host][last]) > 1), rest[0])
        rest.remove(last)
        chain.append(last)
    return chain


def _peers(hosts: Sequence[str], ways: Mapping[str, Sequence[Endpoint]]) -> list[dict[str, Any]]:
    """Nearest first, each by its best way; at last the origin over the management network, if the fabric fails."""
    peers = [_peer(host, ways[host][0]) for host in hosts]
    last = _peer(hosts[-1], ways[hosts[-1]][-1])
    return peers if last in peers else [*peers, last]


def _peer(host: str, end: Endpoint) -> dict[str, Any]:
    return {"host": host, "address": end[0], "port": end[1]}


def _problems(host: str, entry: Mapping[str, Any], reach: Routes) -> Iterable[Finding]:
    source = entry["source"]
    if source.get("host") and source["host"] not in reach:
        at = Place(host=host, thing=entry.get("reference") or entry["repository"], option="source.host")
        yield worded.error("source-host-unknown", at, remedy=did_you_mean(source["host"], reach), host=source["host"])


def access(*planned: Wanted, fabric: Mapping[str, FabricSlice]) -> dict[str, dict[str, dict[str, list[str]]]]:
    """``peer_access_plan`` of each host: ``reads``, by host that it may have to ask the addresses to ask at; and
    ``readers``, by host that may ask it the addresses in the fabric from which that one does.

    From which address a host reaches another over the management network, its kernel knows
    (`_stores.peers.reading.local`).
    """
    reads: dict[str, dict[str, list[str]]] = {}
    for host in planned[0]:
        asked = sorted(
            {(peer["host"], peer["address"]) for plan in planned for entry in plan[host] for peer in entry["peers"]}
        )
        reads[host] = {name: [address for other, address in asked if other == name] for name, _ in asked}
    readers = {
        host: {reader: _in_fabric(fabric[reader], host) for reader in sorted(reads) if host in reads[reader]}
        for host in reads
    }
    return {host: {"reads": reads[host], "readers": readers[host]} for host in reads}


def _in_fabric(fabric: FabricSlice, other: str) -> list[str]:
    """A host's own addresses on what joins it with another."""
    return [
        interface["address"].partition("/")[0]
        for interface in fabric["interfaces"]
        if interface["address"] and any(peer["host"] == other for peer in interface["peers"])
    ]
