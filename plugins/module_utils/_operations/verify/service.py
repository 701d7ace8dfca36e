# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading services on their host: units, boot logs, ranks, and one real request through an endpoint of its own."""

import contextlib
import json
import os
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..._base import layout
from ..._host.probe.parts import Run
from ..._host.probe.system import memory_bytes
from ..._on_host.rank.client import Reply, fetch, trusting
from ..._on_host.rank.endpoint import judged
from ..._on_host.rank.listener import stranger
from ..._subjects.services.reading import read_taken_back
from ..._subjects.tls.clients_view import refused_at
from .starts import read_kept, read_starts

_UNIT_FIELDS = (
    *("ActiveState", "SubState", "Result", "NRestarts", "InvocationID", "ExecMainStartTimestamp"),
    "DropInPaths",
)
DOCKER = "docker.service"
_OUR_UNIT = re.compile(r"^\d+:[^:]*:(\S*/(gb10-[^/\s]+\.service))$", re.MULTILINE)
_REQUEST_S = 120
_SILENT_S = 60.0


def unit_state(run: Run, unit: str) -> dict[str, Any]:
    """`systemctl show` as data: active, sub, result, restarts, invocation, started (a day, empty without a start),
    drop_ins (files that change it)."""
    code, out, err = run(["systemctl", "show", unit, "--property", ",".join(_UNIT_FIELDS)])
    if code != 0:
        raise ValueError(err.strip() or f"systemctl show {unit} ended with {code}")
    fields = dict(line.partition("=")[::2] for line in out.splitlines())
    return {
        "active": fields["ActiveState"],
        "sub": fields["SubState"],
        "result": fields["Result"],
        "restarts": int(fields["NRestarts"] or 0),
        "invocation": fields["InvocationID"],
        "started": "".join(re.findall(r"\d{4}-\d{2}-\d{2}", fields.get("ExecMainStartTimestamp", ""))),
        "drop_ins": fields.get("DropInPaths", "").split(),
    }


def changed_by(state: Mapping[str, Any], unit: str) -> str:
    """The owner's drop-ins that may be why a unit fails, as the end of a sentence; empty without any."""
    files = ", ".join(state["drop_ins"])
    return f"; {files} changes the unit, which systemctl revert {unit} undoes" if files else ""


def boot_log(run: Run, unit: str, invocation: str) -> str:
    """The journal of the unit's current start; of the whole unit where systemd no longer knows the invocation."""
    this_start = [f"_SYSTEMD_INVOCATION_ID={invocation}"] if invocation else ["--unit", unit, "--lines", "200"]
    _code, out, _err = run(["journalctl", "--no-pager", "--output", "cat", *this_start])
    return out


def ask(
    url: str, request: Mapping[str, Any], key: str, tls: ssl.SSLContext | None = None, limit_s: float = _REQUEST_S
) -> dict[str, Any]:
    """One real request, `_engines.interface.Example` as a map: {ok, answer, fingerprint, error}, and the
    seconds that it took."""
    began = time.monotonic()
    reply = _replied(url, request, key, tls, limit_s)
    return {**answered(request["answers"], reply), "seconds": round(time.monotonic() - began, 3)}


def _replied(url: str, request: Mapping[str, Any], key: str, tls: ssl.SSLContext | None, limit_s: float) -> Reply:
    return fetch(url + request["path"], key, limit_s, request["body"], request["sound_s"], tls)


def answered(places: Sequence[Sequence[str | int]], reply: Reply) -> dict[str, Any]:
    """What came back, for a person: the text, or how many numbers."""
    found = [judged(place, reply) for place in places]
    answer = next((item for item in found if item.ok), found[0])
    if not answer.ok:
        return _unanswered(answer.error)
    text = f"{len(answer.computed)} numbers" if isinstance(answer.computed, list) else str(answer.computed)
    fingerprint = judged(["system_fingerprint"], reply).computed or ""
    return {"ok": True, "answer": text, "fingerprint": fingerprint, "error": ""}


def _unanswered(error: str) -> dict[str, Any]:
    return {"ok": False, "answer": "", "fingerprint": "", "error": error}


