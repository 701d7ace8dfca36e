# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel settings, swap, read-ahead and the limit on locked memory: in files that hold over a boot, and as they are."""

from collections.abc import Iterator
from typing import Any, cast

from ..._base import layout, worded
from ..._base.declared_host import HostData
from ..._base.findings import Finding
from ..._base.forms import forms
from ..._base.gb10 import fact
from ..._base.place import Place
from ..._base.received import one_line, to_read
from ..._base.slice import Files, TuningSlice
from ..._base.subject import Differences, DriftContext, PreflightContext, Questions, Subject, with_defaults
from ..._host.settings.kernel_settings import OFF, contradictions, swap_stays, sysctl_path

# Sorts behind 99-sysctl.conf, the link to /etc/sysctl.conf: the file that is read last wins at boot.
SYSCTL = "/etc/sysctl.d/99-zz-gb10-fleet.conf"
READ_AHEAD = "/etc/udev/rules.d/90-gb10-fleet-read-ahead.rules"
LIMITS = "/etc/security/limits.d/90-gb10-fleet.conf"
SYSTEMD = "/etc/systemd/system.conf.d/90-gb10-fleet.conf"
DEFAULT_TARGET = "/etc/systemd/system/default.target"
SWAP_TARGET = "/etc/systemd/system/swap.target"
# A unit that leads there can't be started (systemd.unit(5)).
MASKED = "/dev/null"


def tuning_files(plan: TuningSlice) -> Files:
    """``{path: {mode, content}}`` for a host_tuning slice; content null where no file of ours is to be."""
    sysctl, read_ahead, memlock = plan.get("sysctl"), plan.get("read_ahead_kb"), plan.get("memlock")
    texts = {
        SYSCTL: "".join(f"{key} = {value}\n" for key, value in sorted(sysctl.items())) if sysctl else None,
        READ_AHEAD: _read_ahead(read_ahead) if read_ahead is not None else None,
        LIMITS: _limits(memlock) if memlock is not None else None,
        SYSTEMD: f"[Manager]\nDefaultLimitMEMLOCK={systemd_limit(memlock)}\n" if memlock is not None else None,
    }
    return {
        path: {"mode": "0644", "content": None if text is None else f"{layout.MARK}\n{text}"}
        for path, text in texts.items()
    }


def tuning_links(plan: TuningSlice) -> dict[str, str | None]:
    """``{path: target}`` for a host_tuning slice: what systemd takes at the next boot; null where no link is to be."""
    links: dict[str, str | None] = {}
    if "default_target" in plan:
        links[DEFAULT_TARGET] = f"/usr/lib/systemd/system/{plan['default_target']}"
    if "swap" in plan:
        links[SWAP_TARGET] = None if plan["swap"] else MASKED
    return links


def systemd_limit(memlock: str) -> str:
    """A limit of KiB or ``unlimited`` as systemd.exec(5) writes it."""
    return "infinity" if memlock == "unlimited" else f"{memlock}K"


def _read_ahead(kib: int) -> str:
    disks = 'ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="nvme[0-9]*n[0-9]*", ENV{DEVTYPE}=="disk"'
    return f'{disks}, ATTR{{queue/read_ahead_kb}}="{kib}"\n'


def _limits(memlock: str) -> str:
    """The wildcard does not cover root."""
    return f"* - memlock {memlock}\nroot - memlock {memlock}\n"


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
        if _kib(to_read(later["value"])) != _kib(expected):
            found = f"{_MEMLOCK}={one_line(later['value'])}"
            at = f"{one_line(later['file'])}, line {later['line']}"
            yield view.differs("warning", "memlock-later", at, found=found, its_expected=expected)
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
    if "memlock" in tuning and _kib(to_read(kernel["memlock"])) != _kib(systemd_limit(tuning["memlock"])):
        expected = f"{_MEMLOCK}={systemd_limit(tuning['memlock'])}"
        place = "systemd's limit on locked memory"
        yield view.differs("warning", "memlock-live", place, found=kernel["memlock"], expected=expected)


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
