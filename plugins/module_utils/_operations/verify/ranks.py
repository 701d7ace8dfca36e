# SPDX-License-Identifier: GPL-3.0-or-later
"""How the ranks of services do: the reading of one host's, and the judgement over it."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._base import layout
from ..._base.findings import Finding, host_warning
from ..._base.place import Place
from ..._base.received import one_line
from ..._base.sizes import size
from ..._host.probe.parts import Run
from ..._host.probe.system import memory_bytes
from ..._subjects.services.reading import read_taken_back
from ..._subjects.services.taken_back import words
from .service import changed_by, document, silence, supervisor_status, unit_state
from .starts import read_kept

SERVING, _STOPPED, _FROZEN = "serving", "stopped", "frozen"
_PREPARING, _DRAINING = "preparing", "draining"
DOCKER = "docker.service"
_OUR_UNIT = re.compile(r"^\d+:[^:]*:(\S*/(gb10-[^/\s]+\.service))$", re.MULTILINE)
CONVERGED = "converged"  # as roles/pull/files/gb10_pull.py writes it


# Reading ----------------------------------------------------------------------------------------------------------


def read_ranks(run: Run, services: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rank of each of ``hosts.<host>.services`` with what its host says of it.

    unit: as systemd says. supervisor: what `supervisor_status` finds. definition: of the file that it goes by; wanted:
    the plan's. starts: the last ones that a head's host keeps. endpoint: how that file says a head is reached, None of
    the others. unproved: a rollout that was cut off keeps what it went by before. taken_back: what a rollout has of it.
    memory: the host's.
    docker: whether its unit is active.
    """
    docker = unit_state(run, DOCKER)["active"] == "active"
    memory = memory_bytes(Path("/proc/meminfo").read_text(encoding="ascii"))
    pull = _last_pull()
    return [
        {
            "service": service["name"],
            "rank": service["rank"],
            "ranks": service["ranks"],
            "memory_floor_bytes": service["memory_floor_bytes"],
            "unit": unit_state(run, service["unit"]),
            "supervisor": supervisor_status(service["status_file"]),
            **{key: (document(service["rank_file"]) or {}).get(key) for key in ("definition", "endpoint")},
            "unproved": Path(layout.way_back_index(service["name"])).exists(),
            "taken_back": read_taken_back(service["name"]),
            "wanted": service["definition"],
            "memory": memory,
            "starts": read_kept(service["proof"]["starts"]["path"]) if service.get("proof") else [],
            "docker": docker,
            "pull": pull,
        }
        for service in services
    ]


def _last_pull() -> dict[str, str] | None:
    """How the last try of a host that fetches its slice ended; None of any other host."""
    reported = document(layout.PULL_REPORT)
    if reported is None and Path(layout.PULL_ENABLED).exists():
        reported = {"outcome": "unknown", "why": f"no report in {layout.PULL_REPORT}", "at": "its last try"}
    return {key: str(reported.get(key)) for key in ("outcome", "why", "at")} if reported else None


# Judging ----------------------------------------------------------------------------------------------------------


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
        yield host_warning(
            "pull-not-converged",
            "pull",
            found=one_line(f"{pull['outcome']} at {pull['at']}: {pull['why']}"),
            expected="a slice that it took and converged to",
            remedy=f"journalctl -u {layout.PULL_UNIT} on that host has the times before",
        )


def frozen(processes: str = "/proc", groups: str = "/sys/fs/cgroup") -> Iterator[Finding]:
    """Units of ours that run and do nothing: a process of theirs is stopped by a signal, or systemd has frozen them."""
    held = set()
    for folder in Path(processes).glob("[0-9]*"):
        if unit := _OUR_UNIT.search(_text_of(folder / "cgroup")):
            events = _text_of(Path(f"{groups}{unit[1]}", "cgroup.events"))
            if "\nState:\tT" in _text_of(folder / "status") or "frozen 1" in events:
                held.add(unit[2])
    for name in sorted(held):
        found = "runs and does nothing: it was stopped by a signal, or frozen"
        remedy = f"systemctl kill --signal=KILL {name}; systemd starts it again"
        yield host_warning("unit-frozen", f"unit {name}", found=found, remedy=remedy)


def _text_of(file: Path) -> str:
    with contextlib.suppress(OSError):
        return file.read_text("utf-8", "replace")
    return ""


