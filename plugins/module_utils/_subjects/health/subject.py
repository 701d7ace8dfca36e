# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of a machine, judged before a change, by doctor and every night; and the clock that its GPU is kept to."""

from collections.abc import Iterator

from ..._base import layout
from ..._base.declared_host import HostData
from ..._base.findings import Finding
from ..._base.forms import forms
from ..._base.gb10 import filled
from ..._base.slice import GpuSlice
from ..._base.subject import Differences, DriftContext, PreflightContext, Subject
from .gpu import gpu
from .machine import machine
from .reading import READS

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
