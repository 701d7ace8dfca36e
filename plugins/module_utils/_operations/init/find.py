# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines may be Sparks: of ssh's files, the neighbour table and answers to one multicast question.

Names that others chose come in here, and `host_name` alone lets them in. What a machine is, its GPU proves later.
"""

import contextlib
import ipaddress
import re
import shlex
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..._base.gb10 import data_table

# Host names as shipped: one of these, then the last two bytes of the address of the RJ45 socket.
PRODUCTS: Mapping[str, str] = data_table("products")
_SHIPPED = re.compile(rf"({'|'.join(PRODUCTS)})-[0-9a-f]{{4}}")
# The makers' cards. Jetsons and motherboards have them too: a hint, never a proof.
_MAKERS = ("4c:bb:47", "3c:6d:66", "48:b0:2d", "30:c5:99")
# Where NVIDIA Sync keeps the machines that its owner added: Linux twice, macOS, Windows as WSL has it.
SYNC_FILES: tuple[str, ...] = data_table("sync_files")
_LABEL = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_ZONE = re.compile(r"\w[\w.-]{0,14}")
_A, _PTR, _SRV = 1, 12, 33
_SERVICES = ("_ssh._tcp.local", "_workstation._tcp.local")
_MOST_HOPS = 16
_A_PACKET = 20
# What one answer to one question may bring; a house with more hosts names them.
MOST_RECORDS = 4096
# Each of them is a login that may wait for its answer.
_MOST_ANSWERED = 256

Record = tuple[str, int, str]


@dataclass(frozen=True)
class Machine:
    """One that may be a Spark. name: by which ssh reaches it. user: of ssh's files, empty where they name none."""

    name: str
    sources: tuple[str, ...]
    addresses: tuple[str, ...] = ()
    user: str = ""

    @property
    def product(self) -> str:
        """What a name as shipped says."""
        shipped = _SHIPPED.fullmatch(self.name.split(".")[0])
        return PRODUCTS[shipped[1]] if shipped else ""


@dataclass(frozen=True)
class SshHosts:
    """What an ssh configuration names. hosts: {alias: {keyword: value}}; includes: patterns of further files."""

    hosts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    includes: Sequence[str] = ()


def host_name(word: str) -> str:
    """The word as a host's name or address, in small letters; empty for whatever else somebody wrote there."""
    name = word.strip().lower().rstrip(".")
    zone = name.partition("%")[2]
    with contextlib.suppress(ValueError):
        # Python takes whatever follows % for the interface of a link-local address
        return str(ipaddress.ip_address(name)) if not zone or _ZONE.fullmatch(zone) else ""
    return name if len(name) <= 253 and _NAME.fullmatch(name) else ""


def own_name(word: str) -> str:
    """What a machine calls itself, without its domain; empty for an address, which is no name of a host."""
    first = host_name(word).split(".")[0].replace("_", "-").strip("-")  # groups of ours have an underscore
    return first if re.search("[a-z]", first) and ":" not in first else ""


# Files ------------------------------------------------------------------------------------------------------------


def ssh_hosts(text: str) -> SshHosts:
    """The plain names of `Host` lines; patterns and `Match` blocks name no machine."""
    hosts: dict[str, dict[str, str]] = {}
    includes: list[str] = []
    block: list[str] = []
    for line in text.splitlines():
        try:
            words = shlex.split(line.replace("=", " ", 1) if re.match(r"\s*\w+\s*=", line) else line, comments=True)
        except ValueError:
            continue
        key = words[0].lower() if words else ""
        if key == "include":
            includes += words[1:]
        elif key in ("host", "match"):
            block = [name for name in map(host_name, words[1:]) if name] if key == "host" else []
            hosts |= {name: hosts.get(name, {}) for name in block}
        elif len(words) > 1 and key in ("hostname", "user"):
            for name in block:
                hosts[name].setdefault(key, words[1])
    return SshHosts(hosts, includes)


def known_names(text: str) -> list[str]:
    """The plain names of a known_hosts file; hashed ones can't be read."""
    lines = (line.split()[0] for line in text.splitlines() if line.split() and line[0] not in "#@|")
    names = (re.sub(r"^\[(.+)\](:\d+)?$", r"\1", name) for line in lines for name in line.split(","))
    return sorted({name for name in map(host_name, names) if name})


def neighbours(text: str) -> dict[str, str]:
    """``{address: MAC address}`` of /proc/net/arp's text, or of what `arp -an` prints."""
    rows = re.findall(
        r"^(?:\S+ \()?(\d+\.\d+\.\d+\.\d+)\)?\s.*?\b((?:[0-9a-f]{1,2}:){5}[0-9a-f]{1,2})\b", text, re.M | re.I
    )
    found = {address: ":".join(part.zfill(2) for part in mac.lower().split(":")) for address, mac in rows}
    return {address: mac for address, mac in found.items() if mac != "00:00:00:00:00:00" and host_name(address)}


# Multicast DNS (RFC 6762) -----------------------------------------------------------------------------------------


