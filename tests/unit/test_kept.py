# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Memory that options of llama.cpp, SGLang and TensorRT-LLM keep is a line of the plan, or is named as uncounted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.sizes import GIB, MIB
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp import catalogue as llama_cpp
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp import sizing as llama_sizing
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.sglang import catalogue as sglang
from ansible_collections.gb10.fleet.plugins.module_utils._engines.sglang import sizing as sglang_sizing
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet

LIBRARY, _ = load_all([SHIPPED_RECIPES])
SGLANG, TRTLLM = "qwen3-8b-nvfp4-sglang", "llama-3.1-8b-instruct-nvfp4-trtllm"
# Options whose names speak of memory, and why they add none.
WITHOUT = {
    "the pool itself": {
        *("cache-type-k", "cache-type-v", "kv-unified", "kv-unified-per-slot", "kv-cache-dtype", "mem-fraction-static"),
        *("spec-draft-type-k", "spec-draft-type-v", "max-mamba-cache-size", "mamba-full-memory-ratio"),
    },
    "how it is read, kept or shared out": {
        *(
            "cache-idle-slots",
            "cache-list",
            "cache-prompt",
            "cache-reuse",
            "kv-offload",
            "mmproj-offload",
            "op-offload",
        ),
        *("cpu-moe", "n-cpu-moe", "n-cpu-ffn", "spec-draft-cpu-moe", "spec-draft-n-cpu-moe", "no-host", "override-kv"),
        *("hicache-ratio", "hicache-host-memory-mode", "hicache-io-backend", "hicache-mem-layout"),
    },
    "weights that are counted, in another place of the same memory": {"cpu-offload-gb"},
}


def names(releases: Iterable[Any]) -> set[str]:
    return {option.names[0] for option in list(releases)[-1].options.values()}


def planned(recipe: str, **service: Any) -> dict[str, Any]:
    written = {"recipe": recipe, "hosts": ["titan"], "port": 8000, **service}
    titan = {"address": "192.0.2.1", "port": 22, "variables": {"fleet_services": {"x": written}}}
    return plan_fleet({"hosts": {"titan": titan}, "folder": "."}, LIBRARY)


def offload(plan: dict[str, Any]) -> int:
    return int(plan["hosts"]["titan"]["memory"]["x"].get("offload", {"expected": 0})["expected"])


def uncounted(plan: dict[str, Any]) -> list[str]:
    return [row["found"] for row in plan["findings"] if row["rule"] == "memory-uncounted"]


@pytest.mark.parametrize(
    ("flags", "size"),
    [
        ({}, 0),
        ({"enable-hierarchical-cache": True, "hicache-size": 16}, 16 * 10**9),
        ({"mm-preprocess-cache-size-mb": 512}, 512 * MIB),
    ],
)
def test_sglangs_caches_are_lines(flags: dict[str, Any], size: int) -> None:
    plan = planned(SGLANG, flags=flags)
    assert (offload(plan), uncounted(plan)) == (size, [])


@pytest.mark.parametrize(
    "flags",
    [
        {"enable-hierarchical-cache": True},
        {"enable-lmcache": True},
        {"speculative-draft-model-path": "a/b"},
        {"enable-weights-cpu-backup": True},
        {"lora-paths": "a=/x"},
    ],
)
def test_an_unknown_size_of_sglang_counts_nothing(flags: dict[str, Any]) -> None:
    (shown,) = uncounted(planned(SGLANG, flags=flags))
    assert next(iter(flags)) in shown and "counts nothing" in shown


def test_tensorrt_llms_caches_are_lines_or_named() -> None:
    def of(**options: Any) -> dict[str, Any]:
        return planned(TRTLLM, open=True, flags={"extra-llm-api-options": options})

    assert offload(of(kv_cache_config={"host_cache_size": 8 * GIB})) == 8 * GIB
    assert "speculative_config" in uncounted(of(speculative_config={"decoding_type": "Eagle"}))[0]
    assert uncounted(of()) == []


def test_every_option_of_sglang_that_speaks_of_memory_is_known() -> None:
    spoken = re.compile(
        r"hicache-(size|ratio|host|io|mem)|-(gb|mb|mib)$|draft-model$|enable-lora$|lmcache$|flexkv$|mem-fraction"
    )
    found = {name for name in names(sglang.load().values()) if spoken.search(name)}
    assert found <= sglang_sizing._KEEPS.keys() | set().union(*WITHOUT.values()), found


def test_every_option_of_llama_cpp_that_speaks_of_memory_is_known() -> None:
    spoken = re.compile(
        r"cache(?!-(dynamic|static))|-mib$|^kv-|offload$|^lora|checkpoints$|models-(dir|max|preset)|cpu-moe"
    )
    known = llama_sizing._KEEPS.keys() | set().union(*WITHOUT.values()) | {"lora-init-without-apply", "models-autoload"}
    found = {name for name in names(llama_cpp.load().values()) if spoken.search(name)}
    assert found <= known | {"lookup-cache-dynamic", "lookup-cache-static"}, found - known
