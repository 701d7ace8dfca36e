# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service that names a repository of GGUF files: which file it means, and the plan on llama.cpp."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.derive import as_file, derive
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.kept_models import (
    keep,
    read_folder,
    read_hub,
    read_kept,
)
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import parse
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.checkpoint import checkpoint_of
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.gguf_files import named_model, size_name
from ansible_collections.gb10.fleet.plugins.module_utils._plan.models import unread_models, wanted_files
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.hub_api import HubApi
from hub_server import Hub, serving
from lab.vllm.gguf_files import Shape, write
from unit.test_any_model import COMMIT, SHIPPED, errors, one, planned

GB = 1_000_000_000
QWEN = {
    "Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf": 22 * GB,
    "Qwen3.6-35B-A3B-Q4_K_M.gguf": 21 * GB,
    "Qwen3.6-35B-A3B-Q8_0.gguf": 37 * GB,
    "mmproj-F16.gguf": GB,
    "mmproj-BF16.gguf": GB,
    "imatrix_unsloth.gguf": 5,
}
SPLIT = {f"UD-Q2_K_XL/DeepSeek-V3.1-UD-Q2_K_XL-0000{at}-of-00002.gguf": 40 * GB for at in (1, 2)}
OSS = "gpt-oss-120b-mxfp4-00001-of-00001.gguf"
ONE = {"tinyllama.gguf": GB}
TWO = {"a-13b.Q4_K_M.gguf": 8 * GB, "b-7b.Q4_K_M.gguf": 4 * GB}
FLUX = {"flux1-dev-Q4_0.gguf": 7 * GB}


def read(repository: str, sizes: dict[str, int], task: str | None = None, **files: bytes) -> dict[str, Any]:
    texts = {name.replace("_json", ".json"): content for name, content in files.items()}
    return checkpoint_of(repository, COMMIT, sizes, texts, "a test", {"pipeline_tag": task})


def plan_of(model: Any, sizes: dict[str, int], task: str | None = None, hosts: int = 1, **more: Any) -> dict[str, Any]:
    repository = named_model(model)["repository"]
    return planned(one(model, hosts, **more), {repository: read(repository, sizes, task)}, hosts)


# what a service names, the files of the repository, what the hub says of it, and the file or the rule of the refusal
NAMES = [
    ("unsloth/Qwen3.6-35B-A3B-GGUF:Q4_K_M", QWEN, "image-text-to-text", "Qwen3.6-35B-A3B-Q4_K_M.gguf"),
    ("unsloth/Qwen3.6-35B-A3B-GGUF:ud-q4_k_xl", QWEN, None, "Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf"),
    ("unsloth/Qwen3.6-35B-A3B-GGUF:Q4_K_XL", QWEN, None, "Qwen3.6-35B-A3B-UD-Q4_K_XL.gguf"),
    ("unsloth/Qwen3.6-35B-A3B-GGUF", QWEN, None, "Qwen3.6-35B-A3B-Q4_K_M.gguf"),
    ("unsloth/Qwen3.6-35B-A3B-GGUF/Qwen3.6-35B-A3B-Q8_0.gguf", QWEN, None, "Qwen3.6-35B-A3B-Q8_0.gguf"),
    (
        {"repository": "unsloth/Qwen3.6-35B-A3B-GGUF", "file": "Qwen3.6-35B-A3B-Q8_0.gguf"},
        QWEN,
        None,
        "Qwen3.6-35B-A3B-Q8_0.gguf",
    ),
    ("unsloth/DeepSeek-V3.1-GGUF:UD-Q2_K_XL", SPLIT, "text-generation", next(iter(SPLIT))),
    ("unsloth/DeepSeek-V3.1-GGUF", SPLIT, None, next(iter(SPLIT))),
    ("someone/TinyLlama", ONE, None, "tinyllama.gguf"),
    (
        "gpustack/bge-reranker-v2-m3-GGUF:Q8_0",
        {"bge-reranker-v2-m3-Q8_0.gguf": GB},
        None,
        "bge-reranker-v2-m3-Q8_0.gguf",
    ),
    ("Qwen/Qwen3-Embedding-8B-GGUF:f16", {"Qwen3-Embedding-8B-f16.gguf": 15 * GB}, None, "Qwen3-Embedding-8B-f16.gguf"),
    ("mradermacher/X-i1-GGUF:i1-IQ4_XS", {"X.i1-IQ4_XS.gguf": GB, "X.i1-Q6_K.gguf": GB}, None, "model-gguf"),
    ("mradermacher/X-i1-GGUF:IQ4_XS", {"X.i1-IQ4_XS.gguf": GB, "X.i1-Q6_K.gguf": GB}, None, "X.i1-IQ4_XS.gguf"),
    ("unsloth/Qwen3.6-35B-A3B-GGUF:Q5_K_M", QWEN, None, "model-gguf"),
    ("someone/two-GGUF:Q4_K_M", TWO, None, "model-gguf"),
    ("city96/FLUX.1-dev-gguf:Q4_0", FLUX, "text-to-image", "model-task"),
    ("someone/half-GGUF", {next(iter(SPLIT)): GB}, None, "model-gguf-none"),
    (
        "ggml-org/gpt-oss-120b-GGUF:mxfp4",
        {"gpt-oss-120b-mxfp4-00001-of-00001.gguf": 63 * GB},
        None,
        "gpt-oss-120b-mxfp4-00001-of-00001.gguf",
    ),
]


