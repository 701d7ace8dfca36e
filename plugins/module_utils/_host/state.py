# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Reading a host: /proc and read-only commands in, plain data out. `_preflight.needs` and `_drift` judge it."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._fabric.reading import ask_neighbours, read_links, read_rdma
from ansible_collections.gb10.fleet.plugins.module_utils._firewall import host as firewall
from ansible_collections.gb10.fleet.plugins.module_utils._firewall.ruleset import ruleset
from ansible_collections.gb10.fleet.plugins.module_utils._netplan.ssh_session import session_port
from ansible_collections.gb10.fleet.plugins.module_utils._probe import docker, files, models, system
from ansible_collections.gb10.fleet.plugins.module_utils._probe.parts import Run, UnreadableError, output, read_parts
from ansible_collections.gb10.fleet.plugins.module_utils._transfer.places import Places
from ansible_collections.gb10.fleet.plugins.module_utils._transfer.staging import existing_parent
from ansible_collections.gb10.fleet.plugins.module_utils._weights.index import NAME, indexed_bytes

_TCP_LISTEN = "0A"
_LOOPBACK_6 = "00000000000000000000000001000000"
_MAPPED_4 = "0000000000000000FFFF0000"  # ::ffff:a.b.c.d
# How long the reading may take, beside that of weights, which has a limit of its own.
PATIENCE_S = 60


def read_state(
    run: Run,
    paths: Sequence[str],
    images: Sequence[str] = (),
    ask: Mapping[str, Any] | None = None,
    salt: str = "",
) -> tuple[dict[str, Any], dict[str, str]]:
    """All parts as data, and the reason for each part that could not be read (its value is then None).

    ask: the questions of a drift check, as `_drift.questions` makes them; without them only what the preflight needs,
    and of the images whose references are asked for their identity. salt: as `_drift.secrets` says.
    """
    parts: dict[str, Callable[[], Any]] = {
        "architecture": platform.machine,
        "memory_bytes": lambda: system.memory_bytes(Path("/proc/meminfo").read_text(encoding="ascii")),
        "paths": lambda: {path: _path_state(Path(path)) for path in paths},
        "listening": _listening,
        "driver": lambda: system.read_driver(run),
    }
    if ask is None:
        parts |= {"containers": lambda: _containers(run), "images": lambda: docker.read_identities(run, images)}
        return read_parts(parts, PATIENCE_S)
    return read_parts(parts | _asked(run, ask, salt), PATIENCE_S + ask["deep"]["seconds"])


def _asked(run: Run, ask: Mapping[str, Any], salt: str) -> dict[str, Callable[[], Any]]:
    """The parts that the drift check reads."""
    places = Places(Path(ask["folder"]), Path(ask["models_folder"]))
    deep = ask["deep"]
    return {
        "files": lambda: files.read_files(ask["files"], salt),
        "json": lambda: files.read_json(ask["json"]),
        "netplan": lambda: files.read_netplan(_mac_addresses(ask["rails"])),
        "our_units": lambda: files.read_folder("/etc/systemd/system/gb10-vllm-*.service"),
        "sysctl": lambda: system.read_sysctl(ask["sysctl"]),
        "kernel": lambda: system.read_kernel(run),
        "firmware": system.read_firmware,
        "packages": lambda: system.read_packages(run, ask["packages"]),
        "units": lambda: system.read_units(run, ask["units"]),
        "clock": system.read_clock,
        "disks": lambda: system.free_bytes(ask["disks"]),
        "engine": lambda: docker.read_engine(run),
        "images": lambda: docker.read_images(run, ask["images"], places.image_records),
        "running": lambda: docker.read_containers(run, ask["variables"]),
        "models": lambda: models.read_models(places, ask["models"]),
        "fabric": lambda: _fabric(run, ask["fabric"]),
        "firewall": lambda: _firewall(run, ask["firewall"]),
        "deep": lambda: models.read_deeply(
            places, ask["models"], deep["seen"], deep["today"], deep["days"], deep["seconds"]
        ),
    }


def _mac_addresses(names: Sequence[str]) -> dict[str, str]:
    found = {name: Path("/sys/class/net", name, "address") for name in names}
    return {name: path.read_text("ascii").strip() if path.exists() else "" for name, path in found.items()}


