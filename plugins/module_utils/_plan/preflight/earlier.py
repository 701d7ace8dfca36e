# SPDX-License-Identifier: GPL-3.0-or-later
"""A run that would take a host back: by an older release than the last there, or from a clone that lacks commits."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from ..._base import worded
from ..._base.findings import Finding
from ..._base.place import Place
from ..._base.plan import Plan
from ..._base.reading import State
from ..._base.received import one_line
from .needs import obstacles

# Of what is kept on a host, and beside the inventory. One with a higher one was converged by a later release.
FORM = "1"
Lag = Literal["has it", "behind", "another way", "lacks it"]
_SHORT = 12


def goes_back(host: str, run: Mapping[str, str], last: Mapping[str, str], lags: Mapping[str, Lag]) -> Iterator[Finding]:
    """Why this run would undo what the last one did.

    last: what the host keeps of that one, empty where it keeps nothing. lags: of this machine's clones of the
    collection and the inventory, by the keys ``commit`` and ``inventory_commit``.
    """
    if not last:
        return
    release, person, at = (one_line(last.get(key, "?")) for key in ("release", "person", "at"))
    place = Place(host=host)
    if _numbers(release) > _numbers(run["release"]) or _numbers(last.get("form", "")) > _numbers(run["form"]):
        yield worded.error(
            "run-older/release", place, release=release, person=person, at=at, ours=run["release"], kind="host"
        )
        return
    # of one person, a commit that was amended
    fine = ("has it", "another way") if last.get("person") == run["person"] else ("has it",)
    if lags["commit"] not in fine and release == run["release"]:
        yield worded.error(
            "run-older/collection", place, person=person, at=at, commit=_short(last["commit"]), kind="host"
        )
    if lags["inventory_commit"] not in fine:
        yield worded.error(
            "run-older/inventory", place, person=person, at=at, commit=_short(last["inventory_commit"]), kind="host"
        )


def later_form(path: str, kept: str) -> Iterator[Finding]:
    """Of what is kept beside the inventory. kept: the number of its form; empty, as of 0.1.0, is 1."""
    if _numbers(kept) > _numbers(FORM):
        yield worded.error("run-older/kept", path, form=one_line(kept), ours=FORM)


def upgrade(plan: Plan, release: str, states: Mapping[str, State], reasons: Mapping[str, Sequence[str]]) -> str:
    """The page of what a release does: to each host, and which services restart. states: by host, of its preflight.
    reasons: to converge it, of `unconverged`."""
    lines, moved = [], dict[str, str]()
    for host, state in sorted(states.items()):
        was, count = one_line((state["last_run"] or {}).get("release") or "unknown"), len(reasons.get(host, ()))
        brings = f"site.yml brings {count} differences" if count else "it is as declared"
        lines.append(f"{host}: converged by release {was}, this one is {release}; {brings}")
        found = (one for one in obstacles(host, plan["hosts"][host], state) if one.rule == "service-restarts")
        moved |= {one.service: one.sentence() for one in found}
    return "\n".join([*lines, *([moved[name] for name in sorted(moved)] or ["no service restarts"])])


def _short(commit: str) -> str:
    return one_line(commit)[:_SHORT]


def _numbers(release: str) -> tuple[int, ...]:
    """Of ``0.2.0-dev``; empty for what is no release."""
    found = re.match(r"\d+(\.\d+)*", release)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
