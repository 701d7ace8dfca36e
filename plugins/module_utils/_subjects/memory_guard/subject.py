# SPDX-License-Identifier: GPL-3.0-or-later
"""A program on each host that ends an engine at the floor, which its supervisor starts anew."""

from collections.abc import Iterator

from ..._base import layout, worded
from ..._base.declared_host import HostData
from ..._base.findings import Finding
from ..._base.gb10 import fact, filled
from ..._base.place import Place
from ..._base.schema import Spec
from ..._base.sizes import gib, size
from ..._base.slice import FileEntry, MemoryGuardSlice
from ..._base.subject import Subject

_PLACE = Place(variable="fleet_host", option="memory_guard")
_GIB: Spec = {"type": "number", "min": 0.1, "max": 64}
SPEC: Spec = {
    "type": "map",
    "default": {},
    "options": {"enabled": {"type": "bool"}, "term_gib": _GIB, "kill_gib": _GIB},
}
_PROGRAM = "plugins/module_utils/_on_host/memory_guard.py"


def memory_guard(settings: HostData, left: int) -> MemoryGuardSlice:
    """``hosts.<host>.memory_guard``: ``{enabled, unit, units, files}``; without the guard no unit of ours is to be
    there. It is the host's, whichever inventory asks for it: it guards the engines of all.

    settings: the host's checked ``fleet_host``. left: bytes that the plan leaves of its memory.
    """
    enabled = _is_enabled(settings)
    text = _unit(*floors(settings, left)) if enabled else None
    program: FileEntry = {"mode": "0644", "source": _PROGRAM} if enabled else {"mode": "0644", "content": None}
    return {
        "enabled": enabled,
        "unit": layout.MEMORY_GUARD_UNIT,
        "units": {layout.MEMORY_GUARD_UNIT: "started"} if enabled else {},
        "files": {
            f"{layout.UNITS}/{layout.MEMORY_GUARD_UNIT}": {"mode": "0644", "content": text},
            layout.MEMORY_GUARD_PROGRAM: program,
        },
    }


def floors(settings: HostData, left: int) -> tuple[int, int]:
    """Bytes of available memory below which an engine is asked to end, and killed: by what is left, since a floor above
    it would end the service again and again, or as the host's owner says."""
    own, bounds = settings.get("memory_guard", {}), fact("memory_guard", "term_gib")
    by_plan = min(max(left // 2, gib(bounds["least"])), gib(bounds["most"]))
    term = gib(own["term_gib"]) if "term_gib" in own else by_plan
    return term, gib(own["kill_gib"]) if "kill_gib" in own else term // 2


def refused(host: str, settings: HostData, left: int) -> Iterator[Finding]:
    """Services that would leave less than the guard lets them: it would end them whenever they serve."""
    term, kill = floors(settings, left)
    if not _is_enabled(settings):
        return
    if kill > term:
        yield worded.error("memory-guard-order", _PLACE.below("kill_gib"), kill=size(kill), term=size(term))
    if 0 <= left < term:
        yield worded.error("memory-guarded", Place(host=host), kind="memory", left=size(left), term=size(term))


def _is_enabled(settings: HostData) -> bool:
    return bool(settings.get("memory_guard", {}).get("enabled", fact("memory_guard", "enabled")))


def _unit(term: int, kill: int) -> str:
    words = f"{layout.MEMORY_GUARD_PROGRAM} {term} {kill} {fact('group', 'oom_score_adj')}"
    return filled("memory_guard.service", command=words)


MEMORY_GUARD = Subject("memory_guard", SPEC)
