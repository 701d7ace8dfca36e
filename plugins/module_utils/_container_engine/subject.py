# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Docker: its settings, the logins to registries, and that it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._container_engine.reading import READS
from ansible_collections.gb10.fleet.plugins.module_utils._managed import Managed, ManagedJson
from ansible_collections.gb10.fleet.plugins.module_utils._schema import Spec
from ansible_collections.gb10.fleet.plugins.module_utils._subject import Differences, Here, Subject, View, with_defaults

# Docker Hub's logins stand under its address of old in Docker's own file; any other registry's under its name.
LOGIN_KEYS = {"docker.io": "https://index.docker.io/v1/"}
UNIT = "docker.service"
_DAEMON = "/etc/docker/daemon.json"
_LOGINS = "/root/.docker/config.json"
_REGISTRY: dict[str, Spec] = {
    "name": {"type": "str", "required": True},
    "username": {"type": "str", "required": True},
    "password_file": {"type": "str", "required": True},
}
SPEC: Spec = {
    "type": "map",
    "default": {},
    "options": {
        "daemon": {"type": "map"},
        "registries": {"type": "list", "elements": {"type": "map", "options": _REGISTRY}},
    },
}


def container_engine(here: Here) -> dict[str, Any]:
    """``container_engine_plan``."""
    plan = with_defaults("container_engine", here.settings.get("container_engine", {}))
    registries = [
        {**registry, "key": LOGIN_KEYS.get(registry["name"], registry["name"])} for registry in plan["registries"]
    ]
    return plan | {"registries": registries, "units": {UNIT: "started"}}


def _files(plan: Mapping[str, Any]) -> Iterator[Managed | ManagedJson]:
    """Two JSON files that others also write."""
    yield Managed(_DAEMON, "file", "0644")
    yield ManagedJson(_DAEMON, plan["daemon"])
    if plan["registries"]:
        names = tuple(sorted(registry["key"] for registry in plan["registries"]))
        yield Managed(_LOGINS, "file", "0600", secret=True)
        yield ManagedJson(_LOGINS, {}, names_of="auths", names=names)


def _differences(view: View) -> Differences:
    engine = view.state["engine"]
    if engine is not None and not engine["running"]:
        found = "it does not answer" if engine["installed"] else "not installed"
        yield view.differs("error", "docker-down", "Docker", found=found, expected="runs")


CONTAINER_ENGINE = Subject("container_engine", SPEC, container_engine, _files, read=READS, differences=_differences)
