# SPDX-License-Identifier: GPL-3.0-or-later
"""Services: their units, the containers that really run, the ports that are open; and what nobody declared."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit

from ..._base import layout, worded
from ..._base.findings import Difference, Finding, host_error, host_warning
from ..._base.gb10 import fact
from ..._base.managed import Managed, ManagedJson, keyed, managed
from ..._base.place import Place
from ..._base.ranks import with_groups
from ..._base.reading import Container, Image, State, TakenBack
from ..._base.received import LINE, matching, one_line, to_read
from ..._base.sizes import duration
from ..._base.slice import ContainerEntry, Files, Folders, ServiceSlice, Slice, SupervisorSlice
from ..._base.subject import (
    SITE,
    Differences,
    DriftContext,
    PreflightContext,
    Questions,
    SliceContext,
    Subject,
    Unknown,
)
from ..._engines.tracing.declared import headers_text
from ..._host.joins.services import reads_model
from .reading import READS
from .supervisors import program
from .taken_back import counts, words
from .undeclared import FOREIGN, Undeclared, undeclared

SSH_PORT = 22
# What listens on every Ubuntu: SSH on another port, and the resolver for LLMNR (port 5355).
_SYSTEM = {"sshd", "systemd-resolve"}


def supervisor(_here: SliceContext) -> SupervisorSlice:
    """``services_supervisor``: the program of every rank, and the folder for secrets."""
    files: Files = {path: {"mode": "0644", "source": source} for path, source in sorted(program().items())}
    folders: Folders = {layout.SECRETS: "0700", layout.SERVICES: "0755"}
    return {"files": files, "folders": folders}


def _files(services: Sequence[ServiceSlice]) -> Iterator[Managed | ManagedJson]:
    for service in services:
        name = service["name"]
        yield from managed({key: service[key] for key in ("files", "folders")}, name)
        for file in service["merged"]:
            yield Managed(file["path"], "file", "0644", service=name)
            yield ManagedJson(file["path"], file["json_merge"], original=file["original"], service=name)
        if service["secret"]:
            yield Managed(service["secret"]["path"], "file", "0600", secret=True, service=name, shared=True)
        yield from credentials(service)


def credentials(service: ServiceSlice) -> Iterator[Managed]:
    """Its API key, certificate and headers for a collector, made of the controller's files. service: of a host's
    slice."""
    name, key = service["name"], service["key"]
    if key:
        rendered = keyed(key["form"])
        yield Managed(key["path"], "file", "0600", secret=True, service=name, source=key["source"], rendered=rendered)
    if headers := service["trace_headers"]:
        path, source = headers["path"], headers["source"]
        yield Managed(path, "file", "0600", secret=True, service=name, source=source, rendered=headers_text)
    if service["tls"]:
        for file, mode in ((service["tls"]["certificate"], "0644"), (service["tls"]["key"], "0600")):
            yield Managed(file["path"], "file", mode, secret=True, service=name, source=file["source"])


def containers(slice_: Slice) -> dict[str, ContainerEntry]:
    """The containers that are to run on a host, by name, as their units start them (`_plan.container.Container`)."""
    return {service["container"]["name"]: service["container"] for service in slice_["services"]}


def _questions(asked: Questions) -> Mapping[str, Any]:
    return {"variables": {name: sorted(one["env"]) for name, one in containers(asked.slice).items()}}


def _differences(view: DriftContext) -> Differences:
    yield from _containers(view)
    yield from _undeclared(view)
    yield from _unproved(view)
    for service, record in taken_back(view.slice, view.state).items():
        place = f"unit {layout.unit(service)}"
        yield view.difference("warning", "service-taken-back", place, **words(service, record), service=service)
    yield from _ports(view)


def taken_back(slice_: Slice, state: State) -> dict[str, TakenBack]:
    """The services of a host whose planned definition a rollout has taken back, and which go by another one."""
    kept = {unit["unit"]: unit.get("taken_back") for unit in state.get("our_units") or ()}
    found = {one["name"]: (kept.get(layout.unit(one["name"])), one) for one in slice_["services"]}
    return {
        name: record
        for name, (record, wanted) in found.items()
        if record and counts(record, wanted["definition"], wanted.get("start"))  # a file of the doctor may lack it
    }


def _containers(view: DriftContext) -> Differences:
    """The container that really runs against the planned one."""
    running, units = view.state["running"], view.state["units"]
    if running is None:
        return
    for name, planned in sorted(containers(view.slice).items()):
        service = str(layout.service_of(name))
        unit = (units or {}).get(layout.unit(service))
        have = running.get(name)
        if have is not None:
            for rule, expected, found in _aspects(planned, have, view.state["images"]):
                yield view.difference(
                    "error",
                    f"container-{rule}",
                    f"container {name}",
                    found=found,
                    expected=expected,
                    remedy=f"systemctl restart {layout.unit(service)} starts it as its unit says",
                    service=service,
                )
        elif unit and unit["active"] == "active":
            yield Unknown(view.host, f"container {name}", "its unit is active, but Docker does not list it yet")


def _aspects(
    want: ContainerEntry, have: Container, images: Mapping[str, Image | None] | None
) -> Iterator[tuple[str, str, str]]:
    """(rule, want, have) of everything in which a running container is not the planned one."""
    image = (images or {}).get(want["image"])
    if image is not None and image["id"] != have["image"]:
        yield "image", f"{want['image']} ({_short(image['id'])})", f"{have['reference']} ({_short(have['image'])})"
    entrypoint = [want["entrypoint"]] if want["entrypoint"] is not None else have["image_entrypoint"]
    arguments = [*want["arguments"]]
    if arguments != have["argv"] or entrypoint != have["entrypoint"]:
        yield ("argv", *_apart([*entrypoint, *arguments], [*map(to_read, [*have["entrypoint"], *have["argv"]])]))
    for name, value in sorted(want["env"].items()):
        if value != have["env"].get(name):
            yield f"env {name}", f"{name}={value}", f"{name}={to_read(have['env'].get(name, ' (not set)'))}"
    unexpected = [name for name in have["other_env"] if name not in _ADDED_AT_LAUNCH]
    if unexpected:
        yield "env", "no other variables than planned", ", ".join(map(one_line, unexpected))
    seen: Mapping[str, object] = have
    for rule, planned in _planned(want).items():
        there = seen[rule]
        # Docker leaves out, with a warning, a limit for which the kernel has no controller
        if planned != there and not (rule.endswith("-limit") and there is None):
            yield rule, _listed(planned), _listed(there)


# The supervisor of a group looks these up at each launch.
_ADDED_AT_LAUNCH = {"NCCL_IB_GID_INDEX"}


def _planned(want: ContainerEntry) -> dict[str, Any]:
    """The rest of a container in the form in which Docker keeps it."""
    return {
        "mounts": sorted(
            [
                *([mount["source"], mount["target"], mount["read_only"]] for mount in want["mounts"]),
                *([folder, target, False] for target, folder in want["caches"].items()),
            ]
        ),
        "devices": sorted(want["devices"]),
        "capabilities": sorted(want["capabilities"]),
        "dropped": ["ALL"],
        "pids-limit": want["pids_limit"],
        "memory-limit": want["memory_limit"],
        "oom-score-adj": want["oom_score_adj"],
        "read-only": want["read_only"],
        "tmpfs": sorted(want["tmpfs"]),
        "log": "none",
        "privileged": False,
        "security": sorted(want["security"]),
        "network": want["network"],
        "ipc": want["ipc"],
        "published": sorted([port["address"], port["port"]] for port in want["ports"]),
    }


def _apart(want: list[str], have: list[str]) -> tuple[str, str]:
    """Two command lines from the first word in which they differ."""
    start = next(
        (i for i, pair in enumerate(zip(want, have, strict=False)) if pair[0] != pair[1]), min(len(want), len(have))
    )
    return tuple(" ".join(["...", *words[start : start + 6]]) for words in (want, have))  # type: ignore[return-value]


def _listed(value: object) -> str:
    text = "None" if value is None else matching(LINE, value)
    return json.dumps(value) if text is None else text


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def _undeclared(view: DriftContext) -> Iterator[Difference]:
    """Units of ours that are no longer declared, and containers that nobody declared."""
    placed = {name: service["hosts"] for name, service in view.plan["services"].items()}
    run = {
        "inventory": view.plan["inventory"],
        "placed": placed,
        "clients": {client["client"]: [client["host"]] for client in view.plan["clients"]},
        "gateway": view.plan["gateway"]["hosts"] if view.plan["gateway"] else [],
        "hosts": [*view.plan["hosts"]],
        "retire": [],
    }
    left = undeclared(view.state["our_units"] or (), view.host, run)
    for unit in left:
        if unit.fate in FOREIGN:
            continue  # of another inventory, whose drift check it is
        yield view.difference(
            "error",
            "unit-undeclared",
            f"unit {unit.unit}",
            found="its file is there" + (f", by the inventory {unit.inventory}" if unit.fate == "taken" else ""),
            expected=layout.unit(unit.service) if unit.fate == "renamed" else "no such unit",
            remedy=_undeclared_remedy(view, unit),
        )
    expected = {*containers(view.slice), *view.settings["expect"]["containers"]}
    expected |= {client["start"]["container"] for client in view.slice["clients"]}
    # named with their units, of which a stopped container would only start again; or left to the inventory they are of
    expected |= {unit.container for unit in left if unit.container}
    for name, have in sorted((view.state["running"] or {}).items()):
        if name not in expected:
            yield view.differs(
                "warning",
                "container-undeclared",
                f"container {name}",
                found=f"runs {have['reference']}" + (", privileged" if have["privileged"] else ""),
                name=name,
            )


def _unproved(view: DriftContext) -> Iterator[Difference]:
    """Services that a rollout left before they had proved themselves."""
    units = {unit["unit"] for unit in view.state["our_units"] or () if unit.get("unproved")}
    for service in view.slice["services"]:
        if service["unit"] in units:
            yield view.difference(
                "warning",
                "service-unproved",
                f"unit {service['unit']}",
                **_unproved_words(service["name"]),
                reason="what is kept has the service's secrets of before, and a later rollout goes back to it",
                service=service["name"],
            )


def _unproved_words(service: str) -> dict[str, str]:
    return {
        "found": "a rollout was cut off before the new definition had proved itself; the earlier definition is kept",
        "expected": "a definition that is proved",
        "remedy": f"ansible-playbook gb10.fleet.rollout -e service={service}",
    }


def _undeclared_remedy(view: DriftContext, one: Undeclared) -> str:
    if one.fate == "gone":
        return f"declare {one.service} again, or remove it: {view.converge()} -e retire={one.service}"
    if one.fate == "taken":
        return f"give the service another name, or run site.yml of the inventory {one.inventory}"
    return f"ansible-playbook {SITE} -l {with_groups(view.plan, [view.host, *one.hosts])}"


def _ports(view: DriftContext) -> Differences:
    """The declared ports listen, and no other does but to the host itself."""
    listening = view.state["listening"]
    if listening is None:
        return
    declared = {row["port"] for row in view.slice["listens"] if row["port"] != "any"}
    running = view.state["running"] or {}
    ours = {have["id"] for name, have in running.items() if layout.service_of(name) is not None}
    open_ports = {row["port"] for row in listening}
    for service, port in sorted(_endpoints(view).items()):
        if port not in open_ports:
            yield from _closed(view, port, service)
    expected = {SSH_PORT, *declared, *view.settings["expect"]["listeners"]}
    for row in listening:
        # a rank's own ports lie on the fabric and are the group's business
        if row["local"] or row["port"] in expected or row["container"] in ours or row["process"] in _SYSTEM:
            continue
        yield view.differs(
            "warning", "port-undeclared", f"port {row['port']}", process=row["process"] or "a process", port=row["port"]
        )


def _endpoints(view: DriftContext) -> dict[str, int]:
    """The ports of the services whose head stands here."""
    return {one["name"]: one["supervisor"]["ports"][0] for one in view.slice["services"] if one["proof"]}


def _closed(view: DriftContext, port: int, service: str) -> Differences:
    """A port that nobody listens on; while a model loads it is too early to say."""
    unit = (view.state["units"] or {}).get(layout.unit(service))
    if unit is None or unit["active"] != "active":
        return  # reported with the units
    limit = fact("limits", "startup_limit_s")
    if unit["active_s"] is not None and unit["active_s"] < limit:
        since = f"its unit has run for {duration(unit['active_s'])}, and a start may take {duration(limit)}"
        yield Unknown(view.host, f"port {port}", f"{service} does not listen there; {since}")
    else:
        yield view.differs(
            "error",
            "port-closed",
            f"port {port}",
            service=service,
            its_service=service,
            service_unit=layout.unit(service),
        )


def _obstacles(look: PreflightContext) -> Iterator[Finding]:
    """Services that a rollout left before they had proved themselves: whoever changes them now should know."""
    units = {unit["unit"] for unit in look.part("our_units") or () if unit.get("unproved")}
    asked = {unit["unit"]: unit.get("asked") for unit in look.part("our_units") or ()}
    for service in look.slice["services"]:
        # what doctor.yml keeps of a service has no supervisor
        if service.get("supervisor") and (url := asked.get(layout.unit(service["name"]))):
            with contextlib.suppress(ValueError):
                yield from _closes(look, service, urlsplit(one_line(url)))
        if layout.unit(service["name"]) in units:
            yield host_warning("service-unproved", f"service {service['name']}", **_unproved_words(service["name"]))
        yield from _restarts(look, service)
    for name, record in taken_back(look.slice, look.state).items():
        texts = words(name, record)
        texts["remedy"] += f"; site.yml -e retry={name} brings it and does not go back"
        yield host_error("service-taken-back", Place(service=name, thing=f"service {name}"), **texts)


def _closes(look: PreflightContext, service: ServiceSlice, was: SplitResult) -> Iterator[Finding]:
    """Clients that ask an endpoint must know the new one before the old one is gone. was: as its own host asks it."""
    rank = service["supervisor"]
    place, endpoint = Place(service=service["name"], thing=f"service {service['name']}"), rank["endpoint"]
    at = f"{was.scheme}://{look.host}:{was.port}"
    if was.port is None:
        return
    if rank["readiness"]:
        yield worded.host_warning("service-endpoint-closes/gateway", place, url=at)
    elif endpoint and (now := urlsplit(endpoint["url"])) and (now.scheme, now.port) != (was.scheme, was.port):
        to = f"{now.scheme}://{look.host}:{now.port}"
        yield worded.host_warning("service-endpoint-closes/moved", place, url=at, now=to)


def _restarts(look: PreflightContext, service: ServiceSlice) -> Iterator[Finding]:
    """Whoever waits for its answers should know before."""
    name = service["name"]
    start = look.part("starts").get(name)
    if not start or not start["runs"]:
        return
    image, later = service["container"]["image"], layout.supervisor_file(name)
    files = (item.path for item in _files([service]) if item.path != later and _differs(item, look))
    models = (model for model in look.part("models_changing") if reads_model(service, model))
    other_image = start["other_image"] or image in look.part("images_changing")
    if why := start["newer"] or next(files, "") or (other_image and image) or next(models, ""):
        took, limit = start["took_s"], service["supervisor"]["limits"]["startup_limit_s"]
        takes = f"its last start took {duration(took)}" if took else f"a start may take {duration(limit)}"
        takes = takes if took or not service["rank"] else "its head says how long that takes"
        at = Place(service=name, thing=f"service {name}")
        yield worded.host_warning("service-restarts", at, why=why, takes=takes, name=name)


def _differs(item: Managed | ManagedJson, look: PreflightContext) -> bool:
    """Whether a run writes it, by what could be read."""
    if isinstance(item, ManagedJson):
        return any(want != there for want, there in (look.part("json").get(item.path) or {}).values())
    have = look.part("files").get(item.path)
    if not have or item.kind == "folder" or have["kind"] == "unreadable":
        return False
    content = item.content is not None and have.get("sha256") != item.sha256
    return have["kind"] != item.kind or content or have.get("same") is False


SUPERVISOR = Subject("supervisor", slice=supervisor)
SERVICES = Subject(
    "services", files=_files, questions=_questions, read=READS, differences=_differences, obstacles=_obstacles
)
