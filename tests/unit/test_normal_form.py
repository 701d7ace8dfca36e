# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whichever way an option is spelled, the plan reads the same map; spellings that contradict each other are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.normal_form import (
    json_map,
    normal_options,
    normal_reasons,
)
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
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