@pytest.mark.parametrize(("model", "sizes", "task", "wanted"), NAMES)
def test_a_name_means_a_file_or_is_refused(model: Any, sizes: dict[str, int], task: str | None, wanted: str) -> None:
    if wanted == "model-gguf-none":
        with pytest.raises(Exception, match=r"config\.json and safetensors; or GGUF files, for llama\.cpp"):
            plan_of(model, sizes, task)
        return
    plan = plan_of(model, sizes, task)
    if not wanted.endswith(".gguf"):
        (problem,) = errors(plan)
        assert problem.startswith(wanted)
        return
    assert errors(plan) == []
    (staged,) = [row for row in plan["hosts"]["host-1"]["models"] if "mmproj" not in row["repository"]]
    assert staged["repository"].endswith(f"/{wanted}")
    assert plan["services"]["chat"]["engine"] == "llama.cpp"


def test_a_remedy_is_a_name_that_is_planned() -> None:
    for sizes in (QWEN, TWO, {"a.gguf": 1, "b.gguf": 2}):
        plan = plan_of("org/x-GGUF:Q1_0", sizes)
        (row,) = [row for row in plan["findings"] if row["severity"] == "error"]
        model = yaml.safe_load(row["remedy"].removeprefix("write "))["model"]
        assert errors(plan_of(model, sizes)) == []


def test_the_header_is_read_with_the_name_and_the_plan_is_whole(tmp_path: Path) -> None:
    """Without it the cache took all that a share of 0.85 left."""
    shapes = {"small-Q8_0.gguf": Shape("llama", kind="Q8_0"), "small-Q4_K_M.gguf": Shape("llama", kind="F16")}
    files = {name: write(tmp_path / name, shape).read_bytes() for name, shape in shapes.items()}
    repository = "org/small-GGUF"
    with serving(Hub(repository, COMMIT, files)) as hub:
        found = read_hub(HubApi(hub.url), repository, None, "Q8_0")
        assert hub.sent["small-Q8_0.gguf"] > 0
    keep(tmp_path, found)
    known = read_kept(tmp_path)
    assert known == {repository: found}
    plan = planned(one(f"{repository}:Q8_0"), known)
    assert (errors(plan), [row["rule"] for row in plan["findings"]]) == ([], ["service-open-paths"])
    assert plan["services"]["chat"]["kv"]["exact"]
    other = planned(one(f"{repository}:Q4_K_M"), known)
    assert other["services"]["chat"]["kv"] == plan["services"]["chat"]["kv"]
    folder = read_folder(tmp_path, repository, "a folder")
    assert folder["config"]["file"] == "small-Q4_K_M.gguf"
    assert folder["gguf"] == found["gguf"]


