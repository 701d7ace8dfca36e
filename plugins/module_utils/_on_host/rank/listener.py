# SPDX-License-Identifier: GPL-3.0-or-later
"""Who answers at an address of this host: the API key is sent to the service's own container and to nobody else.

Any account may listen on a port that is free for a moment. A container on the host's network listens by itself; for one
with a network of its own Docker does, as root outside of any container (docker-proxy or dockerd).
"""

import contextlib
import ipaddress
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

_PROC = Path("/proc")
_LISTENS = "0A"


def stranger(url: str, init: int, proc: Path = _PROC) -> str | None:
    """A sentence when anything but the container may answer at the URL, else None.

    init: the container's first process, 0 when it does not run.
    """
    parts = urllib.parse.urlsplit(url)
    address, port = ipaddress.ip_address(parts.hostname or ""), parts.port or 0
    if not _exists(proc / str(init) / "ns"):
        return f"the container behind {url} does not run"
    sockets = {*_listening(proc, address, port)}
    if not sockets:
        return f"nobody listens at {url}"
    for inode in _held(proc, init, sockets):
        sockets.discard(inode)
        if not sockets:
            return None
    return f"port {port} is held by another program than the service's container"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _listening(proc: Path, address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int) -> Iterator[str]:
    """Inodes of the sockets that take connections to the address."""
    taking = {_as_kernel(address_text) for address_text in _taking(address)}
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (proc / "net" / table).read_text(encoding="ascii").splitlines()[1:]:
                words = line.split()
                host, _colon, number = words[1].partition(":")
                if words[3] == _LISTENS and int(number, 16) == port and host in taking:
                    yield words[9]


def _taking(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Iterator[bytes]:
    """The addresses that a socket may be bound to, in the order of the network."""
    yield address.packed
    yield bytes(16)
    if address.version == 4:
        yield bytes(4)
        yield bytes(10) + b"\xff\xff" + address.packed
        yield bytes(10) + b"\xff\xff" + bytes(4)


def _as_kernel(packed: bytes) -> str:
    """As /proc/net/tcp has an address: words of four bytes, each from its last (GB10 and PCs are little-endian)."""
    return b"".join(packed[start : start + 4][::-1] for start in range(0, len(packed), 4)).hex().upper()


def _held(proc: Path, init: int, sockets: set[str]) -> Iterator[str]:
    """Those of the sockets that the container holds, or root outside of any container while it has its own network."""
    links = {f"socket:[{inode}]": inode for inode in sockets}
    own_network = _namespace(proc / str(init), "net") != _namespace(proc / "self", "net")
    processes = _namespace(proc / ("self" if own_network else str(init)), "pid")
    for process in proc.iterdir():
        if not process.name.isdigit() or _namespace(process, "pid") != processes:
            continue
        with contextlib.suppress(OSError):
            if own_network and process.stat().st_uid != 0:
                continue
            for entry in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if (link := str(entry.readlink())) in links:
                        yield links[link]


def _namespace(process: Path, kind: str) -> str:
    try:
        return str((process / "ns" / kind).readlink())
    except OSError:
        return ""
