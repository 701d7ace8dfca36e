# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a host's fabric: links, neighbours, RDMA devices. Changes nothing; the judgement is
`_subjects.fabric.judge`."""

import contextlib
import ipaddress
import json
import socket
import struct
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._host.probe.files import read_netplan
from ..._host.probe.parts import Part, Run
from ..._on_host.gids import SYSFS, read_table
from . import hotplug
from .hardware import RAILS

_ETHERTYPE_ARP = 0x0806
_BROADCAST = b"\xff" * 6
_REQUEST, _REPLY = 1, 2
# hardware type Ethernet, protocol IPv4, lengths, operation; sender MAC and IP; target MAC and IP
_PACKET = struct.Struct("!HHBBH6s4s6s4s")
_RESEND_S = 0.3


def request(own_mac: str, address: str) -> bytes:
    """The Ethernet frame that asks who has an IPv4 address."""
    mac = bytes.fromhex(own_mac.replace(":", ""))
    wanted = ipaddress.IPv4Address(address).packed
    packet = _PACKET.pack(1, 0x0800, 6, 4, _REQUEST, mac, bytes(4), bytes(6), wanted)
    return _BROADCAST + mac + struct.pack("!H", _ETHERTYPE_ARP) + packet


def reply(frame: bytes) -> tuple[str, str] | None:
    """(IPv4 address, MAC address) of the one who answers, or None for any other frame."""
    if len(frame) < 14 + _PACKET.size or struct.unpack_from("!H", frame, 12)[0] != _ETHERTYPE_ARP:
        return None
    _hardware, protocol, _size, _length, operation, mac, address, _mac, _address = _PACKET.unpack_from(frame, 14)
    if protocol != 0x0800 or operation != _REPLY:
        return None
    return str(ipaddress.IPv4Address(address)), mac.hex(":")


def ask(interface: str, own_mac: str, addresses: Iterable[str], seconds: float) -> dict[str, str]:
    """Each address that somebody at the other end answers for, with the MAC address. OSError when it can't be asked."""
    wanted = sorted(set(addresses))
    answers: dict[str, str] = {}
    if not wanted:
        return answers
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE_ARP)) as wire:
        wire.bind((interface, _ETHERTYPE_ARP))
        wire.settimeout(0.05)
        deadline = time.monotonic() + seconds
        resend = 0.0
        while (now := time.monotonic()) < deadline and len(answers) < len(wanted):
            if now >= resend:
                for address in wanted:
                    if address not in answers:
                        wire.send(request(own_mac, address))
                resend = now + _RESEND_S
            with contextlib.suppress(TimeoutError):
                found = reply(wire.recv(128))
                if found is not None and found[0] in wanted:
                    answers[found[0]] = found[1]
    return answers


_NET = Path("/sys/class/net")
# A driver that hangs with the kernel's lock of the network keeps every `ip` waiting (MT7925 Wi-Fi, August 2026).
IP = ("timeout", "20", "ip", "-j")
# IPv4 and ICMP headers: the largest payload that fits the MTU is this much less.
_PING_HEADERS = 28
_ASK_S = 1.5
# The counters of RDMA data count words of four octets (Linux, Documentation/ABI/stable/sysfs-class-infiniband).
_COUNTER_UNIT = 4


