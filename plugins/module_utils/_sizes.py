# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Bytes and seconds as a person reads them; bytes from GiB, and with the room that a transfer needs beside them."""

from __future__ import annotations

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
# Partial files, and what else happens on the disk while the bytes come in.
_DISK_MARGIN = 1.1


def size(count: float | None) -> str:
    """Bytes in the largest binary unit, up to GiB, that leaves a number of at least one: `32.0 MiB`."""
    if count is None:
        return "-"
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(count) >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:.0f} B"


def gib(value: float) -> int:
    """The bytes of so many GiB."""
    return round(value * GIB)


def room_for(count: int) -> int:
    """What must be free on a disk to bring so many bytes there."""
    return int(count * _DISK_MARGIN)


def duration(seconds: float) -> str:
    """Seconds in the two largest units that they reach: `59 s`, `3 min 05 s`, `2 h 00 min`, `4 d 03 h`."""
    whole = max(0, round(seconds))
    for unit, name, part, of_it in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit:
            return f"{whole // unit} {name} {whole % unit // part:02d} {of_it}"
    return f"{whole} s"
