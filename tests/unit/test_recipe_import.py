# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.gb10.fleet.plugins.filter.recipe_import import FilterModule
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES, fact
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.foreign import import_recipe
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, Recipe, load_all, parse
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import load
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.docker_command import words_of
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.flags import flags_to_argv, read_flags
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.trust import TRUST
from hypothesis import given
from hypothesis import strategies as st

# The shapes and values of the two projects' recipes, written anew.
EUGR_NANO = r"""
recipe_version: "1"
name: Nemotron-3-Nano-NVFP4
description: vLLM serving Nemotron-3-Nano
model: nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4
container: vllm-node
solo_only: true
mods: [mods/nemotron-nano]
defaults: {port: 8000, host: 0.0.0.0, tensor_parallel: 1, gpu_memory_utilization: 0.7, max_model_len: 262144}
env: {}
command: |
  vllm serve nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4 \
    --moe-backend cutlass --trust-remote-code \
    --port {port} --host {host} -tp {tensor_parallel} \
    --gpu-memory-utilization {gpu_memory_utilization} --max-model-len {max_model_len} \
    --enable-prefix-caching --kv-cache-dtype fp8 --load-format fastsafetensors \
    --enable-auto-tool-choice --tool-call-parser qwen3_coder \
    --reasoning-parser-plugin nano_v3_reasoning_parser.py --reasoning-parser nano_v3
"""
EUGR_DEEPSEEK = r"""
recipe_version: "1"
name: DeepSeek-V4-Flash
model: deepseek-ai/DeepSeek-V4-Flash
container: vllm-node-b12x
build_args: [--exp-b12x]
cluster_only: true
defaults: {tensor_parallel: 2, max_model_len: 500000, max_num_seqs: 4, spec_tokens: 2}
env: {DG_JIT_USE_NVRTC: 0, VLLM_ALLOW_LONG_MAX_MODEL_LEN: "1", HF_TOKEN: hf_secret}
command: |
  vllm serve deepseek-ai/DeepSeek-V4-Flash --tensor-parallel-size={tensor_parallel}
  --max-model-len {max_model_len} --max-num-seqs {max_num_seqs} --block-size 256 --mamba_ssm_cache_dtype float32
  --speculative-config '{{"method": "mtp", "num_speculative_tokens": {spec_tokens}}}'
  --distributed-executor-backend ray --no-scheduler-reserve-full-isl --cudagraph-capture-sizes 5 10 15 20
"""
EUGR_GEMMA = r"""
name: Gemma4
container: vllm-node
solo_only: true
mods: [fix-qwen3.5-chat-template, kv-cache-prealloc-cleanup, drop-caches]
defaults: {tp: 2, util: 108}
command: |
  vllm serve nvidia/Gemma-4-26B-A4B-NVFP4 -tp {tp} --gpu-memory-utilization {util} --chat-template unsloth.jinja
  --max-model-len auto
  --speculative-config '{{"method":"mtp","model":"google/gemma-4-26B-A4B-it-assistant","num_speculative_tokens":4}}'
"""
SPARKRUN_QWEN = r"""
recipe_version: "2"
model: Qwen/Qwen3.6-35B-A3B-FP8
model_revision: main
runtime: vllm
container: ghcr.io/spark-arena/dgx-vllm-eugr-nightly:latest
metadata: {description: Qwen3.6 35B with MTP, quantization: fp8, model_params: 35B}
defaults: {port: 8000, tensor_parallel: 1, gpu_memory_utilization: 0.8, max_model_len: 262144}
env: {VLLM_MARLIN_USE_ATOMIC_ADD: "1", CACHE: $HOME/x}
executor_config: {privileged: true, shm_size: 10.24gb}
pre_exec: [nvidia-smi]
command: |
  vllm serve {model} --port {port} -tp {tensor_parallel} --kv-cache-dtype fp8 --attention-backend flashinfer
  --speculative-config '{{"method":"mtp","num_speculative_tokens":2}}' --max-model-len {max_model_len}
"""
SPARKRUN_MINIMAX = r"""
model: nvidia/MiniMax-M2.7-NVFP4
runtime: vllm-distributed
container: scitrera/dgx-spark-vllm:1
min_nodes: 2
defaults: {tensor_parallel: 2, max_model_len: 196608, load_format: instanttensor, trust_remote_code: true}
"""


