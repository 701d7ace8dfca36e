# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine brings along that is in the way of a first run: updates at work, a GPU without its module, memory that
is gone before a service starts, Wi-Fi, servers that can't be reached."""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from ..._base import layout, worded
from ..._base.findings import Finding, host_error, host_warning
from ..._base.gb10 import data_table, fact
from ..._base.sizes import GIB, gib, size
from ..._base.subject import PreflightContext
from .next_boot import refused

# Of a host whose updates want a restart, in a drift check as before a first service.
# Below this share of what is free in blocks of 2 MiB, a driver asks in vain while memory is free.
_HUGE_SHARE = 0.05
_FREE_ENOUGH = 8 * GIB
# More than a driver holds without a program that uses the GPU.
_LEAKED = 8 * GIB
# Packages of one over-the-air update, and those that flash firmware; behind each, what is none of them.
_TORN: tuple[tuple[str, str], ...] = data_table("torn_packages")
# Its reset path oopsed and left the kernel's network lock taken: no `ip` command ends, SSH neither.
_BAD_WIFI = "mt7925e"


def system_obstacles(look: PreflightContext) -> Iterator[Finding]:
    for part in (_packages, _installs, _gpu, _sudo, _wifi, _reboot, _memory, _reach):
        yield from part(look)


def _packages(look: PreflightContext) -> Iterator[Finding]:
    if holders := look.part("apt").get("holders"):
        yield worded.host_warning("packages-at-work", "the package manager", holders=", ".join(holders))


def _installs(look: PreflightContext) -> Iterator[Finding]:
    """What apt would do besides, for each package that a role installs on this host."""
    asked = look.part("installs")
    unknown = sorted(package for package, steps in asked.items() if steps is None and _is_installed(look, package))
    if unknown:
        yield worded.host_warning(
            "packages-unknown", "the package manager", unknown=", ".join(unknown), first_unknown=unknown[0]
        )
    for package, steps in sorted(asked.items()):
        torn = [_step(step) for step in steps or () if _is_torn(step) and step["package"] != package]
        if torn and _is_installed(look, package):
            yield worded.host_error(
                "packages-pulled-along", f"package {package}", torn=", ".join(torn), package=package
            )


def _is_installed(look: PreflightContext, package: str) -> bool:
    """Whether a role installs it here where it is missing."""
    has_gpu = bool(look.part("gpu").get("present"))
    return package in look.slice["needs"]["installs"] and (package != "nvidia-container-toolkit" or has_gpu)


def _is_torn(step: Mapping[str, str]) -> bool:
    name = step["package"]
    return step["action"] == "remove" or any(
        fnmatchcase(name, pattern) and not fnmatchcase(name, but) for pattern, but in _TORN
    )


def _step(step: Mapping[str, str]) -> str:
    versions = " to ".join(text for text in (step["have"], step["version"]) if text)
    return f"{step['action']} {step['package']}" + (f" ({versions})" if versions else "")


def _gpu(look: PreflightContext) -> Iterator[Finding]:
    gpu, kernel = look.part("gpu"), look.part("kernel").get("release", "")
    if gpu.get("present") and not gpu["module"]:
        yield worded.host_error("driver-missing", f"kernel {kernel}", kernel=kernel)


def _sudo(look: PreflightContext) -> Iterator[Finding]:
    if look.part("sudo").get("password"):
        yield worded.host_warning("sudo-password", "sudo")


def _wifi(look: PreflightContext) -> Iterator[Finding]:
    network = look.part("network")
    ways = network.get("default", [])
    for name, driver in sorted(network.get("wifi", {}).items()):
        if ways[:1] == [name]:
            bad = driver == _BAD_WIFI
            yield worded.host_warning(
                "wifi-management",
                name,
                reason="its driver's reset has left hosts unreachable until the power was cut"
                if bad
                else "a change of the network cuts it for seconds, and a download of weights takes days",
                source="MiaAI-Lab DSpark pull request 157" if bad else "",
                driver=driver or "unknown driver",
            )


def _reboot(look: PreflightContext) -> Iterator[Finding]:
    if look.part("kernel").get("reboot_required") and not refused(look):
        yield worded.host_warning("reboot-pending", "reboot")
    if look.part("apt").get("unproved"):
        yield worded.host_warning("update-unproved", "update")


# Memory -----------------------------------------------------------------------------------------------------------


def _memory(look: PreflightContext) -> Iterator[Finding]:
    """What is free before a service starts. While one of ours runs, it holds its own, and nothing is said."""
    memory, running = look.part("memory_bytes"), look.state.get("containers")
    if not memory or running is None:
        return
    names = sorted(process["name"] for process in running)
    if any(layout.service_of(name) is not None for name in names):
        return
    yield from _fits(look, names)
    yield from _fragmented(look)


def _fits(look: PreflightContext, others: list[str]) -> Iterator[Finding]:
    memory = look.part("memory_bytes")
    wanted = sum(service["memory_bytes"] for service in look.slice["services"])
    floor, leaked = gib(fact("memory", "floor_gib")), _leaked(look, others)
    short = wanted + floor - memory["available"] if wanted else 0
    if short > 0:
        severity = host_error if wanted > memory["available"] else host_warning
        yield severity(
            "memory-leaked" if leaked else "memory-short",
            "memory",
            found=f"{size(memory['available'])} of {size(memory['total'])} are available before any service starts",
            expected=f"{size(wanted)} for its services, and {size(floor)} that stay free",
            remedy=_remedy(look, leaked, others),
        )
    elif leaked:
        yield worded.host_warning(
            "memory-leaked", "memory", remedy=_remedy(look, leaked, others), unaccounted=size(memory["unaccounted"])
        )


def _leaked(look: PreflightContext, others: list[str]) -> bool:
    return bool(
        look.part("gpu").get("present")
        and not others
        and not look.part("gpu").get("users")
        and look.part("memory_bytes").get("unaccounted", 0) > _LEAKED
    )


def _remedy(look: PreflightContext, leaked: bool, others: list[str]) -> str:
    if leaked:
        return "restart this host: sudo systemctl reboot --no-block; only that brings the memory back"
    if others:
        return f"stop what else runs here (docker stop {' '.join(others)}), or place the services on another host"
    if look.part("network").get("desktop"):
        return "end the desktop: sudo systemctl isolate multi-user.target (site.yml keeps it off from the next boot on)"
    return (
        f"see what takes it (ps aux --sort=-rss | head), and stop it{'' if refused(look) else ' or restart this host'}"
    )


def _fragmented(look: PreflightContext) -> Iterator[Finding]:
    fragments = look.part("fragments")
    free, huge = fragments.get("free", 0), fragments.get("huge", 0)
    if look.part("gpu").get("present") and free >= _FREE_ENOUGH and huge < free * _HUGE_SHARE:
        yield worded.host_warning(
            "memory-fragmented", "memory", free=size(free), huge=size(huge), free_size=size(int(free * _HUGE_SHARE))
        )


def _reach(look: PreflightContext) -> Iterator[Finding]:
    """Servers that something still has to be fetched from."""
    images, models = look.part("images"), look.part("models").get("models", {})
    for server, why in sorted(look.part("reach").items()):
        missing = [
            name for name in look.slice["needs"]["reach"].get(server, ()) if not (images.get(name) or models.get(name))
        ]
        if why and missing:
            yield worded.host_error("server-unreachable", server, found=why, missing=", ".join(missing))
