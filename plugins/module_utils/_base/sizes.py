# SPDX-License-Identifier: GPL-3.0-or-later
"""Numbers with a unit: bytes and seconds as a person reads them, numbers as a person writes them."""

import re

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
# Small letters are decimal, capitals binary, as on the command line of the engine that such numbers are passed to.
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": KIB, "M": MIB, "G": GIB, "KiB": KIB, "MiB": MIB, "GiB": GIB}
_WRITTEN = re.compile(r"(\d{1,18}(?:\.\d{1,6})?) ?([kKmMgG]|[KMG]iB)")
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


def is_bytes(value: object) -> bool:
    """Whether a text is a number of bytes by its unit: `20GiB`."""
    return isinstance(value, str) and value.endswith("iB") and quantity(value) is not None


def quantity(value: object) -> int | None:
    """The whole number that `170000`, `170k`, `1M` (1048576) or `20GiB` stands for; None for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _WRITTEN.fullmatch(value) if isinstance(value, str) else None
    return round(float(found[1]) * _UNITS[found[2]]) if found else None


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
