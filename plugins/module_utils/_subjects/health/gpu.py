# SPDX-License-Identifier: GPL-3.0-or-later
"""A GPU that does not answer, or whose driver, libraries and specification are not of one release."""

import shlex
from collections.abc import Collection, Iterator, Mapping

from ..._base import worded
from ..._base.findings import Finding
from ..._base.subject import PreflightContext
from ..._host.probe.nvidia_smi import MISSING

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
