# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Reading a host: /proc and read-only commands in, plain data out. The judgement is elsewhere (`_host.preflight`)."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._host.sameness import read_driver, read_images
from ansible_collections.gb10.fleet.plugins.module_utils._weights.index import NAME, indexed_bytes

# (exit code, stdout, stderr) of an argument list; FileNotFoundError when there is no such program
Run = Callable[[list[str]], tuple[int, str, str]]
_TCP_LISTEN = "0A"


class UnreadableError(Exception):
    """A part of the state that can't be read, with the reason."""


def read_state(run: Run, paths: Sequence[str], images: Sequence[str] = ()) -> tuple[dict[str, Any], dict[str, str]]:
    """All parts as data, and the reason for each part that could not be read (its value is then None)."""
    parts: dict[str, Callable[[], Any]] = {
        "architecture": platform.machine,
        "memory_bytes": lambda: memory_bytes(Path("/proc/meminfo").read_text(encoding="ascii")),
        "paths": lambda: {path: _path_state(Path(path)) for path in paths},
        "listening": _listening,
        "containers": lambda: _containers(run),
        "driver": lambda: read_driver(run),
        "images": lambda: read_images(run, images),
    }
    state: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name, read in parts.items():
        try:
            state[name] = read()
        except (OSError, ValueError, UnreadableError) as error:
            state[name] = None
            unknown[name] = str(error)
    return state, unknown


def memory_bytes(meminfo: str) -> dict[str, int]:
    """Total and available memory of /proc/meminfo's text, in bytes."""
    found = dict(re.findall(r"^(MemTotal|MemAvailable):\s+(\d+) kB$", meminfo, re.MULTILINE))
    if len(found) != 2:
        raise UnreadableError("/proc/meminfo lacks MemTotal or MemAvailable")
    return {"total": int(found["MemTotal"]) * 1024, "available": int(found["MemAvailable"]) * 1024}


def _path_state(path: Path) -> dict[str, Any]:
    existing = next(place for place in (path, *path.parents) if place.exists())
    disk = os.statvfs(existing)
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    return {
        "exists": existing == path,
        "free_bytes": disk.f_bavail * disk.f_frsize,
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


def listening_sockets(table: str) -> dict[str, int]:
    """Socket inode -> local port, of the listening rows of /proc/net/tcp or tcp6."""
    rows = (line.split() for line in table.splitlines()[1:])
    return {row[9]: int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _TCP_LISTEN}


def _listening() -> list[dict[str, Any]]:
    sockets: dict[str, int] = {}
    for name in ("tcp", "tcp6"):
        table = Path("/proc/net") / name
        if table.exists():
            sockets |= listening_sockets(table.read_text(encoding="ascii"))
    owners = _socket_owners(sockets)
    found = {(port, *owners.get(inode, ("", ""))) for inode, port in sockets.items()}
    return [{"port": port, "process": process, "container": container} for port, process, container in sorted(found)]


def _socket_owners(sockets: Mapping[str, int]) -> dict[str, tuple[str, str]]:
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
    code, out, err = run(["docker", "ps", "--no-trunc", "--format", "{{json .}}"])
    if code != 0:
        raise UnreadableError(err.strip() or f"docker ps ended with {code}")
    return [running_container(json.loads(line)) for line in out.splitlines()]


def running_container(row: Mapping[str, str]) -> dict[str, Any]:
    """A `docker ps --format json` row -> id, name, and the host ports that it publishes."""
    ports = {int(port) for port in re.findall(r":(\d+)->", row.get("Ports", ""))}
    return {"id": row["ID"], "name": row["Names"], "ports": sorted(ports)}
