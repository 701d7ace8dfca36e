# SPDX-License-Identifier: GPL-3.0-or-later
"""A GPU that does not answer, or whose driver, libraries and specification are not of one release."""

import shlex
from collections.abc import Iterator

from ..._base import worded
from ..._base.findings import Finding
from ..._base.subject import PreflightContext
from ..._host.probe.nvidia_smi import MISSING
from ..system.next_boot import restart

_MISMATCH = "version mismatch"
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
        yield worded.host_error("gpu-libraries", "the GPU", found=words, restart=restart(look))
    elif why == MISSING:
        yield worded.host_warning("gpu-silent/no-tool", "the GPU", found=why)
    elif why:
        yield worded.host_error("gpu-silent/no-answer", "the GPU", found=why, power_off=restart(look, power_off=True))
    yield from _specifications(look, libraries or driver)


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
