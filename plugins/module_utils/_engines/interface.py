# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine is to the rest of the collection. docs/explanation/architecture.md, "An engine", has the table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .._base.findings import Finding
from .._base.layers import Value
from .._base.schema import Spec
from .._base.sizes import quantity
from .._base.slice import ContainerEntry, ExampleRequest, FabricSlice, TuningSlice
from .declaration import Workload
from .memory.budget import Budget, Share
from .memory.estimate import Demand
from .observed import Observed
from .placed import Placed


@dataclass(frozen=True)
class KeyFile:
    """The API key as the engine reads it. target: the file in the container, empty for an engine that asks for no key.
    form: its text, with ``%s`` for the key as JSON, or ``%t`` for it as it is."""

    target: str
    form: str


@dataclass(frozen=True)
class TlsFiles:
    """Where the engine finds its certificate, with the chain, and the key of it: PEM files in the container."""

    certificate: str
    key: str


@dataclass(frozen=True)
class Example:
    """A request whose answer a person can read. path, body: of the POST, below the endpoint's URL. answers: keys and
    indexes that lead through the JSON reply to where the answer may be; the first that is not empty counts. sound_s: as
    of `Request`."""

    path: str
    body: Mapping[str, Any]
    answers: Sequence[Sequence[str | int]]
    sound_s: float = 0.0

    def as_data(self) -> ExampleRequest:
        return {"path": self.path, "body": self.body, "answers": self.answers, "sound_s": self.sound_s}


@dataclass(frozen=True)
class EngineSpec:
    """What holds for an engine whatever the service.

    title: as people write it. workload: the option that each size of a service's ``workload`` stands for. images:
    patterns of the names of images, each with their family and, where the name does not say it, release. families:
    kinds of images by how they start it; the first one's entrypoint is its server. calculated_flags: options that the
    plan calculates with, and their form. planned_flags, planned_env, secrets: what nobody sets by hand, each with what
    to do instead. caches: folders in the container that are worth keeping between starts. reads_images: whether an
    image of unknown release can be read. boot_lines: a regular expression for the lines of a start's log that
    `Engine.boot` reads; empty for none. code_flags: options by which code that the model's publisher wrote runs in the
    container. code_names: options, and keys in their maps, whose value names code to be run, each with a regular
    expression for the values that name none. development: variables and options that open the endpoint to whoever
    reaches it, each with what it does. open_paths: what its endpoint answers without the key, where that is more than
    its health. tls: None for an engine that speaks no TLS. aliases: whether a model can have further names, ``aliases``
    in the settings of its service. workers_listen: the ranks meet at a port of each rank but the head's, which calls
    them, instead of one of the head's. single_files: a model is files of its repository, which ``model.file`` names,
    instead of all of them. head_loads: the head alone reads the weights, and sends the other ranks theirs. abbreviates:
    whether it takes the beginning of an option's name for the option, as argparse does. trace_headers: where it finds
    the headers for the collector of its traces, as OpenTelemetry's variable has them; empty for an engine that sends
    none.
    load: words of the load generator in its images, with {url}, {model}, {served}, {prompt}, {answer} (tokens),
    {requests}, {seed}, {file} (its result, below /tmp); empty for none. load_more: further ones by what a point has:
    text or image (with {width}, {height}), at_once (with {at_once}), rate (with {rate}, requests a second), depth (with
    {depth}, tokens that all prompts of a run begin with). load_tls: further ones for an endpoint with TLS. load_keys:
    in its result (a JSON map) completed, failed (requests), answered (tokens), duration (seconds), the figures of
    `_operations.bench.form.BETTER`, and those of `_operations.bench.form.SHOWN` that it has. load_goals: by the names
    that people write, the keys in its result of figures in ms that a search may be asked to keep below a limit.
    series: names in its Prometheus text by what they tell: gauges running, waiting (requests) and kv_use (0 to 1);
    counters preempted, prompted, generated, prefix_asked, prefix_hits, draft_steps, draft_accepted; histograms of
    seconds first_token, next_token, queued; or in place of both draft counters a gauge tokens_a_step. counts_at_end:
    it counts the tokens of an answer when that ends, so that its rate says nothing of the moment.
    """

    name: str
    title: str
    families: Sequence[str]
    calculated_flags: Mapping[str, Spec]
    planned_flags: Mapping[str, str]
    planned_env: Mapping[str, str]
    secrets: Mapping[str, str]
    key: KeyFile
    workload: Mapping[str, str] = field(default_factory=dict)
    images: Sequence[Sequence[str | None]] = ()
    caches: Mapping[str, str] = field(default_factory=dict)
    reads_images: bool = False
    boot_lines: str = ""
    code_flags: Sequence[str] = ()
    code_names: Mapping[str, str] = field(default_factory=dict)
    development: Mapping[str, str] = field(default_factory=dict)
    open_paths: Sequence[str] = ()
    tls: TlsFiles | None = None
    aliases: bool = False
    workers_listen: bool = False
    single_files: bool = False
    head_loads: bool = False
    abbreviates: bool = True
    series: Mapping[str, str] = field(default_factory=dict)
    counts_at_end: bool = False
    trace_headers: str = ""
    load: Sequence[str] = ()
    load_more: Mapping[str, Sequence[str]] = field(default_factory=dict)
    load_tls: Sequence[str] = ()
    load_keys: Mapping[str, str] = field(default_factory=dict)
    load_goals: Mapping[str, str] = field(default_factory=dict)

    def workload_flags(self, workload: Workload) -> dict[str, Any]:
        """The options that a service's ``workload`` stands for."""
        sizes: Mapping[str, Any] = workload
        return {option: quantity(sizes[size]) for size, option in self.workload.items() if size in sizes}


