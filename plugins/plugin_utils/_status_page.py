# SPDX-License-Identifier: GPL-3.0-or-later
"""The fleet on one page: what ``status.yml`` saw, and what is kept beside the inventory."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ..module_utils._base.own_files import look, replace_file
from ..module_utils._base.plan import Plan
from ..module_utils._base.ranks import front_of
from ..module_utils._base.reading import State
from ..module_utils._base.sizes import size
from ..module_utils._base.subject import PreflightContext
from ..module_utils._operations.drift.document import Night
from ..module_utils._operations.drift.history import parse
from ..module_utils._operations.verify.ranks import SERVING
from ..module_utils._operations.verify.tables import Status
from ._page import rendered

# What each page of ours has within its first bytes: any other file is an owner's.
_OURS = b"<!-- A page of gb10.fleet -->"
_RANK = ("rank", "host", "health", "for", "tokens/s", "running + waiting", "KV use", "memory free")


def keep(file: Path, text: str) -> str:
    """Write the page; a sentence for a person where that can't be."""
    there, why = look(file, lambda content: not content or _OURS in content[:200])
    if why or there is False:
        found = why or "which is no page of gb10.fleet"
        return f"page: found {file}, {found}; expected a new file or an earlier page; choose another name"
    try:
        replace_file(file, text.encode())
    except OSError as problem:
        return f"page: {file} could not be written ({problem.strerror}); expected a folder of yours; choose another one"
    return ""


def last_night(folder: Path) -> Night | None:
    """The last check of drift that is kept beside the inventory."""
    history, _why = look(folder / "history.json", parse)
    return history["nights"][-1] if history and history["nights"] else None


def page(
    plan: Plan, hosts: Sequence[str], status: Status, states: Mapping[str, State], night: Night | None, at: str
) -> str:
    """The whole page, with the hosts that serve nothing, which status.yml does not read.

    hosts: of this run. states: what was read of each that answered. at: the time of the run, for a person.
    """
    ranks: dict[str, list[dict[str, str]]] = {}
    for row, _seen in status.ranks:
        ranks.setdefault(row["service"], []).append(row)
    services = [_service(plan, name, rows) for name, rows in ranks.items()]
    down = sum(not service["serves"] for service in services)
    idle = [host for host, of in plan["hosts"].items() if host not in hosts and not of["services"]]
    return rendered(
        "playbooks/templates/status.html.j2",
        mark=_OURS.decode(),
        fleet=plan["inventory"],
        at=at,
        headline=f"{len(services) - down} of {len(services)} services answer",
        is_well=not down and not status.problems,
        services=services,
        columns=_RANK,
        hosts=[_host(plan, host, states.get(host), status, night) for host in (*hosts, *idle)],
        idle=idle,
        tables=[("Gateway", status.gateways), ("Clients", status.clients)],
        started=status.started,
        problems=status.problems,
        night=night,
    )


def _service(plan: Plan, name: str, rows: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    service, front = plan["services"][name], front_of(plan, name)
    return {
        "name": name,
        "model": service["served_name"],
        "endpoint": front["url"] if front else service["endpoint"],
        "engine": " ".join(filter(None, (service["engine"], service["image"]["release"]))),
        "recipe": service["recipe"],
        "context": service["kv"]["context"],
        "serves": all(row["health"] == SERVING for row in rows),
        "speed": service["speed"],
        "ranks": rows,
    }


def _host(plan: Plan, host: str, state: State | None, status: Status, night: Night | None) -> dict[str, Any]:
    look_at = PreflightContext(host, plan["hosts"][host], state or cast(State, {}))
    machine = next((row for row in status.machines if row["machine"] == host), {})
    platform, kernel = look_at.part("platform"), look_at.part("kernel")
    versions = {
        "DGX OS": platform.get("ota"),
        "kernel": kernel.get("release"),
        "driver": look_at.part("driver") or None,
    }
    memory = look_at.part("memory_bytes")
    return {
        "name": host,
        "seen": state is not None,
        "machine": {name: text for name, text in machine.items() if name != "machine"},
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items() if version),
        "bar": _bar(plan, host, memory) if memory else None,
        "night": night["hosts"].get(host) if night else None,
    }


def _bar(plan: Plan, host: str, memory: Mapping[str, int]) -> dict[str, Any]:
    """The memory as parts of a bar, in permille: what is planned for each service, and what else is in use."""
    total, used = memory["total"], memory["total"] - memory["available"]
    planned = [(service["name"], service["memory_bytes"]) for service in plan["hosts"][host]["services"]]
    other = max(0, used - sum(each for _name, each in planned))
    parts, start = [], 0
    for name, each in (*planned, ("other", other)):
        width = min(round(1000 * each / total), 1000 - start)
        parts.append({"name": name, "start": start, "width": width, "text": size(each)})
        start += width
    return {"parts": parts, "total": size(total), "used": size(used), "free": size(memory["available"])}
