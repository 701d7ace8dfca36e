# SPDX-License-Identifier: GPL-3.0-or-later
"""What options of an engine keep in memory beside weights and pool: counted, or named as what counts nothing.

CPU and GPU of a GB10 share one memory, so that a cache "in the host's memory" takes from the same bytes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .._base import worded
from .._base.findings import Finding
from .._base.gb10 import data_table
from .._base.place import Place

UNKNOWN = 0


@dataclass(frozen=True)
class Keeps:
    """An option that keeps memory. unit: bytes that its number counts, UNKNOWN where it doesn't tell them. what: it
    keeps. unless: an option that tells the bytes in its place."""

    what: str
    unit: int = UNKNOWN
    unless: str = ""


def keeps_of(engine: str) -> dict[str, Keeps]:
    """The options of an engine that keep memory."""
    return {name: Keeps(**row) for name, row in data_table("engine_keeps")[engine].items()}


def kept(
    options: Mapping[str, Keeps], values: Mapping[str, object], place: Place, source: str
) -> tuple[int, list[Finding]]:
    """Bytes that written options keep, and those that nobody can count. source: where the engine says what it keeps."""
    size, findings = 0, []
    for name, keeps in options.items():
        value = values.get(name)
        if value in (None, False, 0, "") or values.get(keeps.unless) is not None:
            continue
        number = value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
        if keeps.unit and number is not None:
            size += int(number * keeps.unit)
        else:
            findings.append(uncounted(place.below("flags", name), f"{name} {value}", keeps.what, source, keeps.unless))
    return size, findings


def uncounted(place: Place, found: str, why: str, source: str, instead: str = "") -> Finding:
    """What takes memory that the plan has no line for."""
    return worded.memory_warning(
        "memory-uncounted",
        place,
        found=f"{found}, which counts nothing in the plan: {why}",
        source=source,
        instead=f", or use {instead}" if instead else "",
    )
