# SPDX-License-Identifier: GPL-3.0-or-later
"""How much memory a service takes, from its decided options and its model's own header."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, hint
from ..._base.forms import forms
from ..._base.gb10 import fact
from ..._base.layers import Value
from ..._base.place import Place
from ..._base.schema import check
from ..._base.sizes import gib, quantity
from ..interface import EMPTY_POOL
from ..kept import keeps_of, kept
from ..memory.boots import boot_key, own_calibration
from ..memory.budget import Share
from ..memory.estimate import Calibration, Demand, Interval, published_calibration
from ..observed import Observed
from ..placed import Placed
from . import projector
from .buffers import Buffers, Settings, buffers, known, largest_cache
from .launch import slots

_FORMS = forms("gguf")
_SOURCE = "the file's own header"
_KEPT_PROMPTS_MIB = 8192  # by itself
_KEEPS = keeps_of("llama_cpp")


@dataclass(frozen=True)
class LlamaSizing:
    """demand: of one rank. ranks: each host's buffers, empty where the model isn't known. key: of its boots."""

    demand: Demand
    key: str
    ranks: Mapping[str, Buffers]
    settings: Settings | None

    def demand_on(self, host: str, observed: Observed) -> Demand:
        """With what this host's rank sets up. The head alone logs, and of its own part."""
        demand = self.demand
        if host in self.ranks:
            own = self.ranks[host]
            shown = Calibration(own.model, own.model + own.compute, 0, gib(fact("llama_cpp", "tolerance_gib")), _SOURCE)
            demand = replace(demand, calibration=shown)
        record = observed.boots.get(host, {}).get(self.key)
        return replace(demand, observed=own_calibration(record, None)) if record else demand

    def pool(self, placed: Placed, shares: Sequence[Share]) -> tuple[dict[str, Any], list[Finding]]:
        """The cache is set up whole at the start, of as many tokens as the options say."""
        settings = self.settings
        if settings is None or not self.ranks:
            return dict(EMPTY_POOL), []
        found = {
            "bytes": max(rank.cache for rank in self.ranks.values()),
            "context": settings.context if settings.unified else settings.cells,
            "tokens": settings.cells * settings.streams,
            "max_concurrency": float(settings.slots),
            "exact": True,
        }
        return EMPTY_POOL | found, []

    def requested_bytes(self, flags: Mapping[str, Value], total: int) -> int | None:
        """It asks for no part of the memory."""
        return None


def size_service(placed: Placed, observed: Observed) -> tuple[LlamaSizing, list[Finding]]:
    """The demand of one rank, from what is decided before memory is."""
    values = {name: decided.value for name, decided in placed.flags.items()}
    facts, findings = facts_of(placed.config, placed.model["config"])
    settings = _settings(values, facts)
    drafter, wrong = facts_of(placed.drafter, placed.model.get("draft", {}).get("config"))
    findings += wrong
    models = [(facts, settings)]
    if "draft" in placed.model:
        models.append((drafter, _of_draft(values, settings)))
    ranks: dict[str, Buffers] = {}
    parts = [buffers(one, own, split(placed)) for one, own in models if one and own and known(one, own)]
    if len(parts) == len(models) and "spec-draft-device" not in values:
        ranks = {host.name: _together(both) for host, *both in zip(placed.hosts, *parts, strict=True)}
    elif not findings:
        findings = [*_unknown(placed, [one for one, _ in models], settings)]
    eye, wrong = _projector_of(placed)
    findings += wrong
    if eye and ranks:
        ranks[placed.head.name] = _together([ranks[placed.head.name], _of_projector(eye, values)])
    weights = sum(one["total"] for one, _ in models if one) if facts else placed.model["weights_bytes"]
    weights = weights + eye["total"] if weights is not None and eye else weights
    processes = fact("llama_cpp", "processes_gib")
    cache = max((rank.cache for rank in ranks.values()), default=None)
    if not ranks and len(models) == 1 and facts and settings:
        cache = largest_cache(facts, settings)
    limits = placed.recipe["memory"].get("utilization", {"min": 0.0, "max": 1.0})
    records = placed.recipe["memory"].get("calibrations", [])
    in_host, uncounted = kept(
        _KEEPS, {"cache-ram": _KEPT_PROMPTS_MIB, **values}, placed.place, "llama.cpp, common/arg.cpp"
    )
    demand = Demand(
        service=placed.name,
        requested=lambda total, share: int(total * share),
        ranks=len(placed.hosts),
        enforce_eager=True,
        max_num_seqs=slots(values),
        max_num_batched_tokens=0,
        vocab_size=0,
        weights_bytes=weights,
        weights_files="the size of the GGUF file that the hub shows, all parts of it",
        calibration=published_calibration(records, len(placed.hosts), values),
        kv_bytes=cache,
        kv_cache_memory_bytes=cache,
        offload=in_host,
        own_processes=Interval(*(gib(processes[bound]) for bound in ("low", "expected", "high"))),
        limits=(limits["min"], limits["max"]),
    )
    findings += uncounted
    image, model = placed.image, placed.model
    model_name = f"{model['repository']}/{model.get('file')}"
    key = boot_key(image["digest"] or image["reference"], model_name, model["revision"], values, {}, len(placed.hosts))
    return LlamaSizing(demand, key, ranks, settings), findings


