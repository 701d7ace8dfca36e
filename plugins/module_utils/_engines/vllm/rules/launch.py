# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch as the rules see it: what runs, in which image, for which model, on which hosts, as far as it is known."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ...._base.gb10 import fact
from ...._base.schema import Spec, option
from ...._facts.models.drafting import method_of
from ...._facts.models.facts import Model
from ...._facts.models.purpose import PURPOSE
from ..catalogue.releases import Release
from ..catalogue.version import Version, parse, parse_range
from ..text.command import Command, Words
from ..text.docker_command import Bind
from ..text.image_facts import Image

# A GB10, where nothing else is known.
SM = int(fact("hardware", "compute_capability").replace(".", ""))
GPUS: int = fact("hardware", "gpus")
MEMORY_BYTES: int = fact("hardware", "memory_total_kib") * 1024

_POSITIVE: Spec = {"type": "int", "min": 1}
_COUNT: Spec = {"type": "int", "min": 0}
_TEXT: Spec = {"type": "str"}
_YES_NO: Spec = {"type": "bool"}
_TEXTS: Spec = {"type": "list", "elements": _TEXT}
_SHARES: Spec = {"type": "list", "elements": {"type": "number", "min": 0, "max": 1}}
_ADDRESSES: Spec = {"type": "map", "values": {"type": "str", "nullable": True}}


@dataclass(frozen=True)
class Host:
    """The host, and what a look at it showed. memory_bytes: MemTotal. utilizations: of the other services on it."""

    sm: int = option(_POSITIVE, default=SM)
    gpus: int = option(_POSITIVE, default=GPUS)
    memory_bytes: int = option(_POSITIVE, default=MEMORY_BYTES)
    mem_available_bytes: int | None = option(_COUNT)
    driver: str | None = option(_TEXT)
    swap: bool | None = option(_YES_NO)
    default_target: str | None = option(_TEXT)
    read_ahead_kib: int | None = option(_COUNT)
    sysctl: Mapping[str, Any] = option({"type": "map"}, default_factory=dict)
    cache_filesystem: str | None = option(_TEXT)
    resolves_hub: bool | None = option(_YES_NO)
    compile_cache: bool | None = option(_YES_NO)
    utilizations: tuple[float, ...] = option(_SHARES, default=())
    mtu: int | None = option(_POSITIVE)
    rdma_addresses: Mapping[str, str | None] = option(_ADDRESSES, default_factory=dict)


@dataclass(frozen=True)
class Group:
    """The hosts of one service. hosts: how many, None where not given. revisions: the model's on each."""

    hosts: int | None = option(_POSITIVE)
    revisions: tuple[str, ...] = option(_TEXTS, default=())
    fabric_addresses: tuple[str, ...] = option(_TEXTS, default=())


@dataclass(frozen=True)
class Service:
    """What is wanted of the service. profile: interactive, concurrent, single-user, minimal-memory.

    recipe: its name, "" for none, None where not given. restarts: whether somebody else starts it again.
    open: whether other machines reach it without a key.
    kv_pool_tokens, kv_blocks, kv_block_size: as planned or printed. non_kv_bytes: what a rank takes beside its KV pool.
    pool_declared: whether somebody decided on its KV pool and on its requests each by itself.
    """

    tools: bool | None = option(PURPOSE["tools"])
    reasoning: bool | None = option(PURPOSE["reasoning"])
    video: bool | None = option(PURPOSE["video"])
    media_files: bool | None = option(PURPOSE["media_files"])
    profile: str | None = option(PURPOSE["profile"])
    ready_timeout_s: int | None = option(_POSITIVE)
    recipe: str | None = option(_TEXT)
    restarts: bool | None = option(_YES_NO)
    address: str | None = option(_TEXT)
    open: bool | None = option(_YES_NO)
    kv_pool_tokens: int | None = option(_COUNT)
    kv_blocks: int | None = option(_COUNT)
    kv_block_size: int | None = option(_POSITIVE)
    non_kv_bytes: int | None = option(_COUNT)
    pool_declared: bool | None = option(_YES_NO)