ALWAYS = {"import-config", "recipe-unpinned-image", "recipe-unpinned-model"}


def imported(text: str, name: str = "other") -> tuple[dict[str, Any], set[tuple[str, str]]]:
    recipe, findings = import_recipe(yaml.safe_load(text), name)
    assert recipe is not None, [finding.sentence() for finding in findings]
    assert parse(recipe, "again")[0] == recipe
    return recipe, {(finding.rule, finding.place) for finding in findings if finding.rule not in ALWAYS}


def test_eugrs_solo_recipe() -> None:
    recipe, warned = imported(EUGR_NANO, "nano")
    assert recipe["name"] == "nano"
    assert recipe["summary"] == "vLLM serving Nemotron-3-Nano"
    assert recipe["host_counts"] == [1]
    assert recipe["model"]["repository"] == "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4"
    assert (recipe["image"]["reference"], recipe["image"]["family"]) == ("eugr/spark-vllm:latest", "eugr")
    assert recipe["flags"] == {
        "enable-auto-tool-choice": True,
        "enable-prefix-caching": True,
        "kv-cache-dtype": "fp8",
        "load-format": "fastsafetensors",
        "max-model-len": 262144,
        "moe-backend": "cutlass",
        "reasoning-parser": "nano_v3",
        "reasoning-parser-plugin": "{model_path}/nano_v3_reasoning_parser.py",
        "tool-call-parser": "qwen3_coder",
        "trust-remote-code": True,
    }
    assert warned == {("import-planned", "nano.command"), ("import-mod", "nano.mods")}


def test_eugrs_cluster_recipe() -> None:
    recipe, warned = imported(EUGR_DEEPSEEK, "dsv4")
    assert recipe["host_counts"] == [2]
    assert recipe["env"] == {"DG_JIT_USE_NVRTC": "0", "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}
    assert recipe["flags"] == {
        "block-size": 256,
        "cudagraph-capture-sizes": [5, 10, 15, 20],
        "mamba-ssm-cache-dtype": "float32",
        "max-model-len": 500000,
        "max-num-seqs": 4,
        "scheduler-reserve-full-isl": False,
        "speculative-config": {"method": "mtp", "num_speculative_tokens": 2},
    }
    assert warned == {
        ("import-planned", "dsv4.command"),
        ("import-build", "dsv4.build_args"),
        ("import-secret", "dsv4.env.HF_TOKEN"),
    }


def test_what_eugrs_launcher_knows_is_reported() -> None:
    recipe, warned = imported(EUGR_GEMMA, "gemma")
    assert recipe["host_counts"] == [1]
    assert recipe["model"]["draft"]["repository"] == "google/gemma-4-26B-A4B-it-assistant"
    assert {"max-model-len", "gpu-memory-utilization", "chat-template"}.isdisjoint(recipe["flags"])
    assert recipe["model"]["config"] == "gemma-4-26b-a4b"
    assert warned == {
        ("import-planned", "gemma.command"),
        ("import-file", "gemma.command"),
        ("import-mod", "gemma.mods"),
        ("import-solo", "gemma.solo_only"),
    }


def test_sparkruns_recipe_with_a_command() -> None:
    recipe, warned = imported(SPARKRUN_QWEN, "qwen")
    assert recipe["summary"] == "Qwen3.6 35B with MTP"
    assert recipe["model"]["quantization"] == "fp8"
    assert recipe["image"]["family"] == "eugr"
    assert recipe["env"] == {"VLLM_MARLIN_USE_ATOMIC_ADD": "1"}
    assert warned == {
        ("import-planned", "qwen.command"),
        ("import-revision", "qwen.model_revision"),
        ("import-variable", "qwen.env.CACHE"),
        ("import-left-out", "qwen.executor_config"),
        ("import-left-out", "qwen.pre_exec"),
    }


def test_sparkruns_recipe_without_a_command() -> None:
    recipe, warned = imported(SPARKRUN_MINIMAX, "minimax")
    assert recipe["host_counts"] == [2]
    assert recipe["flags"] == {"load-format": "instanttensor", "max-model-len": 196608, "trust-remote-code": True}
    assert recipe["image"]["entrypoint"] == "/usr/bin/env"
    assert warned == set()


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"command": "vllm serve {model} --port {port}"}, "import-placeholder"),
        ({"command": "vllm serve x/y --a 'b"}, "import-command"),
        ({"command": "pip install x && vllm serve x/y"}, "import-command"),
        ({"command": "python3 -m sglang.launch_server"}, "import-command"),
        ({"command": "vllm serve x/y --max-model-len long"}, "schema-choice"),
        ({"command": "vllm serve /models/x"}, "schema-pattern"),
        ({"container": None}, "schema-required"),
        ({"defaults": {"x": 10**5000}}, "schema-range"),
    ],
)
def test_what_cannot_be_imported_gives_the_reason(changes: dict[str, Any], rule: str) -> None:
    source = {"name": "x", "container": "vllm-node", "command": "vllm serve x/y", **changes}
    recipe, findings = import_recipe(source, "other")
    assert recipe is None
    assert rule in [finding.rule for finding in findings if finding.severity == "error"]