@dataclass(frozen=True)
class Proposal:
    """What an engine makes of a model without a recipe: keys of a recipe, and why each flag is so.

    image: ``{reference, digest, family, release}``. model: further keys of it.
    """

    kind: str
    image: Mapping[str, Any]
    flags: Mapping[str, Any]
    reasons: Mapping[str, str]
    quantization: str | None = None
    model: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """A setting that may make a service faster. values: what each writes otherwise in ``fleet_services.NAME``, as
    ``{flags, workload}``; the first one nothing. words: each as people read it. places: of each on a scale, for a
    number whose neighbours act alike. note: what a person has to know before a value is kept; empty for nothing."""

    name: str
    values: Sequence[Mapping[str, Mapping[str, Any]]]
    words: Sequence[str]
    places: Sequence[float] | None = None
    note: str = ""


@dataclass(frozen=True)
class Launch:
    """How one rank's container begins. exec: words run in it once all ranks are in. token: what its processes need a
    secret of the group's for, which lies at `_base.layout.IN_GROUP_TOKEN`; None where they need none. stop_signal: what
    its program ends by, where that isn't the image's. flags: the engine's options among these words, for who
    asks the plan for them. shared_memory: bytes of /dev/shm that they ask for, beside what every container has."""

    arguments: Sequence[str]
    entrypoint: str | None = None
    exec: Sequence[str] | None = None
    flags: Mapping[str, Any] = field(default_factory=dict)
    token: str | None = None
    stop_signal: str | None = None
    shared_memory: int = 0


class ServiceSizing(Protocol):
    """What is known of a service's memory before its hosts are looked at. key: under which its boots are kept."""

    @property
    def key(self) -> str: ...

    def demand_on(self, host: str, observed: Observed) -> Demand:
        """What one rank asks of a host, with what the last boot there has shown."""

    def pool(self, placed: Placed, shares: Sequence[Share]) -> tuple[dict[str, Any], list[Finding]]:
        """The KV pool of a rank, `EMPTY_POOL` with what is known, and why the engine would refuse it."""

    def requested_bytes(self, flags: Mapping[str, Value], total: int) -> int | None:
        """The bytes of its host's memory that the final flags ask for; None where they ask for none."""


# assumed: what the sizes rest on that nobody has read of the model itself; None where all of it was.
EMPTY_POOL: dict[str, Any] = {
    **dict.fromkeys(("assumed", "bytes", "context", "tokens", "tokens_low", "tokens_high")),
    **dict.fromkeys(("block_size", "num_blocks", "max_concurrency", "bytes_per_request", "with_rest", "prefix_unit")),
    "exact": False,
    "has_cache": True,
}


@dataclass(frozen=True)
class Facts:
    """What the plan knows of a service when its launch is judged.

    container: the head's, as it would be judged. tuning, fabric, budget: the head's ``host_tuning``, ``fabric`` and
    memory. kv: the pool. startup_limit_s: how long it may be silent while it starts.
    """

    placed: Placed
    container: ContainerEntry
    options: Iterable[tuple[str, str]]
    tuning: TuningSlice
    fabric: FabricSlice
    budget: Budget
    sizing: ServiceSizing
    kv: Mapping[str, Any]
    startup_limit_s: float
    observed: Observed
