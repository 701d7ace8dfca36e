# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module kv_pool, what it calls, and what the planner asks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm import kv as kv_package
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv import kv_for_service, size_pool
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv.flags import Flags
from unit.kv_cases import CASES, ROOT, case, config

NANO = "nemotron-3-nano-30b-a3b"
WHOLE = CASES["cases"][1] | {"vllm_version": "0.23.0"}
OPTIONS = {name: WHOLE[name] for name in ("flags", "available_kv_gib", "vllm_version")}


def run_module(check: bool = False, **arguments: Any) -> tuple[int, dict[str, Any]]:
    """The module as Ansible starts it: a process of its own, arguments on stdin, one JSON answer."""
    arguments = {**arguments, "_ansible_check_mode": check}
    done = subprocess.run(
        [sys.executable, "-m", "ansible_collections.gb10.fleet.plugins.modules.kv_pool"],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "collections")},
    )
    return done.returncode, json.loads(done.stdout)


def test_it_takes_a_recorded_case_whole() -> None:
    got = size_pool({**WHOLE, "config": config(NANO)})
    truth = WHOLE["truth"]["0.23.0"]
    assert {key: got[key] for key in truth} == truth


def test_it_reads_a_path(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config(NANO)), encoding="utf-8")
    assert size_pool({**WHOLE, "config": str(file)})["tokens"] == 1_815_893


@pytest.mark.parametrize("content", ["{", "[]", "null", "[" * 100_000, '{"architectures": ["X"]}'])
def test_it_answers_for_any_file(tmp_path: Path, content: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(content, encoding="utf-8")
    for path in (file, tmp_path, tmp_path / "missing"):
        assert size_pool({**WHOLE, "config": str(path)})["error"]


def test_what_is_no_map_is_refused() -> None:
    assert "a map with config" in size_pool([])["error"]


@pytest.mark.parametrize("check", [False, True])
def test_module_answers_with_it(check: bool) -> None:
    path = str(ROOT / "recipes/configs" / f"{NANO}.json")
    status, got = run_module(check, config=path, **OPTIONS)
    assert status == 0
    assert got.pop("changed") is False
    got.pop("invocation", None)  # core 2.21 leaves it out
    assert got == size_pool({**WHOLE, "config": config(NANO)})


def test_module_returns_an_error_and_does_not_fail() -> None:
    status, got = run_module(config={"architectures": ["BertModel"]}, vllm_version="0.23.0", available_kv_gib=1)
    assert (status, got["changed"]) == (0, False)
    assert "BertModel" in got["error"]


def test_module_fails_for_a_parameter_of_the_wrong_type() -> None:
    status, got = run_module(config={}, vllm_version="0.23.0", available_kv_bytes="many")
    assert status == 1
    assert "available_kv_bytes" in got["msg"]


def test_the_inverse() -> None:
    asked = case(NANO, "0.23.0", kv_cache_dtype="fp8", max_model_len=32768, max_num_seqs=4)
    del asked["available_kv_gib"]
    got = size_pool({**asked, "sequences": 4, "tokens_per_sequence": 32768})
    block = 6 * got["page_size_bytes"]
    assert got["kv_cache_memory_bytes"] == (4 * 12 + 1) * block
    assert got["num_blocks"] == 49
    wanted = {"sequences": 4, "tokens_per_sequence": 32768, "total_memory_bytes": 10**11, "non_kv_bytes": 2 * 10**10}
    assert size_pool({**asked, **wanted})["gpu_memory_utilization"] == 0.2063


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"sequences": 4}, "tokens_per_sequence"),
        ({"sequences": 5, "tokens_per_sequence": 10}, "--max-num-seqs, 4"),
        ({"sequences": 4, "tokens_per_sequence": 40000}, "--max-model-len, 32768"),
        ({"sequences": "4", "tokens_per_sequence": 10}, "case.sequences"),
        ({}, "available_kv_bytes"),
        (
            {"sequences": 4, "tokens_per_sequence": 32768, "total_memory_bytes": 10**9, "non_kv_bytes": 10**9},
            "a workload that fits",
        ),
    ],
)
def test_workload_that_cannot_be_answered(wanted: dict[str, Any], words: str) -> None:
    asked = case(NANO, "0.23.0", kv_cache_dtype="fp8", max_model_len=32768, max_num_seqs=4)
    del asked["available_kv_gib"]
    assert words in size_pool({**asked, **wanted})["error"]


def test_no_memory_helps_a_block_larger_than_a_batch() -> None:
    """Found by the property of the inverse: such a start is refused whatever the bytes are."""
    flags = {"kv_cache_dtype": "fp8", "enable_prefix_caching": True, "max_num_batched_tokens": 2048}
    asked = case("qwen3.6-35b-a3b", "0.23.0", **flags)
    assert "block_size (2096) must be <=" in size_pool({**asked, "sequences": 1, "tokens_per_sequence": 1})["error"]


