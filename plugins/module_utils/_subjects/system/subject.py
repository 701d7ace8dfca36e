# SPDX-License-Identifier: GPL-3.0-or-later
"""The running system: versions and packages; pending reboots, clock, memory and disks."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from ..._base.findings import Difference, Finding, Severity
from ..._base.forms import forms
from ..._base.layout import MODELS
from ..._base.sizes import GIB, size
from ..._base.slice import VersionsSlice
from ..._base.subject import Differences, DriftContext, PreflightContext, Questions, SliceContext, Subject
from ..._engines.vllm.text.image_facts import Fault, image_of, moving_tag
from ..._host.probe import machine, system
from .known_bad import bad_rows, bad_versions, versions
from .next_boot import refused, restart_brings
from .obstacles import system_obstacles

PACKAGES = ("docker.io", "docker-ce", "earlyoom", "nvidia-container-toolkit")
DOCKER_FOLDER = "/var/lib/docker"
SPEC = forms("versions")["versions"]


def declared_versions(here: SliceContext) -> VersionsSlice:
    """What is to run on the host, by pattern, which packages are to be held, and which known-bad versions may stay.

    No role sets any of it.
    """
    declared = here.settings.get("versions", {})
    return {
        "running": declared.get("running", {}),
        "held": sorted(declared.get("held", [])),
        "tolerated": dict(declared.get("tolerated", {})),
    }


def _questions(asked: Questions) -> Mapping[str, Any]:
    held = asked.slice["versions"]["held"]
    return {
        "packages": sorted({*PACKAGES, *held}),
        "disks": ["/", DOCKER_FOLDER, MODELS],
        "reach": sorted(asked.slice["needs"]["reach"]),
        "installs": asked.slice["needs"]["installs"],
    }


def _differences(view: DriftContext) -> Differences:
    yield from _reboot(view)
    yield from _versions(view)
    yield from _packages(view)
    yield from _known_bad(view)
    yield from _bad_images(view)
    yield from _memory(view)
    yield from _disks(view)
    yield from _clock(view)


def _reboot(view: DriftContext) -> Iterator[Difference]:
    kernel, apt = view.state["kernel"], view.state["apt"]
    if kernel and kernel["reboot_required"] and not refused(view.look):
        yield view.differs("hint", "reboot-pending", "reboot")
    if apt and apt["unproved"]:
        yield view.differs("warning", "update-unproved", "update")


def _versions(view: DriftContext) -> Iterator[Difference]:
    found = versions(view.state)
    patterns: Mapping[str, Any] = view.slice["versions"]["running"]
    for name, pattern in sorted(patterns.items()):
        have = found[name]
        if have is not None and not fnmatchcase(have, pattern):
            yield view.differs("warning", "version", f"version of {name}", found=have, expected=pattern)


def _packages(view: DriftContext) -> Iterator[Difference]:
    """Packages that are to be held, and one that hurts."""
    packages = view.state["packages"]
    if packages is None:
        return
    for name in view.slice["versions"]["held"]:
        package = packages[name]
        if package is None or not package["held"]:
            yield view.differs(
                "warning",
                "package-held",
                f"package {name}",
                found="not installed" if package is None else f"{package['version']}, not held",
                name=name,
            )
    if packages["earlyoom"]:
        yield view.differs("hint", "package-earlyoom", "package earlyoom", found=str(packages["earlyoom"]["version"]))


def _known_bad(view: DriftContext) -> Iterator[Difference]:
    look, guarded = view.look, view.slice.get("memory_guard", {}).get("enabled")
    for row, _have, version in bad_rows(look):
        yield view.of_finding(replace(version, severity="hint") if guarded and row.get("guarded") else version)
    yield from map(view.of_finding, restart_brings(look))


def _obstacles(look: PreflightContext) -> Iterator[Finding]:
    for version in bad_versions(look):
        override = f"; or write `{version.rule.partition(' ')[2]}: WHY` in fleet_host.versions.tolerated"
        yield replace(version, remedy=version.remedy + override) if version.severity == "error" else version
    yield from system_obstacles(look)


def _bad_images(view: DriftContext) -> Iterator[Difference]:
    """The declared images against those that are known to fail, and tags that move."""
    for image in map(image_of, sorted({_pinned(each) for each in view.slice["images"]})):
        if image.bad:
            yield _bad_image(view, image.reference, "bad-tag", "error", image.bad)
        if image.moving and not image.digest:
            yield _bad_image(view, image.reference, "moving-tag", "hint", moving_tag())


def _pinned(image: Mapping[str, object]) -> str:
    return f"{image['reference']}@{image['digest']}" if image["digest"] else str(image["reference"])


def _bad_image(view: DriftContext, reference: str, identity: str, severity: Severity, fault: Fault) -> Difference:
    return view.difference(
        severity,
        f"known-bad {identity}",
        f"image {reference}",
        found=reference,
        expected="another tag, or a digest",
        remedy=fault.remedy,
        reason=fault.effect,
        source=fault.source,
    )


def _memory(view: DriftContext) -> Iterator[Difference]:
    least, memory = view.settings["free"]["memory_gib"] * GIB, view.state["memory_bytes"]
    if memory is not None and memory["available"] < least:
        yield view.differs(
            "warning", "memory-low", "free memory", found=size(memory["available"]), least=size(int(least))
        )


def _disks(view: DriftContext) -> Iterator[Difference]:
    least, seen = view.settings["free"]["disk_gib"] * GIB, set[tuple[int, int]]()
    for path, disk in sorted((view.state["disks"] or {}).items()):
        if disk["free"] < least and (disk["free"], disk["total"]) not in seen:
            # paths with equal figures lie on one file system
            seen.add((disk["free"], disk["total"]))
            yield view.differs(
                "warning",
                "disk-low",
                f"disk of {path}",
                free=size(disk["free"]),
                total=size(disk["total"]),
                least=size(int(least)),
            )


def _clock(view: DriftContext) -> Iterator[Difference]:
    """The host's clock against the controller's. The reading lies somewhere between asking and hearing the answer."""
    clock, asked = view.state["clock"], view.state["asked_between"]
    if clock is None or asked is None:
        return
    ahead, behind = clock - asked[1], asked[0] - clock
    allowed = view.settings["clock_s"]
    if max(ahead, behind) > allowed:
        way = "ahead of" if ahead > behind else "behind"
        yield view.differs("warning", "clock-off", "clock", ahead=max(ahead, behind), way=way, allowed=allowed)


SYSTEM = Subject(
    "versions",
    SPEC,
    declared_versions,
    questions=_questions,
    read={**system.READS, **machine.READS},
    differences=_differences,
    obstacles=_obstacles,
)
