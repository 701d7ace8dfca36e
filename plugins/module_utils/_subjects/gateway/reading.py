# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a gateway on its host: whether it read its files as they are now, and which servers it sees serving."""

import contextlib
import csv
import json
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._base import layout
from ..._base.slice import GatewaySlice
from ..._host.probe.parts import Part, Run

CONFIG = f"{layout.GATEWAY}/haproxy.cfg"
BODIES_CONFIG = f"{layout.GATEWAY}/bodies.cfg"
ADDRESS_CONFIG = f"{layout.GATEWAY}/address.conf"
MODELS_MAP = f"{layout.GATEWAY}/models.map"
# By backend, why its requests wait: empty, and filled in the running gateway alone.
HOLDS = f"{layout.GATEWAY}/holds.map"
PROGRAM = "/usr/sbin/haproxy"
ADDRESS_PROGRAM = "/usr/sbin/keepalived"
_PATIENCE_S = 5.0
_ARP, _TWINS_S = 0x0806, 1.0
_ANSWER_BYTES = 1 << 20
_COLUMNS = {"running": "scur", "waiting": "qcur"}


def read_gateway(files: Iterable[str]) -> dict[str, Any]:
    """``{unread, servers, why, leftovers, holds}``. unread: those of the files, and HAProxy itself, that changed since
    it last read them; None where it has not read any. servers: as `servers_of`; None, with the reason, where it doesn't
    answer. leftovers: files of its folder that are none of the files. holds: as `holds_of`.
    """
    wanted = [*files]
    try:
        servers, why = servers_of(ask("show stat")), ""
    except (OSError, ValueError) as error:
        servers, why = None, f"{layout.GATEWAY_SOCKET}: {error}"
    try:
        holds = holds_of(ask(f"show map {HOLDS}"))
    except (OSError, ValueError):
        holds = {}  # one of an earlier release knows no such map
    return {"unread": unread(wanted), "servers": servers, "why": why, "leftovers": leftovers(wanted), "holds": holds}


def leftovers(wanted: Collection[str], folder: str = layout.GATEWAY, units: str = layout.UNITS) -> list[str]:
    """Files of the gateway's folder, and units of a gateway, that nobody asked for."""
    found = [str(path) for path in Path(folder).rglob("*") if path.is_symlink() or not path.is_dir()]
    found += [f"{units}/{name}" for name in layout.GATEWAY_UNITS if Path(units, name).is_file()]
    return sorted(path for path in found if path not in wanted)


def has_address(address: str) -> bool:
    """Whether it is one of this host's."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as one:
        try:
            one.bind((address, 0))
        except OSError:
            return False
    return True


def twins(run: Run, address: str) -> list[str]:
    """MAC addresses of other machines that answer for an IPv4 address of this host, as RFC 5227 asks."""
    _code, shown, _err = run(["ip", "-json", "-4", "address", "show", "to", address])
    names = [str(link["ifname"]) for link in json.loads(shown or "[]") if link.get("ifname")]
    wanted = socket.inet_aton(address) if names else b""
    found = set()
    for name in names:
        mac = bytes.fromhex(Path("/sys/class/net", name, "address").read_text("ascii").strip().replace(":", ""))
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ARP)) as one:
            one.bind((name, _ARP))
            one.send(b"\xff" * 6 + mac + struct.pack("!HHHBBH", _ARP, 1, 0x0800, 6, 4, 1) + mac + bytes(10) + wanted)
            until = time.monotonic() + _TWINS_S
            with contextlib.suppress(TimeoutError):
                while (left := until - time.monotonic()) > 0:
                    one.settimeout(left)
                    found |= answerer(one.recv(2048), wanted) - {mac}
    return sorted(mac.hex(":") for mac in found)


def answerer(frame: bytes, address: bytes) -> set[bytes]:
    """The MAC address of who says in an Ethernet frame that it has the address."""
    is_reply = frame[12:14] == struct.pack("!H", _ARP) and frame[20:22] == b"\0\2" and frame[28:32] == address
    return {frame[22:28]} if is_reply else set()


def secret_paths(part: GatewaySlice) -> list[str]:
    """What no plan holds, on the gateway's host. part: of the host's slice."""
    keys = [file["path"] for file in (part["clients"], *part["backend_keys"])]
    return [*keys, *(part["tls"][kind]["path"] for kind in ("certificate", "key"))]


def unread(files: Iterable[str]) -> list[str] | None:
    """The files that changed since the gateway read them, by the time at which the file system noted it."""
    try:
        since = Path(layout.GATEWAY_READ).stat().st_mtime_ns
    except OSError:
        return None
    return [file for file in [PROGRAM, *files] if (changed := _changed(file)) is not None and changed > since]


def _changed(file: str) -> int | None:
    try:
        return Path(file).stat().st_ctime_ns
    except OSError:
        return None


def ask(command: str) -> str:
    """HAProxy's answer to a command at its own socket, which root alone can open."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PATIENCE_S)
        connection.connect(layout.GATEWAY_SOCKET)
        connection.sendall(f"{command}\n".encode())
        answer = b""
        while part := connection.recv(1 << 16):
            answer += part
            if len(answer) > _ANSWER_BYTES:
                raise ValueError(f"it answers with more than {_ANSWER_BYTES} bytes")
    return answer.decode("utf-8", "replace")


def holds_of(shown: str) -> dict[str, str]:
    """``{backend: why}`` of HAProxy's ``show map``, whose requests wait. ValueError where it knows no such map."""
    if shown.strip() and not shown.startswith("0x"):
        raise ValueError(shown.strip().splitlines()[0])
    rows = (line.split(None, 2) for line in shown.splitlines())
    return {row[1]: row[2] for row in rows if len(row) == 3}


def servers_of(stat: str) -> dict[str, dict[str, dict[str, Any]]]:
    """``{backend: {server: {up, status, running, waiting}}}`` of HAProxy's ``show stat``; a backend's own row has the
    name BACKEND. up: requests are sent there. status: as HAProxy writes it, with the last check where it failed.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in csv.DictReader(stat.lstrip("# \n").splitlines()):
        if row.get("svname") in (None, "FRONTEND"):
            continue
        status = str(row["status"])
        up = status.startswith(("UP", "no check", "OPEN"))
        failed = "" if up or not row.get("last_chk") else f", {row['last_chk']}"
        counts = {name: int(row.get(column) or 0) for name, column in _COLUMNS.items()}
        found.setdefault(str(row["pxname"]), {})[row["svname"]] = {"up": up, "status": status + failed, **counts}
    return found


def lost(readiness: Mapping[str, Mapping[str, Sequence[Any]]], reaches: Callable[[str, int], bool]) -> list[str]:
    """The places of services that the gateway sends requests to now, and would not once it goes by their supervisors:
    those of an earlier release say nothing. readiness: of its slice. reaches: whether a port takes connections. Empty
    where no gateway answers, since it serves nobody.
    """
    try:
        servers = servers_of(ask("show stat"))
    except (OSError, ValueError):
        return []
    places = [
        (f"{name} at {address}:{port}", address, port)
        for backend, heads in readiness.items()
        for name, (address, port) in heads.items()
        if servers.get(backend, {}).get(name, {}).get("up")
    ]
    return [place for place, address, port in places if not reaches(address, port)]


def reaches(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), _PATIENCE_S).close()
    except OSError:
        return False
    return True


READS: Mapping[str, Part] = {
    "gateway": lambda _run, ask: read_gateway(ask["gateway"]) if ask["gateway"] else None,
    "gateway_address": lambda _run, ask: has_address(ask["gateway_address"]) if ask["gateway_address"] else None,
}
