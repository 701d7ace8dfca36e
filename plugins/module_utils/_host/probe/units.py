# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the state of systemd's units."""

import time
from collections.abc import Iterable
from typing import Any

from .parts import Run, output

_UNIT_FIELDS = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "UnitFileState",
    "NRestarts",
    "NeedDaemonReload",
    "DropInPaths",
    "ActiveEnterTimestampMonotonic",
)


def read_units(run: Run, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """``{load, active, sub, enabled, restarts, stale, drop_ins, active_s}`` by name.

    stale: systemd has not read its file since it changed. active_s: for how long it has been active.
    """
    wanted = sorted(names)
    if not wanted:
        return {}
    out = output(run, ["systemctl", "show", *wanted, f"--property={','.join(_UNIT_FIELDS)}"])
    blocks = [dict(line.partition("=")[::2] for line in block.splitlines()) for block in out.strip().split("\n\n")]
    # systemd names an alias by what it leads to; the order is that of the question
    return {name: _unit(block) for name, block in zip(wanted, blocks, strict=True)}


def _unit(fields: dict[str, str]) -> dict[str, Any]:
    entered = int(fields.get("ActiveEnterTimestampMonotonic") or 0) / 1e6
    return {
        "load": fields["LoadState"],
        "active": fields["ActiveState"],
        "sub": fields["SubState"],
        "enabled": fields["UnitFileState"],
        "restarts": int(fields.get("NRestarts") or 0),
        "stale": fields["NeedDaemonReload"] == "yes",
        "drop_ins": fields.get("DropInPaths", "").split(),
        "active_s": round(time.clock_gettime(time.CLOCK_MONOTONIC) - entered) if entered else None,
    }
