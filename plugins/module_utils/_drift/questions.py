# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What `host_state` is asked of a host: everything that the plan says something about, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils import _layout
from ansible_collections.gb10.fleet.plugins.module_utils._drift.managed import managed_files, managed_json
from ansible_collections.gb10.fleet.plugins.module_utils._fabric.hardware import RAILS

DOCKER_FOLDER = "/var/lib/docker"
PACKAGES = ("docker.io", "docker-ce", "earlyoom", "nvidia-container-toolkit")
# Units that do their work at boot and rest: enabled is all that can be asked of them.
RECOVER_UNIT = "gb10-netplan-recover.service"
FIREWALL_UNIT = "gb10-firewall.service"
DOCKER_UNIT = "docker.service"
# Weights that one night does not come to are read the next.
DEEP_SECONDS = 1800


def questions(plan: Mapping[str, Any], host: str, deep: Mapping[str, Any]) -> dict[str, Any]:
    """The questions for one host.

    deep: which weights to read byte by byte: ``{days, today, seconds, seen: {file: day}}``; seconds 0: none.
    """
    mine = plan["hosts"][host]
    return {
        "folder": _layout.STATE,
        "models_folder": _layout.MODELS,
        "files": [
            {"path": one.path, "sha256": one.sha256, "secret": one.secret, "salted": bool(one.source)}
            for one in managed_files(mine)
        ],
        "json": [
            {
                "path": one.path,
                "keys": sorted(one.settings),
                "settings": dict(one.settings),
                "original": one.original,
                "names_of": one.names_of,
            }
            for one in managed_json(mine)
        ],
        "rails": sorted(RAILS) if mine["fabric"]["interfaces"] else [],
        "sysctl": sorted({*mine["host_tuning"].get("sysctl", {}), *mine["fabric"]["sysctl"]}),
        "packages": sorted({*PACKAGES, *mine["versions"]["held"]}),
        "units": units(mine),
        "disks": ["/", DOCKER_FOLDER, _layout.MODELS],
        "images": sorted({image["reference"] for image in mine["images"]}),
        "variables": {name: sorted(one["env"]) for name, one in containers(plan, host).items()},
        "models": [{key: model[key] for key in ("repository", "revision")} for model in mine["models"]],
        "fabric": _fabric(plan, mine["fabric"]),
        "firewall": mine["firewall"],
        "deep": dict(deep),
    }


def units(mine: Mapping[str, Any]) -> list[str]:
    """The systemd units that are to run or to be enabled."""
    recover = [RECOVER_UNIT] if mine["fabric"]["interfaces"] else []
    firewall = [FIREWALL_UNIT] if mine["firewall"]["state"] == "closed" else []
    return sorted([DOCKER_UNIT, *recover, *firewall, *(service["unit"] for service in mine["services"])])


def containers(plan: Mapping[str, Any], host: str) -> dict[str, Mapping[str, Any]]:
    """The containers that are to run on a host, by name, as their units start them (`_plan.container.Container`)."""
    return {service["container"]["name"]: service["container"] for service in plan["hosts"][host]["services"]}


def _fabric(plan: Mapping[str, Any], fabric: Mapping[str, Any]) -> dict[str, Any]:
    """Whom to ask on each interface. Any rail's address may answer on a cable that hangs wrongly."""
    interfaces = fabric["interfaces"]
    return {
        "peers": {one["name"]: [peer["address"] for peer in one["peers"] if peer["address"]] for one in interfaces},
        "candidates": _addresses(plan) if interfaces else [],
        "devices": [one["rdma_device"] for one in interfaces if one["rdma_device"]],
    }


def _addresses(plan: Mapping[str, Any]) -> list[str]:
    return sorted(
        one["address"].partition("/")[0]
        for host in plan["hosts"].values()
        for one in host["fabric"]["interfaces"]
        if one["address"] and one["rdma_device"]
    )
