# SPDX-License-Identifier: GPL-3.0-or-later
"""How the ranks of services do: the judgement over what `service.read_ranks` has read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._base import layout, worded
from ..._base.findings import Finding, host_warning
from ..._base.place import Place
from ..._base.received import one_line
from ..._base.sizes import size
from ..._subjects.services.taken_back import counts, words
from .service import DOCKER, changed_by, silence

SERVING, _STOPPED, _FROZEN = "serving", "stopped", "frozen"
_PREPARING, _DRAINING = "preparing", "draining"
CONVERGED = "converged"  # as roles/pull/files/gb10_pull.py writes it


def health(rank: Mapping[str, Any]) -> str:
    """One word for the table: what the supervisor says, where it runs; else what systemd says."""
    if rank["definition"] is None:
        return "not there"
    # a unit that drains is deactivating to systemd
    if rank["unit"]["active"] not in ("active", "deactivating"):
        return "failed" if rank["unit"]["active"] == "failed" else _STOPPED
    if not rank["supervisor"]:
        return "starting"
    return _FROZEN if silence(rank["supervisor"]) else str(rank["supervisor"]["state"])


def problems(rank: Mapping[str, Any]) -> Iterator[Finding]:
    """What an owner should know or do, worst first."""
    yield from _of_rank(rank)
    pull = rank["pull"]
    if pull and pull["outcome"] != CONVERGED:
        found = one_line(f"{pull['outcome']} at {pull['at']}: {pull['why']}")
        yield worded.host_warning("pull-not-converged", "pull", found=found, unit=layout.PULL_UNIT)


def frozen(units: Sequence[str]) -> Iterator[Finding]:
    """Units that run and do nothing."""
    for unit in units:
        yield worded.host_warning("unit-frozen", f"unit {unit}", unit=unit)


def _of_rank(rank: Mapping[str, Any]) -> Iterator[Finding]:
    name, supervisor, unit = rank["service"], rank["supervisor"] or {}, rank["unit"]
    place = Place(service=name, thing=f"{name}, rank {rank['rank']}")
    word, owner = health(rank), layout.unit(name)
    if word == "not there":
        yield worded.host_warning("rank-missing", place)
        return
    if word in ("failed", _STOPPED) and not rank["docker"]:
        yield worded.host_warning("rank-docker", place, docker=DOCKER)
    elif word == "failed":
        why = supervisor.get("error") or f"its unit failed: {unit['result']}"
        yield worded.host_warning("rank-failed", place, service=name, unit=owner, found=why + changed_by(unit, owner))
    elif word == _STOPPED:
        last = supervisor.get("last_end")
        yield worded.host_warning(
            "rank-stopped", place, service=name, found=f"does not run; its last end: {last}" if last else "does not run"
        )
    elif word == _FROZEN:
        yield worded.host_warning("rank-frozen", place, unit=owner, found=silence(supervisor))
    elif word != SERVING:
        yield from _on_its_way(owner, place, word, supervisor)
    elif rank["rank"] == 0 and (missing := _not_serving(rank, supervisor)):
        yield worded.host_warning("rank-apart", place, missing=missing)
    elif supervisor.get("sick") or supervisor.get("strikes"):
        why = supervisor.get("sick") or "no answer"
        yield worded.host_warning("rank-strikes", place, strikes=supervisor.get("strikes", 0), why=why)
    if word == SERVING and supervisor.get("creep"):
        yield worded.host_warning("rank-creep", place, service=name, found=supervisor["creep"])
    if rank["definition"] != rank["wanted"]:
        yield _other(rank, place)
    if rank["unproved"]:
        yield worded.host_warning("rank-unproved", place, service=name)
    free, floor = rank["memory"]["available"], rank["memory_floor_bytes"]
    if word == SERVING and free < floor:
        yield worded.host_warning("rank-memory", place, free=size(free), floor=size(floor))


def _other(rank: Mapping[str, Any], place: Place) -> Finding:
    """A rank that goes by something else than the plan."""
    if (back := rank["taken_back"]) and counts(back, rank["wanted"], rank["start"]):
        return host_warning("rank-taken-back", place, **words(rank["service"], back))
    return worded.host_warning("rank-other", place, service=rank["service"])


def _not_serving(rank: Mapping[str, Any], supervisor: Mapping[str, Any]) -> str:
    """The ranks that the head does not see serving, as words."""
    serving = {seen["rank"] for seen in supervisor["ranks_seen"] if seen["state"] == SERVING}
    return ", ".join(f"rank {number}" for number in range(1, rank["ranks"]) if number not in serving)


def _on_its_way(unit: str, place: Place, word: str, supervisor: Mapping[str, object]) -> Iterator[Finding]:
    """Waiting for a rank needs a person, a load needs time; an earlier end is worth a word."""
    if word == _DRAINING:
        under_way = "answers" if supervisor.get("running") is None else f"{supervisor['running']} answers"
        until = supervisor.get("drains_until")
        longest = f", until {until} at the longest" if until else ""
        yield worded.host_warning("rank-draining", place, unit=unit, under_way=under_way, longest=longest)
    elif supervisor.get("error") and word == _PREPARING:
        yield worded.host_warning("rank-obstacle", place, found=supervisor["error"])
    elif supervisor.get("error"):
        yield worded.host_warning("rank-waits", place, found=supervisor["error"])
    elif supervisor.get("last_end"):
        left = supervisor["starts_left"]
        starts = "" if left is None else f"; {left} more starts are left before it stays down"
        yield worded.host_warning("rank-restarts", place, word=word, last=supervisor["last_end"], starts=starts)
