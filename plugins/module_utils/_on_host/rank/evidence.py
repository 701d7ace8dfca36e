# SPDX-License-Identifier: GPL-3.0-or-later
"""What a failed epoch leaves for the person who looks: one folder a failure and host, without secrets."""

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .container import Container
from .host import processes_of, run
from .report import Report
from .service import Service

EVIDENCE = Path("/var/lib/gb10-fleet/evidence")
KEPT = 5
_COMMAND_S = 5.0
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|PWD|AUTH|CREDENTIAL", re.IGNORECASE)


def keep(service: Service, report: Report, container: Container | None, reason: str, home: Path = EVIDENCE) -> Path:
    """Write the bundle, remove all but the newest KEPT; returns its folder."""
    folder = home / service.service
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-epoch-{report.fields['epoch']}"
    part = folder / f".{name}"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(mode=0o700)
    for file, read in _parts(service, report, container, reason).items():
        try:
            text = read()
        except (OSError, ValueError) as error:
            text = f"could not be read: {error}"
        (part / file).write_text(report.conceal(text) + "\n", encoding="utf-8")
    os.sync()
    bundle = folder / name
    shutil.rmtree(bundle, ignore_errors=True)
    part.rename(bundle)
    for old in sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return bundle


def _parts(
    service: Service, report: Report, container: Container | None, reason: str
) -> Mapping[str, Callable[[], str]]:
    return {
        "reason.txt": lambda: reason,
        "status.json": lambda: json.dumps(report.fields, indent=1),
        "container.log": lambda: "\n".join(container.tail if container else ()),
        "inspect.json": lambda: json.dumps(without_secrets(container.inspected if container else {}), indent=1),
        "processes.txt": lambda: _process_table(container),
        "journal.log": lambda: _output("journalctl", "--no-pager", "--unit", service.unit, "--lines", "500"),
        "kernel.log": lambda: _output("journalctl", "--no-pager", "--dmesg", "--lines", "200"),
        "memory.txt": _memory,
        "guard.log": lambda: _output("journalctl", "--no-pager", "--unit", service.guard.unit, "--lines", "50"),
        "network.txt": lambda: _output("ip", "-brief", "address") + _output("ss", "-tanp"),
        "gids.txt": _gids,
        "versions.txt": _versions,
    }


def without_secrets(inspected: Mapping[str, Any]) -> dict[str, Any]:
    """`docker inspect` with the values of variables masked that are named like a secret."""
    settings = dict(inspected.get("Config") or {})
    settings["Env"] = [_masked(variable) for variable in settings.get("Env") or ()]
    return {**inspected, "Config": settings}


def _masked(variable: str) -> str:
    name, equals, value = variable.partition("=")
    names_a_file = name.upper().endswith(("_PATH", "_FILE")) and value.startswith("/")
    return f"{name}{equals}***" if _SECRET_NAME.search(name) and not names_a_file else variable


def _output(*command: str) -> str:
    done = run(command, _COMMAND_S)
    return f"$ {' '.join(command)}\n{done.stdout}{done.stderr}"


def _process_table(container: Container | None) -> str:
    """Each process of the container with its state: T is stopped, D waits for a device, Z is dead."""
    rows = []
    for process in processes_of(container.init) if container else ():
        fields = (process / "stat").read_text(encoding="utf-8", errors="replace")
        name, state = fields.partition("(")[2].rpartition(")")[0], fields.rpartition(")")[2].split()[0]
        rows.append(f"{process.name} {state} {name} waits in {_text(process / 'wchan') or '-'}")
    return "\n".join(rows) or "none is left"


def _memory() -> str:
    return _text(Path("/proc/meminfo")) + _output("ps", "-eo", "pid,rss,etimes,stat,comm", "--sort", "-rss")


def _gids() -> str:
    tables = sorted(Path("/sys/class/infiniband").glob("*/ports/*/gids/*"))
    rows = ((table, _text(table).strip()) for table in tables)
    return "\n".join(f"{table.relative_to('/sys/class/infiniband')} {gid}" for table, gid in rows if gid.strip("0:"))


def _versions() -> str:
    driver = _text(Path("/proc/driver/nvidia/version"))
    return _output("uname", "-a") + driver + _output("docker", "version") + _text(Path("/etc/dgx-release"))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
