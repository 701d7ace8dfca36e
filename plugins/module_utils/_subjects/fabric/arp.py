# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is at the other end of a cable: asked by ARP, answered by the other machine's kernel.

A probe as RFC 5227 has it (sender address 0.0.0.0) needs no address of our own and changes nobody's tables. It finds
out more than a ping does: also a wrong neighbour answers for its own address, and its MAC address says which it is.
"""

import contextlib
import ipaddress
import socket
import struct
import time
from collections.abc import Iterable

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
