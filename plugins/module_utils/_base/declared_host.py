# SPDX-License-Identifier: GPL-3.0-or-later
"""``fleet_host`` as a type. `tests/unit/test_declared_types.py` holds it equal to the specs of the subjects."""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

# {option: value}, of an engine.
Flags = Mapping[str, Any]
# {variable: text}, None for one that is taken out.
Environment = Mapping[str, str | None]


class Retention(TypedDict, total=False):
    images: int
    models: int


class HostsService(TypedDict):
    flags: Flags
    env: Environment


class Tuning(TypedDict, total=False):
    sysctl: dict[str, str | None]
    read_ahead_kb: int | None
    swap: bool | None
    memlock: str | None
    default_target: str | None


class HostGpu(TypedDict, total=False):
    clock_max_mhz: int | None
    persistence: bool | None


class Guard(TypedDict, total=False):
    enabled: bool
    term_gib: float
    kill_gib: float


class Registry(TypedDict):
    name: str
    username: str
    password_file: str


class ContainerEngine(TypedDict):
    daemon: NotRequired[dict[str, Any]]
    registries: NotRequired[list[Registry]]
    restart: bool


Allow = TypedDict("Allow", {"port": int, "protocol": str, "from": list[str], "reason": str})


class FleetFirewall(TypedDict, total=False):
    """``fleet_firewall``; empty where nobody wrote it."""

    allow: list[Allow]


class HostFirewall(TypedDict):
    state: NotRequired[str]
    allow: list[Allow]
    shut: list[int]


class Running(TypedDict, total=False):
    kernel: str
    driver: str
    nic_firmware: str
    docker: str
    docker_store: str
    bios: str
    ota: str


class Versions(TypedDict):
    running: Running
    held: list[str]
    tolerated: dict[str, str]


class HostData(TypedDict, total=False):
    """Empty for a host whose declaration can't be read."""

    memory_kib: int
    retention: Retention
    services: dict[str, HostsService]
    host_tuning: Tuning
    gpu: HostGpu
    memory_guard: Guard
    container_engine: ContainerEngine
    firewall: HostFirewall
    versions: Versions
