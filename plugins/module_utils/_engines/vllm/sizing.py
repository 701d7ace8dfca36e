# SPDX-License-Identifier: GPL-3.0-or-later
"""How much memory a service needs, from its decided flags and its model's config, and the KV pool that it comes to."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, FleetError, Severity, hint, warning
from ..._base.gb10 import fact
from ..._base.layers import Layer, Value
from ..._base.place import Place
from ..._base.sizes import gib, is_bytes, quantity, size
from ..._facts.models.config import ConfigJson
from ..._facts.models.facts import model_of, table_on_disk
from ..._facts.models.parameters import Made, encoder_bytes, size_of_weights, stages
from ..._facts.models.purpose import CHAT, TRANSCRIBE
from ..interface import EMPTY_POOL
from ..memory.boots import boot_key, own_calibration
from ..memory.budget import Share
from ..memory.estimate import BATCHED, NOTHING, Calibration, Demand, Interval, exactly, published_calibration
from ..observed import Observed
from ..placed import Placed
from . import adapters, host_memory
from .activations import Start, counts, layer, peak, takes_images
from .catalogue.version import Version, parse
from .division import stage_layers
from .kv import LONG_ALLOWED, ServiceKv, kv_for_service, overridden
from .kv.config import keeps_nothing
from .kv.release import NEWEST, requested_bytes
from .placement import ESTIMATE, ESTIMATES_SINCE, group_layers
from .runner import VARIABLE, Service, start, without_images
from .while_loading import copies_of, made_of

# vLLM's own choices for `vllm serve` on a GPU of this size up to 0.32, where the model isn't known well enough to ask
# `kv` (vllm/engine/arg_utils.py, _set_default_max_num_seqs_and_batched_tokens_args).
BATCHED_TOKENS = 8192
SEQUENCES = 256
# What weights may take of all hosts (R109).
_MOST_OF_MEMORY = 0.9
# By which release a pool is shown whose image names none; the second for a model that the first doesn't have.
_ASSUMED: tuple[str, ...] = (fact("image", "release"), NEWEST)
_POOL = ("tokens", "block_size", "num_blocks", "max_concurrency", "bytes_per_request")


@dataclass(frozen=True)
class VllmSizing:
    """What is known of a service's memory before its hosts are looked at.

    demand: of one rank. key: under which its boots are kept. kv: its cache, None where it can't be sized; by the
    release that the recipe names or, where it names none, by the one that its image was seen to hold, which only
    figures come from. config: the model's config.json, None where it isn't known.
    rank_weights: what each host's rank holds, where pipeline stages hold different layers.
    match_unit: tokens by which shared beginnings are compared, None for the release's own.
    """

    demand: Demand
    key: str
    kv: ServiceKv | None
    config: Mapping[str, Any] | None
    match_unit: int | None = None
    rank_weights: Mapping[str, Interval] = field(default_factory=dict)

    def demand_on(self, host: str, observed: Observed) -> Demand:
        """The demand on one host, with what the last boot there has shown."""
        record = observed.boots.get(host, {}).get(self.key)
        demand = replace(self.demand, rank_weights=self.rank_weights.get(host))
        return replace(demand, observed=own_calibration(record, self._tokens)) if record else demand

    def _tokens(self, size: int) -> int | None:
        pool, refused = self._filled(size)
        return None if refused else pool.get("tokens")

    def _filled(self, size: int) -> tuple[dict[str, Any], list[Finding]]:
        """The pool that so many bytes make, empty where it isn't known, and why vLLM won't start with it."""
        if self.kv is None:
            return {}, []
        try:
            return self.kv.pool(size), []
        except FleetError as problem:
            too_small = {finding.rule for finding in problem.findings} == {"kv-fit"}
            return self.kv.pool(size, any_length=True) if too_small else {}, [*problem.findings]

    def pool(self, placed: Placed, shares: Sequence[Share]) -> tuple[dict[str, Any], list[Finding]]:
        """The KV pool of a rank: {bytes, tokens, block_size, num_blocks, context, max_concurrency, bytes_per_request,
        tokens_low, tokens_high}, and why vLLM would refuse it, as one that holds less than a request.

        Exact where the bytes are given, or a boot has shown what else is taken. Otherwise it is for the bytes that are
        expected, and tokens_low and tokens_high are the bounds. A group's smallest pool counts for all.
        """
        pools = [share.kv_pool for share in shares if share.kv_pool is not None]
        bounds = [min(getattr(pool, bound) for pool in pools) for bound in ("low", "expected", "high") if pools]
        low, size, high = bounds if len(pools) == len(shares) else (0, 0, 0)
        answer, refused = self._filled(size) if size else ({}, [])
        findings = [_at_service(placed, finding) for finding in refused or _late(answer)]
        if low != high or placed.image["release"] is None:
            findings = [replace(finding, severity="warning") for finding in findings]
        if answer and not findings:
            findings += _small(placed, shares, answer)
            findings += _never_shared(placed, self._prefix_unit(answer), answer)
        pool = {
            "has_cache": self.demand.kv_bytes != 0,
            "prefix_unit": self._prefix_unit(answer),
            "bytes": size or None,
            "with_rest": self._with_rest(shares, size),
            "assumed": _assumed(placed, self.kv),
            "exact": low == high and not self._guesses_drafter,
            "context": answer.get("max_model_len"),
            "tokens_low": self._tokens(low) if low else None,
            "tokens_high": self._tokens(high) if high else None,
        }
        return EMPTY_POOL | pool | {name: answer.get(name) for name in _POOL}, findings

    def _prefix_unit(self, answer: Mapping[str, Any]) -> int | None:
        """From how many tokens on a beginning that prompts share is found; None where it never is, or nothing is known.

        Whole blocks of all groups alone are found, or, where states are kept at a prompt's end, units that an option
        makes smaller (vllm/v1/core/kv_cache_utils.py, resolve_cache_hit_alignment_tokens). With a drafter the last one
        found is computed again.
        """
        if self.kv is None or not answer or not answer["resolved"]["prefix_caching"]:
            return None
        mode = answer["resolved"].get("mamba_cache_mode")
        if mode == "none":
            return None
        divided = self.kv.layout.settings.context_parallel
        unit = math.lcm(
            *(group["block_size"] * (1 if group["kind"] == "Mamba" else divided) for group in answer["groups"])
        )
        if mode == "align" and self.match_unit:
            unit = self.match_unit
        return unit * (2 if self.kv.layout.settings.drafters else 1)

    @property
    def _guesses_drafter(self) -> bool:
        return self.kv is not None and self.kv.layout.settings.drafter_assumed

    def _with_rest(self, shares: Sequence[Share], now: int) -> dict[str, Any] | None:
        """What the pool would be if it took all that its hosts have left: {bytes, max_concurrency}; None where that is
        no request more."""
        sizes = [share.with_rest for share in shares if share.with_rest is not None]
        if len(sizes) < len(shares) or min(sizes) <= now or self.kv is None:
            return None
        filled, refused = self._filled(min(sizes))
        if refused or min(sizes) - now < filled["bytes_per_request"]:
            return None
        return {"bytes": min(sizes), "max_concurrency": filled["max_concurrency"]}

    def requested_bytes(self, flags: Mapping[str, Value], total: int) -> int:
        """The bytes that the command's utilization stands for."""
        return self.demand.requested(total, flags["gpu-memory-utilization"].value)


