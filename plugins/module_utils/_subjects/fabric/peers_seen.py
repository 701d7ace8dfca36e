# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is at the other end of each half, before anything has an address: all hosts send raw frames at the same time.

A frame needs light and root, and nothing else: it passes where NetworkManager has given up, and where IPv6 is off. The
two halves of a port sit behind one switch in the adapter, so a frame comes to its own twin too, and to both halves of
the far port: what a frame proves is a port.
"""

import contextlib
import json
import select
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from typing import Any

# Of IEEE 802, for local experiments.
_ETHERTYPE = 0x88B5
_EACH_S = 0.2
_HEADER = 14
_MOST = 1500


def frame(mac: str, host: str, half: str, token: str) -> bytes:
    """The broadcast frame by which a half shows whose it is."""
    head = b"\xff" * 6 + bytes.fromhex(mac.replace(":", "")) + struct.pack("!H", _ETHERTYPE)
    return head + json.dumps([token, host, half]).encode().ljust(46)


def read_frame(data: bytes, token: str) -> tuple[str, str] | None:
    """(host, half) that a frame of this run shows; None for any other."""
    try:
        found = json.loads(data[_HEADER:].rstrip(b"\0"))
    except (ValueError, RecursionError):
        return None
    if (
        isinstance(found, list)
        and len(found) == 3
        and all(isinstance(item, str) for item in found)
        and found[0] == token
    ):
        return found[1][:64], found[2][:32]
    return None


def exchange(links: Mapping[str, Mapping[str, Any]], host: str, token: str, seconds: float) -> list[dict[str, str]]:
    """``{half, host, far}`` of each half of another host whose frames came by one of ours; OSError without root.

    links: as `_subjects.fabric.reading.read_links` returns them.
    """
    boxes: dict[socket.socket, str] = {}
    found: set[tuple[str, str, str]] = set()
    try:
        for name in (name for name, link in links.items() if link["carrier"]):
            box = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETHERTYPE))
            boxes[box] = name
            box.bind((name, _ETHERTYPE))
        end = time.monotonic() + seconds if boxes else 0.0
        send_at = 0.0
        while (now := time.monotonic()) < end:
            if now >= send_at:
                send_at = now + _EACH_S
                for box, name in boxes.items():
                    with contextlib.suppress(OSError):  # a cable that is pulled out meanwhile
                        box.send(frame(links[name]["mac"], host, name, token))
            found |= {(boxes[box], *seen) for box in _ready(boxes) if (seen := read_frame(box.recv(_MOST), token))}
    finally:
        for box in boxes:
            box.close()
    return [{"half": half, "host": other, "far": far} for half, other, far in sorted(found) if other != host]


def _ready(boxes: Mapping[socket.socket, str]) -> Sequence[socket.socket]:
    return select.select([*boxes], [], [], 0.05)[0]