def test_the_authors_share_of_memory_is_kept_as_a_wish() -> None:
    recipe, _ = imported(EUGR_NANO, "nano")
    assert recipe["memory"]["utilization"] == {"min": 0, "max": 0.7, "source": "eugr, nano"}


def test_of_another_engine_the_model_is_taken_over() -> None:
    recipe, warned = imported(SPARKRUN_MINIMAX.replace("vllm-distributed", "atlas"), "m")
    assert ("import-runtime", "m.runtime") in warned
    assert recipe["host_counts"] == [2]
    assert recipe["flags"]["tool-call-parser"] == "minimax_m2"
    assert recipe["image"]["reference"] == fact("image", "reference")


@pytest.mark.parametrize(
    ("flags", "model", "kind"),
    [
        ("--runner pooling", "Qwen/Qwen3-VL-Embedding-8B", "embed"),
        ("--runner pooling", "Qwen/Qwen3-VL-Reranker-8B", "rerank"),
        ("", "Qwen/Qwen3-VL-8B-Instruct", "chat"),
    ],
)
def test_a_model_that_pools_is_no_chat(flags: str, model: str, kind: str) -> None:
    recipe, findings = import_recipe({"container": "vllm-node", "command": f"vllm serve {model} {flags}"}, "x")
    assert recipe is not None, [finding.sentence() for finding in findings]
    assert (recipe["kind"], recipe["model"]["config"]) == (kind, "qwen3-vl-8b")