def test_what_the_planner_asks() -> None:
    flags = {"kv-cache-dtype": "fp8", "max-model-len": 32768, "max-num-seqs": 4}
    service = kv_for_service(config(NANO), flags, "0.23.0")
    least = service.bytes_for(4)
    assert service.pool(least)["num_blocks"] == 49
    assert service.pool(least) == size_pool(
        {"config": config(NANO), "flags": flags, "vllm_version": "0.23.0", "available_kv_bytes": least}
    )
    with pytest.raises(FleetError, match="No available memory"):
        service.pool(0)
    with pytest.raises(FleetError, match=r"config\.architectures"):
        kv_for_service({}, {}, "0.23.0")


QWEN: dict[str, Any] = {"config": config("qwen3-8b"), "vllm_version": "0.28.0", "available_kv_gib": 40}
LONG = {"max_model_len": 80_000, "max_num_seqs": 1}
YARN = {
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 1000000,
        "factor": 4.0,
        "original_max_position_embeddings": 32768,
    }
}
HYBRID: dict[str, Any] = {"config": config("qwen3.6-35b-a3b"), "vllm_version": "0.28.0", "available_kv_gib": 20}


@pytest.mark.parametrize(
    ("wrong", "named", "typed"),
    [
        (
            QWEN | {"flags": LONG},
            'VLLM_ALLOW_LONG_MAX_MODEL_LEN: "1" in env',
            {"env": {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}},
        ),
        (QWEN | {"flags": LONG}, "by hf-overrides (YaRN)", {"flags": LONG | {"hf_overrides": YARN}}),
        (QWEN | {"flags": LONG}, "by hf-overrides (YaRN)", {"flags": LONG | {"hf-overrides": json.dumps(YARN)}}),
        (QWEN | {"flags": LONG}, "write at most 40960", {"flags": LONG | {"max_model_len": 40960}}),
        (QWEN | {"available_kv_gib": 1}, "give the KV cache", {"available_kv_gib": 8}),
        (QWEN | {"available_kv_gib": None}, "write a whole number", {"available_kv_bytes": 8 << 30}),
        (QWEN | {"sequences": 2}, "write both", {"tokens_per_sequence": 1000}),
        (QWEN | {"flags": {"block_size": 17}}, "write a multiple of 16", {"flags": {"block_size": 16}}),
        (
            QWEN | {"flags": {"max_num_seqs": 600, "max_num_batched_tokens": 512}},
            "write at most 512 sequences, or at least 600 tokens",
            {"flags": {"max_num_seqs": 600, "max_num_batched_tokens": 600}},
        ),
        (QWEN | {"flags": {"kv_cache_dtype": "fp9"}}, "fp8", {"flags": {"kv_cache_dtype": "fp8"}}),
        (
            QWEN | {"flags": {"speculative_config": 7}},
            '{"method": "ngram", "num_speculative_tokens": 1}',
            {"flags": {"speculative_config": {"method": "ngram", "num_speculative_tokens": 1}}},
        ),
        (
            QWEN | {"flags": {"speculative_config": {"method": "dflash", "num_speculative_tokens": 8}}},
            "draft_config",
            {
                "flags": {
                    "speculative_config": {
                        "method": "dflash",
                        "num_speculative_tokens": 8,
                        "draft_config": config("qwen3.6-27b-dflash"),
                    }
                }
            },
        ),
        (QWEN | {"flags": {"tensor_parallel_size": 3}}, "divides", {"flags": {"tensor_parallel_size": 2}}),
        (QWEN | {"vllm_version": "x"}, "write it as text", {"vllm_version": "0.28.0"}),
        (
            HYBRID | {"flags": {"enable_chunked_prefill": False, "enable_prefix_caching": True}},
            "chunked-prefill",
            {"flags": {"enable_prefix_caching": True}},
        ),
        (QWEN | {"env": 7}, "write NAME: value", {"env": {}}),
    ],
)
def test_what_a_remedy_names_can_be_typed(wrong: dict[str, Any], named: str, typed: dict[str, Any]) -> None:
    assert named in size_pool(wrong)["error"] + str(size_pool(wrong)["findings"])
    assert "error" not in size_pool(wrong | typed)


def test_the_module_takes_the_variable() -> None:
    rc, answer = run_module(**QWEN, flags=LONG, env={"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"})
    assert (rc, answer["max_model_len"]) == (0, 80_000)


def test_options_of_remedies_are_read() -> None:
    """A remedy that names an option of which the pool knows nothing could be typed and would change nothing."""
    texts = "".join(file.read_text("utf-8") for file in Path(kv_package.__file__).parent.glob("*.py"))
    remedies = " ".join(re.findall(r'remedy\s*=\s*\(?((?:\s*f?"[^"]*"|\s*f?\'[^\']*\')+)', texts))
    options = {name.removeprefix("no-").replace("-", "_") for name in re.findall(r"--([a-z-]+)", remedies)}
    read = {field.name for field in fields(Flags)} | {"speculative_config", "gpu_memory_utilization"}
    assert options and options <= read
