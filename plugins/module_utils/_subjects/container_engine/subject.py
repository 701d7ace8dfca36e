# SPDX-License-Identifier: GPL-3.0-or-later
"""Docker: its settings, the logins to registries, and that it runs."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._base import layout, worded
from ..._base.findings import Finding, error
from ..._base.forms import forms
from ..._base.gb10 import data_table, fact
from ..._base.managed import Managed, ManagedJson
from ..._base.place import Place
from ..._base.reading import Daemon
from ..._base.received import one_line
from ..._base.slice import ContainerEngineSlice
from ..._base.subject import Differences, DriftContext, PreflightContext, SliceContext, Subject
from ..._host.settings.json_settings import changed_keys, merged
from .reading import READS, RESTART, needed_rules

# Docker Hub's logins stand under its address of old in Docker's own file; any other registry's under its name.
LOGIN_KEYS = {"docker.io": "https://index.docker.io/v1/"}
UNIT = "docker.service"
_DAEMON = "/etc/docker/daemon.json"
_CAT = "systemctl cat docker"
_LOGINS = "/root/.docker/config.json"
_MADE = "the rules that Docker made when it started"
_FLUSHED = (
    "no container with a published port starts without them, and Docker makes them only at its start; `nft flush "
    "ruleset`, which a restart of nftables.service does, takes them"
)
SPEC = forms("container_engine", dockerd={"known": fact("known_names", "dockerd")})["container_engine"]
# Keys that a reload is enough for (dockerd's reference, "Configuration reload behavior"); of `features` it takes over
# neither `cdi` nor `containerd-snapshotter`.
RELOADABLE: tuple[str, ...] = data_table("docker_reloadable")


def container_engine(here: SliceContext) -> ContainerEngineSlice:
    """``container_engine_plan``."""
    settings = here.settings.get("container_engine", {})
    # by key: an owner's own setting takes none of the others away
    daemon = {**fact("container_engine", "daemon"), **settings.get("daemon", {})}
    registries = settings.get("registries", fact("container_engine", "registries"))
    return {
        "daemon": daemon,
        "registries": [
            {**registry, "key": LOGIN_KEYS.get(registry["name"], registry["name"])} for registry in registries
        ],
        "units": {UNIT: "started"},
        "reloadable": [*RELOADABLE],
        "restart": settings.get("restart", False),
    }


def _files(plan: ContainerEngineSlice) -> Iterator[Managed | ManagedJson]:
    """Two JSON files that others also write."""
    yield Managed(posixpath.dirname(_DAEMON), "folder", "0755")
    yield Managed(_DAEMON, "file", "0644")
    yield ManagedJson(_DAEMON, plan["daemon"])
    if plan["registries"]:
        names = tuple(sorted(registry["key"] for registry in plan["registries"]))
        yield Managed(_LOGINS, "file", "0600", secret=True)
        yield ManagedJson(_LOGINS, {}, names_of="auths", names=names)


def _differences(view: DriftContext) -> Differences:
    daemon = view.state["daemon"]
    if daemon is not None:
        yield from map(view.of_finding, _overruled(daemon, view.slice["container_engine"]))
    engine = view.state["engine"]
    if engine is not None and not engine["running"] and not (daemon and daemon["masked"]):
        hangs = one_line(engine.get("hangs", ""))
        found = f"it does not answer{hangs and f': {hangs}'}" if engine["installed"] else "not installed"
        yield view.difference("error", "docker-down", "Docker", found=found, expected="runs", remedy=hangs and RESTART)
    if missing := engine and daemon and needed_rules(engine, daemon):
        yield view.difference("error", "docker-rules", "Docker", found=_gone(missing), expected=_MADE, reason=_FLUSHED)


def _gone(missing: Sequence[str]) -> str:
    return f"{' and '.join(map(one_line, missing))} {'are' if len(missing) > 1 else 'is'} gone"


def _obstacles(look: PreflightContext) -> Iterator[Finding]:
    daemon, plan = look.part("daemon"), look.slice["container_engine"]
    yield from _overruled(daemon, plan)
    if hangs := look.part("engine").get("hangs"):
        yield error("docker-hangs", "Docker", found=hangs, expected="an answer", remedy=RESTART, kind="host")
    others = sorted(
        container["name"] for container in look.state.get("containers") or () if not _is_ours(container["name"])
    )
    changes, missing = _needs_restart(plan, daemon), needed_rules(look.part("engine"), daemon) if daemon else []
    asked = others and not plan["restart"] and not daemon.get("settings", {}).get("live-restore")
    if asked and (changes or missing):
        why = [f"{', '.join(changes)} change"] if changes else []
        why += [_gone(missing)] if missing else []
        ways = ["stop them", "write `restart: true` in fleet_host.container_engine"]
        ways += [] if missing else [f"leave these keys alone ({', '.join(f'{key}: null' for key in changes)})"]
        found = f"{', and '.join(why)}, so Docker restarts, and with it {', '.join(others)}"
        remedy = f"{', '.join(ways[:-1])}, or {ways[-1]}"
        reason = _FLUSHED if missing else ""
        yield worded.host_error("docker-restart", "Docker", found=found, remedy=remedy, reason=reason)


def _overruled(daemon: Daemon, plan: ContainerEngineSlice) -> Iterator[Finding]:
    """What of the owner's wins over our daemon.json, or keeps Docker from starting with it."""
    where = daemon.get("where", {})
    if daemon.get("masked"):
        yield worded.error("docker-masked", UNIT, kind="host", unit=UNIT)
    if daemon.get("file"):
        found = f"dockerd reads {one_line(daemon['file'])} instead ({one_line(where.get('config-file', _CAT))})"
        yield worded.host_error("docker-other-file", _DAEMON, found=found, file=_DAEMON)
    written = {key for key, value in plan["daemon"].items() if value is not None}
    for key in sorted(written & {*map(one_line, daemon.get("flags", ()))}):
        at = Place(variable="fleet_host").below("container_engine", "daemon", key)
        yield worded.host_error("docker-option-twice", at, key=key, key_get=one_line(where.get(key, _CAT)))


def _is_ours(name: str) -> bool:
    return (layout.service_of(name) or layout.client_of(name)) is not None


def _needs_restart(plan: ContainerEngineSlice, daemon: Mapping[str, Any]) -> list[str]:
    """Our keys of daemon.json that differ and that a running Docker does not take over."""
    if not daemon:
        return []
    have = daemon["settings"]
    ours = {key: value for key, value in plan["daemon"].items() if value is not None and key not in daemon["names"]}
    return [key for key in changed_keys(have, merged(have, ours)) if key not in plan["reloadable"]]


CONTAINER_ENGINE = Subject(
    "container_engine", SPEC, container_engine, _files, read=READS, differences=_differences, obstacles=_obstacles
)
