# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions about a KV pool: one as the module and the filter ask it, a map in, a map out; and the planner's."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...._base.findings import Finding, FleetError, memory_hint
from ...._base.schema import Spec, check
from ..catalogue.version import Version
from . import pool, states
from .config import read_model
from .flags import from_json, read_flags
from .model import Mamba2, Model
from .pool import Layout, block_refusal, least_bytes_to_start
from .release import parse_release, requested_bytes
from .settings import Settings, resolve
from .trouble import bad_input, not_sized, with_remedy

# Names of the recurrent layers' backends, up to 0.12 and since.
_STATE_BACKENDS = {True: ("Mamba2AttentionBackend", "MAMBA2_ATTN"), False: ("GDNAttentionBackend", "GDN_ATTN")}


def answer(sized: pool.Pool, model: Model) -> dict[str, Any]:
    """The keys of a truth, bytes_per_request, and, where they apply, later_startup_error, its remedy, and findings
    (hints)."""
    layout = sized.layout
    settings = layout.settings
    late = pool.late_refusal(sized)
    shown = {
        "vllm_version": settings.release.text,
        "block_size": (max if settings.packs_groups else min)(group.page.block for group in layout.groups),
        "num_blocks": sized.blocks,
        "tokens": sized.tokens,
        "max_concurrency": float(f"{sized.concurrency:.2f}"),
        "max_concurrency_exact": sized.concurrency,
        "max_model_len": settings.max_model_len,
        "page_size_bytes": layout.groups[0].page.bytes,
        "groups": _groups(layout),
        "resolved": _resolved(settings, model),
        "bytes_per_request": layout.request_bytes(settings.max_model_len),
    }
    if late is not None:
        shown["later_startup_error"] = late.findings[0].found
        shown["later_startup_remedy"] = late.findings[0].remedy
    if hints := _hints(settings):
        shown["findings"] = [hint.as_dict() for hint in hints]
    return shown


def _groups(layout: pool.Layout) -> list[dict[str, Any]]:
    """The first stage's groups, equal ones counted."""
    counted: dict[tuple[Any, ...], dict[str, Any]] = {}
    drafted = layout.settings.speculative_tokens
    for group in layout.groups:
        page = group.page
        shown: dict[str, Any] = {
            "kind": page.kind,
            "layers": group.layers[0],
            "block_size": page.block,
            "page_size_bytes": page.bytes,
        }
        if page.window is not None:
            shown["window"] = page.window
        if page.kind == "Mamba" and drafted:
            shown["spec_blocks"] = drafted
        counted.setdefault(tuple(shown.values()), {**shown, "count": 0})["count"] += 1
    return list(counted.values())


def _resolved(settings: Settings, model: Model) -> dict[str, Any]:
    """What vLLM made of the options."""
    release = settings.release
    recurrent, state = model.recurrent, settings.state
    names = {settings.backend, settings.draft_backend}
    resolved: dict[str, Any] = {
        "prefix_caching": settings.prefix_caching,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "max_num_seqs": settings.max_num_seqs,
        "async_scheduling": settings.async_scheduling,
    }
    if recurrent is not None and state is not None:
        names.add(_STATE_BACKENDS[isinstance(recurrent, Mamba2)][release.since("0.13")])
        shapes = states.shapes(recurrent, settings.tensor_parallel, settings.speculative_tokens)
        resolved["mamba_cache_mode"] = state.mode if release.has_state_cache_modes else None
        resolved["state_dtypes"] = list(state.dtypes)
        resolved["state_shapes"] = [list(shape) for shape in shapes]
    resolved["attention"] = sorted(names)
    if release.since("0.20"):
        resolved["cudagraph_mode"] = settings.cudagraph_mode
    return resolved


def _hints(settings: Settings) -> list[Finding]:
    """What the answer rests on where it is not the release's own arithmetic."""
    hints = []
    if remark := settings.release.remark:
        remedy = "compare with the first boot's log"
        hints.append(
            memory_hint("kv-release", "vllm_version", found=settings.release.text, expected=remark, remedy=remedy)
        )
    if settings.drafter_assumed:
        found = "no config.json of the drafter"
        remedy = "give it as draft_config in speculative_config; in a recipe, name it in model.draft.config"
        expected = "one layer like the model's is assumed"
        hints.append(
            memory_hint("kv-drafter", "flags.speculative_config", found=found, expected=expected, remedy=remedy)
        )
    return hints


_STEPS = 10_000


