# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the containers as they really run, without their secrets, and which units of ours there are."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._base import layout
from ..._base.own_files import look
from ..._base.reading import TakenBack
from ..._host.probe.parts import Part, Run, output
from .starts import read_starts

# Labels have no effect on a container that shares the host's IPC, and Docker says so in its SecurityOpt by itself
# (moby, daemon/create.go: generateSecurityOpt).
_ADDED_BY_DOCKER: Mapping[str, set[str]] = {"host": {"label=disable"}}


def read_containers(run: Run, variables: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    """The running containers by name, as Docker keeps them.

    variables: by container name those whose values may be shown, since they are in the plan. Of any other variable that
    the image does not bring, only the name: it may be a secret.
    """
    ids = output(run, ["docker", "ps", "--no-trunc", "--quiet"]).split()
    if not ids:
        return {}
    found = json.loads(output(run, ["docker", "inspect", *ids]))
    images = {load["Id"]: load for load in json.loads(output(run, ["docker", "image", "inspect", *_images_of(found)]))}
    return {
        item["Name"].lstrip("/"): _container(item, images.get(item["Image"], {}), variables)
        for item in sorted(found, key=lambda item: str(item["Name"]))
    }


def _images_of(containers: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted({container["Image"] for container in containers})


def _container(
    entry: Mapping[str, Any], image: Mapping[str, Any], variables: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    config, host, own = entry["Config"], entry["HostConfig"], image.get("Config") or {}
    given = {*variables.get(entry["Name"].lstrip("/"), ())}
    brought = {*(own.get("Env") or ())}
    words = config.get("Env") or ()
    env = dict(word.partition("=")[::2] for word in words)
    added = {word.partition("=")[0] for word in words if word not in brought}
    return {
        "id": entry["Id"],
        "image": entry["Image"],
        "reference": config["Image"],
        "argv": config.get("Cmd") or [],
        "entrypoint": config.get("Entrypoint") or [],
        "image_entrypoint": own.get("Entrypoint") or [],
        "env": {name: value for name, value in sorted(env.items()) if name in given},
        "other_env": sorted(added - given),
        "mounts": sorted(_mounts(entry)),
        "devices": sorted(device["PathOnHost"] for device in host.get("Devices") or ()),
        "capabilities": sorted(name.removeprefix("CAP_") for name in host.get("CapAdd") or ()),
        "dropped": sorted(name.removeprefix("CAP_") for name in host.get("CapDrop") or ()),
        "pids-limit": host.get("PidsLimit") or None,
        "memory-limit": host.get("Memory") or None,
        "oom-score-adj": host.get("OomScoreAdj") or 0,
        "read-only": bool(host.get("ReadonlyRootfs")),
        "tmpfs": sorted(host.get("Tmpfs") or ()),
        "log": (host.get("LogConfig") or {}).get("Type", ""),
        "privileged": bool(host.get("Privileged")),
        "security": sorted({*(host.get("SecurityOpt") or ())} - _ADDED_BY_DOCKER.get(host.get("IpcMode", ""), set())),
        "network": host.get("NetworkMode", ""),
        "ipc": host.get("IpcMode", ""),
        "published": sorted(
            [bind.get("HostIp") or "0.0.0.0", int(bind["HostPort"])]
            for binds in (host.get("PortBindings") or {}).values()
            for bind in binds or ()
        ),
    }


def _mounts(entry: Mapping[str, Any]) -> Iterator[list[Any]]:
    """[source, target, read-only] of each folder of the host that it sees, through volumes of Docker's too."""
    over = {
        mount["Target"]: (((mount.get("VolumeOptions") or {}).get("DriverConfig") or {}).get("Options") or {})
        for mount in entry["HostConfig"].get("Mounts") or ()
    }
    for mount in entry["Mounts"]:
        device = over.get(mount["Destination"], {}).get("device")
        if mount["Type"] == "bind" or device:
            yield [device or mount.get("Source", ""), mount["Destination"], not mount["RW"]]


_UNIT_BYTES = 1 << 16


def read_units(folder: Path = Path(layout.UNITS), services: Path = Path(layout.SERVICES)) -> list[Any]:
    """``{unit, inventory, ranks, asked, unproved, taken_back}`` of each unit of ours in the folder. services: the
    folder of the supervisors' files.

    inventory: that wrote it, empty where not known. ranks, asked: as `_of_rank_file` reads them. unproved: a rollout
    that was cut off keeps what its service went by before. taken_back: where a definition was, and does not run again.
    """
    ours = (path for path in sorted(folder.glob("*.service")) if _is_ours(path.name))
    return [
        {
            "unit": path.name,
            "inventory": _inventory(path),
            **_of_rank_file(services / f"{layout.service_of(path.name)}.json"),
            "unproved": Path(layout.way_back_index(str(layout.service_of(path.name)))).exists(),
            **_taken_back(str(layout.service_of(path.name)), services),
        }
        for path in ours
    ]


def read_taken_back(service: str, folder: Path = Path(layout.SERVICES)) -> TakenBack | None:
    """What a host keeps of it; None where nothing is, or it can't be read."""
    return look(folder / Path(layout.taken_back(service)).name, _parsed)[0]


def read_last_run(path: Path = Path(layout.LAST_RUN)) -> dict[str, str]:
    """What it keeps of the run that changed it last or changes it now; empty if it keeps none, or none can be read."""
    found = look(path, json.loads)[0]
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _parsed(content: bytes) -> TakenBack:
    found = json.loads(content)
    definition, of, at, why = (str(found[key]) for key in ("definition", "of", "at", "why"))
    record: TakenBack = {"definition": definition, "of": of, "at": at, "why": why}
    return {**record, "start": str(found["start"])} if "start" in found else record


def _taken_back(service: str, services: Path) -> dict[str, Any]:
    record = read_taken_back(service, services)
    now = look(services / f"{service}.json", lambda content: str(json.loads(content)["definition"]))[0]
    return {"taken_back": record} if record and record["definition"] != now else {}


def _of_rank_file(file: Path) -> dict[str, Any]:
    """ranks: 1 where not known. asked: where clients ask a head, unless gateways alone do."""
    found = look(file, json.loads)[0]
    rank = found if isinstance(found, dict) else {}
    ranks, endpoint = rank.get("ranks"), rank.get("endpoint")
    asked = endpoint.get("url") if isinstance(endpoint, dict) and not rank.get("readiness") else None
    return {"ranks": ranks if isinstance(ranks, int) else 1} | ({"asked": str(asked)} if asked else {})


def _is_ours(unit: str) -> bool:
    others = (layout.GATEWAY_UNIT, *layout.MONITORING_UNITS, *layout.PHOENIX_UNITS)
    return unit in others or (layout.service_of(unit) or layout.client_of(unit)) is not None


def _inventory(unit: Path) -> str:
    """What `rank_unit` wrote at the end of it. A unit of an earlier release, or a damaged one, does not have it."""
    try:
        with unit.open(encoding="utf-8", errors="replace") as file:
            return inventory_of(file.read(_UNIT_BYTES))
    except OSError:
        return ""


def inventory_of(unit: str) -> str:
    """The name in a unit's text; empty where it has none."""
    found = re.search(r"^Inventory=(\S+)$", unit, re.MULTILINE)
    return found.group(1) if found else ""


# What a converge asks besides.
BEFORE_CHANGE: Mapping[str, Part] = {"starts": lambda run, ask: read_starts(run, ask["services"])}
READS: Mapping[str, Part] = {
    "our_units": lambda _run, _ask: read_units(),
    "last_run": lambda _run, _ask: read_last_run(),
    "lease": lambda _run, _ask: read_last_run(Path(layout.LEASE)),
    "running": lambda run, ask: read_containers(run, ask["variables"]),
}