def _of_rank(rank: Mapping[str, Any]) -> Iterator[Finding]:
    name, supervisor, unit = rank["service"], rank["supervisor"] or {}, rank["unit"]
    place = Place(service=name, thing=f"{name}, rank {rank['rank']}")
    word, owner = health(rank), layout.unit(name)
    if word == "not there":
        yield host_warning(
            "rank-missing", place, found="is not on this host", expected="a rank, as declared", remedy="run site.yml"
        )
        return
    if word in ("failed", _STOPPED) and not rank["docker"]:
        remedy = "run site.yml, which installs and starts it"
        yield host_warning(
            "rank-docker",
            place,
            found=f"does not run, and neither does Docker ({DOCKER})",
            expected="a running Docker",
            remedy=remedy,
        )
    elif word == "failed":
        found = (supervisor.get("error") or f"its unit failed: {unit['result']}") + changed_by(unit, owner)
        remedy = f"journalctl -u {owner} says why; then: ansible-playbook gb10.fleet.restart -e service={name}"
        yield host_warning("rank-failed", place, found=found, remedy=remedy)
    elif word == _STOPPED:
        remedy = f"ansible-playbook gb10.fleet.restart -e service={name}"
        last = supervisor.get("last_end")
        found = f"does not run; its last end: {last}" if last else "does not run"
        yield host_warning("rank-stopped", place, found=found, expected="a running rank", remedy=remedy)
    elif word == _FROZEN:
        remedy = f"wait: systemd ends it after two minutes and restarts it; if not, systemctl restart {owner}"
        yield host_warning(
            "rank-frozen", place, found=silence(supervisor), expected="a word every ten seconds", remedy=remedy
        )
    elif word != SERVING:
        yield from _on_its_way(name, place, word, supervisor)
    elif rank["rank"] == 0 and (missing := _not_serving(rank, supervisor)):
        yield host_warning(
            "rank-apart",
            place,
            found=f"serves without {missing}",
            expected="all ranks",
            remedy="look at the rank that it names",
        )
    elif supervisor.get("sick") or supervisor.get("strikes"):
        sick, strikes = supervisor.get("sick"), supervisor.get("strikes", 0)
        found = f"{strikes} looks in a row found no progress, and gateways send nobody: {sick or 'no answer'}"
        remedy = "wait: at the limit the group restarts by itself"
        yield host_warning(
            "rank-strikes", place, found=found, expected="tokens, or an answer to a canary", remedy=remedy
        )
    if word == SERVING and supervisor.get("creep"):
        yield host_warning(
            "rank-creep",
            place,
            found=supervisor["creep"],
            expected="a service that keeps to its plan",
            remedy=f"ansible-playbook gb10.fleet.restart -e service={name}; on_creep: restart does so by itself",
        )
    yield from _other(rank, place)
    if rank["unproved"]:
        yield host_warning(
            "rank-unproved",
            place,
            found="a rollout was cut off before the new definition had proved itself; the earlier definition is kept",
            remedy=f"ansible-playbook gb10.fleet.rollout -e service={name}",
        )
    floor = rank["memory_floor_bytes"]
    if word == SERVING and rank["memory"]["available"] < floor:
        found = f"{size(rank['memory']['available'])} of memory are free"
        remedy = "lower max_model_len or max_num_seqs, or stop what else runs there (`ps aux --sort=-rss | head`)"
        yield host_warning("rank-memory", place, found=found, expected=f"at least {size(floor)}", remedy=remedy)


def _other(rank: Mapping[str, Any], place: Place) -> Iterator[Finding]:
    """A rank that goes by something else than the plan."""
    name, wanted = rank["service"], rank["wanted"]
    if rank["definition"] == wanted:
        return
    if (back := rank["taken_back"]) and back["definition"] == wanted:
        yield host_warning("rank-taken-back", place, **words(name, back))
    else:
        remedy = f"ansible-playbook gb10.fleet.rollout -e service={name}; or site.yml, which moves all at once"
        yield host_warning(
            "rank-other", place, found="goes by another declaration", expected="the plan's", remedy=remedy
        )


def _not_serving(rank: Mapping[str, Any], supervisor: Mapping[str, Any]) -> str:
    """The ranks that the head does not see serving, as words."""
    serving = {seen["rank"] for seen in supervisor["ranks_seen"] if seen["state"] == SERVING}
    return ", ".join(f"rank {number}" for number in range(1, rank["ranks"]) if number not in serving)


def _on_its_way(service: str, place: Place, word: str, supervisor: Mapping[str, object]) -> Iterator[Finding]:
    """Waiting for a rank needs a person, a load needs time; an earlier end is worth a word."""
    if word == _DRAINING:
        under_way = "answers" if supervisor.get("running") is None else f"{supervisor['running']} answers"
        until = supervisor.get("drains_until")
        yield host_warning(
            "rank-draining",
            place,
            found=f"is to stop, lets in nobody new, and {under_way} may go on",
            remedy=f"wait{f', until {until} at the longest' if until else ''}; to cut them off: "
            f"systemctl kill {layout.unit(service)}",
        )
    elif supervisor.get("error") and word == _PREPARING:
        yield host_warning(
            "rank-obstacle", place, found=supervisor["error"], remedy="it starts by itself once that is gone"
        )
    elif supervisor.get("error"):
        yield host_warning(
            "rank-waits",
            place,
            found=supervisor["error"],
            expected="all ranks",
            remedy="look at the rank that it names",
        )
    elif supervisor.get("last_end"):
        left = supervisor["starts_left"]
        remedy = "wait" if left is None else f"wait; {left} more starts are left before it stays down"
        yield host_warning("rank-restarts", place, found=f"{word} again, since {supervisor['last_end']}", remedy=remedy)