def read_links(run: Run, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Each named interface that is there: MAC, MTU, whether it is up and has a carrier, speed, addresses, PCIe link."""
    _code, out, _err = run([*IP, "address", "show"])
    present = {link["ifname"]: link for link in json.loads(out)}
    return {name: _link(present[name]) for name in names if name in present}


def _link(link: Mapping[str, Any]) -> dict[str, Any]:
    name = link["ifname"]
    device = _NET / name / "device"
    return {
        "mac": link["address"],
        "mtu": link["mtu"],
        "up": "UP" in link["flags"],
        "carrier": "LOWER_UP" in link["flags"],
        "speed_mbps": _number(_NET / name / "speed"),
        "addresses": [
            f"{address['local']}/{address['prefixlen']}" for address in link["addr_info"] if address["family"] == "inet"
        ],
        "pcie_width": _number(device / "current_link_width"),
        "pcie_width_max": _number(device / "max_link_width"),
    }


def read_iommu(names: Iterable[str]) -> dict[str, str]:
    """The type of each interface's IOMMU group (``identity``, ``DMA-FQ``, ...), where the kernel says one."""
    found = {name: _text(_NET / name / "device" / "iommu_group" / "type") for name in names}
    return {name: kind for name, kind in found.items() if kind}


def _number(path: Path) -> int | None:
    """A file's number; None where there is no such file, or the driver does not know (EINVAL, -1)."""
    try:
        number = int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return number if number >= 0 else None


def ask_neighbours(
    run: Run, links: Mapping[str, Mapping[str, Any]], peers: Mapping[str, Sequence[str]], candidates: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """For each interface with a carrier: who answers ARP for which address, and whether a full-size ping comes back.

    peers: the addresses that should answer on each interface. candidates: all addresses of the fleet's rails, so that a
    wrong neighbour is found by its own.
    """
    asked = {}
    for name, link in links.items():
        if name not in peers or not link["carrier"]:
            continue
        own = {address.partition("/")[0] for address in link["addresses"]}
        wanted = {*candidates, *peers[name]} - own
        answers = ask(name, link["mac"], wanted, _ASK_S)
        # Where no address is planned (link-local), those that answer are pinged.
        to = peers[name] or answers
        pings = {address: _ping(run, _source(name, link, address), address, link["mtu"]) for address in to}
        asked[name] = {"answers": answers, "pings": pings}
    return asked


def _source(name: str, link: Mapping[str, Any], address: str) -> str:
    """From where a ping goes: the interface's own address in that network, so that its route is the interface, and an
    answer counts by either half. Where others keep the network, without arp_ignore, it may come by the other one."""
    own = map(ipaddress.IPv4Interface, link["addresses"])
    mine = (one for one in own if ipaddress.IPv4Address(address) in one.network and not one.is_link_local)
    return next((str(one.ip) for one in mine), name)


def _ping(run: Run, source: str, address: str, mtu: int) -> str:
    """Empty when packets of the MTU's size, not to be split, come back; else ping's message."""
    packets = ["-c", "3", "-i", "0.2", "-W", "1", "-M", "do", "-s", str(mtu - _PING_HEADERS)]
    code, out, err = run(["ping", "-n", *packets, "-I", source, address])
    if code == 0:
        return ""
    lines = [line for line in (out + err).splitlines() if line.strip()]
    relevant = [line for line in lines if "packet loss" in line or "rror" in line]
    return (relevant or lines or ["no answer"])[0]


def read_adapter(run: Run, names: Iterable[str]) -> dict[str, Any]:
    """What hot-plug has done, for `_subjects.fabric.hotplug`; unproven: which of the names were not measured since a
    plug."""
    # Its kernel driver's lines; without a journal nothing is known of plugs, as on a machine without hot-plug.
    _code, journal, _err = run(
        ["journalctl", "--boot", "--identifier=kernel", "--output=short-monotonic", "--no-pager"]
    )
    adapter: dict[str, Any] = {
        "marker": Path(hotplug.MARKER).exists(),
        "enabled": _text(Path(hotplug.ENABLED)) == "1",
        "state": _text(Path(hotplug.STATE)) or None,
        "plugged_s": hotplug.plugged_at(journal),
        "measured": hotplug.parse_measured(_text(Path(hotplug.MEASURED))),
    }
    return adapter | {"unproven": hotplug.unproven(adapter, names)}


def keep_measured(rows: Mapping[str, Mapping[str, object]]) -> None:
    """Remember, until the next boot, what each interface sent alone: {gbps, peer, speed_mbps}."""
    path = Path(hotplug.MEASURED)
    known = hotplug.parse_measured(_text(path))
    known |= {name: {**row, "at_s": time.monotonic()} for name, row in rows.items()}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(known), encoding="ascii")


def read_rdma(devices: Iterable[str], sysfs: Path = SYSFS) -> dict[str, dict[str, Any]]:
    """Each named RDMA device that is there: state, link layer, rate, GIDs and byte counters of its port."""
    return {name: _rdma_port(sysfs, name) for name in devices if (sysfs / name).is_dir()}


def _rdma_port(sysfs: Path, name: str) -> dict[str, Any]:
    port = sysfs / name / "ports" / "1"
    return {
        "state": _text(port / "state").partition(":")[2].strip(),
        "link_layer": _text(port / "link_layer"),
        "rate": _text(port / "rate"),
        "gids": [{"index": row.index, "gid": row.gid, "type": row.kind} for row in read_table(name, sysfs)],
        "bytes": counters(name, sysfs),
    }


def counters(device: str, sysfs: Path = SYSFS) -> dict[str, int | None]:
    """Bytes that a device sent and received by RDMA, None where the driver does not count."""
    folder = sysfs / device / "ports" / "1" / "counters"
    found = {way: _number(folder / f"port_{way}_data") for way in ("xmit", "rcv")}
    return {way: None if words is None else words * _COUNTER_UNIT for way, words in found.items()}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def verbs(run: Run) -> tuple[bool, str]:
    """Whether programs can use RDMA here at all, and the message of `ibv_devices` if not."""
    try:
        code, out, err = run(["ibv_devices"])
    except FileNotFoundError:
        return False, "ibv_devices is not installed"
    devices = [line for line in out.splitlines()[2:] if line.strip()]
    if code == 0 and devices:
        return True, ""
    return False, err.strip() or "ibv_devices lists no device"


def virtualization(run: Run) -> str:
    """``none`` on a machine of its own, else what it runs in, as systemd-detect-virt says."""
    _code, out, _err = run(["systemd-detect-virt"])
    return out.strip() or "unknown"


def _mac_addresses(names: Sequence[str]) -> dict[str, str]:
    found = {name: Path("/sys/class/net", name, "address") for name in names}
    return {name: path.read_text("ascii").strip() if path.exists() else "" for name, path in found.items()}


def _asked(run: Run, questions: Mapping[str, Any]) -> dict[str, Any]:
    """What `fabric_info` returns, without measuring anything."""
    ask = questions["fabric"]
    links = read_links(run, {**ask["peers"], **RAILS})  # a cable may end in a port that no plan names
    return {
        "links": links,
        "asked": ask_neighbours(run, links, ask["peers"], ask["candidates"]),
        "rdma": read_rdma(ask["devices"]),
        "adapter": read_adapter(run, ask["peers"]),
    }


READS: Mapping[str, Part] = {"netplan": lambda _run, ask: read_netplan(_mac_addresses(ask["rails"])), "fabric": _asked}


def run_together(commands: Sequence[Sequence[str]], patience_s: float) -> list[str]:
    """What each of them printed, all run at the same time, which AnsibleModule.run_command can't do; one that does not
    end within the patience is killed, and its output says so."""
    running = [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for command in commands
    ]
    return [_output(process, patience_s) for process in running]


def _output(process: subprocess.Popen[str], patience_s: float) -> str:
    try:
        return process.communicate(timeout=patience_s)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return f"{process.communicate()[0]}\nno result after {patience_s:.0f} s"