def questions(table: Mapping[str, str], names: Iterable[str]) -> list[bytes]:
    """The packets that ask who offers SSH, what the neighbours' names are, and for the names that Sparks would have.

    Sent from a port of one's own, they are answered to it alone. table: as `neighbours` returns it.
    """
    made = {
        f"{name}-{mac[-5:].replace(':', '')}.local" for mac in table.values() if mac[:8] in _MAKERS for name in PRODUCTS
    }
    asked = [(name, _PTR) for name in _SERVICES]
    asked += [(name, _A) for name in sorted(made | {name for name in names if name.endswith(".local")})]
    asked += [(f"{_reversed(address)}.in-addr.arpa", _PTR) for address in sorted(table)]
    return [
        struct.pack("!6H", 0, 0, len(some), 0, 0, 0) + b"".join(_question(*item) for item in some)
        for some in (asked[begin : begin + _A_PACKET] for begin in range(0, len(asked), _A_PACKET))
    ]


def _reversed(address: str) -> str:
    return ".".join(reversed(address.split(".")))


def _question(name: str, kind: int) -> bytes:
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + struct.pack("!xHH", kind, 1)


def records(packet: bytes) -> list[Record]:
    """``(name, kind, value)`` of an answer; none of a packet that is no answer."""
    try:
        return [*_records(packet)]
    except (ValueError, IndexError, struct.error):
        return []


def _records(packet: bytes) -> Iterator[Record]:
    asked, *others = struct.unpack_from("!4H", packet, 4)
    at = 12
    for _ in range(asked):
        at = _name_at(packet, at)[1] + 4
    for _ in range(min(sum(others), MOST_RECORDS)):
        name, at = _name_at(packet, at)
        kind, _class, _ttl, size = struct.unpack_from("!HHIH", packet, at)
        at += 10
        if kind == _A and size == 4:
            yield name, kind, str(ipaddress.IPv4Address(packet[at : at + 4]))
        elif kind in (_PTR, _SRV):
            yield name, kind, _name_at(packet, at + (6 if kind == _SRV else 0))[0]
        at += size


def _name_at(packet: bytes, at: int, hops: int = 0) -> tuple[str, int]:
    """The name that begins there, and where it ends. ValueError for one that goes in circles."""
    parts: list[str] = []
    while size := packet[at]:
        if size & 0xC0:
            if hops > _MOST_HOPS:
                raise ValueError("a name that goes in circles")
            rest, _ = _name_at(packet, struct.unpack_from("!H", packet, at)[0] & 0x3FFF, hops + 1)
            return ".".join([*parts, rest]), at + 2
        parts.append(packet[at + 1 : at + 1 + size].decode("utf-8", "replace").lower())
        at += 1 + size
    return ".".join(parts), at + 1


# Together ---------------------------------------------------------------------------------------------------------


def machines(
    named: Sequence[str],
    ssh: SshHosts,
    sync: SshHosts,
    known: Iterable[str],
    table: Mapping[str, str],
    answers: Iterable[tuple[Record, str]],
) -> list[Machine]:
    """Those that may be Sparks, by name. named: what a person gave, which is then all. answers: with who sent each."""
    found: dict[str, Machine] = {}
    addresses = _addresses(answers, table)

    def add(name: str, source: str, user: str = "") -> None:
        before = found.get(name, Machine(name, ()))
        sources = dict.fromkeys([*before.sources, source])
        found[name] = Machine(name, (*sources,), (*sorted(addresses.get(name, ())),), before.user or user)

    users = {name: block.get("user", "") for name, block in {**sync.hosts, **ssh.hosts}.items()}
    for name in named:
        add(name, "named", users.get(name, ""))
    if named:
        return [found[name] for name in dict.fromkeys(named)]
    for name, block in sync.hosts.items():
        add(name, "NVIDIA Sync", block.get("user", ""))
    for name, block in ssh.hosts.items():
        if _is_shipped(name) or _is_shipped(block.get("hostname", "")):
            add(name, "ssh's configuration", block.get("user", ""))
    for name in filter(_is_shipped, known):
        add(name, "known_hosts")
    for name in [*filter(_is_shipped, addresses)][:_MOST_ANSWERED]:
        add(name, "its own answer")
    taken = {address for item in found.values() for address in item.addresses}
    taken |= {block["hostname"] for block in (*sync.hosts.values(), *ssh.hosts.values()) if "hostname" in block}
    for address, mac in table.items():
        if mac[:8] in _MAKERS and address not in taken:
            add(address, "neighbour table")
    return [found[name] for name in sorted(found)]


def _is_shipped(name: str) -> bool:
    return bool(_SHIPPED.fullmatch(name.lower().split(".")[0]))


def _addresses(answers: Iterable[tuple[Record, str]], table: Mapping[str, str]) -> dict[str, set[str]]:
    """The addresses of each name that answered, also of one that offers SSH and gave no address."""
    found: dict[str, set[str]] = {}
    for (asked, kind, value), sender in answers:
        name = host_name(asked if kind == _A else value)
        if kind == _PTR and asked in _SERVICES:  # "spark-3f1c [4c:bb:47:...]._workstation._tcp.local"
            name = host_name(value.split(".")[0].split(" ")[0] + ".local")
        if kind == _PTR and asked.endswith(".in-addr.arpa"):
            address = {_reversed(asked.removesuffix(".in-addr.arpa"))} & {*table}
        else:
            address = {value} if kind == _A else {sender} & {*table} if kind == _SRV else set()
        if name:
            found.setdefault(name, set()).update(address)
    return found
