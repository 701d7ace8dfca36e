# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a release decides the memory of its profiling pass: its model runner, its encoder run, its MLA workspace.

Read off the source of `vllm.config.vllm` and of both runners, as names of the registry `profiling` of the catalogue,
which the plan uses (`_engines/vllm/runner.py`). A name that
no reader knows any more is missing, which the plan's tests see.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.source import (
    Module,
    Source,
    dotted,
    literal_values,
)

_CONFIG = "vllm.config.vllm"
_RUNNER = "vllm.v1.worker.gpu.model_runner"
# Where the workspace of chunked prefills stands, newest first.
_LATENT = ("vllm.model_executor.layers.attention.mla_attention", "vllm.v1.attention.backends.mla.common")
# Requests of full length, pages a request and most tokens by which vLLM sizes it.
_WORKSPACE = ("8 *", "4 *", "64 * 1024")
# What a release runs on V2 in any case, by words of `use_v2_model_runner`.
_ALWAYS = {
    "dspark": ("'dspark'",),
    "dflash-mixed": ("_dflash_needs_multi_kv_group",),
    "dflash2": ("_is_dflash2_draft", "_is_dflash_candidate_draft"),
    "diffusion": ("is_diffusion",),
}


def profiling(source: Source) -> Iterator[str]:
    """The names of all facts."""
    module = source.module(_CONFIG)
    chooses = _function(module, "use_v2_model_runner")
    if module is not None and chooses:
        yield "v2"
        yield from _default(module, _function(module, "_is_default_v2_model_runner_model"))
        text = ast.unparse(chooses)
        yield from (f"v2-always {what}" for what, words in _ALWAYS.items() if any(word in text for word in words))
        # a model's own prediction layers are `mtp` by then
        yield from (f"v2-never {method}" for method in _unsupported(source, module) if not method.endswith("_mtp"))
    if "profile_encoder_cache" in _text(_function(source.module(_RUNNER), "profile_run")):
        yield "v2-encoder"
    if any(_reserves_workspace(source.module(name)) for name in _LATENT):
        yield "mla-workspace"


def _default(module: Module, judged: ast.FunctionDef | None) -> Iterator[str]:
    """For which models V2 is the default."""
    if judged is None:
        yield "v2-all"
        return
    text = _text(judged)
    table = module.bindings.get("DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES")
    for node in ast.walk(table) if table is not None else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield f"v2-architecture {node.value}"
    for name, words in {
        "v2-dense": "or not model_config.is_moe",
        "v2-only unquantized": "not model_config.is_quantized",
        "v2-only generate": "runner_type != 'generate'",
        "v2-only attention": "'is_hybrid'",
    }.items():
        if words in text:
            yield name


def _unsupported(source: Source, module: Module) -> Iterator[str]:
    """Methods of speculation that V2 lacks: named, or not among those that are named as known."""
    judged = _function(module, "_get_v2_model_runner_unsupported_features")
    speculative = source.module("vllm.config.speculative")
    methods = speculative.bindings.get("SpeculativeMethod") if speculative else None
    known = {str(value) for value in literal_values(methods, speculative)} if methods and speculative else set()
    for branch in (node for node in ast.walk(judged) if isinstance(node, ast.If)) if judged else ():
        match branch.test:
            case ast.Compare(left=left, ops=[operation], comparators=[named]) if dotted(left).endswith(".method"):
                names = {str(node.value) for node in ast.walk(named) if isinstance(node, ast.Constant)}
                yield from names if isinstance(operation, ast.In) else known - names
            case _:
                pass


def _reserves_workspace(module: Module | None) -> bool:
    """Whether the pass without metadata takes a whole workspace, of the size that is known here."""
    sized = _text(_function(module, "determine_chunked_prefill_workspace_size"))
    taken = module is not None and any(
        "self.qk_nope_head_dim" in ast.unparse(node)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and dotted(node.func) == "torch.empty"
    )
    return taken and all(words in sized for words in _WORKSPACE)


def _function(module: Module | None, name: str) -> ast.FunctionDef | None:
    found = (node for node in ast.walk(module.tree) if isinstance(node, ast.FunctionDef)) if module else iter(())
    return next((node for node in found if node.name == name), None)


def _text(node: ast.AST | None) -> str:
    return "" if node is None else ast.unparse(node)
