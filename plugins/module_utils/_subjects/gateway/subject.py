# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway on its hosts: its files, what no plan holds, whether it goes by them, and the servers behind it."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..._base import layout, worded
from ..._base.findings import Finding, host_warning
from ..._base.managed import Managed, ManagedJson, keyed, managed
from ..._base.place import Place
from ..._base.received import one_line
from ..._base.slice import GatewaySlice, Slice
from ..._base.subject import Differences, DriftContext, PreflightContext, Questions, Subject, Unknown
from .clients import clients_map
from .reading import READS, secret_paths

_PROCESS = "haproxy"


def _files(part: GatewaySlice) -> Iterator[Managed | ManagedJson]:
    yield from managed(part)
    yield from secrets_of(part)


def secrets_of(part: GatewaySlice) -> Iterator[Managed]:
    """What no plan holds, made of the controller's files. part: of the slice of a gateway's host; empty elsewhere."""
    if not part:
        return
    clients = part["clients"]
    yield Managed(clients["path"], "file", "0600", secret=True, source=clients["source"], rendered=clients_map)
    for key in part["backend_keys"]:
        yield Managed(key["path"], "file", "0600", secret=True, source=key["source"], rendered=keyed(key["form"]))
    for file in (part["tls"]["certificate"], part["tls"]["key"]):
        yield Managed(file["path"], "file", "0600", secret=True, source=file["source"])


def files_of(slice_: Slice) -> list[str]:
    """What a gateway reads when it starts, of its host's slice; none where it is no gateway's."""
    part, trusted = slice_["gateway"], slice_["tls"]
    if not part:
        return []
    return sorted([*part["files"], *secret_paths(part), *([trusted["path"]] if trusted["source"] else [])])


def _questions(asked: Questions) -> Mapping[str, Any]:
    return {"gateway": files_of(asked.slice), "gateway_address": asked.slice["gateway"].get("address")}


def _differences(view: DriftContext) -> Differences:
    """Whether it read its files as they are, and which of its servers are down."""
    part, read = view.slice["gateway"], view.state["gateway"]
    if part and read is not None:
        for path in read["leftovers"]:
            yield view.differs("error", "gateway-leftover", f"file {one_line(path)}")
    unit = (view.state["units"] or {}).get(part["unit"]) if part else None
    if not part or read is None or not unit or unit["active"] != "active":
        return  # reported with the units
    if read["unread"]:
        yield view.differs(
            "error", "gateway-unread", f"unit {part['unit']}", unread=", ".join(map(one_line, read["unread"]))
        )
    for backend, why in sorted(read["holds"].items()):
        yield view.difference("error", "gateway-held", _held(backend), **_held_words(part["unit"], one_line(why)))
    yield from _address(view, part["address"])
    if read["servers"] is None:
        yield Unknown(view.host, "the gateway's servers", one_line(read["why"], 4096))
        return
    for backend, servers in sorted(part["servers"].items()):
        for server, host in sorted(servers.items()):
            seen = read["servers"].get(backend, {}).get(server)
            if seen is None or not seen["up"]:
                found = seen["status"] if seen else "it has no such server"
                at = f"server {server} of the gateway"
                yield view.differs("error", "gateway-server", at, found=found, service=server, server=server, host=host)


def _held(backend: str) -> str:
    return f"model of {backend} at the gateway"


def _held_words(unit: str, why: str) -> dict[str, str]:
    return {
        "found": f"its requests wait here ({why})",
        "expected": "requests that go to a host, since no rollout is under way",
        "remedy": f"systemctl reload {unit} lets them go",
    }


def _address(view: DriftContext, address: str | None) -> Differences:
    """One of the gateways has the floating address. It is asked of the first one that was read, of the others if they
    have it, too."""
    gateway = view.plan["gateway"]
    if address is None or gateway is None:
        return
    hosts = gateway["hosts"]
    here = {host: view.states[host]["gateway_address"] for host in hosts if host in view.states}
    having = [host for host in hosts if here.get(host)]
    known = [host for host in hosts if here.get(host) is not None]
    place, expected = f"address {address} of the gateway", "one of the gateways' hosts that has it"
    if view.host in having[1:]:
        found = f"{' and '.join(having)} have it: they don't hear each other"
        remedy = "look whether anything between them lets VRRP (protocol 112) through"
        yield view.difference("error", "gateway-address", place, found=found, expected=expected, remedy=remedy)
    elif not having and known == hosts and view.host == hosts[0]:
        remedy = f"systemctl restart {layout.GATEWAY_ADDRESS_UNIT}"
        yield view.differs("error", "gateway-address", place, expected=expected, remedy=remedy)


def _obstacles(look: PreflightContext) -> Iterator[Finding]:
    """Ports that another program has, since nobody is cut off unasked; and models whose requests wait."""
    part = look.slice.get("gateway")
    if not part:
        return
    for backend, why in sorted((look.part("gateway").get("holds") or {}).items()):
        yield host_warning("gateway-held", _held(backend), **_held_words(part["unit"], why))
    ours = any(unit["unit"] == part["unit"] for unit in look.part("our_units") or ())
    for port in part["listens"]:
        if found := look.others_at(port, [_PROCESS] if ours else ()):
            at = Place(variable="fleet_gateway")
            yield worded.host_error(
                "gateway-port-taken", at, found=found, port="port" if port == part["listens"][0] else "redirect_port"
            )


GATEWAY = Subject(
    "gateway", files=_files, questions=_questions, read=READS, differences=_differences, obstacles=_obstacles
)