def least_bytes(layout: Layout, sequences: int, tokens: int) -> int:
    """The least --kv-cache-memory-bytes that vLLM starts with and that holds so many sequences of so many tokens.

    One block more than they take is needed: the null block is never handed out. Raises FleetError for sequences longer
    than --max-model-len, or more of them than --max-num-seqs.
    """
    settings = layout.settings
    if tokens > settings.max_model_len:
        expected = f"at most --max-model-len, {settings.max_model_len}"
        remedy = "lower it, or raise --max-model-len"
        raise bad_input("kv-workload", "case.tokens_per_sequence", value=tokens, expected=expected, remedy=remedy)
    if sequences > settings.max_num_seqs:
        expected = f"at most --max-num-seqs, {settings.max_num_seqs}"
        raise bad_input(
            "kv-workload", "case.sequences", value=sequences, expected=expected, remedy="raise --max-num-seqs"
        )
    if settings.blocks_override is not None:
        remedy = "leave --num-gpu-blocks-override out: it sets the number of blocks itself"
        found = "--num-gpu-blocks-override set"
        raise not_sized("flags.num_gpu_blocks_override", found=found, expected="left out", remedy=remedy)
    blocks = sequences * layout.request_blocks(tokens) + 1
    return max(blocks * layout.bytes_per_block, least_bytes_to_start(layout))


def least_bytes_to_serve(layout: Layout, sequences: int, tokens: int) -> int:
    """least_bytes, and FleetError too for a start that vLLM refuses with any memory."""
    if block := block_refusal(layout):
        raise block
    return least_bytes(layout, sequences, tokens)


def least_utilization(total: int, non_kv: int, kv_bytes: int, release: Version) -> float:
    """The least --gpu-memory-utilization, in steps of 0.0001, that leaves so many bytes for the cache.

    total: what the GPU reports. non_kv: what weights, runtime and graphs take, from a boot or predicted
    (docs/explanation/memory.md). Raises FleetError if more than everything would be needed.
    """
    step = max(0, math.ceil((non_kv + kv_bytes) * _STEPS / total) - 1)
    while step <= _STEPS and requested_bytes(total, step / _STEPS, release) - non_kv < kv_bytes:
        step += 1
    if step > _STEPS:
        found = f"{non_kv + kv_bytes} bytes of {total}"
        expected = "a workload that fits beside the weights"
        raise bad_input(
            "kv-workload", "case.total_memory_bytes", value=found, expected=expected, remedy="ask for less context"
        )
    return step / _STEPS


LONG_ALLOWED = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"

