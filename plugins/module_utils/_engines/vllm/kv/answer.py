# SPDX-License-Identifier: GPL-3.0-or-later
"""A sized pool in the form of a truth in kv-cases: what vLLM prints, and what it made of the options."""

from typing import Any

from ...._base.findings import Finding, memory_hint
from . import pool, states
from .model import Mamba2, Model
from .settings import Settings

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
