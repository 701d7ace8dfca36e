# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host is once its update is made: kernel, driver and firmware that belong together, or don't."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, cast

from ..._base import worded
from ..._base.findings import Finding
from ..._base.gb10 import data_table
from ..._base.place import Place
from ..._base.reading import State
from ..._base.subject import PreflightContext
from ..._subjects.system.known_bad import bad_versions, known_good, numbers

_IMAGE = re.compile(r"linux-image-(?:unsigned-)?(\d.*)")
_MODULES = re.compile(r"linux-modules-nvidia-.*?-(\d+\.\d+\.\d+-.*)")
# Packages whose version begins with the driver's own; the number is the branch. nvidia-kernel-common decides: the
# kernel's module packages depend on exactly its version (linux-restricted-modules-nvidia-6.17 of Ubuntu 24.04).
_DRIVER = re.compile(
    r"(?:nvidia-(?:driver|kernel-common|kernel-source|dkms|utils|compute-utils|firmware)"
    r"|libnvidia-(?:compute|common|gl|cfg1|decode|encode|extra|fbc1))-(\d+)(?:-.*)?"
)
_DKMS = "nvidia-dkms-*"
_DOCKER = ("docker-ce", "docker.io")
# Packages that move together, or not at all; behind each, what is none of them.
_FAMILIES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = data_table("package_families")
# A package that adds a word to the kernel's command line: NVIDIA's advisory of 14 September 2026.
_ADDS_WORD = {"nvidia-spark-grub-kho": "kho=off"}
_SOURCE = "GB10 community wiki, torn pairing of driver and firmware; an owner's journal, kernel 6.17.0-1021-nvidia"


@dataclass(frozen=True)
class Result:
    """kernel, driver: what a host runs afterwards; None where it is not known. state: its reading, with both and
    whatever else changes in it. packages: ``{name: version}`` of kernel and driver afterwards. changed: the families of
    which something changes."""

    kernel: str | None
    driver: str | None
    state: State
    packages: Mapping[str, str]
    changed: frozenset[str]


def running(state: State) -> tuple[str | None, str | None]:
    """Kernel and driver of a reading; None where it is not known."""
    kernel = state.get("kernel")
    return kernel and kernel["release"], state.get("driver")


def result(state: State, found: Mapping[str, Any], firmware: bool) -> Result:
    """state: as `host_info` reads it. found: `form.READING`. firmware: whether what is offered is brought."""
    steps = found["steps"]
    packages = {
        **found["installed"],
        **{step["package"]: step["version"] for step in steps if step["action"] != "remove"},
    }
    kernel_now, driver_now = running(state)
    kernel = _kernel(kernel_now, state, found)
    driver = _driver([step for step in steps if step["action"] != "remove"]) or driver_now
    changed = {family for family in _FAMILIES for step in steps if _is_of(family, step["package"])}
    after: dict[str, Any] = {
        **state,
        "kernel": {**(state.get("kernel") or {}), "release": kernel, "cmdline": _cmdline(state, packages, steps)},
        "driver": driver,
    }
    docker = next((_upstream(step["version"]) for step in steps if step["package"] in _DOCKER), None)
    if docker:
        after["engine"] = {**(state.get("engine") or {}), "version": docker}
    if firmware and found["firmware"]:
        nic = next((device["version"] for device in found["firmware"] if "connectx" in device["device"].lower()), None)
        after["firmware"] = {**(state.get("firmware") or {}), **({"nic_firmware": nic} if nic else {})}
        # what the new one calls itself, fwupd does not say
        after["platform"] = {**(state.get("platform") or {}), "bios": None}
    return Result(kernel, driver, cast(State, after), packages, frozenset(changed))


def _kernel(now: str | None, state: State, found: Mapping[str, Any]) -> str | None:
    """GRUB boots the highest version; a kernel that waits for a restart is one of those in /boot."""
    names = (_IMAGE.fullmatch(step["package"]) for step in found["steps"] if step["action"] == "install")
    coming = [name[1] for name in names if name]
    kernel = state.get("kernel")
    if (kernel and kernel.get("reboot_required")) or found["record"]:
        coming += found["kernels"]
    newest = max([*coming, *([now] if now else [])], key=numbers, default=None)
    return newest if now is None or newest is None or numbers(newest) > numbers(now) else now


