# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whichever way an option is spelled, the plan reads the same map; spellings that contradict each other are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.normal_form import (
    json_map,
    normal_name,
    normal_options,
    normal_reasons,
)
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import load
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from hypothesis import given
from hypothesis import strategies as st

LIBRARY, _ = load_all([SHIPPED_RECIPES])
# Options of vLLM 0.33.0 that take a map.
MAP_OPTIONS = (
    *("additional-config", "attention-config", "compilation-config", "default-chat-template-kwargs", "hf-overrides"),
    *("ec-transfer-config", "eplb-config", "kernel-config", "kv-events-config", "kv-transfer-config"),
    *("limit-mm-per-prompt", "media-io-kwargs", "mm-processor-kwargs", "model-loader-extra-config"),
    *("override-generation-config", "pooler-config", "profiler-config", "reasoning-config", "rope-parameters"),
    *("speculative-config", "structured-outputs-config", "weight-transfer-config"),
)
KEYS = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
LEAVES = st.one_of(st.integers(-9, 10**12), st.booleans(), st.from_regex(r"[a-z][a-z-]{0,8}x", fullmatch=True))
NESTED = st.recursive(LEAVES, lambda inner: st.dictionaries(KEYS, inner, min_size=1, max_size=3))
MAPS = st.dictionaries(KEYS, NESTED, min_size=1, max_size=4)


def dotted(prefix: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {prefix: value}
    return {path: leaf for key, item in value.items() for path, leaf in dotted(f"{prefix}.{key}", item).items()}


@given(st.sampled_from(MAP_OPTIONS), MAPS, st.randoms())
def test_every_spelling_of_a_map_is_the_map(name: str, value: dict[str, Any], chance: Any) -> None:
    underscored = name.replace("-", "_")
    parts = dotted(underscored, value)
    whole = {key: item for key, item in value.items() if chance.random() < 0.5}
    mixed = {name: whole} | dotted(name, {key: item for key, item in value.items() if key not in whole})
    for written in (
        {name: value},
        {underscored: value},
        {name: json.dumps(value)},
        {underscored: f" {json.dumps(value, indent=1)}"},
        parts,
        {name: None, **parts},
        {key: json.dumps(item) if not isinstance(item, str) else item for key, item in parts.items()},
        mixed,
    ):
        assert normal_options(written, Place(option="flags")) == ({name: value}, [])


@pytest.mark.parametrize(
    "written",
    [
        {"max-num-seqs": 8, "max_num_seqs": 9},
        {"speculative-config": {"method": "mtp"}, "speculative_config.method": "dflash"},
        {"speculative-config": {"method": "mtp"}, "speculative-config.method.name": "x"},
        {"speculative-config.method": "mtp", "speculative_config.method": "dflash"},
        {"speculative-config": "a text", "speculative-config.method": "mtp"},
        {"speculative-config": {"method": "mtp"}, "speculative_config": '{"method": "dflash"}'},
    ],
)
def test_two_spellings_that_contradict_each_other_are_refused(written: dict[str, Any]) -> None:
    _, findings = normal_options(written, Place(service="x", option="flags"))
    assert [(finding.rule, finding.severity) for finding in findings] == [("option-written-twice", "error")]


def test_spellings_that_agree_are_no_conflict() -> None:
    written = {"max-num-seqs": 8, "max_num_seqs": 8, "x.a": 1, "x": {"a": 1}}
    assert normal_options(written, Place(option="flags")) == ({"max-num-seqs": 8, "x": {"a": 1}}, [])


def test_a_plus_adds_to_a_list() -> None:
    assert normal_options({"x.sizes+": "[1, 2]", "x.sizes": None} | {"y.a+": 1}, Place(option="flags"))[0]["y"] == {
        "a": [1]
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 80m, "b": "80m", "c": 2K, "d": 1.5g}', {"a": 80_000_000, "b": "80m", "c": 2048, "d": 1_500_000_000}),
        ('{"a": 1, "a": 2}', None),
        ("{{ messages }}", None),
        ("[1]", None),
        ("{" * 100_000, None),
    ],
)
def test_a_text_is_a_map_where_vllm_reads_one(text: str, expected: Any) -> None:
    assert json_map(text) == expected