def _small(placed: Placed, shares: Sequence[Share], answer: Mapping[str, Any]) -> Iterator[Finding]:
    """A pool that doesn't hold the workload at full length, which nobody declared to be so."""
    wanted = [share.workload_bytes for share in shares if share.workload_bytes is not None]
    if not wanted:
        return
    length, at_once = answer["max_model_len"], answer["resolved"]["max_num_seqs"]
    declared, expected = "max-num-seqs" in placed.flags, f"{size(max(wanted))}, which hold them all"
    remedy = "write workload.pool: rest if requests are mostly shorter; if not, lower max_model_len or max_num_seqs"
    if not declared:  # vLLM's own default is nobody's wish
        expected = "the number of requests that you want to serve at once"
        remedy = "write workload.max_num_seqs; or workload.pool: rest if requests are mostly shorter"
    enough = [share.enough for share in shares]
    if all(enough):
        remedy += f", or write gpu-memory-utilization {max(one or 0 for one in enough)}"
    yield (warning if placed.sized_by_owner else hint)(
        "memory-pool-small",
        placed.place.below("workload"),
        found=f"the KV pool holds {answer['max_concurrency']:.2f} requests of {length:,} tokens at once, of "
        f"{at_once}{'' if declared else ', the default of vLLM'}; further requests wait",
        expected=expected,
        remedy=remedy,
        source="docs/explanation/memory.md",
        kind="memory",
        covers=("R104",),
    )