def _driver(steps: list[Mapping[str, str]]) -> str | None:
    found = {step["package"]: _upstream(step["version"]) for step in steps if _DRIVER.fullmatch(step["package"])}
    first = sorted(found, key=lambda name: (not name.startswith("nvidia-kernel-common"), name))
    return found[first[0]] if first else None


def _cmdline(state: State, packages: Mapping[str, str], steps: list[Mapping[str, str]]) -> str:
    names = {*packages, *(step["package"] for step in steps if step["action"] != "remove")}
    kernel = state.get("kernel")
    words = [kernel.get("cmdline", "") if kernel else "", *(w for name, w in _ADDS_WORD.items() if name in names)]
    return " ".join(word for word in words if word)


def _upstream(version: str) -> str:
    """``5:29.2.1-1~ubuntu.24.04~noble`` -> ``29.2.1``, ``580.159.03-0ubuntu0.24.04.1`` -> ``580.159.03``."""
    return re.split(r"[-+~]", version.rpartition(":")[2], maxsplit=1)[0]


def _is_of(family: str, package: str) -> bool:
    patterns, but = _FAMILIES[family]
    return any(fnmatchcase(package, pattern) for pattern in patterns) and not any(
        fnmatchcase(package, exception) for exception in but
    )


def combination(look: PreflightContext, found: Mapping[str, object], after: Result) -> Iterator[Finding]:
    """What is wrong with what the host would be."""
    yield from _held(found, after)
    yield from _torn(after)
    yield from _kernel_alone(look, after)
    before = {version.rule for version in bad_versions(look)}
    # what holds now as well is doctor's business: an update does not make it worse
    worse = [version for version in bad_versions(replace(look, state=after.state)) if version.rule not in before]
    yield from (replace(finding, at=finding.at.within(Place(thing="the update"))) for finding in worse)
    if not worse:  # else somebody has reported it
        yield from _unreported(look, after)


def _held(found: Mapping[str, Any], after: Result) -> Iterator[Finding]:
    for family in sorted(after.changed):
        held = sorted(name for name in {*found["kept_back"], *found["held"]} if _is_of(family, name))
        if held:
            yield worded.host_error(
                "update-held", f"the packages of the {family}", source=_SOURCE, held=", ".join(held), first_held=held[0]
            )


def _torn(after: Result) -> Iterator[Finding]:
    if "driver" not in after.changed:
        return
    by_branch: dict[str, dict[str, list[str]]] = {}
    for name, version in sorted(after.packages.items()):
        if found := _DRIVER.fullmatch(name):
            by_branch.setdefault(found[1], {}).setdefault(_upstream(version), []).append(name)
    for branch, versions in by_branch.items():
        if len(versions) > 1:
            words = "; ".join(f"{version}: {', '.join(names)}" for version, names in versions.items())
            yield worded.host_error(
                "update-driver-torn", f"the packages of driver {branch}", found=words, source=_SOURCE
            )


def _kernel_alone(look: PreflightContext, after: Result) -> Iterator[Finding]:
    """A kernel without its module package, and nothing that builds one."""
    now, _driver_now = running(look.state)
    if not look.part("gpu").get("present") or after.kernel in (None, now):
        return
    modules = {found[1] for name in after.packages if (found := _MODULES.fullmatch(name))}
    if after.kernel not in modules and not any(fnmatchcase(name, _DKMS) for name in after.packages):
        yield worded.host_error("update-kernel-alone", f"kernel {after.kernel}", kernel=after.kernel)


def _unreported(look: PreflightContext, after: Result) -> Iterator[Finding]:
    pair = (after.kernel, after.driver)
    if pair != running(look.state) and not any(
        (pair_row["kernel"], pair_row["driver"]) == pair for pair_row in known_good()
    ):
        yield worded.host_warning("update-unreported", "the update", kernel=after.kernel, driver=after.driver)
