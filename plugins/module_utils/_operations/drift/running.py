# SPDX-License-Identifier: GPL-3.0-or-later
"""What the slices say of the running system: kernel settings and systemd's units, over all subjects."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..._base.findings import Difference
from ..._base.reading import Unit
from ..._base.received import one_line, to_read
from ..._base.slice import Slice, part_of
from ..._base.subject import Differences, DriftContext, Unknown
from ..._host.settings.kernel_settings import normalised
from ..._subjects.registry import SUBJECTS

DOCKER_UNIT = "docker.service"


def declared_sysctl(host: Slice) -> dict[str, Any]:
    """Kernel settings, ``{key: value}``, of a host's slice of the plan."""
    parts = (part_of(host, subject.name) for subject in SUBJECTS)
    return {key: value for part in parts if isinstance(part, Mapping) for key, value in part.get("sysctl", {}).items()}


def sysctl_files(host: Slice) -> dict[str, str]:
    """``{key: the file of ours that sets it at boot}``."""
    found: dict[str, str] = {}
    for part in (part_of(host, subject.name) for subject in SUBJECTS):
        for path in part.get("files", {}) if isinstance(part, Mapping) and part.get("sysctl") else ():
            if "/sysctl.d/" in path:
                found |= dict.fromkeys(part["sysctl"], path)
    return found


def declared_units(host: Slice) -> dict[str, tuple[str, str]]:
    """``{unit: (state, service)}``: ``enabled``, or ``started`` too; service: whose it is, if it is one service's."""
    found: dict[str, tuple[str, str]] = {}
    for part in (part_of(host, subject.name) for subject in SUBJECTS):
        if isinstance(part, Mapping):
            found |= {unit: (state, "") for unit, state in part.get("units", {}).items()}
        else:
            found |= {item["unit"]: ("started", item["name"]) for item in part if "unit" in item}
    return found


def of_sysctl(view: DriftContext) -> Iterator[Difference]:
    """Live values: a file can be right and the kernel not, or the other way round."""
    live, declared = view.state["sysctl"], declared_sysctl(view.slice)
    for later in view.state["sysctl_later"] or ():
        expected = normalised(str(declared[to_read(later["key"])]))
        if later["value"] != expected:
            place, value = f"{one_line(later['file'])}, line {later['line']}", one_line(later["value"])
            yield view.differs(
                "warning", "sysctl-later", place, key=one_line(later["key"]), value=value, declared=expected
            )
    if live is None:
        return
    for key, value in sorted(declared.items()):
        expected, found = normalised(str(value)), live[key]
        if expected != found:
            yield view.difference(
                "warning", "sysctl-live", f"sysctl {key}", found=found or "no such setting", expected=expected
            )


def of_units(view: DriftContext) -> Differences:
    """Each unit that is to run: enabled, active, read anew since its file changed."""
    found = view.state["units"]
    if found is None:
        return
    for name, (state, service) in sorted(declared_units(view.slice).items()):
        yield from _unit(view, name, state, found[name], service)


def _unit(view: DriftContext, name: str, state: str, have: Unit, service: str) -> Differences:
    place = f"unit {name}"
    if have["load"] != "loaded":
        # a file that is missing is reported with the files
        if name == DOCKER_UNIT or have["load"] != "not-found":
            yield view.difference("error", "unit-load", place, found=have["load"], expected="loaded", service=service)
        return
    if have["enabled"] != "enabled":
        found = have["enabled"] or "not enabled"
        yield view.difference("error", "unit-enabled", place, found=found, expected="enabled", service=service)
    if have["stale"]:
        yield view.differs("warning", "unit-stale", place, service=service, name=name)
    for path in have["drop_ins"] if service else ():
        yield view.differs("warning", "unit-drop-in", place, service=service, path=path, name=name)
    if state == "enabled":  # it does its work at boot and rests
        return
    if have["active"] == "activating" and have["sub"] != "auto-restart" and not have["restarts"]:
        yield Unknown(view.host, place, "it is starting")
    elif have["active"] != "active":
        found = f"{have['active']} ({have['sub']})"
        yield view.difference("error", "unit-active", place, found=found, expected="active", service=service)
    elif have["restarts"]:
        yield view.differs("warning", "unit-restarts", place, service=service, restarts=have["restarts"], name=name)
