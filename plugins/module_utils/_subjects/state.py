# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a host: /proc and read-only commands in, plain data out. `_plan.preflight.needs` and `_operations.drift`
judge it."""

import contextlib
import json
import platform
import re
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .._base.staging import existing_parent
from .._host.probe import files, machine, system
from .._host.probe.listeners import PROXY, holder
from .._host.probe.parts import Part, Run, output, read_parts
from .._stores.images import reading as images_reading
from .._stores.peers import reading as peers
from .._stores.weights import reading as weights
from .container_engine import reading as container_engine
from .fabric import reading as fabric
from .firewall import reading as firewall
from .gateway import reading as gateway
from .health import reading as health
from .services import reading as services
from .tls import reading as tls

# What a drift check reads of a host, by the part's name; a subject with a reading of its own has a line here.
# The imports are static: Ansible packs what this module names.
READS: Mapping[str, Part] = {
    **files.READS,
    **system.READS,
    **machine.READS,
    **container_engine.READS,
    **fabric.READS,
    **firewall.READS,
    **peers.READS,
    **images_reading.READS,
    **weights.READS,
    **services.READS,
    **tls.READS,
    **gateway.READS,
    **health.READS,
}

# What a converge asks besides: what roles look at themselves, by the same looks.
BEFORE_CHANGE: Mapping[str, Part] = {
    **peers.BEFORE_CHANGE,
    **images_reading.BEFORE_CHANGE,
    **weights.BEFORE_CHANGE,
    **services.BEFORE_CHANGE,
}
# What it does not ask: neither neighbours nor registries, and no bytes; roles and verify do, where it matters.
NOT_BEFORE_CHANGE = ("deep", "fabric", "reach")

# Those of every reading.
ALWAYS = ("architecture", "memory_bytes", "paths", "listening", "listening_udp", "driver", "containers")
# Those by which it is judged what is in the way of a change. One needs a question: `installs`.
UNASKED = (
    "apt",
    "boot",
    "cdi_drivers",
    "closed",
    "daemon",
    "drives",
    "engine",
    "firmware",
    "fragments",
    "gpu",
    "health",
    "installs",
    "iommu",
    "kernel",
    "network",
    "our_units",
    "peers_inventory",
    "platform",
    "sensors",
    "sudo",
    "watchdogs",
)

# What is judged besides, where a converge has asked: what it would restart, and what waits at the gateway.
JUDGED = ("files", "gateway", "images_changing", "json", "last_run", "models_changing", "starts")

# The state of a socket that waits for whoever comes: LISTEN of TCP, a UDP socket without a peer.
_TABLES = {"tcp": "0A", "udp": "07"}
_LOOPBACK_6 = "00000000000000000000000001000000"
_MAPPED_4 = "0000000000000000FFFF0000"  # ::ffff:a.b.c.d
# How long the reading may take, beside that of weights, which has a limit of its own.
PATIENCE_S = 60
# Docker listens for a container from a second before it runs until it is removed.
_LOOKS, _LOOK_S = 6, 1.0


def read_state(
    run: Run,
    paths: Sequence[str],
    images: Sequence[str] = (),
    ask: Mapping[str, Any] | None = None,
    salt: str = "",
    installs: Sequence[str] = (),
) -> tuple[dict[str, Any], dict[str, str]]:
    """All parts as data, and the reason for each part that could not be read (its value is then None).

    ask: the questions of a drift check, as `_operations.drift.questions` makes them, or of a converge, with
    ``before_change``; without them only what the preflight needs,
    of the images whose references are asked for their identity, and of `installs`, packages, what apt would do to
    install them. salt: as `_operations.drift.secrets` says.
    """
    system.wait_for_boot(run)
    parts: dict[str, Callable[[], Any]] = {
        "architecture": platform.machine,
        "memory_bytes": lambda: system.memory_bytes(Path("/proc/meminfo").read_text(encoding="ascii")),
        "paths": lambda: {path: _path_state(Path(path)) for path in paths},
        "listening": lambda: _listening("tcp"),
        "listening_udp": lambda: _listening("udp"),
        "driver": lambda: system.read_driver(run),
        "containers": lambda: _containers(run),
    }
    if ask is None:
        parts |= {name: partial(READS[name], run, {"installs": installs}) for name in UNASKED}
        parts |= {"images": lambda: images_reading.read_identities(run, images)}
        return settled(*read_parts(parts, PATIENCE_S), parts)
    questions = {**ask, "salt": salt}
    before = questions.pop("before_change", None)
    left = NOT_BEFORE_CHANGE if before else ()
    parts |= {name: partial(part, run, questions) for name, part in READS.items() if name not in left}
    if before:
        parts |= {name: partial(part, run, before) for name, part in BEFORE_CHANGE.items()}
    return settled(*read_parts(parts, PATIENCE_S + ask["deep"]["seconds"]), parts)


def settled(
    state: dict[str, Any], unknown: dict[str, str], parts: Mapping[str, Callable[[], Any]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The same, with listeners and containers read anew while Docker listens for a container that isn't there yet, or
    no longer: one that restarts again and again would be judged as a stranger's port in that moment."""
    for _ in range(_LOOKS):
        if state["containers"] is None or all(
            holder(listener, state["containers"])
            for listener in state["listening"] or ()
            if listener["process"] == PROXY
        ):
            break
        time.sleep(_LOOK_S)
        moment = ("listening", "containers")
        again, reasons = read_parts({name: parts[name] for name in moment}, PATIENCE_S)
        state, unknown = state | again, {name: why for name, why in unknown.items() if name not in moment} | reasons
    return state, unknown