# The shape of NVIDIA's and of vllm-project's recipes, written anew.
NVIDIA = r"""
schema_version: 3
title: A model on one Spark
validation: {validated_at: 2026-08-31}
checkpoint: {target_label: nvidia/Qwen3.6-35B-A3B-NVFP4}
topology: {node_count: 1}
runtime: {image: "vllm/vllm-openai:v0.28.0", setup_command: "docker run -e HF_TOKEN=$HF_TOKEN -e NCCL_DEBUG=INFO x"}
serve:
  command: |
    export VLLM_ALLOW_LONG_MAX_MODEL_LEN="1"
    VLLM_FLOAT32_MATMUL_PRECISION="high" \
    vllm serve nvidia/Qwen3.6-35B-A3B-NVFP4 --host 0.0.0.0 --port 8000 \
      --speculative-config '{"method":"mtp","num_speculative_tokens":3,"x":{"y":1}}' \
      --gpu-memory-utilization 0.8 --max-model-len 262144
"""
VLLM = r"""
meta: {title: Qwen3.6, description: "A model"}
model: {model_id: Qwen/Qwen3.6-35B-A3B, context_length: 262144, base_args: [--trust-remote-code]}
features:
  tools: {args: [--enable-auto-tool-choice, --tool-call-parser, qwen3_coder]}
  drafts: {args: [--speculative-config, '{"method":"mtp","num_speculative_tokens":3}']}
opt_in_features: [drafts]
variants:
  default: {precision: bf16}
  nvfp4: {model_id: nvidia/Qwen3.6-35B-A3B-NVFP4, extra_args: [--kv-cache-dtype, fp8], extra_env: {A: "1"}}
"""


def test_nvidias_recipe() -> None:
    recipe, warned = imported(NVIDIA, "n")
    assert (recipe["status"]["by"], recipe["status"]["when"]) == ("NVIDIA", "2026-08-31")
    assert recipe["host_counts"] == [1]
    assert recipe["env"] == {
        "NCCL_DEBUG": "INFO",
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1",
        "VLLM_FLOAT32_MATMUL_PRECISION": "high",
    }
    assert recipe["flags"] == {
        "max-model-len": 262144,
        "speculative-config": {"method": "mtp", "num_speculative_tokens": 3, "x": {"y": 1}},
    }
    assert warned == {("import-planned", "n.command")}


def test_vllms_recipe() -> None:
    recipe, _ = imported(VLLM, "v")
    assert recipe["model"]["repository"] == "nvidia/Qwen3.6-35B-A3B-NVFP4"
    assert recipe["env"] == {"A": "1"}
    assert recipe["flags"] == {
        "enable-auto-tool-choice": True,
        "kv-cache-dtype": "fp8",
        "max-model-len": 262144,
        "tool-call-parser": "qwen3_coder",
        "trust-remote-code": True,
    }


SHIPPED, _FINDINGS = load_all([SHIPPED_RECIPES])


SHAPES = {
    "eugr": EUGR_NANO,
    "eugr-drafter": EUGR_GEMMA,
    "sparkrun": SPARKRUN_QWEN,
    "sparkrun-pair": SPARKRUN_MINIMAX,
    "nvidia": NVIDIA.replace(',"x":{"y":1}', ""),
    "vllm-project": VLLM,
}


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_what_is_imported_is_planned_on_as_many_hosts_as_its_author_names(text: str) -> None:
    recipe, _ = imported(text, "theirs")
    library = Library({"theirs": Recipe("theirs", recipe, Path("theirs.yml"))}, SHIPPED.folders)
    hosts = [f"host-{at}" for at in range(1, max(recipe["host_counts"]) + 1)]
    ports = {f"{host}:1": at for at, host in enumerate(hosts, 10)}
    variables: dict[str, Any] = {
        "fleet_services": {"x": {"recipe": "theirs", "hosts": hosts, "port": 8000, "trust": [*TRUST]}},
        "fleet_fabric": {"switches": {"switch": {"ports": ports}}} if len(hosts) > 1 else {},
    }
    addressed = {host: {"address": f"192.0.2.{at}", "variables": variables} for at, host in enumerate(hosts, 1)}
    plan = plan_fleet({"hosts": addressed, "folder": "."}, library)
    assert [row for row in plan["findings"] if row["severity"] == "error"] == []
    pool = plan["services"]["x"]["kv"]
    assert pool["bytes_per_request"] and pool["bytes"]


def test_an_api_key_is_never_repeated() -> None:
    source = {"container": "vllm-node", "command": "vllm serve x/y --api-key s3cret"}
    _, findings = import_recipe(source, "other")
    assert "s3cret" not in "".join(finding.sentence() for finding in findings)