@dataclass(frozen=True)
class Launch:
    """One launch, read with one release. mounts, container: None where not known.

    release: None where the image's vLLM isn't known. container: options of `docker run` by their long names.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    words: Words
    command: Command
    release: Release | None
    version: str | None = None
    image: Image | None = None
    entrypoint: str | None = None
    mounts: tuple[Bind, ...] | None = None
    container: Mapping[str, tuple[str, ...]] | None = None
    model: Model = field(default_factory=Model)
    host: Host = field(default_factory=Host)
    group: Group = field(default_factory=Group)
    service: Service = field(default_factory=Service)

    # Versions

    def within(self, versions: str) -> bool:
        """Whether the release is in a range such as ``0.15.0..0.19.1``; False where it isn't known."""
        return self.release is not None and self.release.version in parse_range(versions)

    @property
    def _build(self) -> Version | None:
        return parse(self.release.version) if self.release else None

    def before(self, version: str) -> bool:
        build = self._build
        return build is not None and not build.since(version)

    def since(self, version: str) -> bool:
        build = self._build
        return build is not None and build.since(version)

    # The image

    @property
    def family(self) -> str | None:
        return self.image.family if self.image else None

    @property
    def gb10(self) -> bool:
        return self.host.sm == SM

    def mounted(self, part: str) -> bool | None:
        """Whether something is mounted at a target that holds this text; None where mounts aren't known."""
        return None if self.mounts is None else any(part in mount.target for mount in self.mounts)

    # Options

    @property
    def serves(self) -> bool:
        """Whether there are words for vLLM at all."""
        return self.words.form != "other" and bool(self.words.words)

    def text(self, option: str) -> str | None:
        return self.command.text(option)

    def number(self, option: str) -> float | None:
        return self.command.number(option)

    def switch(self, option: str) -> bool | None:
        return self.command.switch(option)

    def has(self, option: str) -> bool:
        return self.command.has(option)

    @cached_property
    def speculation(self) -> Mapping[str, Any]:
        """``--speculative-config`` with what ``--spec-method`` and its like add; empty without speculation."""
        short = {"method": "--spec-method", "model": "--spec-model", "num_speculative_tokens": "--spec-tokens"}
        given = {key: self.text(option) for key, option in short.items() if self.has(option)}
        return {**given, **self.command.json("--speculative-config")}

    @property
    def method(self) -> str | None:
        """The speculative method, as written or as vLLM derives it from the drafter."""
        return method_of(self.speculation)

    @property
    def moe_backend(self) -> str | None:
        text = self.text("--moe-backend")
        return text.lower().replace("-", "_") if text else None

    @property
    def attention_backend(self) -> str | None:
        """By the option, or by the variable that releases before 0.15.0 read."""
        text = self.text("--attention-backend")
        if text is None and not self.since("0.15.0"):
            text = self.env.get("VLLM_ATTENTION_BACKEND")
        return text.upper() if text else None

    @property
    def kv_dtype(self) -> str:
        return self.text("--kv-cache-dtype") or "auto"

    @property
    def graphs(self) -> str:
        """The mode of the CUDA graphs."""
        mode = self.command.json("--compilation-config").get("cudagraph_mode", "FULL_AND_PIECEWISE")
        return "NONE" if self.switch("--enforce-eager") else str(mode).upper()

    @property
    def utilization(self) -> float | None:
        return self.number("--gpu-memory-utilization")

    @property
    def default_utilization(self) -> float:
        """vLLM's own share where none is given (vllm/config/cache.py)."""
        return 0.92 if self.since("0.20.0") else 0.9

    @property
    def executor(self) -> str | None:
        return self.text("--distributed-executor-backend")

    @property
    def prefix_caching(self) -> bool | None:
        """As given, else vLLM's default: on, but off for hybrid models before 0.28.0."""
        given = self.switch("--enable-prefix-caching")
        if given is not None or self.release is None:
            return given
        return True if not self.model.hybrid else self.since("0.28.0")

    # Ranks

    @property
    def world_size(self) -> int:
        """Tensor times pipeline parallel size."""
        tensor = self.number("--tensor-parallel-size") or 1
        return int(tensor * (self.number("--pipeline-parallel-size") or 1))

    @property
    def hosts(self) -> int | None:
        """How many hosts the service has, as far as it is given."""
        nodes = self.number("--nnodes")
        return self.group.hosts or (int(nodes) if nodes else None)

    @property
    def spread(self) -> bool:
        """Whether the service is on more than one host, by what is given or by what its ranks need."""
        return (self.hosts or 1) > 1 or (self.executor == "ray" and self.world_size > self.host.gpus)

    def read_with(self, release: Release | None, command: Command) -> "Launch":
        return replace(self, release=release, command=command)
