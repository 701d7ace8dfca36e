# SPDX-License-Identifier: GPL-3.0-or-later
"""Is the service what the plan promised? The judgement over readings of `service_info`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from ..._base import worded
from ..._base.findings import Finding
from ..._base.place import Place
from ..._base.received import Foreign, one_line
from ..._engines.engine import Engine
from ..._on_host.rank.causes import explained
from .service import changed_by, silence

# Ports and memory come back within seconds of an end. An obstacle that this run has mended is looked at again within a
# minute, the supervisor's longest pause.
_OBSTACLE_S, _AGAIN_S = 90.0, 75.0


@dataclass(frozen=True)
class Verdict:
    """ready: it answered. failed: it won't, with the reason. waiting: with what to show meanwhile."""

    state: Literal["ready", "failed", "waiting"]
    text: str


def verdict(unit: str, reading: Mapping[str, Any], restarts_before: int, waited_s: float = _AGAIN_S) -> Verdict:
    """What one reading says, `restarts_before` being the unit's restart count when the waiting began, `waited_s` ago.

    A start that dies is tried again by the supervisor, and shown meanwhile; it says when it gives up. A supervisor that
    dies itself won't get better.
    """
    state, reply = reading["unit"], reading["reply"]
    supervisor = reading["supervisor"] or {}
    silent = silence(supervisor)
    if reply is not None and reply["ok"] and supervisor.get("state") == "serving" and not silent:
        return _answered(unit, reading)
    if state["active"] == "failed" or state["restarts"] > restarts_before:
        cause = supervisor.get("error") or explained(reading["log_tail"])
        why = f"{cause}{changed_by(state, unit)}"
        return Verdict("failed", f"{unit} does not stay up: {why}; the whole log: journalctl -u {unit} -n 200")
    if state["active"] == "inactive":
        return Verdict("failed", f"{unit} is not running; start it with: systemctl start {unit}")
    if waited_s >= _AGAIN_S and _is_obstructed(supervisor):
        return Verdict("failed", f"{unit}: {supervisor['error']}; it starts by itself once that is gone")
    if reply is not None and not reply["ok"]:
        return Verdict("waiting", f"healthy, but no answer yet: {reply['error']}")
    return Verdict("waiting", silent or _meanwhile(supervisor, reading["log_tail"]))


def _answered(unit: str, reading: Mapping[str, Any]) -> Verdict:
    if not reading.get("unanswered"):
        return Verdict("ready", reading["reply"]["answer"])
    why = f"{unit} answers a short question, and fails at {reading['unanswered']}"
    return Verdict("failed", f"{why}; journalctl -u {unit} -n 200 says more, docs/reference/models.md what is known")


def _is_obstructed(supervisor: Mapping[str, Any]) -> bool:
    """What is in the way of a start has been there for so long that a person should look."""
    if not supervisor.get("error") or supervisor["state"] != "preparing":
        return False
    if not {"since", "updated_at"} <= supervisor.keys():
        return False
    seen, since = (datetime.fromisoformat(supervisor[name]) for name in ("updated_at", "since"))
    return (seen - since).total_seconds() > _OBSTACLE_S


def _meanwhile(supervisor: Mapping[str, Foreign], lines: Sequence[Foreign]) -> str:
    """The phase, and what happens in it: the engine's last line is only that, whatever it looks like."""
    phase = supervisor.get("state", "starting")
    if supervisor.get("error"):
        return f"{one_line(phase)}: {one_line(supervisor['error'], 4096)}"
    since = f" again, since {one_line(supervisor['last_end'])}" if supervisor.get("last_end") else ""
    last = f"the engine's last line: {one_line(lines[-1]).strip()}" if lines else "no output of the engine yet"
    return f"{one_line(phase)}{since}; {last}"


def promised(engine: Engine, service: str, expected: Mapping[str, Any], boot: Mapping[str, Any]) -> list[Finding]:
    """Plan against boot log.

    expected: {release: the engine's, kv_tokens: of the KV pool, kv_tokens_low, kv_tokens_high: its bounds}, each None
    where the plan doesn't know it. boot: `_engines.memory.boots.BootLog`.
    """
    findings, title = [], engine.spec.title
    promised_release, release = expected["release"], boot.get("release")
    if promised_release and release and not engine.same_release(promised_release, release):
        at = Place(service=service, option="image.release")
        findings.append(
            worded.host_warning("verify-release", at, title=title, release=release, promised_release=promised_release)
        )
    low, high, have = expected["kv_tokens_low"], expected["kv_tokens_high"], boot.get("kv_cache_tokens")
    if low is not None and high is not None and have is not None and not low <= have <= high:
        findings.append(
            worded.host_warning(
                "verify-kv-pool", Place(service=service), expected=_planned(expected, have), title=title, have=have
            )
        )
    return findings


def comparison(expected: Mapping[str, object], boot: Mapping[str, Any]) -> str:
    """How plan and boot log compare, in a few words; empty where one of them says nothing."""
    have = boot.get("kv_cache_tokens")
    if have is None or expected["kv_tokens"] is None:
        return ""
    return f"KV pool {have:,} tokens, {_planned(expected, have)}"


def _planned(expected: Mapping[str, Any], have: int) -> str:
    want, low, high = (expected[name] for name in ("kv_tokens", "kv_tokens_low", "kv_tokens_high"))
    if have == want:
        return "as planned"
    bounds = "" if low == high or low is None or high is None else f", {low:,} to {high:,} before the first boot"
    difference = f" ({(have - want) / want:+.2%})" if want else ""
    return f"{want:,} planned{difference}{bounds}"


def computed_by_others(engine: Engine, service: str, ranks: int, fingerprint: str) -> Finding | None:
    """An answer of fewer or more ranks than the service has, as far as the engine can tell."""
    if engine.ranks_of(fingerprint) in (None, ranks):
        return None
    return worded.host_error("verify-ranks", Place(service=service), fingerprint=fingerprint, ranks=ranks)
