# SPDX-License-Identifier: GPL-3.0-or-later
"""The public face of this collection for other programs: everything else in this folder may change any day.

With the collection below a folder of ``PYTHONPATH``, as ``~/.ansible/collections``:

>>> from ansible_collections.gb10.fleet.plugins.module_utils import api

A function is added in a minor release; one that is here, a parameter and a key of an answer go in a major one only.
Nothing here writes a file, reaches a host or the network. What an owner wrote wrong is in the answer as a finding: a
map with ``rule``, ``severity``, ``place``, ``found``, ``expected`` and ``remedy``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, cast

from ._base import worded
from ._base.plan import Plan
from ._engines.declaration import RecipeData
from ._engines.recipes import foreign, foreign_mods, formats
from ._engines.speed.case import forecast_case
from ._engines.vllm import planned
from ._engines.vllm.kv import size_pool
from ._engines.vllm.lint.judge import lint_map
from ._plan.sources import Inventory, InventoryHost, read_sources

__all__ = [
    "Imported",
    "Inventory",
    "InventoryHost",
    "forecast",
    "import_recipe",
    "kv_pool",
    "lint",
    "plan",
    "vllm_flags",
]


class Imported(TypedDict):
    """A foreign recipe as one of ours. recipe: None where an error prevents it. files: what its mods became, by path
    below the recipe's folder. sentences: the findings, in words."""

    files: dict[str, str]
    recipe: RecipeData | None
    findings: list[dict[str, Any]]
    sentences: list[str]


def plan(inventory: Inventory, recipes: Sequence[Path] | None = None, relock: str = "") -> dict[str, Any]:
    """Decide everything for a fleet, as the module ``gb10.fleet.plan`` does (docs/explanation/architecture.md).

    inventory: its hosts by name, and its folder, in which recipes, lock file and observations are looked for. recipes:
    folders of recipes instead of the inventory's. relock: name of an image or a model whose entry in the lock file no
    longer counts. Raises FleetError for a lock file that can't be read.

    >>> services = {"code": {"recipe": "qwen3-coder-next-fp8", "hosts": ["spark-1"], "port": 8000, "open": True}}
    >>> host = {"address": "192.168.1.31", "port": 22, "variables": {"fleet_services": services}}
    >>> planned = api.plan({"hosts": {"spark-1": host}, "folder": "inventories/none"})
    >>> planned["services"]["code"]["endpoint"]
    'http://192.168.1.31:8000/v1'
    """
    return {**read_sources(inventory, recipes).planned(relock)}


def kv_pool(case: Mapping[str, Any]) -> dict[str, Any]:
    """Say what vLLM will print about its KV cache, as the module ``gb10.fleet.kv_pool`` does.

    case: the options of that module: ``config``, ``flags``, ``vllm_version``, ``available_kv_gib`` and so on. Where
    vLLM would refuse, or the model isn't known, the answer is ``error`` with ``findings``.

    >>> config = {
    ...     "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_hidden_layers": 28, "hidden_size": 1024,
    ...     "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960,
    ...     "torch_dtype": "bfloat16", "vocab_size": 151936,
    ... }
    >>> api.kv_pool({"config": config, "available_kv_gib": 8, "vllm_version": "0.24.0"})["tokens"]
    74896
    """
    return size_pool(case)


def forecast(case: Mapping[str, Any]) -> dict[str, Any]:
    """Say how fast a model should be on GB10 (docs/explanation/speed.md): tokens a second as ``low``, ``decode`` and
    ``high``, the memory's ``limit``, seconds to the first token, and what takes most of a step.

    case: ``config`` (config.json), and where they differ ``weights_bytes``, ``repository``, ``engine``, ``kernel``,
    ``eager``, ``tensor`` and ``pipeline`` (hosts), ``cache_bytes`` (of an element of the KV cache), ``drafts``
    (``method``, ``count``, ``accepted``), ``requests``, ``prompt``, ``depth``, ``answer``; ``measured``: points of the
    same service, each with its load and ``decode``, which the answer then follows. The answer is empty for a model
    whose config.json lacks the shape. Raises FleetError for a case that can't be.

    >>> found = api.forecast({"config": config, "requests": 4})
    >>> found["low"] < found["decode"] < found["high"] <= 2 * found["limit"]
    True
    """
    return forecast_case(case)


def lint(launch: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Check a launch of vLLM before it starts, as the module ``gb10.fleet.vllm_lint`` does; errors come first.

    launch: the options of that module: ``argv``, ``env``, ``image`` or ``command`` and so on.

    >>> findings = api.lint({"argv": ["a/b", "--moe-backnd", "marlin"], "vllm_version": "0.24.0"})
    >>> [finding["remedy"] for finding in findings if finding["rule"] == "catalogue-unknown-option"]
    ['write "--moe-backend"']
    """
    return lint_map(launch)


def import_recipe(
    source: str | Mapping[str, Any], name: str, mods: Mapping[str, Mapping[str, str]] | None = None
) -> Imported:
    """Turn another project's recipe into one of ours, named ``name``. source: its text, or what YAML makes of it. mods:
    the texts of the patches that lie beside it, by their names and paths.

    >>> theirs = "{recipe_version: '2', model: Qwen/Qwen3-0.6B, container: 'vllm/vllm-openai:v0.24.0', runtime: vllm}"
    >>> api.import_recipe(theirs, "small")["recipe"]["model"]["repository"]
    'Qwen/Qwen3-0.6B'
    """
    try:
        recipe, findings = foreign.import_recipe(formats.read_text(source) if isinstance(source, str) else source, name)
    except ValueError as cause:
        unreadable = worded.error("recipe-unreadable", name, found=str(cause))
        recipe, findings = None, [unreadable]
    files: dict[str, str] = {}
    if recipe is not None and mods:
        findings, files = foreign_mods.made(cast(dict[str, Any], recipe), findings, mods, name)
        recipe["status"]["left_out"] = foreign.left_out(findings)
    return {
        "files": files,
        "recipe": recipe,
        "findings": [finding.as_dict() for finding in findings],
        "sentences": [f"{finding.severity}: {finding.sentence()}" for finding in findings],
    }


def vllm_flags(plan: Mapping[str, Any], service: str, host: str | None = None) -> dict[str, Any]:
    """Options that a service's vLLM starts with on a host, by name. plan: as `plan` answers.

    host: the service's first host without it. A value is what ``vllm serve`` gets: true for a bare option, false for
    its ``--no-`` form, a list for several words. Raises FleetError for a service or host that the plan does not have,
    and for a service of another engine.

    >>> api.vllm_flags(planned, "code")["max-model-len"]
    170000
    """
    return planned.vllm_flags(cast(Plan, plan), service, host)
