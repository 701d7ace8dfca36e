# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of a host's interfaces its own system has set up or down, as the kernel announces it (rtnetlink)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from .kernel import inside_network

# linux/rtnetlink.h, linux/if_link.h, linux/if.h
_RTM_NEWLINK = 16
_RTM_DELLINK = 17
_RTMGRP_LINK = 1
_IFLA_IFNAME = 3
_IFF_UP = 1
_MESSAGE_HEADER = struct.Struct("=IHHII")
_LINK_HEADER = struct.Struct("=BxHiII")
_ATTRIBUTE_HEADER = struct.Struct("=HH")


class LinkWatch:
    """The changes of one network namespace since this was made; nothing was up then."""

    def __init__(self, network: int) -> None:
        with inside_network(network):
            self._socket = socket.socket(
                socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE
            )
        self._socket.bind((0, _RTMGRP_LINK))
        self._up: set[str] = set()

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def interfaces_up(self) -> frozenset[str]:
        """After all announcements that have arrived."""
        while True:
            try:
                messages = self._socket.recv(1 << 16)
            except BlockingIOError:
                return frozenset(self._up)
            for name, up in parse(messages):
                if up:
                    self._up.add(name)
                else:
                    self._up.discard(name)


def parse(messages: bytes) -> Iterator[tuple[str, bool]]:
    """(interface, is set up) of each RTM_NEWLINK and RTM_DELLINK in a datagram."""
    offset = 0
    while offset + _MESSAGE_HEADER.size <= len(messages):
        length, kind, *_ = _MESSAGE_HEADER.unpack_from(messages, offset)
        if length < _MESSAGE_HEADER.size:
            return
        if kind in (_RTM_NEWLINK, _RTM_DELLINK):
            body = messages[offset + _MESSAGE_HEADER.size : offset + length]
            _, _, _, flags, _ = _LINK_HEADER.unpack_from(body)
            is_up = kind == _RTM_NEWLINK and bool(flags & _IFF_UP)
            yield _interface_name(body[_LINK_HEADER.size :]), is_up
        offset += _aligned(length)


def _interface_name(attributes: bytes) -> str:
    offset = 0
    while offset + _ATTRIBUTE_HEADER.size <= len(attributes):
        length, kind = _ATTRIBUTE_HEADER.unpack_from(attributes, offset)
        if kind == _IFLA_IFNAME:
            return attributes[offset + _ATTRIBUTE_HEADER.size : offset + length].rstrip(b"\0").decode()
        offset += max(_aligned(length), _ATTRIBUTE_HEADER.size)
    return ""


def _aligned(length: int) -> int:
    """Netlink pads everything to 4 bytes."""
    return (length + 3) & ~3
