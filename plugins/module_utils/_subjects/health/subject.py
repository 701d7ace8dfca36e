# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of a machine, judged before a change, by doctor and every night; and the clock that its GPU is kept to."""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping

from ..._base import layout, worded
from ..._base.declared_host import HostData
from ..._base.findings import Finding
from ..._base.forms import forms
from ..._base.gb10 import data_table, filled
from ..._base.slice import GpuSlice
from ..._base.subject import Differences, DriftContext, PreflightContext, Subject
from ..._host.probe.nvidia_smi import MISSING
from .reading import READS

# One start without a shutdown may be a plug that was pulled; two in a week are not.
_DAYS, _TIMES = 7, 2
# Bits of NVM Express' critical warning but for heat: spare, reliability, read-only, its cache's backup.
_DYING, _WORN = 0b11101, 90
# Packets that arrived broken, which no queue makes: a cable or a port.
_DAMAGED = (
    "symbol_error",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "link_error_recovery",
    "rx_icrc_encapsulated",
)
_MOST_DAMAGED, _HOT_ADAPTER, _HOT_ZONE = 100, 105, 95
_UNIT = re.compile(r"[\w@.-]+\.(?:service|timer)")
_ADVICE: Mapping[str, Mapping[str, str]] = data_table("kernel_lines")


def machine(look: PreflightContext) -> Iterator[Finding]:
    health = look.part("health")
    cut = [boot for boot in health.get("boots") or () if boot["cut_off"] and boot["days_ago"] <= _DAYS]
    for boot in cut:
        if why := boot["why"]:
            yield worded.host_warning("host-panics", "its starts", days=f"{boot['days_ago']:.1f}", why=why)
    if len(cut) >= _TIMES:
        yield worded.host_warning("host-restarts", "its starts", times=len(cut), days=_DAYS)
    for kind, lines in sorted(health.get("lines", {}).items()):
        advice = _ADVICE.get(kind)
        if advice and lines["today" if "most" in advice else "count"] > int(advice.get("most", 0)):
            yield worded.host_warning(
                "kernel-warns",
                f"the kernel, {kind}",
                count=lines["count"],
                today=lines["today"],
                last=lines["last"],
                expected=advice["expected"],
                remedy=advice["remedy"],
                source=advice["source"],
            )
    yield from _parts(look)


def _parts(look: PreflightContext) -> Iterator[Finding]:
    """What holds the machine together besides: disks, adapters, and who else watches its engines."""
    for name, drive in sorted(look.part("drives").items()):
        shown = f"{drive['used']} % of its life used, {drive['spare']} % spare (at least {drive['spare_least']} %)"
        if drive["warning"] & _DYING or drive["spare"] < drive["spare_least"]:
            yield worded.host_error("drive-worn/fails", f"disk {name}", found=shown, errors=drive["errors"])
        elif drive["used"] >= _WORN:
            yield worded.host_warning("drive-worn/used", f"disk {name}", found=shown)
        elif drive["errors"]:
            yield worded.host_warning("drive-worn/errors", f"disk {name}", errors=drive["errors"])
        elif drive["warning"]:
            yield worded.host_warning("drive-hot", f"disk {name}", heat=drive["heat_c"])
    for name, errors in sorted(look.part("sensors").get("errors", {}).items()):
        damaged = {counter: errors[counter] for counter in _DAMAGED if errors.get(counter, 0) > _MOST_DAMAGED}
        if damaged:
            words = ", ".join(f"{counter} {count}" for counter, count in damaged.items())
            yield worded.host_warning("fabric-damaged", f"adapter {name}", found=f"{words} since it started")
    for hot, heat in sorted(look.part("sensors").get("heat_c", {}).items()):
        if heat >= (_HOT_ADAPTER if hot.startswith("mlx5") else _HOT_ZONE):
            yield worded.host_warning("machine-hot", hot, heat=f"{heat:.0f}")
    for watchdog in look.part("watchdogs") or ():
        name = watchdog["unit"]
        stop = f"sudo systemctl disable --now {name}" if _UNIT.fullmatch(name) else "take it out of that file"
        yield worded.host_warning("watchdog-foreign", name, found=watchdog["line"], stop=stop)


# A busy GB10 in its low-power state stays below one of both. The others are too hot, and held back.
BUSY, LOW_MHZ, LOW_W, HOT_C, HELD_MHZ = 90, 1000, 25, 85, 1800
_BRAKE, _BY_HEAT = "HW Power Brake Slowdown", {"HW Thermal Slowdown", "SW Thermal Slowdown"}
_MISMATCH, _UNLOADED = "version mismatch", "couldn't communicate with the NVIDIA driver"
# What is written anew by itself lies below /run; the others somebody wrote.
_MADE_AT_BOOT = ("/run/", "/var/run/")


