# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel settings, swap, read-ahead and the limit on locked memory: in files that hold over a boot, and as they are."""

from collections.abc import Iterator
from typing import Any, cast

from ..._base import worded
from ..._base.declared_host import HostData
from ..._base.findings import Finding
from ..._base.forms import forms
from ..._base.gb10 import fact
from ..._base.place import Place
from ..._base.slice import TuningSlice
from ..._base.subject import Differences, DriftContext, PreflightContext, Questions, Subject, with_defaults
from ..._host.settings.kernel_settings import OFF, contradictions, swap_stays, sysctl_path
from .files import DEFAULT_TARGET, SYSTEMD, systemd_limit, tuning_files, tuning_links

_MEMLOCK = "DefaultLimitMEMLOCK"

SPEC = forms(
    "host_tuning", sysctl={"known": fact("known_names", "sysctl")}, target={"known": fact("known_names", "target")}
)["host_tuning"]


def host_tuning(settings: HostData) -> TuningSlice:
    """``host_tuning_plan``: what holds for GB10, with this host's own values; single kernel settings too.

    files: ``{path: {mode, content}}``, links: ``{path: target}``; null where nothing of ours is to be.
    """
    own = settings.get("host_tuning", {})
    sysctl = {**fact("host_tuning", "sysctl"), **own.get("sysctl", {})}
    plan = cast(TuningSlice, with_defaults("host_tuning", own))
    plan["sysctl"] = {key: value for key, value in sorted(sysctl.items()) if value is not None}
    return {**plan, "files": tuning_files(plan), "links": tuning_links(plan)}


def impossible(tuning: TuningSlice) -> list[Finding]:
    """What of a slice no kernel can be set to."""
    return contradictions(tuning["sysctl"], Place(variable="fleet_host", option="host_tuning.sysctl"))


def named_paths(tuning: TuningSlice) -> Iterator[tuple[str, str]]:
    """(what is declared, the path by which a host knows it), of names that the plan can't judge."""
    for key in tuning.get("sysctl", {}):
        yield f"sysctl.{key}", str(sysctl_path(key))
    if target := tuning_links(tuning).get(DEFAULT_TARGET):
        yield "default_target", target


def _questions(asked: Questions) -> dict[str, Any]:
    declared = "memlock" in asked.slice["host_tuning"]
    return {"memlock_files": {_MEMLOCK: SYSTEMD} if declared else {}}


def _differences(view: DriftContext) -> Differences:
    """Swap, read-ahead and the limit on locked memory, as they are now; and who will set that limit after us."""
    kernel, tuning = view.state["kernel"], view.slice["host_tuning"]
    for later in view.state["memlock_later"] or ():
        expected = systemd_limit(tuning["memlock"])
        if _kib(later["value"]) != _kib(expected):
            yield view.difference(
                "warning",
                "memlock-later",
                f"{later['file']}, line {later['line']}",
                found=f"{_MEMLOCK}={later['value']}",
                expected=f"{expected}, as declared: systemd reads this file after ours, and it wins",
                remedy="take the line out, or declare its value for this host: fleet_host.host_tuning.memlock",
            )
    if kernel is None:
        return
    if "swap" in tuning and tuning["swap"] != (kernel["swap"] != OFF):
        expected = "on" if tuning["swap"] else "off"
        yield view.difference("warning", "swap-live", "swap", found=kernel["swap"], expected=expected)
    for disk, kib in sorted(kernel["read_ahead"].items()):
        if kib != tuning.get("read_ahead_kb", kib):
            expected = f"{tuning['read_ahead_kb']} KiB"
            yield view.difference(
                "warning", "read-ahead-live", f"read-ahead of {disk}", found=f"{kib} KiB", expected=expected
            )
    if "memlock" in tuning and _kib(kernel["memlock"]) != _kib(systemd_limit(tuning["memlock"])):
        yield view.difference(
            "warning",
            "memlock-live",
            "systemd's limit on locked memory",
            found=kernel["memlock"],
            expected=f"{_MEMLOCK}={systemd_limit(tuning['memlock'])}",
            remedy="systemctl daemon-reexec, then restart the services",
        )


def _kib(limit: str) -> str:
    """systemd shows bytes where KiB were written."""
    return f"{int(limit) // 1024}K" if limit.isdecimal() else limit


def _obstacles(look: PreflightContext) -> Iterator[Finding]:
    memory = look.part("memory_bytes")
    tuning, paths = look.slice["host_tuning"], look.part("paths")
    if memory and tuning.get("swap") is False:
        yield from swap_stays(memory.get("swapped", 0), memory["available"])
    for key, path in named_paths(tuning):
        if paths.get(path, {"exists": True})["exists"] is False:
            yield worded.host_error("tuning-unknown", Place(variable="fleet_host").below("host_tuning", key), path=path)


HOST_TUNING = Subject(
    "host_tuning",
    SPEC,
    lambda here: host_tuning(here.settings),
    questions=_questions,
    differences=_differences,
    obstacles=_obstacles,
)
