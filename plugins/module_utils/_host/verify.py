# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Is the service what the plan promised? The judgement over readings of `service_state`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding

_TELLING = ("Error", "error:", "gb10.fleet:", "Traceback", "unrecognized arguments")


@dataclass(frozen=True)
class Verdict:
    """ready: it answered. failed: it won't, with the reason. waiting: with what to show meanwhile."""

    state: Literal["ready", "failed", "waiting"]
    text: str


def verdict(unit: str, reading: Mapping[str, Any], restarts_before: int) -> Verdict:
    """What one reading says, `restarts_before` being the unit's restart count when the waiting began.

    A start that dies is a failure at once: the unit's own budget may try again, but flags don't get better by that.
    """
    state, reply = reading["unit"], reading["reply"]
    if reply is not None and reply["ok"]:
        return Verdict("ready", reply["answer"])
    if state["active"] == "failed" or state["restarts"] > restarts_before:
        cause = last_words(reading["log_tail"]) or f"unit result: {state['result']}"
        return Verdict("failed", f"{unit} does not stay up: {cause}; the whole log: journalctl -u {unit} -n 200")
    if state["active"] == "inactive":
        return Verdict("failed", f"{unit} is not running; start it with: systemctl start {unit}")
    if reply is not None:
        return Verdict("waiting", f"healthy, but no answer yet: {reply['error']}")
    lines = reading["log_tail"]
    return Verdict("waiting", lines[-1].strip() if lines else "no output yet")


def last_words(lines: Sequence[str]) -> str:
    """The line that most likely says why a start died: the last one that names an error."""
    telling = [line.strip() for line in lines if any(mark in line for mark in _TELLING)]
    return telling[-1] if telling else ""


def promised(service: str, expected: Mapping[str, Any], boot: Mapping[str, Any]) -> list[Finding]:
    """Plan against boot log. expected: {kv_tokens: tokens of the KV pool or None, source}; boot: parsed boot log."""
    want, have = expected["kv_tokens"], boot.get("kv_cache_tokens")
    if want is None or have is None or want == have:
        return []
    return [
        Finding(
            rule="verify-kv-pool",
            kind="host",
            severity="warning",
            place=f"fleet_services.{service}",
            found=f"vLLM's KV pool holds {have:,} tokens",
            expected=f"{want:,} tokens as planned ({(have - want) / want:+.2%})",
            reason="the plan is exact for a known vLLM release; a difference means another build or other flags",
            remedy="compare the image's vLLM release with the recipe's `image.vllm`, and report the boot log",
            source="the service's journal at this start",
        )
    ]