def _never_shared(placed: Placed, unit: int | None, answer: Mapping[str, Any]) -> Iterator[Finding]:
    """Prefix caching where no request is as long as what can be found again."""
    if unit is None or answer["max_model_len"] > unit or "enable-prefix-caching" not in placed.flags:
        return
    at = placed.place.below("flags", "enable-prefix-caching")
    yield worded.memory_warning("kv-prefix-never", at, unit=unit, max_model_len=answer["max_model_len"])


def _late(answer: Mapping[str, object]) -> Iterator[Finding]:
    """What stops a start after the lines about the pool."""
    if answer.get("later_startup_error"):
        words, expected = answer["later_startup_error"], "a start that goes on"
        remedy = answer["later_startup_remedy"]
        yield worded.error("kv-late", "flags", kind="memory", found=words, expected=expected, remedy=remedy)


def size_service(placed: Placed, observed: Observed) -> tuple[VllmSizing, list[Finding]]:
    """The demand of one rank, from what is decided before memory is."""
    config = placed.config
    values = {name: decided.value for name, decided in placed.flags.items()}
    kv, findings = _kv(placed, config, values, placed.image["release"])
    findings += _cache_of_the_checkpoint(placed, config, values)
    workload = placed.settings["workload"]
    asked, problems = _asked(placed, overridden(config, values.get("hf-overrides")), kv, workload.get("pool"))
    findings += problems
    eager = values.get("enforce-eager") is True
    written = _whole(values.get(BATCHED), BATCHED_TOKENS)
    batched = kv.layout.settings.max_num_batched_tokens if kv else written
    lora = adapters.memory(config, values)
    limits = placed.recipe["memory"].get("utilization", {"min": 0.0, "max": 1.0})
    ran = placed.recipe["memory"].get("kv_bytes_max")
    records = placed.recipe["memory"].get("calibrations", [])
    findings += _unused_records(placed, records, batched)
    recorded = _recorded(placed, published_calibration(records, len(placed.hosts), _known_by(placed, values, batched)))
    if not (recorded and _has_own_drafter(placed)):
        findings += placed.drafter_unknown()
    weights = _weights(placed, drafts="speculative-config" in values)
    weights, problems = _without_table(placed, weights, values)
    findings += problems
    begins = _start(placed, kv, values, batched)
    in_host, uncounted = host_memory.kept_by(placed)
    findings += uncounted
    demand = Demand(
        service=placed.name,
        requested=partial(requested_bytes, release=parse(placed.image["release"] or "")),
        ranks=len(placed.hosts),
        proven_on=placed.recipe["host_counts"],
        proven=(ran["value"], ran["source"])
        if ran and len(placed.hosts) == max(placed.recipe["host_counts"])
        else None,
        enforce_eager=eager,
        max_num_seqs=_whole(values.get("max-num-seqs"), SEQUENCES),
        max_num_batched_tokens=batched,
        vocab_size=ConfigJson(config or {}).vocabulary,
        weights_bytes=weights.size,
        weights_bounds=weights.bounds,
        weights_source=weights.source,
        weights_copied=weights.copied,
        on_disk=weights.on_disk,
        calibration=recorded,
        kv_bytes=asked.least,
        kv_start=asked.start,
        takes_rest=asked.rest,
        flashinfer=_flashinfer(placed, config, values),
        estimates_graphs=not eager and _estimates_graphs(placed),
        pool_weight=workload.get("pool_weight", 1),
        activations=_activations(placed, config, begins),
        takes_images=config is not None and takes_images(config) and not without_images(values),
        reads_layers=begins.read_layers > 0,
        drafts_recurrent=bool(kv and kv.model.recurrent and kv.layout.settings.drafters),
        in_flight=held_in_flight(config, begins, _whole(values.get("pipeline-parallel-size"), 1)),
        adapters=lora.slots if lora else 0,
        offload=in_host + (lora.copies if lora else 0),
        utilization=values.get("gpu-memory-utilization"),
        kv_cache_memory_bytes=values.get("kv-cache-memory-bytes", _declared_pool(placed, asked)),
        limits=(limits["min"], limits["max"]),
        load_format=values.get("load-format", "auto"),
        load_strategy=values.get("safetensors-load-strategy", "lazy"),
    )
    if kv is None and placed.image["release"] is None:
        seen = observed.catalogue(placed.head.name, placed.image).get("version")
        assumed: Sequence[Finding] = ()
        for version in [seen] if seen else _ASSUMED:
            if kv is None:
                kv, assumed = _kv(placed, config, values, version)
                findings += _assumed_release(placed, version) if kv and not seen else []
        findings += [replace(problem, severity="warning") for problem in assumed]
    match_unit = _whole(values.get("prefix-match-unit"), 0) or None
    return VllmSizing(
        demand, _key(placed, values), kv, config, match_unit, _rank_weights(placed, values, demand)
    ), findings