def test_the_filter_takes_a_text_or_a_map() -> None:
    recipe_import = FilterModule().filters()["recipe_import"]
    from_text = recipe_import(EUGR_NANO, "nano")
    assert from_text == recipe_import(yaml.safe_load(EUGR_NANO), "nano")
    assert from_text["recipe"]["name"] == "nano"
    assert len(from_text["sentences"]) == len(from_text["findings"])
    assert recipe_import("a: [", "nano")["findings"][0]["rule"] == "recipe-unreadable"
    with pytest.raises(AnsibleFilterError, match="recipe_import"):
        recipe_import(7, "nano")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
)
KEYS = ["name", "command", "container", "defaults", "env", "mods", "model", "model_revision", "metadata", "runtime"]


@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING) | ANYTHING)
def test_any_content_ends_in_a_recipe_or_findings(source: Any) -> None:
    recipe, findings = import_recipe(source, "other")
    assert recipe is not None or findings


@given(st.text(), st.dictionaries(st.sampled_from(["a", "model"]), st.text()))
def test_any_command_ends_in_a_recipe_or_findings(command: str, defaults: dict[str, str]) -> None:
    source = {"container": "x", "command": f"vllm serve x/y {command}", "defaults": defaults}
    recipe, findings = import_recipe(source, "other")
    assert recipe is not None or findings


CATALOGUE = load()
OPTIONS = [option for option in CATALOGUE.newest.options.values() if option.name != "--model"]
VALUES = st.integers(-1000, 10**9) | st.from_regex(r"[a-z][a-z0-9_./-]{0,10}", fullmatch=True)
MAPS = st.dictionaries(st.text(), st.integers() | st.text(), min_size=1)
FOREIGN = st.from_regex(r"[a-m][a-z]{1,8}(-[a-z]{1,5})?", fullmatch=True).filter(
    lambda name: not any(spelling.startswith(f"--{name}") for spelling in CATALOGUE.any_options)
)
FLAGS = [
    st.dictionaries(FOREIGN, st.booleans() | VALUES | MAPS | st.lists(VALUES, min_size=2)),
    st.dictionaries(st.sampled_from([o.name[2:] for o in OPTIONS if o.type == "switch"]), st.booleans()),
    st.dictionaries(st.sampled_from([o.name[2:] for o in OPTIONS if o.takes_value]), VALUES | MAPS),
]


@given(st.tuples(*FLAGS))
def test_reading_is_the_way_back_from_writing(parts: tuple[dict[str, Any], ...]) -> None:
    flags = parts[0] | parts[1] | parts[2]
    assert read_flags(["org/model", *flags_to_argv(flags)], CATALOGUE) == ("org/model", flags)


@pytest.mark.parametrize(
    "words, flags",
    [
        ("x/y -tp 2 -O3", {"tensor-parallel-size": 2, "optimization-level": 3}),
        ("--enforce-eager x/y --max_model_len 4096", {"enforce-eager": True, "max-model-len": 4096}),
        ("--model x/y --no-enable-prefix-caching", {"enable-prefix-caching": False}),
        ("x/y --compilation-config.level 3", {"compilation-config.level": 3}),
        ("x/y --served-model-name a b --fork-only c d", {"served-model-name": ["a", "b"], "fork-only": ["c", "d"]}),
        ("x/y --middleware a --middleware b", {"middleware": ["a", "b"]}),
        ("x/y --enforce-eager=false --fork-only", {"enforce-eager": "false", "fork-only": True}),
    ],
)
def test_a_written_command_is_read_as_vllm_reads_it(words: str, flags: dict[str, Any]) -> None:
    assert read_flags(words_of(words), CATALOGUE) == ("x/y", flags)


def test_a_shells_command_is_split_as_a_shell_does() -> None:
    words = words_of("vllm serve x/y \\\n --a 'b c' \\\n --d=\"e\" # remark")
    assert words == ["vllm", "serve", "x/y", "--a", "b c", "--d=e"]
