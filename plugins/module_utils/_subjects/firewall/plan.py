# SPDX-License-Identifier: GPL-3.0-or-later
"""Which hosts are closed, and who may still come in.

Ranks of a group are on the host's network and listen on random ports of every address (NCCL, Gloo, Ray, vLLM's own), so
no list of ports can name them: a host with a rank is closed but for SSH, the APIs, its fabric neighbours and what the
owner allows. A host without one has nothing of ours open but the APIs that Docker publishes: its owner's other services
are left alone. Where a gateway is declared, the APIs are the gateways' alone, on either kind of host.
"""

import ipaddress
from collections.abc import Iterable, Iterator

from ..._base.declared_host import Allow, FleetFirewall, HostFirewall
from ..._base.findings import Finding, error
from ..._base.forms import forms
from ..._base.place import Place
from ..._base.slice import Api, FabricSlice, Meeting, Neighbour, Opening, Rules

_FORMS = forms("firewall")
FLEET, HOST = _FORMS["fleet"], _FORMS["host"]


def wrong_sources(allow: Iterable[Allow], place: Place) -> Iterator[Finding]:
    for index, entry in enumerate(allow):
        for source in entry["from"]:
            try:
                ipaddress.ip_network(source)
            except ValueError as cause:
                remedy = "write an address, or a network by its first address: 10.0.0.0/8"
                where = place.below("allow", index, "from")
                yield error("input-firewall-source", where, found=str(cause), expected="an address", remedy=remedy)


def plan_firewall(
    settings: HostFirewall | None,
    of_fleet: FleetFirewall,
    apis: Iterable[Api],
    peers: Iterable[str],
    fabric: FabricSlice,
    meetings: Iterable[tuple[str, int]] = (),
) -> Rules:
    """``firewall_plan``: ``{state, open: [{port, protocol, from, reason}], neighbours: [{interface, address}],
    meetings: [{address, port}], shut}``; port is None with the protocol vrrp.

    settings: the host's checked `fleet_host.firewall`. apis: of `_base.subject.SliceContext`. peers: addresses of the
    ranks that share a group with one of this host's; none: the host is left open unless its owner closes it. fabric:
    the host's slice. A neighbour's interface is null where ranks meet over the management network. meetings: of
    `_base.subject.SliceContext`; an address that isn't of a cable is null, since accounts use it for what is theirs.

    state: ``closed``, but for what is in ``open``; ``limited``: of an open host those ports alone are filtered, to what
    ``open`` says of them; ``open``.
    """
    own: HostFirewall = settings or {"allow": [], "shut": []}
    peers = sorted({*peers})
    opened: list[Opening] = [{**api, "protocol": api.get("protocol", "tcp")} for api in apis]
    allowed: list[Opening] = [{**entry} for entry in [*of_fleet.get("allow", []), *own["allow"]]]
    if (own.get("state") or ("closed" if peers else "open")) == "open":
        limited = [api for api in opened if api["from"]]
        ports = {api["port"] for api in limited}
        also = [entry for entry in allowed if entry["port"] in ports and entry["protocol"] == "tcp"]
        state = "limited" if limited else "open"
        allowed = [*limited, *(also if limited else [])]
        return {"state": state, "open": allowed, "neighbours": [], "meetings": [], "shut": []}
    shut = sorted({*own["shut"]})
    found = _neighbours(peers, fabric)
    over_cables = all(neighbour["interface"] for neighbour in found)
    met: list[Meeting] = [
        {"address": address if over_cables else None, "port": port} for address, port in sorted({*meetings})
    ]
    return {"state": "closed", "open": [*opened, *allowed], "neighbours": found, "meetings": met, "shut": shut}


def _neighbours(peers: Iterable[str], fabric: FabricSlice) -> list[Neighbour]:
    """Hosts at the other ends of the cables, and ranks that are reached in another way."""
    over_cables: list[Neighbour] = [
        {"interface": interface["name"], "address": peer["address"]}
        for interface in fabric["interfaces"]
        for peer in interface["peers"]
        if peer["address"]
    ]
    known = {cable["address"] for cable in over_cables}
    return over_cables + [{"interface": None, "address": peer} for peer in peers if peer not in known]