def _flashinfer(placed: Placed, config: Mapping[str, object] | None, flags: Mapping[str, object]) -> bool:
    """Whether FlashInfer's kernels compute the experts of an NVFP4 checkpoint, as far as the launch shows it.

    Up to 0.23 `auto` means them (vllm/model_executor/layers/fused_moe/oracle/nvfp4.py); of later releases no owner has
    read more memory with it. Dense models ran without (Gemma-4-12B at 0.92).
    """
    named = f"{placed.model['repository']} {placed.model['quantization']}".lower()
    if "nvfp4" not in named or not ConfigJson(config or {}).is_mixture:
        return False
    variables = {name: str(one.value) for name, one in placed.environments[placed.head.name].items()}
    without = variables.get("VLLM_USE_FLASHINFER_MOE_FP4") == "0" or "VLLM_TEST_FORCE_FP8_MARLIN" in variables
    kernel = str(flags.get("moe-backend", "marlin" if without else "auto"))
    build = parse(placed.image["release"] or "")
    by_itself = build is not None and build.since("0.15.1") and not build.since("0.24")
    return kernel.startswith("flashinfer") or (by_itself and kernel == "auto")


def _estimates_graphs(placed: Placed) -> bool:
    """Whether this release takes an estimate of CUDA graphs from a pool that it sizes, since its owner wants that."""
    build, variable = parse(placed.image["release"] or ""), placed.environments[placed.head.name].get(ESTIMATE)
    default = build is not None and build.since(ESTIMATES_SINCE)
    return default if variable is None else str(variable.value).strip() not in ("0", "")


@dataclass(frozen=True)
class _Weights:
    """Of the whole model. bounds: where the size is counted from config.json. copied: what every rank holds. on_disk:
    what is not loaded, in words."""

    size: int | None
    bounds: tuple[int, int] | None = None
    source: str = "model.weights_bytes"
    copied: int | None = None
    on_disk: str = ""


def _weights(placed: Placed, *, drafts: bool) -> _Weights:
    """The size that is known, else what its config.json comes to; each with the model that drafts for it."""
    model, known = placed.model, placed.model["weights_bytes"]
    if placed.config is None:
        return _Weights(None if known is None else known + placed.drafter_bytes)
    values = {name: decided.value for name, decided in placed.flags.items()}
    made = _made(placed)
    named = model["repository"], model["quantization"]
    found = size_of_weights(placed.config, *named, drafts=drafts, made=made)
    copies = _copies(placed)
    drafter = placed.drafter_bytes + copies - (encoder_bytes(placed.config) if without_images(values) else 0)
    whole = None if known is None else known + drafter
    if found is None or (known is not None and made is None):
        return _Weights(whole, copied=found.copied if found else None)
    source = f"estimated: parameters by config.json, quantized as {found.quantized}"
    return _Weights(found.expected + drafter, (found.low + drafter, found.high + drafter), source, found.copied)