def test_the_caller_keeps_what_was_written() -> None:
    written: dict[str, Any] = {"x": {"a": {"b": 1}}, "x.a.c": 2}
    assert normal_options(written, Place(option="flags"))[0] == {"x": {"a": {"b": 1, "c": 2}}}
    assert written == {"x": {"a": {"b": 1}}, "x.a.c": 2}


def test_reasons_follow_their_options() -> None:
    reasons = {"x.a": "one", "x_y": "two", "x.b": "three", "HOME": "four"}
    assert normal_reasons(reasons, {"x": {}, "x-y": 1}) == {"x": "one; three", "x-y": "two", "HOME": "four"}


SPELLINGS: dict[str, dict[str, Any]] = {
    "map": {"kv-transfer-config": {"kv_connector": "X", "kv_role": "kv_both"}, "max-num-seqs": 3},
    "JSON": {"kv_transfer_config": '{"kv_connector": "X", "kv_role": "kv_both"}', "max_num_seqs": 3},
    "dotted": {"kv_transfer_config.kv_connector": "X", "kv-transfer-config.kv_role": "kv_both", "max-num-seqs": 3},
}


@pytest.mark.parametrize("layer", ["service", "host"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_plan_of_any_spelling_is_the_plan_of_the_map(spelling: str, layer: str) -> None:
    def plan(flags: dict[str, Any]) -> dict[str, Any]:
        service = {"recipe": "qwen3.6-27b-nvfp4", "hosts": ["titan"], "port": 8000}
        of_host = {"fleet_host": {"services": {"x": {"flags": flags}}}} if layer == "host" else {}
        service |= {"flags": flags} if layer == "service" else {}
        titan = {"address": "192.0.2.1", "port": 22, "variables": {"fleet_services": {"x": service}, **of_host}}
        return plan_fleet({"hosts": {"titan": titan}, "folder": "."}, LIBRARY)

    assert plan(SPELLINGS[spelling]) == plan(SPELLINGS["map"])


def test_options_in_a_file_of_the_container_are_refused() -> None:
    service = {"recipe": "qwen3.6-27b-nvfp4", "hosts": ["titan"], "port": 8000, "flags": {"config": "/x.yaml"}}
    titan = {"address": "192.0.2.1", "port": 22, "variables": {"fleet_services": {"x": service}}}
    rows = plan_fleet({"hosts": {"titan": titan}, "folder": "."}, LIBRARY)["findings"]
    assert [row["rule"] for row in rows if row["severity"] == "error"] == ["recipe-planned-flag"]


# Options of the other engines, each as a person may write it. last: spellings that contradict the first.
OTHERS: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]] = {
    "sglang": (
        {"json-model-override-args": {"rope_scaling": {"factor": 4}}, "mem-fraction-static": 0.5},
        [
            {"json_model_override_args": {"rope_scaling": {"factor": 4}}, "mem_fraction_static": 0.5},
            {"json-model-override-args": '{"rope_scaling": {"factor": 4}}', "mem-fraction-static": 0.5},
            {"json_model_override_args.rope_scaling.factor": 4, "mem_fraction_static": 0.5},
            {
                "json-model-override-args": None,
                "json-model-override-args.rope_scaling": '{"factor": 4}',
                "mem-fraction-static": 0.5,
            },
        ],
        [{"mem_fraction_static": 0.6}, {"json-model-override-args.rope_scaling.factor": 2}],
    ),
    "trtllm": (
        {"extra-llm-api-options": {"kv_cache_config": {"dtype": "fp8"}}, "max-num-tokens": 4096},
        [
            {"extra_llm_api_options": {"kv_cache_config": {"dtype": "fp8"}}, "max_num_tokens": 4096},
            {"extra-llm-api-options": '{"kv_cache_config": {"dtype": "fp8"}}', "max-num-tokens": 4096},
            {"extra_llm_api_options.kv_cache_config.dtype": "fp8", "max_num_tokens": 4096},
        ],
        [{"max_num_tokens": 8192}, {"extra_llm_api_options.kv_cache_config.dtype": "auto"}],
    ),
    "llama.cpp": (
        {"cache-type-k": "q8_0", "chat-template-kwargs": {"enable_thinking": False}},
        [
            {"cache_type_k": "q8_0", "chat_template_kwargs": {"enable_thinking": False}},
            {"cache-type-k": "q8_0", "chat-template-kwargs": '{"enable_thinking": false}'},
            {"cache_type_k": "q8_0", "chat_template_kwargs.enable_thinking": False},
        ],
        [{"cache_type_k": "f16"}, {"chat-template-kwargs.enable_thinking": True}],
    ),
}
OTHER_MODELS: dict[str, dict[str, Any]] = {
    "sglang": {"image": {"reference": "lmsysorg/sglang:v0.5.23-cu130", "family": "upstream", "release": "0.5.23"}},
    "trtllm": {
        "image": {"reference": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13", "family": "ngc", "release": "1.3.0rc13"}
    },
    "llama.cpp": {
        "image": {"reference": "llama:1", "family": "custom", "release": "0.7.0"},
        "model": {"repository": "org/m-GGUF", "file": "m.gguf", "weights_bytes": 1 << 30},
    },
}


def plan_of(engine: str, folder: Any, flags: dict[str, Any], layer: str) -> dict[str, Any]:
    recipe = {
        "name": "m",
        "summary": "A model",
        "engine": engine,
        "model": {"repository": "org/m", "weights_bytes": 20 << 30},
        "status": {"state": "reported", "by": "us", "hardware": "none"},
        "sources": ["us"],
        **OTHER_MODELS[engine],
    }
    (folder / "m.yml").write_text(yaml.safe_dump(recipe | ({"flags": flags} if layer == "recipe" else {})))
    library, of_recipes = load_all([folder])
    service = {"recipe": "m", "hosts": ["titan"], "port": 8000, "open": True}
    service |= {"flags": flags} if layer == "service" else {}
    of_host = {"fleet_host": {"services": {"x": {"flags": flags}}}} if layer == "host" else {}
    titan = {"address": "192.0.2.1", "port": 22, "variables": {"fleet_services": {"x": service}, **of_host}}
    return plan_fleet({"hosts": {"titan": titan}, "folder": str(folder)}, library, of_recipes)


def errors_of(planned: dict[str, Any]) -> list[str]:
    return [row["rule"] for row in planned["findings"] if row["severity"] == "error"]


@pytest.mark.parametrize("layer", ["recipe", "service", "host"])
@pytest.mark.parametrize("engine", OTHERS)
def test_the_plan_of_another_engine_is_that_of_the_map(engine: str, layer: str, tmp_path: Path) -> None:
    as_map, spellings, contradicting = OTHERS[engine]
    planned = plan_of(engine, tmp_path, as_map, layer)
    assert errors_of(planned) == []
    assert json.dumps(planned["hosts"]["titan"]["services"]) != json.dumps(
        plan_of(engine, tmp_path, {}, layer)["hosts"]["titan"]["services"]
    )
    for spelling in spellings:
        assert plan_of(engine, tmp_path, spelling, layer) == planned, spelling
    for more in contradicting:
        assert errors_of(plan_of(engine, tmp_path, as_map | more, layer)) == ["option-written-twice"], more


@pytest.mark.parametrize(
    ("engine", "flags", "rule"),
    [
        ("sglang", {"tp-size": 1, "tensor-parallel-size": 2}, "sglang-option-twice"),
        ("llama.cpp", {"n-gpu-layers": 9, "gpu_layers": 8}, "llama-option-twice"),
        ("sglang", {"config": "/x.yaml"}, "recipe-planned-flag"),
        ("trtllm", {"config": "/x.yaml"}, "recipe-planned-flag"),
        ("trtllm", {"extra_llm_api_options": "/x.yaml"}, "schema-type"),
        ("llama.cpp", {"models-preset": "/x.ini"}, "recipe-planned-flag"),
        # beginnings, which argparse takes for the option that the plan looks for
        *(("sglang", {name: 2}, "recipe-abbreviated-flag") for name in ("tp", "context", "mem-fraction", "page")),
    ],
)
def test_an_option_that_is_written_elsewhere_is_refused(
    engine: str, flags: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    assert rule in errors_of(plan_of(engine, tmp_path, flags, "service"))


SPECULATION = {"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 4}
# The same by vLLM's short options (since 0.22.0), and with dashes in the keys, which it takes for this map alone.
SHORT = [
    {"spec-method": "draft_model", "spec-model": "Qwen/Qwen3-0.6B", "spec-tokens": 4},
    {"spec_method": "draft_model", "spec_model": "Qwen/Qwen3-0.6B", "spec_tokens": 4},
    {"speculative-config": {"method": "draft_model", "num-speculative-tokens": 4}, "spec-model": "Qwen/Qwen3-0.6B"},
    {"speculative_config": json.dumps({key.replace("_", "-"): value for key, value in SPECULATION.items()})},
    {
        "speculative-config.num-speculative-tokens": 4,
        "spec_model": "Qwen/Qwen3-0.6B",
        "speculative_config.method": "draft_model",
    },
]


@pytest.mark.parametrize("written", SHORT)
def test_the_short_options_of_speculation_are_its_map(written: dict[str, Any]) -> None:
    """They had passed unseen: no drafter was staged, weighed or sized."""
    assert normal_options(written, Place(option="flags")) == ({"speculative-config": SPECULATION}, [])


@pytest.mark.parametrize(
    "written",
    [
        {"spec-tokens": 4, "speculative-config": {"num_speculative_tokens": 5}},
        {"spec-method": "mtp", "speculative_config.method": "dflash"},
        {"spec-method": "mtp", "spec_method": "dflash"},
    ],
)
def test_a_short_option_that_contradicts_the_map_is_refused(written: dict[str, Any]) -> None:
    _, findings = normal_options(written, Place(service="x", option="flags"))
    assert [finding.rule for finding in findings] == ["option-written-twice"]


@pytest.mark.parametrize(
    ("flags", "remedy"),
    [
        ({"hf-over": {"rope_theta": 1}}, 'write "hf-overrides" in flags'),
        ({"enable-prefix": False}, 'write "enable-prefix-caching: false" in flags'),
        ({"cpu_offload_g": 8}, 'write "cpu-offload-gb" in flags'),
    ],
)
def test_the_beginning_of_an_option_is_refused(flags: dict[str, Any], remedy: str) -> None:
    """vLLM takes it; the plan, which had another value, only warned."""
    service = {"recipe": "qwen3.6-27b-nvfp4", "hosts": ["titan"], "port": 8000, "flags": flags}
    titan = {"address": "192.0.2.1", "port": 22, "variables": {"fleet_services": {"x": service}}}
    found = plan_fleet({"hosts": {"titan": titan}, "folder": "."}, LIBRARY)["findings"]
    about = [row for row in found if row["rule"].startswith("catalogue-")]
    assert [(row["rule"], row["severity"]) for row in about] == [("catalogue-abbreviated-option", "error")]
    assert about[0]["remedy"] == remedy


def test_every_other_name_of_an_option_is_its_name() -> None:
    names = {
        alias.removeprefix("--"): option.name.removeprefix("--")
        for option in load().any_options.values()
        for alias in option.aliases
        if alias.startswith("--")
    }
    assert names
    assert {normal_name(name): 0 for name in names} == dict.fromkeys(names.values(), 0)