def facts_of(config: Mapping[str, object] | None, name: str | None) -> tuple[Mapping[str, Any] | None, list[Finding]]:
    """What is known of a model's file: `_facts.models.gguf.facts_of`. config: the file beside the recipes that has it,
    by its name; None without."""
    if config is None:
        return None, []
    place = Place(thing=f"recipes/configs/{name}.json", option="gguf")
    facts, findings = check(_FORMS["facts"], config.get("gguf"), place)
    if not findings and len(facts["kv_heads"]) != len(facts["blocks"]):
        findings = [
            worded.error(
                "schema-range", place.below("kv_heads"), kv_heads=len(facts["kv_heads"]), blocks=len(facts["blocks"])
            )
        ]
    return (None, findings) if findings else (facts, [])


def _projector_of(placed: Placed) -> tuple[Mapping[str, Any] | None, list[Finding]]:
    """What is known of the file that makes tokens of pictures: `_facts.models.gguf.projector_of`."""
    if "mmproj" not in placed.model:
        return None, []
    place = Place(thing=f"recipes/configs/{placed.model['config']}.json", option="projector")
    written = (placed.config or {}).get("projector")
    if written is None:
        found, expected = f"nothing is known of {placed.model['mmproj']}", "projector in the file of model.config"
        remedy = "python tools/gguf_facts.py FILE.gguf MMPROJ.gguf writes it"
        return None, [_not_judged(placed, found, expected, remedy)]
    facts, findings = check(_FORMS["projector"], written, place)
    if not findings and facts["kind"] not in projector.KNOWN:
        found = f"a projector of the kind {facts['kind']}: its weights are planned, and not what it computes in"
        findings = [_not_judged(placed, found, f"one of {', '.join(projector.KNOWN)}", "watch its first picture")]
    return (None if any(finding.severity == "error" for finding in findings) else facts), findings


def _not_judged(placed: Placed, found: str, expected: str, remedy: str) -> Finding:
    place = placed.place.below("model", "mmproj")
    return hint("memory-not-judged", place, found=found, expected=expected, remedy=remedy, kind="memory")


def _of_projector(facts: Mapping[str, Any], values: Mapping[str, object]) -> Buffers:
    """For the largest picture that it takes."""
    if facts["kind"] not in projector.KNOWN:
        return Buffers(facts["total"], 0, 0)
    patches = projector.largest(facts, quantity(values.get("image-max-tokens")))
    return Buffers(facts["total"], 0, projector.bytes_of(facts, patches))


def split(placed: Placed) -> list[float]:
    """Each rank's part of the layers, the head first; the option names RPC servers first."""
    written = placed.flags["tensor-split"].value if "tensor-split" in placed.flags else ""
    try:
        parts = [float(part) for part in str(written).split(",")]
    except ValueError:
        parts = []
    if len(parts) != len(placed.hosts) or min(parts) < 0 or not sum(parts):
        return [1.0] * len(placed.hosts)
    return [parts[-1], *parts[:-1]]


def _settings(values: Mapping[str, object], facts: Mapping[str, Any] | None) -> Settings | None:
    """As `llama-server` takes its options; None where the context is the model's and that isn't known."""
    many = slots(values)
    context = quantity(values.get("ctx-size")) or (facts["context"] if facts else 0)
    if not context:
        return None
    return Settings(
        context=context,
        slots=many,
        unified=values.get("kv-unified") is True,
        batch=min(quantity(values.get("ubatch-size")) or 512, quantity(values.get("batch-size")) or 2048),
        key_type=str(values.get("cache-type-k", "f16")),
        value_type=str(values.get("cache-type-v", "f16")),
    )


def _of_draft(values: Mapping[str, object], settings: Settings | None) -> Settings | None:
    """As it sets up the model that drafts: the same slots and context, a cache and a batch of its own."""
    if settings is None:
        return None
    return replace(
        settings,
        batch=quantity(values.get("spec-draft-n-ubatch")) or settings.batch,
        key_type=str(values.get("spec-draft-type-k", "f16")),
        value_type=str(values.get("spec-draft-type-v", "f16")),
    )


def _together(parts: Sequence[Buffers]) -> Buffers:
    """Of a rank, what its models set up."""
    return Buffers(
        *(sum(sizes) for sizes in zip(*((part_.model, part_.cache, part_.compute) for part_ in parts), strict=True))
    )


def _unknown(
    placed: Placed, models: Sequence[Mapping[str, Any] | None], settings: Settings | None
) -> Iterator[Finding]:
    """models: what is known of the model's file, and of the one that drafts for it."""
    found = "nothing is known of the model's file"
    if models[0]:
        of = ", ".join(model["architecture"] for model in models if model)
        found = f"a model of {of}, whose graph is not known here; its cache as if each layer saw every token"
        if settings is None:
            found = "no context, neither of an option nor of the model"
        elif None in models:
            found = "nothing is known of the draft model's file"
        elif "spec-draft-device" in placed.flags:
            found = "a draft model on a device of its own"
    yield worded.hint("memory-not-judged/unknown", placed.place, kind="memory", found=found)


def slot_problems(placed: Placed) -> Iterator[Finding]:
    """A slot shorter than the workload asks for."""
    values = {name: decided.value for name, decided in placed.flags.items()}
    wanted = quantity(placed.settings["workload"].get("max_model_len"))
    context = quantity(values.get("ctx-size"))
    if wanted is None or context is None or values.get("kv-unified") is True:
        return
    if context // slots(values) < wanted:
        found = f"{context} tokens for {slots(values)} slots, {context // slots(values)} each"
        expected = f"{wanted * slots(values)}: max_model_len in each slot"
        yield worded.error("llama-slot-short", placed.place.below("flags", "ctx-size"), found=found, expected=expected)