def _rank_weights(placed: Placed, flags: Mapping[str, object], demand: Demand) -> dict[str, Interval]:
    """By host, what its rank holds; ranks of one stage are next to each other."""
    count = _whole(flags.get("pipeline-parallel-size"), 1)
    layers = stage_layers(placed.config, count, placed.environments[placed.head.name])
    if count == 1 or demand.weights_bytes is None or placed.config is None or layers is None:
        return {}
    tensor = max(1, len(placed.hosts) // count)
    low, high = demand.weights_bounds or (demand.weights_bytes, demand.weights_bytes)
    columns = [stages(placed.config, size, layers, tensor) for size in (low, demand.weights_bytes, high)]
    of_stage = [Interval(*column) for column in zip(*columns, strict=True)]
    return {host.name: of_stage[min(at // tensor, count - 1)] for at, host in enumerate(placed.hosts)}


def _without_table(placed: Placed, weights: _Weights, flags: Mapping[str, object]) -> tuple[_Weights, list[Finding]]:
    """The weights without a table of rows that a build reads from the disk; as they are where all fits into memory and
    nothing says that such a build serves it."""
    table = placed.model.get("table_bytes") or model_of({}, placed.model["repository"]).table_bytes
    if table is None or weights.size is None:
        return weights, []
    options = {f"{name}.{key}": one for name, of in flags.items() if isinstance(of, Mapping) for key, one in of.items()}
    variables = {name: one.value for name, one in placed.environments[placed.head.name].items()}
    shown = table_on_disk(options | variables)
    if not shown and weights.size < _MOST_OF_MEMORY * sum(host.memory_bytes for host in placed.hosts):
        return weights, []
    rest = replace(
        weights,
        size=weights.size - table,
        bounds=None,
        source="model.weights_bytes less its table",
        on_disk=f"{size(table)} of model.weights_bytes, tables of rows",
    )
    whole, is_table = size(weights.size), size(table)
    if shown:
        at = placed.place.below("env")
        hinted = worded.memory_hint("memory-table-on-disk/shown", at, table=is_table, whole=whole, shown=shown)
        return rest, [hinted]
    at = placed.place.below("model")
    return rest, [worded.memory_warning("memory-table-on-disk/guessed", at, table=is_table, whole=whole)]


def _has_own_drafter(placed: Placed) -> bool:
    """Whether the model drafts with what its recipe names, so that the recipe's records have its weights."""
    return bool(placed.model.get("draft", {}) == placed.recipe["model"].get("draft", {}))


def _recorded(placed: Placed, record: Calibration | None) -> Calibration | None:
    """The recipe's record as it holds for this service: with a drafter of the service's own on top, and not where the
    service has vLLM quantize weights that the record has in 16 bits."""
    own = {"quantization", "quantization-config", "dtype"} & placed.recipe["flags"].keys()
    if record is None or (_made(placed) and not own):
        return None
    if record.weights is None:
        return record
    more = 0 if _has_own_drafter(placed) else placed.drafter_bytes
    return replace(record, weights=record.weights + more + _copies(placed) // len(placed.hosts))


def _made(placed: Placed) -> Made | None:
    """What vLLM makes of the weights itself; None for a checkpoint that has a quantization of its own."""
    config = ConfigJson(placed.config or {})
    has_own = placed.model["quantization"] or config.quantization
    made = made_of({name: option.value for name, option in placed.flags.items()}, has_own=bool(has_own))
    return None if made and made.linear == "none" and not config.is_mixture else made


def _activations(placed: Placed, config: Mapping[str, object] | None, begins: Start) -> int | None:
    in_16_bits, made = None if config is None else peak(config, begins), _made(placed)
    return 2 * in_16_bits if in_16_bits and made and made.whole == "float32" else in_16_bits


def _copies(placed: Placed) -> int:
    """Of experts and of the output layer, of the whole model."""
    if placed.config is None:
        return 0
    flags, made = {name: option.value for name, option in placed.flags.items()}, _made(placed)
    sized = size_of_weights(placed.config, placed.model["repository"], placed.model["quantization"])
    algorithm = made.experts if made else sized.quantized if sized else "none"
    return sum(copies_of(flags, placed.config, algorithm))


def _assumed(placed: Placed, kv: ServiceKv | None) -> str | None:
    """What had to be assumed of a shipped config.json (recipes/configs), the model's and its drafter's, or of a drafter
    without one."""
    parts = [config.get("gb10_fleet_assumed") for config in (placed.config, placed.drafter) if config]
    if kv is not None and kv.layout.settings.drafter_assumed:
        parts.append("the drafter's, which is not here, has one layer like the model's")
    return "; of the drafter, ".join(part for part in parts if isinstance(part, str)) or None


def _assumed_release(placed: Placed, release: str) -> Iterator[Finding]:
    at = placed.place.below("image", "release")
    newest = "that is known" if release == NEWEST else "that somebody validated on a DGX Spark"
    yield worded.memory_hint(
        "kv-release-assumed", at, reference=placed.image["reference"], release=release, newest=newest
    )


def _unused_records(placed: Placed, records: Sequence[Mapping[str, Any]], batched: int) -> Iterator[Finding]:
    """Records of these ranks that can't count, since nobody can tell whether they were read at a launch like this."""
    for index, record in enumerate(records):
        if record["hosts"] == len(placed.hosts) and record["non_kv_gib"] is not None and BATCHED not in record["flags"]:
            yield worded.warning(
                "memory-calibration-unused",
                Place(recipe=placed.recipe["name"]).below("memory", "calibrations", index, "flags"),
                kind="memory",
                batched=BATCHED,
                non_kv_gib=record["non_kv_gib"],
                place=placed.place.text,
                other_batched=batched,
            )


def _cache_of_the_checkpoint(
    placed: Placed, config: Mapping[str, object] | None, flags: Mapping[str, object]
) -> Iterator[Finding]:
    """A ModelOpt checkpoint may bring a quantization of the KV cache, which a base model's config.json doesn't show."""
    method = str(placed.model.get("quantization") or flags.get("quantization") or "")
    unwritten = flags.get("kv-cache-dtype", "auto") == "auto" and not ConfigJson(config or {}).quantization
    if config is not None and method.startswith("modelopt") and unwritten and not keeps_nothing(config):
        yield worded.warning("kv-dtype-unknown", placed.place.below("flags", "kv-cache-dtype"), kind="memory")


def _known_by(placed: Placed, flags: Mapping[str, object], batched: int) -> dict[str, Any]:
    """The options that a recipe's record may name, as decided; the dense layers' kernel has a variable too."""
    kernel = placed.environments[placed.head.name].get("VLLM_NVFP4_GEMM_BACKEND")
    return {**({"linear-backend": kernel.value} if kernel else {}), **flags, BATCHED: batched}


def _start(placed: Placed, kv: ServiceKv | None, flags: Mapping[str, object], batched: int) -> Start:
    """What the profiling pass of this start depends on; where the release isn't known, as the default image's."""
    config, decided = placed.config or {}, kv.layout.settings if kv else None
    forced = placed.environments[placed.head.name].get(VARIABLE)
    service = Service(
        config,
        placed.drafter,
        flags,
        batched,
        decided.max_num_seqs if decided else sequences(placed.flags),
        _whole(flags.get("tensor-parallel-size"), 1),
        decided.max_model_len if decided else ConfigJson(config).positions or 0,
        (decided.user_block or decided.model_block or 0) if decided else 0,
        hybrid=bool(kv and kv.model.recurrent),
        pools=placed.recipe["kind"] not in (CHAT, TRANSCRIBE),
        forced=None if forced is None else str(forced.value).strip(),
    )
    return start(service, parse(placed.image["release"] or fact("image", "release")) or Version("", ()))


def held_in_flight(config: Mapping[str, object] | None, begins: Start, stages: int) -> Interval:
    """What a pipeline keeps for its further batches, of which it has as many as stages and at most one more; and what
    the runner keeps for penalties."""
    if config is None:
        return NOTHING
    each = round(layer(config, replace(begins, latent=0))) if stages > 1 else 0
    return Interval(0, each * (stages - 1), each * stages) + exactly(counts(config, begins))


def _key(placed: Placed, flags: Mapping[str, object]) -> str:
    image, model = placed.image, placed.model
    variables = _variables_without_group(placed)
    reference = image["digest"] or image["reference"]
    return boot_key(reference, model["repository"], model["revision"], flags, variables, len(placed.hosts))


def _with_drafter(flags: Mapping[str, object], drafter: Mapping[str, object] | None) -> Mapping[str, Any]:
    """The options as the KV arithmetic takes them, with the config.json of the model that drafts."""
    wanted = flags.get("speculative-config")
    if drafter is None or not isinstance(wanted, Mapping):
        return flags
    return {**flags, "speculative-config": {**wanted, "draft_config": drafter}}


def _kv(
    placed: Placed, config: Mapping[str, object] | None, flags: Mapping[str, object], version: str | None
) -> tuple[ServiceKv | None, list[Finding]]:
    """How the release arranges the model's cache; None where that isn't known. A model that we can't size may be served
    all the same, from all the memory that is free: that is a warning."""
    config = overridden(config, flags.get("hf-overrides"))
    if config is None or not version or keeps_nothing(config):
        return None, []
    try:
        return kv_for_service(
            config, _with_drafter(flags, placed.drafter), version, long_allowed=_long_allowed(placed)
        ), []
    except FleetError as problem:
        return None, [_at_service(placed, finding) for finding in problem.findings]


def _long_allowed(placed: Placed) -> bool:
    variable = placed.environments[placed.head.name].get(LONG_ALLOWED)
    return variable is not None and variable.value == "1"


def _at_service(placed: Placed, finding: Finding) -> Finding:
    severity: Severity = "warning" if finding.rule == "kv-unknown" else finding.severity
    return replace(finding, at=finding.at.within(placed.place), severity=severity)


@dataclass(frozen=True)
class _Asked:
    """The pool that a workload asks for, in bytes of a rank. least: for all its requests at full length; None where
    that isn't known. start: for one. declared: as the owner wrote it. rest: he wants what is left."""

    least: int | None
    start: int | None = None
    declared: int | None = None
    rest: bool = False


def _asked(
    placed: Placed, config: Mapping[str, object] | None, kv: ServiceKv | None, pool: int | str | None
) -> tuple[_Asked, list[Finding]]:
    """What `workload.pool` comes to with this model's cache."""
    if config is not None and keeps_nothing(config):
        return _Asked(0), []
    declared = quantity(pool) if is_bytes(pool) else None
    if kv is None:
        if pool is None and _is_small(placed):
            declared = gib(fact("memory", "small_pool_gib"))
        return _Asked(None, declared=declared, rest=pool == "rest"), []
    settings = kv.layout.settings
    try:
        start = kv.bytes_for(1, 1 if settings.fits_length else None)
        least = kv.bytes_for(settings.max_num_seqs)
        if pool == "least":
            declared = least
        elif declared is None and pool is not None and pool != "rest":
            declared = kv.bytes_of_tokens(quantity(pool) or 0)
    except FleetError as problem:
        return _Asked(None), [_at_service(placed, finding) for finding in problem.findings]
    return _Asked(least, start, declared, pool == "rest" or (settings.fits_length and pool is None)), []


def _declared_pool(placed: Placed, asked: _Asked) -> int | None:
    """What the owner declares, else what the recipe's author ran, where nothing shows how large the pool should be."""
    if asked.declared is not None or asked.least is not None or asked.rest:
        return asked.declared
    ran = placed.recipe["memory"].get("kv_bytes_max")
    return ran["value"] if ran else None


def _is_small(placed: Placed) -> bool:
    """Whether a model that can't be sized is of a kind that needs no large pool: it reads pages, or weighs little."""
    weights = placed.model.get("weights_bytes") or 0
    reads_pages = "ocr" in placed.model["repository"].lower()
    return placed.recipe["kind"] != CHAT or reads_pages or 0 < weights <= gib(fact("memory", "small_weights_gib"))


def _variables_without_group(placed: Placed) -> dict[str, Any]:
    """The head's variables but for those that its group alone brings, and where a model's own code lies: none of these
    takes memory."""
    of_group = {name for layer in group_layers(placed, placed.head) for name in layer.values}
    written = {"recipe", "service", "host"}
    decided = placed.environments[placed.head.name]
    return {
        name: one.value
        for name, one in decided.items()
        if one.origin in written or name not in of_group | {"HF_MODULES_CACHE"}
    }


def memory_flags(written: Mapping[str, Value], shares: Sequence[Share]) -> Layer:
    """What the memory plan adds to the written flags; a group has one command line, so its least host counts."""
    values: dict[str, Any] = {"gpu-memory-utilization": min(share.utilization for share in shares)}
    pools = [share.kv_cache_memory_bytes for share in shares if share.kv_cache_memory_bytes is not None]
    if pools:
        values["kv-cache-memory-bytes"] = min(pools) + host_memory.pool_share(written)
    return Layer("computed", {name: value for name, value in values.items() if name not in written}, shares[0].reasons)


def sequences(flags: Mapping[str, Value]) -> int:
    """Requests that one engine works on at once."""
    return _whole(flags["max-num-seqs"].value if "max-num-seqs" in flags else None, SEQUENCES)


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
