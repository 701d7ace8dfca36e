# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person reads before an update: what changes on each host, in which order, and what that takes away."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..._base.gb10 import data_table
from .order import Next, UpdateStep
from .result import Result

_NEXT: Mapping[str, str] = data_table("update_goes_on")
_MOST = 8


def changes(found: Mapping[str, Any], now: tuple[str | None, str | None], after: Result, firmware: bool) -> str:
    """What an update does on one host, in one line. now: its kernel and driver."""
    parts = []
    for what, have, will in zip(("kernel", "driver"), now, (after.kernel, after.driver), strict=True):
        if have != will:
            parts.append(f"{what} {have or 'none'} to {will}")
    count = {action: sum(step["action"] == action for step in found["steps"]) for action in ("upgrade", "install")}
    if any(count.values()):
        parts.append(f"{count['upgrade']} packages move, {count['install']} come ({_some(found['steps'])})")
    if firmware and found["firmware"]:
        parts.append("firmware of " + ", ".join(device["device"] for device in found["firmware"]))
    if found["kept_back"]:
        parts.append(f"held or kept back: {', '.join(found['kept_back'][:_MOST])}")
    return "; ".join(parts) or "nothing changes but that it restarts"


def _some(steps: Sequence[Mapping[str, str]]) -> str:
    words = [f"{step['package']} {step['version']}" for step in steps[:_MOST]]
    return ", ".join(words) + (f" and {len(steps) - _MOST} more" if len(steps) > _MOST else "")


def page(lines: Mapping[str, str], wanted: Mapping[str, Next], order: Iterable[UpdateStep], idle: Sequence[str]) -> str:
    """lines: `changes` by host. idle: hosts with nothing to do."""
    shown = [f"{host}: nothing to do" for host in idle]
    steps = [*order]
    for number, step in enumerate(steps, 1):
        shown.append(f"{number}. {_hosts(step)}: {_meanwhile(step)}")
        for turn in step.turns:
            shown += [f"   {host}: {lines[host]}" + _cut(wanted[host]) for host in turn]
    if not steps:
        return "\n".join([*shown, "nothing is updated"])
    words = (
        "each has to boot, to be without a new fault and to serve as before, before the next is touched; else what can "
    )
    return "\n".join([*shown, words + "be put back is, and the run ends"])


def stopped(step: Mapping[str, object], failed: Mapping[str, str], gone: Sequence[str]) -> str:
    """Why a run ends with a step, a line for each host; empty where all of its hosts have proved themselves.

    step: a `UpdateStep` as data. failed: reasons by host. gone: hosts that are no longer in the run.
    """
    reasons = dict.fromkeys(gone, "it can't be reached, or could not be put back") | dict(failed)
    if not reasons:
        return ""
    each = "itself" if len(reasons) == 1 else "themselves"
    again = ", and its services serve again" if step["services"] else ""
    back = "" if gone else f", what can be put back was{again}"
    first = f"{', '.join(reasons)} did not prove {each}{back}; the hosts after it were not touched:"
    return "\n".join([first, *(f"{host}: {reason}" for host, reason in reasons.items())])


def _cut(what: Next) -> str:
    return f" ({_NEXT[what]})" if _NEXT[what] else ""


def _hosts(step: UpdateStep) -> str:
    at_once = any(len(turn) > 1 for turn in step.turns)
    one_by_one = " at once" if at_once else " one after the other" if len(step.turns) > 1 else ""
    return ", ".join(host for turn in step.turns for host in turn) + one_by_one


def _meanwhile(step: UpdateStep) -> str:
    parts = []
    others = [name for name in step.services if name not in step.alone]
    if others:
        parts.append(
            f"{', '.join(others)} {'stops' if len(others) == 1 else 'stop'} meanwhile, which takes nobody away"
        )
    if step.alone:
        long = "as long as it takes, which was never measured here" if step.nobody_s is None else _about(step.nobody_s)
        held = "requests wait at the gateway" if step.holds else "requests are refused"
        parts.append(f"nobody serves {', '.join(step.alone)} for {long}, and {held}")
    if step.gateways:
        parts.append(f"the gateway of {', '.join(step.gateways)} is away while it restarts")
    return "; ".join(parts) or "it serves nothing"


def _about(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 120 else f"about {seconds:.0f} s"
