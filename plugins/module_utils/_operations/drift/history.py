# SPDX-License-Identifier: GPL-3.0-or-later
"""What earlier checks of the fleet have shown: since when something differs, how the nights were, what was read.

A plain map, kept by the controller beside the reports::

    since   {id of a difference: time when it was first seen}
    nights  [{at, verdict, hosts: {host: {verdict, error, warning, hint, ills}}}], the newest last
    read    {host: {file of weights: the day (since 1970) when all its bytes were last right}}
"""

import json
from collections.abc import Mapping
from typing import Any, cast

from ..._base.gb10 import data_table
from .compare import Reading, Result
from .document import History, Night, Tally

NIGHTS = 60
# Rules about the machine itself: its alert names them.
_ILLS = frozenset[str](data_table("ills"))
EMPTY: History = {"since": {}, "nights": [], "read": {}, "last_success": 0}


def parse(content: bytes) -> History:
    """The history as it was written, also by an older release; ValueError for anything else."""
    known = json.loads(content)
    if not isinstance(known, dict):
        raise ValueError("it holds no JSON map")
    found: dict[str, Any] = {**EMPTY, **known}
    if not (_all(found["since"], str) and isinstance(found["nights"], list) and _all(found["read"], dict)):
        raise ValueError("it holds other things than a drift check writes")
    if not all(isinstance(night, dict) and {"at", "verdict", "hosts"} <= {*night} for night in found["nights"]):
        raise ValueError("it holds nights that no drift check writes")
    if not (all(_all(days, int) for days in found["read"].values()) and isinstance(found["last_success"], int)):
        raise ValueError("it holds days that are no numbers")
    return cast(History, found)


def _all(entries: object, kind: type) -> bool:
    return isinstance(entries, dict) and all(isinstance(value, kind) for value in entries.values())


def remember(
    history: History, result: Result, readings: Mapping[str, Reading], now: str, day: int
) -> tuple[History, list[str]]:
    """The history with this check in it, and the ids of the differences that are new.

    now: as it is shown, ``2026-11-21T03:00:00Z``. What was seen on a host that can't be read now is not gone.
    """
    silent = {host for host in result.hosts if readings[host].state is None}
    kept = {name: at for name, at in history["since"].items() if name.partition(":")[0] in silent}
    present = [difference.id for difference in result.differences]
    since = kept | {name: history["since"].get(name, now) for name in present}
    night: Night = {"at": now, "verdict": result.verdict, "hosts": {host: tally(result, host) for host in result.hosts}}
    return {
        "since": dict(sorted(since.items())),
        "nights": [*history["nights"], night][-NIGHTS:],
        "last_success": history["last_success"],
        "read": {**history["read"], **{host: _read(history, host, readings[host], day) for host in result.hosts}},
    }, [name for name in present if name not in history["since"]]


def tally(result: Result, host: str) -> Tally:
    """A host's verdict, how many differences it has of each severity, and what its machine is ill of."""
    found = [difference for difference in result.differences if difference.host == host]
    mine = [difference.severity for difference in found]
    return {
        "verdict": result.verdict_of(host),
        "error": mine.count("error"),
        "warning": mine.count("warning"),
        "hint": mine.count("hint"),
        "ills": sorted({difference.rule for difference in found if difference.rule in _ILLS}),
    }


def _read(history: History, host: str, reading: Reading, day: int) -> dict[str, int]:
    before: Mapping[str, int] = history["read"].get(host, {})
    deep = reading.state["deep"] if reading.state else None
    return dict(before) | dict.fromkeys(deep["good"] if deep else (), day)