def _shown_otherwise(proof: Mapping[str, Any]) -> dict[str, Any] | None:
    """An answer that is none, where clients refuse what the endpoint shows them."""
    if not proof["certificate"]:
        return None
    at = urlsplit(proof["url"])
    problem = refused_at(str(at.hostname), at.port or 443, proof["certificate"], proof["ca"], proof["names"])
    return _unanswered(problem) if problem else None


def failed_question(proof: Mapping[str, Any], key: str, tls: ssl.SSLContext | None) -> str:
    """Which of the questions that break an engine got no answer, and what instead; empty where all did. One that has
    no room for another request now is no failure."""
    for question in proof["questions"]:
        body = question["request"]["body"]
        messages = [{**message, "content": message["content"] * question["times"]} for message in body["messages"]]
        request = {**question["request"], "body": {**body, "messages": messages}}
        reply = _replied(proof["url"], request, key, tls, question["limit_s"])
        found = answered(request["answers"], reply)
        if not found["ok"] and not reply.is_full:
            return f"{question['name']}: {found['error']}"
    return ""


def document(path: str) -> dict[str, Any] | None:
    """A file of the supervisor, which replaces its files as a whole; None where there is none that can be read."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def supervisor_status(path: str) -> dict[str, Any] | None:
    """What a supervisor reports of its rank, with `age_s`: seconds since it last did; None where nothing can be read.

    A clock that was set back makes it 0; a supervisor of an older release gives no time, and has no age.
    """
    status = document(path)
    if status is None or "state" not in status:
        return None
    try:
        age = (datetime.now(UTC) - datetime.fromisoformat(status["updated_at"])).total_seconds()
    except (KeyError, TypeError, ValueError):
        return {**status, "age_s": None}
    return {**status, "age_s": max(0.0, age)}


def silence(status: Mapping[str, Any]) -> str:
    """A sentence when a supervisor has stood still for long, else an empty string; it writes every ten seconds."""
    age = status.get("age_s")
    return "" if age is None or age <= _SILENT_S else f"its supervisor has reported nothing for {age:.0f} s"


def first_process(run: Run, container: str) -> int:
    """Its id on the host; 0 while the container does not run."""
    _code, out, _err = run(["docker", "inspect", "--format", "{{.State.Pid}}", container])
    return int(out) if out.strip().isdigit() else 0


def read_service(run: Run, service: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The whole reading: unit, what its supervisor says, health, the answer to one request when healthy (else None),
    the host's memory in bytes (MemTotal), the boot log's text. With a key it is asked only where nobody but the
    container can answer. service: of ``hosts.<host>.services``, with its ``proof``."""
    state, proof = unit_state(run, service["unit"]), service["proof"]
    url, tls = proof["url"], trusting(proof["certificate"])
    healthy = fetch(url + proof["health"], "", 10, tls=tls)
    reply = None
    if healthy.status == 200:
        problem = stranger(url, first_process(run, service["container"]["name"])) if key else None
        refused = _unanswered(f"{problem}, so that its key is not sent there") if problem else None
        reply = refused or _shown_otherwise(proof) or ask(url, proof["request"], key, tls)
    status = supervisor_status(service["status_file"])
    serves = reply is not None and reply["ok"] and (status or {}).get("state") == "serving"
    return {
        "unit": state,
        "unanswered": failed_question(proof, key, tls) if serves else "",
        "supervisor": status,
        "health": {"status": healthy.status, "text": healthy.text, "late": healthy.late},
        "reply": reply,
        "memory_total_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "log": boot_log(run, service["unit"], state["invocation"]),
        "starts": read_starts(run, service["unit"], service["rows"], proof["starts"]["path"]) if serves else [],
    }


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
            "start": service["start"],
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


def idle_units(processes: str = "/proc", groups: str = "/sys/fs/cgroup") -> list[str]:
    """Units of ours that run and do nothing: a process of theirs is stopped by a signal, or systemd has frozen them."""
    held = set()
    for folder in Path(processes).glob("[0-9]*"):
        if unit := _OUR_UNIT.search(_text_of(folder / "cgroup")):
            events = _text_of(Path(f"{groups}{unit[1]}", "cgroup.events"))
            if "\nState:\tT" in _text_of(folder / "status") or "frozen 1" in events:
                held.add(unit[2])
    return sorted(held)


def _text_of(file: Path) -> str:
    with contextlib.suppress(OSError):
        return file.read_text("utf-8", "replace")
    return ""