def _path_state(path: Path) -> dict[str, Any]:
    existing = existing_parent(path)
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    return {
        "exists": existing == path,
        "free_bytes": shutil.disk_usage(existing).free,
        "filesystem": filesystem(mounts, str(existing.resolve())),
        "weights_bytes": weights.indexed_bytes(path / weights.INDEX),
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


def listening_sockets(table: str, state: str = _TABLES["tcp"]) -> dict[str, tuple[int, bool]]:
    """Socket inode -> local port, and whether this host alone reaches it, of the listeners in /proc/net/tcp or tcp6."""
    rows = (line.split() for line in table.splitlines()[1:])
    return {row[9]: _local_end(row[1]) for row in rows if row[3] == state}


def _local_end(text: str) -> tuple[int, bool]:
    """``0100007F:1F90`` -> (8080, True). An address is written in the host's byte order: 127 comes last."""
    address, _, port = text.rpartition(":")
    address_4 = address.removeprefix(_MAPPED_4)
    return int(port, 16), address == _LOOPBACK_6 or (len(address_4) == 8 and address_4.endswith("7F"))


def _listening(protocol: str) -> list[dict[str, Any]]:
    sockets = _sockets(protocol)
    owners = _socket_owners(sockets)
    if sockets.keys() - owners.keys():
        # Closed since the tables were read, as HAProxy's are when it is reloaded, or of nobody (the kernel's own).
        sockets = _sockets(protocol)
        owners = _socket_owners(sockets)
    found = {(*end, *owners.get(inode, ("", ""))) for inode, end in sockets.items()}
    return [dict(zip(("port", "local", "process", "container"), row, strict=True)) for row in sorted(found)]


def _sockets(protocol: str) -> dict[str, tuple[int, bool]]:
    tables = [Path("/proc/net") / name for name in (protocol, f"{protocol}6")]
    found: dict[str, tuple[int, bool]] = {}
    for table in tables:
        if table.exists():
            found |= listening_sockets(table.read_text(encoding="ascii"), _TABLES[protocol])
    return found


def _socket_owners(sockets: Mapping[str, object]) -> dict[str, tuple[str, str]]:
    """Socket inode -> name and container id of the process that holds it."""
    owners: dict[str, tuple[str, str]] = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            links = _links(process)
            held = [link[8:-1] for link in links if link.startswith("socket:[") and link[8:-1] in sockets]
            if held:
                name = (process / "comm").read_text(encoding="utf-8").strip()
                container = container_id((process / "cgroup").read_text(encoding="ascii"))
                owners |= dict.fromkeys(held, (name, container))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it ended meanwhile, or belongs to a user namespace that we can't look into
    return owners


def _links(process: Path) -> list[str]:
    """What a process has open. A busy one closes some while it is looked at."""
    found = []
    for entry in (process / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(entry.readlink()))
    return found


def container_id(cgroup: str) -> str:
    """The Docker container's id in /proc/PID/cgroup's text, or an empty string."""
    found = re.search(r"docker[-/]([0-9a-f]{64})", cgroup)
    return found.group(1) if found else ""


# Not "{{json .}}", which has the size, for which Docker mounts each container's layer and walks through it.
_CONTAINER = '{"ID": {{json .ID}}, "Names": {{json .Names}}, "Ports": {{json .Ports}}}'


def _containers(run: Run) -> list[dict[str, Any]]:
    out = output(run, ["docker", "ps", "--no-trunc", "--format", _CONTAINER])
    return [running_container(json.loads(line)) for line in out.splitlines()]


def running_container(row: Mapping[str, str]) -> dict[str, Any]:
    """A row of `docker ps` -> id, name, and the host ports that it publishes."""
    ports = {int(port) for port in re.findall(r":(\d+)->", row.get("Ports", ""))}
    return {"id": row["ID"], "name": row["Names"], "ports": sorted(ports)}
