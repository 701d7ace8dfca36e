# SPDX-License-Identifier: GPL-3.0-or-later
"""The memory of engines that keep keys and values in pages and whose pool an option caps in tokens.

Known of models alone whose layers all attend to everything and keep both keys and values; of others nothing is planned,
and the plan says so. What such an engine takes beside weights and pool nobody has measured on a GB10: the plan says
what it reckons with instead.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._base import worded
from .._base.findings import Finding
from .._base.layers import Value
from .._base.sizes import is_bytes, quantity, size
from .._facts.models.config import ConfigJson, number
from .._facts.models.parameters import size_of_weights
from .interface import EMPTY_POOL
from .kept import Keeps, kept
from .memory.boots import boot_key, own_calibration
from .memory.budget import Share
from .memory.estimate import Demand, published_calibration
from .observed import Observed
from .placed import Placed

# Model types whose every layer keeps keys and values of every token, but for those with a window.
_PLAIN = ("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe")
# More of free memory than that is not asked for. A pool is capped in tokens, so that no more than planned is taken.
_MOST = 0.99


@dataclass(frozen=True)
class Settings:
    """What the decided options say of the pool. context: tokens of the longest request, None for the model's own.
    at_once: requests. value_bytes: of one number in the cache, None where that isn't known. keeps: options that keep
    memory beside it, as keeps_source says. tensor, pipeline: how the model is divided. page: tokens by which the pool
    is cut. aside: bytes that it computes in, aside_is: where they are from. batched: the option for the tokens that it
    computes at once. tokens: the one that caps the pool."""

    context: int | None
    at_once: int
    value_bytes: int | None
    keeps: Mapping[str, Keeps]
    keeps_source: str
    tensor: int
    pipeline: int
    page: int
    aside: int
    aside_is: str
    batched: str
    tokens: str


@dataclass(frozen=True)
class PagedSizing:
    """demand: of one rank. key: of its boots. token_bytes: what one token takes of the rank's pool; None where that
    isn't known. context: tokens of the longest request."""

    demand: Demand
    key: str
    token_bytes: int | None
    context: int
    page: int

    def demand_on(self, host: str, observed: Observed) -> Demand:
        record = observed.boots.get(host, {}).get(self.key)
        return replace(self.demand, observed=own_calibration(record, None)) if record else self.demand

    def pool(self, placed: Placed, shares: Sequence[Share]) -> tuple[dict[str, Any], list[Finding]]:
        pinned = pool_bytes(shares)
        if self.token_bytes is None or pinned is None:
            return dict(EMPTY_POOL), []
        tokens = self.tokens(pinned)
        found = {
            "bytes": pinned,
            "context": self.context,
            "tokens": tokens,
            "block_size": self.page,
            "num_blocks": tokens // self.page,
            "max_concurrency": tokens / self.context,
            "bytes_per_request": self.context * self.token_bytes,
            "exact": True,
        }
        return EMPTY_POOL | found, [*self._small(placed, tokens)]

    def tokens(self, pool: int) -> int:
        """Whole pages of a pool. One page more is allocated, for requests that pad a batch."""
        pages = pool // ((self.token_bytes or 1) * self.page)
        return max(0, pages - 1) * self.page

    def _small(self, placed: Placed, tokens: int) -> Iterator[Finding]:
        declared = placed.settings["workload"].get("pool") not in (None, "least")
        if tokens < self.context * self.demand.max_num_seqs and not declared:
            yield (worded.warning if placed.sized_by_owner else worded.hint)(
                "memory-pool-small",
                placed.place.below("workload"),
                kind="memory",
                tokens=tokens / self.context,
                context=self.context,
                max_num_seqs=self.demand.max_num_seqs,
                kv_bytes=size(self.demand.kv_bytes),
            )

    def requested_bytes(self, flags: Mapping[str, Value], total: int) -> int | None:
        """It asks for a part of what is free, which its host alone knows."""
        return None


def pool_bytes(shares: Sequence[Share]) -> int | None:
    """The decided pool of each rank; None where it follows from what is free."""
    pools = [share.kv_cache_memory_bytes for share in shares if share.kv_cache_memory_bytes is not None]
    return min(pools) if len(pools) == len(shares) else None


