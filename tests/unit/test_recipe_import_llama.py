# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes of sparkrun for llama.cpp: in their form, with values of ours."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import default_layer
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp.catalogue import newest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp.launch import words_of
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp.words import read_flags
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.foreign import import_recipe
from hypothesis import given
from hypothesis import strategies as st

COMMAND = """llama-server \\
  -hf {model} \\
  --host {host} --port {port} --n-gpu-layers {n_gpu_layers} -c {ctx_size} \\
  --flash-attn on --jinja --no-webui --api-key sk-0123456789
"""
THEIRS: dict[str, Any] = {
    "model": "org/tiny-GGUF:Q8_0",
    "runtime": "llama-cpp",
    "max_nodes": 1,
    "container": "registry.example/llama-cpp:b1",
    "defaults": {"port": 8000, "host": "0.0.0.0", "n_gpu_layers": 99, "ctx_size": 8192},
    "env": {"LLAMA_CACHE": "/cache", "GGML_CUDA_FORCE_MMQ": 1},
    "command": COMMAND,
}


def imported(**changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The recipe, and its findings by their rule."""
    recipe, findings = import_recipe(THEIRS | changes, "tiny")
    return recipe or {}, {finding.rule: finding for finding in findings}


def test_a_recipe_is_taken_with_its_engine_its_options_and_its_image() -> None:
    recipe, findings = imported()
    assert (recipe["engine"], recipe["kind"], recipe["host_counts"]) == ("llama.cpp", "chat", [1])
    assert recipe["flags"] == {"ctx-size": 8192, "flash-attn": "on", "n-gpu-layers": 99, "jinja": True, "ui": False}
    assert recipe["model"]["repository"] == "org/tiny-GGUF"
    assert (recipe["image"]["family"], recipe["image"]["release"]) == ("custom", None)
    assert recipe["env"] == {"GGML_CUDA_FORCE_MMQ": "1"}
    assert recipe["status"]["state"] == "reported"
    assert "sk-" not in str([*findings.values()])
    assert "import-runtime" not in findings


def test_no_option_of_it_is_one_of_the_defaults_under_another_name() -> None:
    recipe, _ = imported()
    known, defaults = newest().options, default_layer("llama_cpp_flags").values
    other = {known[name] for name in defaults if name not in recipe["flags"]}
    assert not other & {known[name] for name in recipe["flags"]}


def test_the_file_is_asked_for_where_only_the_hub_knows_it() -> None:
    recipe, findings = imported()
    assert "file" not in recipe["model"]
    assert findings["import-gguf"].found == "Q8_0 of org/tiny-GGUF, which the hub makes a file of"


@pytest.mark.parametrize("words", ["-hf org/tiny-GGUF -hff Q8/tiny.gguf", "-m /models/Q8/tiny.gguf"])
def test_a_file_that_is_named_is_taken(words: str) -> None:
    recipe, findings = imported(command=f"/app/llama-server {words}")
    assert recipe["model"]["file"].endswith("tiny.gguf")
    assert "import-gguf" not in findings


@pytest.mark.parametrize(
    ("option", "kind"), [("--embedding", "embed"), ("--embeddings", "embed"), ("--reranking", "rerank")]
)
def test_what_it_is_asked_follows_from_its_options(option: str, kind: str) -> None:
    assert imported(command=f"llama-server -hf {{model}} {option}")[0]["kind"] == kind


def test_without_a_command_the_defaults_are_the_options() -> None:
    defaults = {"max_model_len": 4096, "n_gpu_layers": 99, "tensor_parallel": 1, "port": 8000}
    theirs = {key: value for key, value in THEIRS.items() if key != "command"} | {"defaults": defaults}
    recipe, _ = import_recipe(theirs, "tiny")
    assert recipe is not None
    assert recipe["flags"] == {"ctx-size": 4096, "n-gpu-layers": 99}


@pytest.mark.parametrize(("least", "most", "counts"), [(2, None, [2]), (1, 2, [1, 2]), (2, 4, [2, 4])])
def test_on_how_many_hosts_it_runs(least: int, most: int | None, counts: list[int]) -> None:
    assert imported(min_nodes=least, max_nodes=most)[0]["host_counts"] == counts


@pytest.mark.parametrize("command", ["vllm serve org/tiny", "llama-server -hf a/b && true", "llama-server 'a"])
def test_another_command_is_refused(command: str) -> None:
    recipe, findings = imported(command=command)
    assert recipe == {}
    assert findings["import-command"].severity == "error"


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "ctx-size": st.integers(1, 1 << 20),
            "temp": st.floats(0, 2).map(lambda value: round(value, 3)),
            "jinja": st.booleans(),
            "ui": st.booleans(),
            "cache-type-k": st.sampled_from(["f16", "q8_0"]),
        },
    )
)
def test_words_that_we_write_are_read_again(flags: dict[str, Any]) -> None:
    assert read_flags([*words_of(flags)]) == flags