def _fabric(run: Run, ask: Mapping[str, Any]) -> dict[str, Any]:
    """What `fabric_probe` returns, without measuring anything."""
    links = read_links(run, ask["peers"])
    return {
        "links": links,
        "asked": ask_neighbours(run, links, ask["peers"], ask["candidates"]),
        "rdma": read_rdma(ask["devices"]),
    }


def _firewall(run: Run, plan: Mapping[str, Any]) -> dict[str, Any]:
    """``{text, planned, live, live_planned, why}``: our file of rules, our table in the kernel, what they should be.

    planned: for the SSH ports that this host has. why: the reason why the kernel's rules could not be compared.
    """
    planned = ruleset(plan, firewall.ssh_ports(run, session_port(os.getppid())))
    live, live_planned, why = "", planned, ""
    if shutil.which("nft"):
        try:
            live, live_planned = firewall.in_kernel(run, planned)
        except (firewall.FirewallError, UnreadableError, OSError) as error:
            why = str(error)
    return {"text": firewall.current(), "planned": planned, "live": live, "live_planned": live_planned, "why": why}


def _path_state(path: Path) -> dict[str, Any]:
    existing = existing_parent(path)
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    return {
        "exists": existing == path,
        "free_bytes": shutil.disk_usage(existing).free,
        "filesystem": filesystem(mounts, str(existing.resolve())),
        "weights_bytes": indexed_bytes(path / NAME),
    }


def filesystem(mountinfo: str, path: str) -> str:
    """The type of the file system that holds a path: of its longest mount point, the last one mounted there."""
    best, found = "", ""
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4].encode("ascii", "backslashreplace").decode("unicode_escape")
        if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, found = point, after.split()[0]
    return found


def listening_sockets(table: str) -> dict[str, tuple[int, bool]]:
    """Socket inode -> local port, and whether this host alone reaches it, of the listeners in /proc/net/tcp or tcp6."""
    rows = (line.split() for line in table.splitlines()[1:])
    return {row[9]: _local_end(row[1]) for row in rows if row[3] == _TCP_LISTEN}


def _local_end(text: str) -> tuple[int, bool]:
    """``0100007F:1F90`` -> (8080, True). An address is written in the host's byte order: 127 comes last."""
    address, _, port = text.rpartition(":")
    address_4 = address.removeprefix(_MAPPED_4)
    return int(port, 16), address == _LOOPBACK_6 or (len(address_4) == 8 and address_4.endswith("7F"))


def _listening() -> list[dict[str, Any]]:
    sockets: dict[str, tuple[int, bool]] = {}
    for name in ("tcp", "tcp6"):
        table = Path("/proc/net") / name
        if table.exists():
            sockets |= listening_sockets(table.read_text(encoding="ascii"))
    owners = _socket_owners(sockets)
    found = {(*end, *owners.get(inode, ("", ""))) for inode, end in sockets.items()}
    return [dict(zip(("port", "local", "process", "container"), one, strict=True)) for one in sorted(found)]


def _socket_owners(sockets: Mapping[str, object]) -> dict[str, tuple[str, str]]:
    """Socket inode -> name and container id of the process that holds it."""
    owners: dict[str, tuple[str, str]] = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            links = [str(entry.readlink()) for entry in (process / "fd").iterdir()]
            held = [link[8:-1] for link in links if link.startswith("socket:[") and link[8:-1] in sockets]
            if held:
                name = (process / "comm").read_text(encoding="utf-8").strip()
                container = container_id((process / "cgroup").read_text(encoding="ascii"))
                owners |= dict.fromkeys(held, (name, container))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended meanwhile, or belongs to a user namespace that we can't look into
    return owners


def container_id(cgroup: str) -> str:
    """The Docker container's id in /proc/PID/cgroup's text, or an empty string."""
    found = re.search(r"docker[-/]([0-9a-f]{64})", cgroup)
    return found.group(1) if found else ""


def _containers(run: Run) -> list[dict[str, Any]]:
    out = output(run, ["docker", "ps", "--no-trunc", "--format", "{{json .}}"])
    return [running_container(json.loads(line)) for line in out.splitlines()]


def running_container(row: Mapping[str, str]) -> dict[str, Any]:
    """A `docker ps --format json` row -> id, name, and the host ports that it publishes."""
    ports = {int(port) for port in re.findall(r":(\d+)->", row.get("Ports", ""))}
    return {"id": row["ID"], "name": row["Names"], "ports": sorted(ports)}