def test_a_model_whose_graph_is_unknown_has_a_bound_on_its_cache() -> None:
    repository = "org/new-GGUF"
    known = read(repository, {"new-Q4_K_M.gguf": 20 * GB})
    known["config"] = {"gguf": {**FACTS, "architecture": "qwen35moe"}, "file": "new-Q4_K_M.gguf"}
    plan = planned(one(repository), {repository: known})
    cache = plan["hosts"]["host-1"]["memory"]["chat"]["kv_pool"]
    assert cache["expected"] == 65536 * 40 * 2 * (256 + 256) * 2
    assert [row["rule"] for row in plan["findings"]] == ["memory-not-judged", "service-open-paths"]
    both = {**one(repository), "second": {"model": repository, "hosts": ["host-1"], "port": 9000}}
    assert errors(planned(both, {repository: known})) == []


FACTS = {
    **{"architecture": "qwen3", "blocks": [400_000_000] * 40, "kv_heads": [2] * 40, "files": 1, "input": GB},
    **{"output": GB, "total": 20 * GB, "context": 262144, "embedding": 2048, "feed_forward": 512, "experts": 256},
    **{"expert_feed_forward": 512, "experts_used": 8, "vocabulary": 248320, "heads": 16, "key_length": 256},
    **{"value_length": 256, "window": 0, "name": ""},
}


@pytest.mark.parametrize(
    ("repository", "task", "kind", "batch"),
    [
        ("gpustack/bge-reranker-v2-m3-GGUF", None, "rerank", 8192),
        ("Qwen/Qwen3-Embedding-8B-GGUF", None, "embed", 8192),
        ("someone/vectors", "feature-extraction", "embed", 8192),
        ("someone/talks", "text-generation", "chat", None),
    ],
)
def test_what_a_file_is_for(repository: str, task: str | None, kind: str, batch: int | None) -> None:
    recipe, findings = derive(read(repository, {"m-Q8_0.gguf": GB}, task))
    assert recipe is not None
    assert ([*findings], recipe["kind"], recipe["flags"].get("ubatch-size")) == ([], kind, batch)


def test_a_kind_that_llama_server_does_not_serve_is_refused() -> None:
    for task, rule in (("automatic-speech-recognition", "llama-kind"), ("text-to-speech", "model-task")):
        plan = plan_of("someone/x-GGUF", {"x-Q8_0.gguf": GB}, task)
        assert [row["rule"] for row in plan["findings"] if row["severity"] == "error"] == [rule]


def test_over_several_hosts_it_needs_an_image_that_has_the_other_program() -> None:
    plan = plan_of("org/x-GGUF:Q4_K_M", {"x-Q4_K_M.gguf": 60 * GB}, hosts=2)
    assert [problem.split()[0] for problem in errors(plan)] == ["llama-rpc-image"]
    own = {"reference": "registry.example/llama.cpp:mine", "family": "custom", "release": "0.7.0"}
    assert errors(plan_of("org/x-GGUF:Q4_K_M", {"x-Q4_K_M.gguf": 60 * GB}, hosts=2, image=own)) == []


def test_what_is_kept_of_it_is_asked_for_once() -> None:
    services = one("org/x-GGUF:Q4_K_M")
    assert unread_models(services, SHIPPED) == {"org/x-GGUF": None}
    assert wanted_files(services) == {"org/x-GGUF": "Q4_K_M"}
    assert wanted_files(one("org/x-GGUF")) == wanted_files(None) == {}


def test_its_recipe_can_be_written_down() -> None:
    known = read("org/x-GGUF", QWEN)
    recipe, _ = derive(known, file="Q8_0")
    assert recipe is not None
    written, problems = parse(yaml.safe_load(as_file(recipe, known, None)), Place())
    assert not [one for one in problems if one.severity == "error"]
    assert written is not None
    assert written["engine"] == "llama.cpp"
    assert written["model"] == {**recipe["model"], "config": None}


@pytest.mark.parametrize(
    ("file", "size"),
    [
        ("Q4_K_M/m-Q4_K_M-00001-of-00003.gguf", "Q4_K_M"),
        ("gemma-3-27b-it-qat-q4_0.gguf", "Q4_0"),
        ("m.i1-IQ2_XXS.gguf", "IQ2_XXS"),
        ("BF16/m-BF16.gguf", "BF16"),
        ("m-MXFP4_MOE.gguf", "MXFP4_MOE"),
        ("m-UD-TQ1_0.gguf", "UD-TQ1_0"),
        ("qwen3.gguf", ""),
    ],
)
def test_a_size_is_read_from_a_files_name(file: str, size: str) -> None:
    assert size_name(file) == size
