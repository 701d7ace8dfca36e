# SPDX-License-Identifier: GPL-3.0-or-later
"""What `host_info` is asked of a host: everything that the plan says something about, and nothing else."""

import hashlib
from collections.abc import Mapping
from typing import Any

from ..._base import layout
from ..._base.managed import shipped
from ..._base.plan import Plan
from ..._base.slice import Slice
from ..._base.subject import Questions
from ..._host.joins.services import service_starts
from ..._host.netplan.document import PATH as NETPLAN
from ..._subjects.fabric.hotplug import MARKER
from ..._subjects.fabric.subject import rail_addresses
from ..._subjects.registry import SUBJECTS, fleet_parts
from .managed import managed_files, managed_json, owned
from .running import declared_sysctl, declared_units, sysctl_files

# Of the role `fabric`.
RDMA_PACKAGES = ("ibverbs-utils", "perftest", "rdma-core")
# What roles look at on a host, and no slice names.
GPU_DEVICE = "/dev/nvidiactl"
DOCKER_HOOK = "/usr/bin/nvidia-container-runtime-hook"
# Weights that one night does not come to are read the next.
DEEP_SECONDS = 1800


def host_view(plan: Plan, host: str) -> dict[str, Any]:
    """`Questions` as a map: all of the plan that one host's reading goes by, whatever the number of the others."""
    mine = plan["hosts"][host]
    return {
        "slice": mine,
        "addresses": rail_addresses(plan) if mine["fabric"]["interfaces"] else [],
        "weights_days": plan["drift"]["weights_days"],
    }


def questions(view: Mapping[str, Any], deep: Mapping[str, object]) -> dict[str, Any]:
    """The questions for one host.

    view: of `host_view`. deep: which weights to read byte by byte: ``{days, today, seconds, seen: {file: day}}``;
    seconds 0: none.
    """
    mine = view["slice"]
    asked: dict[str, Any] = {
        "folder": layout.STATE,
        "models_folder": layout.MODELS,
        "files": [
            {
                "path": file.path,
                "sha256": file.sha256,
                "secret": file.secret,
                "salted": bool(file.source) or file.shared,
            }
            for file in managed_files(mine)
        ],
        "json": [
            {
                "path": item.path,
                "keys": sorted(item.settings),
                "settings": dict(item.settings),
                "original": item.original,
                "names_of": item.names_of,
            }
            for item in managed_json(mine)
        ],
        "owned": owned(mine),
        "sysctl": sorted(declared_sysctl(mine)),
        "sysctl_files": sysctl_files(mine),
        "units": sorted(declared_units(mine)),
        "deep": dict(deep),
    }
    for subject in SUBJECTS:
        for name, question in subject.questions(Questions(**view)).items():
            asked[name] = question
    return asked


def before_change(view: Mapping[str, Any]) -> dict[str, Any]:
    """The questions of a converge: nothing is read byte by byte, and what roles look at themselves is asked, too."""
    mine, nothing = view["slice"], {"days": 1, "today": 0, "seconds": 0, "seen": {}}
    asked = questions(view, nothing)
    asked["packages"] = sorted({*asked["packages"], *packages(mine)})
    path, sha256 = hub_tool(mine)
    if path:
        asked["files"] += [{"path": path, "sha256": sha256, "secret": False, "salted": False}]
    return asked | {
        "before_change": {
            "folder": layout.STATE,
            "models_folder": layout.MODELS,
            "images": mine["images"],
            "models": mine["models"],
            "services": [
                *service_starts(mine["services"]),
                *(part["start"] for part in fleet_parts(mine) if "start" in part),
            ],
        }
    }


def paths_before_change(host: Slice) -> list[str]:
    """Whose presence a converge asks for besides. host: the host's slice of the plan."""
    return sorted({NETPLAN, MARKER, GPU_DEVICE, DOCKER_HOOK, layout.HOTPLUG, layout.trusted_link(host["tls"]["path"])})


def packages(host: Slice) -> list[str]:
    """The packages that roles install on a host, but for Docker's and NVIDIA's, which have several."""
    rdma = RDMA_PACKAGES if host["fabric"]["sysctl"] else ()
    closing = ("nftables",) if host["firewall"]["state"] != "open" else ()
    of_fleet = [package for part in fleet_parts(host) for package in part.get("packages", ())]
    return sorted([*rdma, *closing, *of_fleet])


def hub_tool(host: Slice) -> tuple[str, str]:
    """Where it stands by which lock the hub's tool was installed, and the sum of ours; empty without need of it."""
    if not any(model["source"]["kind"] == "hub" and not model["peers"] for model in host["models"]):
        return "", ""
    lock = shipped("roles/model_store/files/hub.txt").strip() + "\n"
    return f"{layout.STATE}/tools/hf/.lock", hashlib.sha256(lock.encode()).hexdigest()