def gpu(look: PreflightContext) -> Iterator[Finding]:
    found, driver = look.part("gpu"), look.state.get("driver")
    if not found.get("present") or not found["module"]:
        return
    libraries = look.part("boot").get("driver")
    why = found.get("why", "")
    if _MISMATCH in why or (driver and libraries and driver != libraries):
        module = f"the running module is {driver}, and the libraries are {libraries}" if driver and libraries else ""
        words = "; ".join(text for text in (why, module) if text)
        yield worded.host_error("gpu-libraries", "the GPU", found=words)
    elif why == MISSING:
        yield worded.host_warning("gpu-silent/no-tool", "the GPU", found=why)
    elif why and found.get("closed"):
        yield worded.host_error("gpu-silent/closed", "the GPU", found=why)
    elif _UNLOADED in why:
        yield worded.host_error("gpu-silent/no-driver", "the GPU", found=why)
    elif why:
        yield worded.host_error("gpu-silent/no-answer", "the GPU", found=why)
    else:
        yield from _at_work(look, found.get("figures", {}), found.get("held_back", ()))
    yield from _specifications(look, libraries or driver)


def _at_work(look: PreflightContext, figures: Mapping[str, float], held_back: Collection[str]) -> Iterator[Finding]:
    """By what it shows while it computes: slow and cool, hot, or held back."""
    use, clock = figures.get("use_percent", 0), figures.get("clock_mhz", HELD_MHZ)
    power, heat = figures.get("power_w", LOW_W), figures.get("heat_c", 0)
    shown = f"{use:.0f} % busy at {clock:.0f} MHz, {power:.0f} W and {heat:.0f} degrees"
    if heat >= HOT_C or {*held_back} & _BY_HEAT:
        yield worded.host_warning("gpu-hot", "the GPU", found=shown)
    elif use >= BUSY and (clock < LOW_MHZ or power < LOW_W):
        yield worded.host_warning("gpu-slow", "the GPU", found=shown)
    elif _BRAKE in held_back or (use >= BUSY and clock < HELD_MHZ and held_back):
        yield worded.host_warning("gpu-held-back", "the GPU", found=f"{shown}, by {', '.join(held_back)}")


def _specifications(look: PreflightContext, version: str | None) -> Iterator[Finding]:
    for path, named in sorted(look.part("cdi_drivers").items()):
        others = [other for other in named["versions"] if other != version]
        if named["missing"] or (version and others):
            has = f"and the driver is {version}" if version else "which are not there"
            generate = shlex.join(["sudo", "nvidia-ctk", "cdi", "generate", f"--output={path}"])
            remedy = "sudo systemctl restart nvidia-cdi-refresh" if path.startswith(_MADE_AT_BOOT) else generate
            yield worded.host_error(
                "gpu-specification",
                path,
                found=f"it names libraries of {', '.join(named['versions'])}, {has}",
                remedy=f"{remedy}, then restart the services of this host",
            )


SPEC = forms("gpu")["gpu"]
_SMI = "/usr/bin/nvidia-smi"
# What the GPU was before, until the unit stops (data/texts/gpu.service).
_BEFORE = "/run/gb10-gpu"


def gpu_slice(settings: HostData) -> GpuSlice:
    """``hosts.<host>.gpu``: what null or nothing in ``fleet_host.gpu`` leaves alone is null.

    The unit sets both at each boot, and what it found comes back when it stops. The driver tells nobody the clock that
    it is kept to: the unit is what is compared.
    """
    declared = settings.get("gpu", {})
    clock, persistence = declared.get("clock_max_mhz"), declared.get("persistence")
    look = f"{_SMI} --query-gpu=persistence_mode --format=csv,noheader"
    commands = [
        *([] if persistence is None else [_set("persistence", look, f"--persistence-mode={persistence:d}")]),
        *([] if clock is None else [_set("clock", "echo free", f"--lock-gpu-clocks=0,{clock}")]),
    ]
    text = filled("gpu.service", commands="".join(f"{line}\n" for line in commands)) if commands else None
    return {
        "clock_max_mhz": clock,
        "persistence": persistence,
        "unit": layout.GPU_UNIT,
        "units": {layout.GPU_UNIT: "started"} if commands else {},
        "files": {f"{layout.UNITS}/{layout.GPU_UNIT}": {"mode": "0644", "content": text}},
    }


def _set(name: str, look: str, option: str) -> str:
    return f"ExecStart=/bin/sh -c '{look} > {_BEFORE}/{name} && exec {_SMI} {option}'"


def _obstacles(look: PreflightContext) -> Iterator[Finding]:
    yield from gpu(look)
    yield from machine(look)


def _differences(view: DriftContext) -> Differences:
    yield from map(view.of_finding, _obstacles(view.look))
    declared, found = view.slice["gpu"], view.state["gpu"]
    if found is None:
        return
    clock, most = found.get("figures", {}).get("clock_mhz", 0), declared["clock_max_mhz"]
    if most is not None and clock > most:
        yield view.differs("warning", "gpu-clock", "the GPU's clock", clock=f"{clock:.0f}", most=most, host=view.host)
    kept = found.get("persistence")
    if None not in (declared["persistence"], kept) and kept != declared["persistence"]:
        wanted = "on" if declared["persistence"] else "off"
        yield view.differs("warning", "gpu-persistence", "persistence of the GPU", wanted=wanted)


HEALTH = Subject(
    "gpu", SPEC, lambda here: gpu_slice(here.settings), read=READS, differences=_differences, obstacles=_obstacles
)
