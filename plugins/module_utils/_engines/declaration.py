# SPDX-License-Identifier: GPL-3.0-or-later
"""What owners and recipes declare, checked and with its defaults, as types. `tests/unit/test_declared_types.py` holds
each equal to its spec. Flags and variables have free keys, and whatever values their engine takes."""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from .._base.declared_host import Environment, Flags
from .._base.plan import Measured

# hub, registry, or one key with a host, a folder or an archive.
Source = str | dict[str, str]


class Exceptional(TypedDict):
    """What a container is given otherwise than GB10's default."""

    value: Any
    reason: str


class ContainerData(TypedDict, total=False):
    capabilities: Exceptional
    ipc: Exceptional
    memory_limit: Exceptional
    pids_limit: Exceptional
    read_only: Exceptional
    seccomp: Exceptional
    tmpfs: Exceptional


# A recipe ------------------------------------------------------------------------------------------------------------


class DraftData(TypedDict):
    repository: str
    revision: str | None
    seal: str | None
    config: str | None
    weights_bytes: int | None
    file: NotRequired[str]


class ModelData(TypedDict):
    repository: str
    revision: str | None
    seal: str | None
    config: str | None
    weights_bytes: int | None
    file: NotRequired[str]
    mmproj: NotRequired[str]
    table_bytes: NotRequired[int]
    quantization: str | None
    gated: bool
    draft: NotRequired[DraftData]
    source: Source


class ImageData(TypedDict):
    """build: the name of a build; of a service that is placed what its host is told to build."""

    reference: NotRequired[str]
    build: NotRequired[str | Mapping[str, Any]]
    digest: str | None
    identity: str | None
    family: str
    entrypoint: str | None
    release: str | None
    source: Source


class OverlayData(TypedDict):
    target: str
    json_merge: NotRequired[dict[str, Any]]
    model_file: NotRequired[str]
    file: NotRequired[str]
    sha256: str | None
    where: NotRequired[str]
    reason: str
    source: str


class CalibrationData(TypedDict):
    hosts: int
    release: str
    flags: Flags
    weights_gib: float
    non_kv_gib: float | None
    graphs_gib: float | None
    source: str


class UtilizationData(TypedDict):
    min: float
    max: float
    source: str


class PoolData(TypedDict):
    value: int
    source: str


class MemoryData(TypedDict):
    calibrations: list[CalibrationData]
    utilization: NotRequired[UtilizationData]
    kv_bytes_max: NotRequired[PoolData]


class StatusData(TypedDict):
    state: str
    by: str
    when: str | None
    hardware: str
    note: NotRequired[str]
    left_out: NotRequired[list[str]]
    ended: NotRequired[dict[str, str]]


class OriginData(TypedDict):
    """Where a recipe of a source comes from. when: the day of its import."""

    url: str
    commit: str | None
    file: str
    sha256: str
    when: str


class MountData(TypedDict):
    source: str
    target: str
    read_only: bool


class Cited(TypedDict):
    value: int
    source: str


class RecipeData(TypedDict):
    name: str
    summary: str
    kind: str
    host_counts: list[int]
    startup_limit_s: int | None
    gpu: NotRequired[dict[str, Cited]]
    model: ModelData
    engine: str
    image: ImageData
    flags: Flags
    env: Environment
    reasons: dict[str, str]
    mounts: list[MountData]
    container: ContainerData
    overlays: list[OverlayData]
    memory: MemoryData
    silence: dict[str, str]
    status: StatusData
    measured: list[Measured]
    sources: list[str]
    origin: NotRequired[OriginData]


# A service -----------------------------------------------------------------------------------------------------------


class Workload(TypedDict, total=False):
    max_model_len: int | str
    max_num_seqs: int | str
    pool: int | str
    pool_weight: int
    profile: str
    tools: bool
    reasoning: bool
    video: bool
    media_files: bool


class Tls(TypedDict):
    """Encryption of an endpoint, as `_subjects.tls.declared.decide` decides it.

    certificate, key: paths on this machine. ca: the certificate of the local CA, None for a certificate of the owner's.
    names: what the certificate has to name. main: the name in the endpoint's URL; empty for the address.
    """

    certificate: str
    key: str
    ca: str | None
    names: list[str]
    main: str


class Tracing(TypedDict):
    """As `_engines.tracing.declared.decide` completes it."""

    endpoint: str
    protocol: str
    headers_file: str | None


class ServiceData(TypedDict):
    """One of ``fleet_services``, completed. image, model: what is written otherwise than in the recipe.

    key_made: whether a run makes the key. aliases: further names of the model. readiness: gateways ask whether it
    serves.
    """

    recipe: str | None
    hosts: list[str]
    port: int
    listen: str
    served_name: NotRequired[str]
    replicas: int
    workload: Workload
    flags: Flags
    env: Environment
    container: ContainerData
    image: dict[str, Any]
    model: dict[str, Any]
    api_key_file: NotRequired[str | None]
    open: bool
    drain_s: NotRequired[int]
    on_creep: str
    tls: NotRequired[Tls | None]
    tracing: NotRequired[Tracing]
    trust: list[str]
    silence: dict[str, str]
    key_made: NotRequired[bool]
    aliases: NotRequired[list[str]]
    readiness: NotRequired[bool]