def free_part(needed: int, share: Share) -> float:
    """The part of what is free at the least before a start that so many bytes are, rounded up to four digits."""
    free = share.free - share.processes.high
    if needed <= 0:
        return 0.0
    return _MOST if free <= needed else min(_MOST, -(-needed * 10_000 // free) / 10_000)


def size_service(
    placed: Placed, settings: Settings, option: str, ignored: frozenset[str], more: Mapping[str, object]
) -> tuple[PagedSizing, list[Finding]]:
    """The demand of one rank, from what is decided before memory is. option: by which an owner gives it a part of what
    is free. ignored: options that change no memory. more: options that stand in a file."""
    config = ConfigJson(placed.config or {})
    context = settings.context or config.positions or 0
    cell = _token_bytes(config, settings) if context else None
    if "draft" in placed.model and cell is not None:
        own = _token_bytes(ConfigJson(placed.drafter or {}), settings)
        cell = None if own is None else cell + own
    least = None if cell is None else _pool_for(settings.at_once * context, cell, settings.page)
    one = None if cell is None else _pool_for(context, cell, settings.page)
    values = {name: decided.value for name, decided in placed.flags.items()}
    asked = placed.settings["workload"].get("pool")
    declared = _declared(asked, cell, settings.page, least)
    limits = placed.recipe["memory"].get("utilization", {"min": 0.0, "max": 1.0})
    written = values.get(option)
    records = placed.recipe["memory"].get("calibrations", [])
    weights, known, drafter = _weights(placed), placed.model["weights_bytes"], placed.drafter_bytes
    bounds = None if known is not None or weights is None else (weights.low + drafter, weights.high + drafter)
    in_host, uncounted = kept(settings.keeps, {**values, **more}, placed.place, settings.keeps_source)
    demand = Demand(
        service=placed.name,
        # a written part is of weights and pool, beside which it computes
        requested=lambda total, share: int(total * share) + (settings.aside if written is not None else 0),
        ranks=len(placed.hosts),
        proven_on=placed.recipe["host_counts"],
        enforce_eager=False,
        max_num_seqs=settings.at_once,
        max_num_batched_tokens=0,
        vocab_size=0,
        weights_bytes=known + drafter if known is not None else weights and weights.expected + drafter,
        weights_bounds=bounds,
        weights_source="model.weights_bytes" if known is not None else "estimated: parameters by config.json",
        weights_copied=weights.copied if weights else None,
        calibration=published_calibration(records, len(placed.hosts), values, settings.batched),
        kv_bytes=least,
        kv_start=one,
        takes_rest=asked == "rest",
        kv_cache_memory_bytes=declared,
        utilization=written,
        share_option=option,
        pool_option=settings.tokens,
        pool_weight=placed.settings["workload"].get("pool_weight", 1),
        activations=settings.aside,
        offload=in_host,
        limits=(limits["min"], limits["max"]),
    )
    image, model = placed.image, placed.model
    relevant = {name: value for name, value in values.items() if name not in ignored}
    reference = image["digest"] or image["reference"]
    key = boot_key(reference, model["repository"], model["revision"], relevant, {}, len(placed.hosts))
    findings = [*_not_measured(placed, settings)] if cell else [*_unknown(placed, config, settings, option)]
    return PagedSizing(demand, key, cell, context, settings.page), [*findings, *uncounted, *placed.drafter_unknown()]


def value_bytes(placed: Placed, kind: str, known: Mapping[str, int]) -> int | None:
    """Of one number in the cache. kind: as its option says; by itself a ModelOpt checkpoint decides, which config.json
    does not show."""
    named = f"{placed.model['repository']} {placed.model['quantization'] or ''}".lower()
    if kind == "auto":
        return None if "modelopt" in named or "fp4" in named else 2
    return known.get(kind)


def _weights(placed: Placed) -> Any:
    if placed.config is None:
        return None
    return size_of_weights(placed.config, placed.model["repository"], placed.model["quantization"], drafts=False)


def _pool_for(tokens: int, cell: int, page: int) -> int:
    return (-(-tokens // page) + 1) * page * cell


def _declared(asked: int | str | None, cell: int | None, page: int, least: int | None) -> int | None:
    """The bytes that `workload.pool` stands for, where it does."""
    if is_bytes(asked):
        return quantity(asked)
    if asked == "least":
        return least
    tokens = quantity(asked)
    return None if tokens is None or cell is None else _pool_for(tokens, cell, page)


def _token_bytes(config: ConfigJson, settings: Settings) -> int | None:
    """Of one rank: keys and values of its heads in its layers."""
    text = config.text
    windowed = text.get("sliding_window") and text.get("use_sliding_window", True)
    if text.get("model_type") not in _PLAIN or windowed or settings.value_bytes is None:
        return None
    heads, layers = number(text, "num_attention_heads"), number(text, "num_hidden_layers")
    width = number(text, "head_dim") or (number(text, "hidden_size") // heads if heads else 0)
    kept = number(text, "num_key_value_heads") or heads
    if not (width and kept and layers):
        return None
    return 2 * max(1, kept // settings.tensor) * width * settings.value_bytes * math.ceil(layers / settings.pipeline)


def _unknown(placed: Placed, config: ConfigJson, settings: Settings, option: str) -> Iterator[Finding]:
    title, found = placed.engine.spec.title, "nothing is known of the model"
    if config.values:
        shape = config.text.get("model_type") or config.architecture or "a kind that its config.json does not name"
        found = f"a model of {shape}, whose cache in {title} is not known here"
    if config.values and settings.value_bytes is None:
        found = "a cache of numbers whose size only the checkpoint gives"
    yield worded.memory_hint(
        "memory-not-judged/pool", placed.place, its_found=found, plain=", ".join(_PLAIN), option=option
    )


def _not_measured(placed: Placed, settings: Settings) -> Iterator[Finding]:
    if not placed.recipe["memory"].get("calibrations"):
        title = placed.engine.spec.title
        yield worded.memory_hint("memory-not-measured", placed.place, title=title, aside_is=settings.aside_is)