_GIB = 2**30
_MOST_BYTES = 2**62
_MOST_TEXT = 2**24
_BYTES: Spec = {"type": "int", "min": -_MOST_BYTES, "max": _MOST_BYTES, "expected": "a whole number of bytes a rank"}
_KEYS: dict[str, Spec] = {
    "available_kv_bytes": _BYTES,
    "available_kv_gib": {"type": "number", "min": -_MOST_BYTES // _GIB, "max": _MOST_BYTES // _GIB},
    "sequences": {"type": "int", "min": 1, "max": 2**31 - 1},
    "tokens_per_sequence": {"type": "int", "min": 1, "max": 2**40},
    "total_memory_bytes": {"type": "int", "min": 1, "max": _MOST_BYTES},
    "non_kv_bytes": {"type": "int", "min": 0, "max": _MOST_BYTES},
}


def size_pool(case: object) -> dict[str, Any]:
    """What vLLM would print for a case {config, flags, env, available_kv_bytes or available_kv_gib, vllm_version}.

    Returns the keys of a truth in kv-cases, bytes_per_request (one request of max_model_len, on a rank) and, where vLLM
    prints its lines and then stops, later_startup_error. With sequences and tokens_per_sequence also the inverse:
    kv_cache_memory_bytes, the least that holds them, and, with total_memory_bytes and non_kv_bytes,
    gpu_memory_utilization; without available bytes the pool is sized at that least. What can't be sized, and what vLLM
    refuses, is {error, findings}. Never raises for any input; other keys of the case are left alone.
    """
    try:
        return _sized(case)
    except FleetError as problem:
        return failure(problem)


def failure(problem: FleetError) -> dict[str, Any]:
    """A problem in the form of an answer: vLLM's words or ours first, then what to do."""
    first = problem.findings[0]
    found = first.found if first.source else f"{first.place}: {first.found}; expected {first.expected}"
    error = found + (f" ({first.remedy})" if first.remedy else "")
    return {"error": error, "findings": [finding.as_dict() for finding in problem.findings]}


def _sized(case: object) -> dict[str, Any]:
    if not isinstance(case, Mapping):
        expected = "a map with config, flags, available_kv_bytes and vllm_version"
        raise bad_input("kv-case", "case", value=case, expected=expected, remedy="write these keys")
    given = {key: case[key] for key in _KEYS if case.get(key) is not None}
    values, findings = check({"type": "map", "options": _KEYS}, given, "case")
    if findings:
        raise FleetError(*with_remedy(findings, remedy="write a plain number"))
    release = parse_release(case.get("vllm_version"))
    config = case.get("config")
    config = load_config(config) if isinstance(config, str) else config
    if isinstance(config, Mapping):
        config = overridden(config, _changes(case.get("flags")))
    model = read_model(config, release)
    flags = read_flags(case.get("flags"))
    layout = pool.arrange(model, resolve(flags, model, release, _long_allowed(case.get("env"))))
    available = _available(values, flags.kv_cache_memory_bytes)
    inverse: dict[str, Any] = {}
    if "sequences" in values or "tokens_per_sequence" in values:
        inverse = _inverse(layout, values)
        available = inverse["kv_cache_memory_bytes"] if available is None else available
    if available is None:
        expected = "the bytes for the cache on each rank"
        raise bad_input(
            "kv-bytes", "case.available_kv_bytes", value=None, expected=expected, remedy="write a whole number"
        )
    return answer(pool.fill(layout, available), model) | inverse


def _changes(flags: object) -> object:
    """What --hf-overrides says, by whichever spelling."""
    named = flags if isinstance(flags, Mapping) else {}
    value = next((value for name, value in named.items() if str(name).replace("-", "_") == "hf_overrides"), None)
    return from_json(value)


def _long_allowed(env: object) -> bool:
    if not isinstance(env, Mapping | None):
        raise bad_input("kv-case", "case.env", value=env, expected="a map of variables", remedy="write NAME: value")
    return str((env or {}).get(LONG_ALLOWED)) == "1"


def _available(values: Mapping[str, Any], pinned: int | None) -> int | None:
    """The bytes for the cache on each rank: given, in GiB, or pinned by --kv-cache-memory-bytes."""
    given: int | None = values.get("available_kv_bytes")
    gib: float | None = values.get("available_kv_gib")
    if given is None and gib is not None:
        return round(gib * _GIB)
    return pinned if given is None else given


def _inverse(layout: pool.Layout, values: Mapping[str, Any]) -> dict[str, Any]:
    for key in ("sequences", "tokens_per_sequence"):
        if key not in values:
            expected = "sequences together with tokens_per_sequence"
            raise bad_input("kv-case", f"case.{key}", value=None, expected=expected, remedy="write both")
    least = least_bytes_to_serve(layout, values["sequences"], values["tokens_per_sequence"])
    inverse: dict[str, Any] = {"kv_cache_memory_bytes": least}
    if "total_memory_bytes" in values and "non_kv_bytes" in values:
        total, other = values["total_memory_bytes"], values["non_kv_bytes"]
        inverse["gpu_memory_utilization"] = least_utilization(total, other, least, layout.settings.release)
    return inverse


def overridden(config: Mapping[str, Any] | None, changes: object) -> Mapping[str, Any] | None:
    """config.json with ``--hf-overrides`` over it, part by part (vllm/transformers_utils/config.py, get_config)."""
    if config is None or not isinstance(changes, Mapping):
        return config
    parts = {
        key: overridden(config[key], value)
        if isinstance(value, Mapping) and isinstance(config.get(key), Mapping)
        else value
        for key, value in changes.items()
    }
    return {**config, **parts}


def load_config(path: str) -> object:
    """The content of a config.json. Raises FleetError for a file that can't be read or isn't JSON."""
    try:
        file = Path(path).expanduser()
        if file.stat().st_size > _MOST_TEXT:
            raise OSError(f"larger than {_MOST_TEXT} bytes")
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: no home for ~, or nested too deeply
        raise bad_input(
            "kv-config",
            "case.config",
            value=f"{path[:200]}: {error}",
            expected="the path of a model's config.json, or its content",
            remedy="take config.json from the model's repository",
        ) from None


# What the planner asks ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ServiceKv:
    """A service's cache, decided but for its size. All bytes are of one rank."""

    layout: pool.Layout
    model: Model

    def bytes_for(self, sequences: int, tokens: int | None = None) -> int:
        """The least --kv-cache-memory-bytes for so many sequences of so many tokens (without: of max_model_len).

        Raises FleetError for a workload that these options can't hold, and a start that vLLM refuses with any memory.
        """
        return least_bytes_to_serve(self.layout, sequences, tokens or self.layout.settings.max_model_len)

    def bytes_of_tokens(self, tokens: int) -> int:
        """The least --kv-cache-memory-bytes that holds so many tokens, of requests of max_model_len.

        Raises FleetError as `bytes_for` does.
        """
        length = self.layout.settings.max_model_len
        blocks = math.ceil(tokens * self.layout.request_blocks(length) / length) + 1
        return max(blocks * self.layout.bytes_per_block, self.bytes_for(1))

    def pool(self, available_bytes: int, *, any_length: bool = False) -> dict[str, Any]:
        """The pool in so many bytes, in the form of a truth. Raises FleetError as `pool.fill` does."""
        return answer(pool.fill(self.layout, available_bytes, any_length=any_length), self.model)


def kv_for_service(
    config: object, flags: Mapping[str, object], vllm_version: str, *, long_allowed: bool = False
) -> ServiceKv:
    """The cache of a service with these vLLM options, which hold its parallel sizes, length and sequences too.

    long_allowed: whether VLLM_ALLOW_LONG_MAX_MODEL_LEN lets a length be longer than the model's own.
    Raises FleetError with every problem: unknown model or option value, or a start that vLLM refuses.
    """
    release = parse_release(vllm_version)
    model = read_model(config, release)
    return ServiceKv(pool.arrange(model, resolve(read_flags(flags), model, release, long_allowed)), model)
