# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides what to ask of systemd, so that a unit becomes what is wanted of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from ..._base.findings import Finding, error

State = Literal["started", "stopped", "restarted", "reloaded"]
# A unit at rest runs nothing, and systemd starts nothing of it by itself. In any other state something runs or is due.
_AT_REST = ("inactive", "failed")
_RUNS = ("active", "activating", "reloading", "refreshing")
# A unit that systemd can enable or disable. Others (static, generated, indirect) start by other means.
_ENABLED = ("enabled", "enabled-runtime")
_SWITCHED = (*_ENABLED, "disabled", "linked", "linked-runtime")


@dataclass(frozen=True)
class Unit:
    """The part of a unit's state that a change is about."""

    enabled: bool
    active: bool

    def as_dict(self) -> dict[str, bool]:
        return {"enabled": self.enabled, "active": self.active}


@dataclass(frozen=True)
class UnitChange:
    """before, after: None where there is no such unit. verbs: what systemctl is asked for, in this order."""

    before: Unit | None
    after: Unit | None
    verbs: tuple[str, ...] = ()

    def diff(self, name: str) -> dict[str, Any]:
        states = [unit.as_dict() if unit else {"state": "absent"} for unit in (self.before, self.after)]
        return {"before": states[0], "after": states[1], "before_header": name, "after_header": name}


def decide(found: Mapping[str, object], state: State | None, enabled: bool | None) -> UnitChange:
    """found: the unit, as `read_units` reads it. state, enabled: None leaves it.

    A unit that is not there is at rest and not enabled. A change that it has to be there for has its verbs all the
    same: `refusal` judges whether the unit may still come.
    """
    there, runs = found["load"] != "not-found", found["active"] in _RUNS
    before = Unit(enabled=found["enabled"] in _ENABLED, active=runs)
    after, verbs = before, []
    may_switch = found["enabled"] in _SWITCHED or not there
    if enabled is not None and enabled != before.enabled and may_switch:
        after = replace(after, enabled=enabled)
        verbs.append("enable" if enabled else "disable")
    if state == "stopped" and found["active"] not in _AT_REST:
        after = replace(after, active=False)
        verbs.append("stop")
    elif state in ("restarted", "reloaded") and (runs or state == "restarted"):
        after = replace(after, active=True)
        verbs.append(state.removesuffix("ed"))
    elif state in ("started", "reloaded") and not runs:
        after = replace(after, active=True)
        verbs.append("start")
    if there or before != Unit(enabled=False, active=False):
        return UnitChange(before, after, tuple(verbs))
    return UnitChange(None, after if verbs else None, tuple(verbs))


def refusal(name: str, found: Mapping[str, object], change: UnitChange, may_come: bool) -> Finding | None:
    """Why systemd can't do that. may_come: in check mode an earlier task of the run would have written the unit."""
    if found["load"] == "masked" and {*change.verbs} & {"enable", "start", "restart"}:
        return error(
            "unit-masked",
            name,
            found="it is masked",
            expected="a unit that systemd may start",
            remedy=f"somebody masked it to keep it off; `systemctl unmask {name}` lets it start again",
        )
    if change.before is None and change.verbs and not may_come:
        return error(
            "unit-absent",
            name,
            found="there is no such unit on the host",
            expected="the unit's file, which a package or an earlier task brings",
            remedy=f"`systemctl cat {name}` and `systemctl list-unit-files` show which units there are",
        )
    return None
