# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of sparkrun for SGLang: in their form, with values of ours."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.foreign import import_recipe

COMMAND = """sglang serve \\
  --model-path {model} --mem-fraction-static {gpu_memory_utilization} --context-length {max_model_len} \\
  --tp {tensor_parallel} --attention-backend flashinfer --cuda-graph-bs-decode {sizes} --trust-remote-code \\
  --api-key sk-0123456789 --host {host} --port {port}
"""
THEIRS: dict[str, Any] = {
    "model": "Qwen/Qwen3-32B",
    "runtime": "sglang",
    "container": "lmsysorg/sglang:v0.5.9-cu130",
    "min_nodes": 2,
    "defaults": {
        "host": "0.0.0.0",
        "port": 8000,
        "tensor_parallel": 2,
        "gpu_memory_utilization": 0.8,
        "max_model_len": 32768,
        "sizes": "1 2 4",
    },
    "env": {"NCCL_DEBUG": "INFO", "SGLANG_HOST_IP": "10.0.0.1"},
    "command": COMMAND,
}


def imported(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The recipe, and its findings by their rule."""
    recipe, findings = import_recipe(THEIRS | changes, "m")
    return recipe or {}, {finding.rule: finding for finding in findings}


def test_a_recipe_is_taken_with_its_engine_its_options_and_its_image() -> None:
    recipe, findings = imported()
    assert (recipe["engine"], recipe["kind"], recipe["host_counts"]) == ("sglang", "chat", [2])
    assert recipe["flags"] == {
        "attention-backend": "flashinfer",
        "context-length": 32768,
        "cuda-graph-bs-decode": [1, 2, 4],
        "trust-remote-code": True,
    }
    assert (recipe["model"]["repository"], recipe["model"]["config"]) == ("Qwen/Qwen3-32B", "qwen3-32b")
    assert (recipe["image"]["family"], recipe["image"]["release"]) == ("upstream", "0.5.9")
    assert recipe["env"] == {"NCCL_DEBUG": "INFO"}
    assert recipe["status"]["state"] == "reported"
    assert "sk-" not in str([*findings.values()])
    assert "import-runtime" not in findings


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        ("python3 -m sglang.launch_server --model-path {model} --pp-size 2 --page-size 64", {"page-size": 64}),
        ("/usr/bin/python3 -m sglang.launch_server --model {model} --chunked-prefill-size=4096", None),
        ("sglang serve {model} --disable-radix-cache", {"disable-radix-cache": True}),
    ],
)
def test_every_way_to_begin_it_is_known(command: str, flags: dict[str, Any] | None) -> None:
    recipe, _ = imported(command=command)
    assert recipe["flags"] == ({"chunked-prefill-size": 4096} if flags is None else flags)
    assert recipe["model"]["repository"] == "Qwen/Qwen3-32B"


def test_without_a_command_the_defaults_are_the_options() -> None:
    theirs = {key: value for key, value in THEIRS.items() if key != "command"}
    theirs["defaults"] = {"max_model_len": 4096, "max_num_seqs": 8, "tensor_parallel": 1, "reasoning_parser": "qwen3"}
    recipe, _ = import_recipe(theirs | {"min_nodes": 1, "max_nodes": 1}, "m")
    assert recipe is not None
    assert recipe["flags"] == {"context-length": 4096, "max-running-requests": 8, "reasoning-parser": "qwen3"}
    assert recipe["host_counts"] == [1]


def test_a_model_that_gives_vectors_is_one() -> None:
    recipe, _ = imported(command="sglang serve --model-path {model} --is-embedding")
    assert (recipe["kind"], recipe["flags"]) == ("embed", {})


@pytest.mark.parametrize("command", ["vllm serve org/m", "sglang serve a/b && true", "sglang serve 'a"])
def test_another_command_is_refused(command: str) -> None:
    recipe, findings = imported(command=command)
    assert recipe == {}
    assert findings["import-command"].severity == "error"
