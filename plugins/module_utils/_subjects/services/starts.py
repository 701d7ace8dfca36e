# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what decides whether a service has to be started, or started anew, in one go for all services of a host."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..._base.own_files import look
from ..._host.probe.parts import Run, UnreadableError
from ..._host.probe.units import read_units

_RUNS = ("active", "activating", "reloading")
# A container has the first, an image the second; `.Image` is an error where it is not there.
_EITHER = '{{or (index . "Image") (index . "Id")}}'


def read_starts(run: Run, services: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """``{runs, enabled, stale, newer, other_image, took_s}`` by the name of each service.

    services: as `_host.joins.services.service_starts` makes them. stale: systemd has not read the unit since it
    changed.
    newer: a file that changed since the service started, or empty. other_image: its name is another image's now.
    took_s: how long the last start took until it served; None where not known.
    UnreadableError where the host can't say.
    """
    wanted = list(services)
    units = read_units(run, {service["unit"] for service in wanted})
    return {
        service["name"]: {
            "runs": units[service["unit"]]["active"] in _RUNS,
            "enabled": units[service["unit"]]["enabled"] == "enabled",
            "stale": units[service["unit"]]["stale"],
            "newer": _newer(run, service["started"], service["files"]),
            "other_image": _has_other_image(run, service["container"], service["image"]),
            "took_s": look(Path(service["started"]).with_name("status.json"), _took)[0],
        }
        for service in wanted
    }


def _took(status: bytes) -> float:
    return float(json.loads(status)["ready_s"])


def _newer(run: Run, started: str, paths: Iterable[str]) -> str:
    """The first file that is newer; of a folder also what lies in it, where a link counts as itself."""
    unlike = ["-not", "-type", "d", "-not", "-name", "*.pyc", "-newer", started]
    code, out, error = run(["find", "-H", *paths, *unlike, "-print", "-quit"])
    if code not in (0, 1):  # 1: a file is not there yet, or the supervisor has never begun
        raise UnreadableError(error.strip())
    return out.strip()


def _has_other_image(run: Run, container: str, image: str) -> bool:
    try:
        code, out, error = run(["docker", "inspect", "--format", _EITHER, container, image])
    except FileNotFoundError:  # in check mode, before Docker is installed
        return False
    if code not in (0, 1):  # 1: it does not run, or the image is not there yet
        raise UnreadableError(error.strip())
    return code == 0 and len({*out.split()}) > 1
