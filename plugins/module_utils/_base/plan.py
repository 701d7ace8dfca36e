# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as a type, so that a misspelt key is an error of mypy.

docs/explanation/architecture.md, "The plan", says what each part means. `_plan.fleet.plan_fleet` makes it, and a test
holds the keys here equal to those of real plans.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from .slice import Slice


class _Found(TypedDict):
    severity: Literal["error", "warning", "hint"]
    rule: str
    kind: str
    place: str
    host: str
    more: int
    service: str
    recipe: str
    variable: str
    thing: str
    part: str
    option: str
    found: str
    expected: str
    remedy: str
    reason: str
    source: str
    since: str
    hosts: list[str]


class FindingRow(_Found, total=False):
    """A finding as a map: `_base.findings.Finding.as_dict`. hosts: those that it concerns; none for the whole fleet.
    silenced: of the linter, the owner's reason."""

    silenced: str


class SummaryRow(TypedDict):
    """What an owner wants to know first of a service: `_plan.summary.summary`."""

    service: str
    hosts: list[str]
    fits: str
    requests: float | None
    context: int | None
    free_bytes: int | None
    decode: float | None
    download_bytes: int | None
    first_start_s: float | None
    start_s: list[int] | None
    start_by: str | None
    start_limit_s: int | None
    errors: int
    warnings: int
    remedy: str


class Reported(TypedDict):
    """Who says that a recipe works. image: the one that he used. None where not known."""

    by: str | None
    when: str | None
    hardware: str | None
    note: str | None
    image: str


class _Measured(TypedDict):
    what: str
    value: float
    unit: str
    conditions: str
    source: str


class Measured(_Measured, total=False):
    """A figure that a recipe names. release: the engine's. drafts: a step, 0 without any. accepted: tokens a step with
    them, as its source states."""

    hosts: int
    requests: int
    prompt: int
    release: str
    drafts: int
    accepted: str


class Speed(TypedDict):
    """What is forecast. decode, low, high: tokens a second of one stream. total: of all. limit: what the memory allows
    one stream. bound: what takes most of a step. step_ms: of one step. accepted: tokens a step; assumed: nobody has
    measured that. ttft_s, ttft_low, ttft_high: seconds to the first token, the mean where several prompts come at once.
    prefill: tokens of a prompt a second."""

    requests: int
    decode: float
    low: float
    high: float
    total: float
    limit: float
    bound: str
    step_ms: float
    accepted: float
    assumed: bool
    ttft_s: float
    ttft_low: float
    ttft_high: float
    prefill: float


class OwnSpeed(TypedDict):
    """A forecast that a service's own benchmark calibrates. sound: it is no slower than the forecast allows. record:
    as `data/forms/speed_record.yml`. kernels: that its last start chose, as `_engines.memory.boots.BootLog`."""

    alone: Speed
    together: Speed | None
    sound: bool
    record: Mapping[str, Any]
    kernels: str | None


class ServiceSpeed(TypedDict):
    """What a service is expected to reach. together: with as many requests as it works on at once. pays: tokens a step
    from which drafts are faster than none; None without drafts. full_s: what a step takes longer while the KV pool is
    full; 0 where nobody knows. own: None where nobody has measured it."""

    alone: Speed
    together: Speed | None
    prompt: int
    pays: float | None
    full_s: float
    own: OwnSpeed | None


class PlannedImage(TypedDict):
    reference: str
    digest: str | None
    release: str | None


class RestOfPool(TypedDict):
    bytes: int
    max_concurrency: float


class Pool(TypedDict):
    """The KV pool of a rank: `_engines.interface.EMPTY_POOL` with what is known."""

    has_cache: bool
    exact: bool
    assumed: str | None
    bytes: int | None
    context: int | None
    tokens: int | None
    tokens_low: int | None
    tokens_high: int | None
    block_size: int | None
    num_blocks: int | None
    max_concurrency: float | None
    bytes_per_request: int | None
    with_rest: RestOfPool | None
    prefix_unit: int | None


class Boot(TypedDict):
    key: str
    memory_total_bytes: int
    requested_bytes: int | None


class Costs(TypedDict):
    download_bytes: int | None
    first_start_s: float | None
    start_s: list[int] | None
    start_by: str | None
    start_limit_s: int


class Explained(TypedDict):
    """A value of a service, who wrote it, and why. kind: flag or env. name: of the option or variable."""

    kind: str
    name: str
    value: Any
    origin: str
    reason: str


class ServicePlan(TypedDict):
    """What is decided of a service as a whole."""

    recipe: str
    engine: str
    status: str
    reported: Reported
    measured: list[Measured]
    costs: Costs
    hosts: list[str]
    endpoint: str
    served_name: str
    image: PlannedImage
    kv: Pool
    speed: ServiceSpeed | None
    boot: Boot
    flags: dict[str, Any]
    explain: list[Explained]


class GatewayModel(TypedDict):
    model: str
    aliases: list[str]
    services: list[str]
    slots: int
    context: int | None


class GatewayPlan(TypedDict):
    """Where it is, who may call what, and the services behind each name."""

    hosts: list[str]
    address: str | None
    url: str
    clients: str
    ca: str | None
    addresses: list[str]
    queue: int
    models: list[GatewayModel]


class ClientPlan(TypedDict):
    client: str
    kind: str
    host: str
    address: str
    key: str
    secret: str
    account: str
    image: Any
    memory_limit_bytes: int


class MonitoringPlan(TypedDict):
    host: str
    url: str
    retention_days: int
    alerts: list[str]
    hosts: list[str]
    services: list[str]


class Plan(TypedDict):
    """Every decision for a fleet. hosts: by name the slice that each role takes its own part of."""

    inventory: str
    gateway: GatewayPlan | None
    clients: list[ClientPlan]
    monitoring: MonitoringPlan | None
    phoenix: dict[str, Any] | None
    hosts: dict[str, Slice]
    services: dict[str, ServicePlan]
    drift: dict[str, Any]
    findings: list[FindingRow]
    summary: list[SummaryRow]
