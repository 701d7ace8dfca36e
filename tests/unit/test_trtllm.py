# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TensorRT-LLM as an engine: the words of `trtllm-serve`, the file that it reads, its memory and what it can't be."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines import options
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.trtllm import catalogue
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import service
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from planned import found, ranks_of

GIB = 1 << 30
RECIPE: dict[str, Any] = {
    "name": "m",
    "summary": "A model",
    "engine": "trtllm",
    "model": {"repository": "org/m", "revision": "a" * 40, "config": "qwen3-32b", "weights_bytes": 20 * GIB},
    "image": {
        "reference": "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13",
        "digest": f"sha256:{'0' * 64}",
        "family": "ngc",
        "release": "1.3.0rc13",
    },
    "flags": {"extra-llm-api-options": {"cuda_graph_config": {"enable_padding": True}}},
    "status": {"state": "reported", "by": "us", "hardware": "none"},
    "sources": ["us"],
}
OPEN = {"open": True, "listen": "127.0.0.1"}
CABLE = [["a:1", "b:1"]]
PAIR, OF_TWO = {"hosts": ["a", "b"]}, {"host_counts": [1, 2]}
WORKLOAD = {"workload": {"max_model_len": 32768, "max_num_seqs": 4}}
# Of one token: keys and values of 8 heads of 128 numbers of two bytes in 64 layers.
CELL = 2 * 8 * 128 * 2 * 64


def plan(
    tmp_path: Path,
    settings: dict[str, Any],
    gateway: Any = None,
    cables: Sequence[list[str]] = CABLE,
    of_b: Mapping[str, Any] | None = None,
    **recipe: Any,
) -> dict[str, Any]:
    """of_b: the variable `fleet_host` of that host."""
    (tmp_path / "m.yml").write_text(yaml.safe_dump(RECIPE | recipe))
    library, of_recipes = load_all([SHIPPED_RECIPES, tmp_path])
    variables = {
        "fleet_services": {"m": {"recipe": "m", "hosts": ["a"], "port": 8000} | OPEN | WORKLOAD | settings},
        "fleet_fabric": {"cables": [*cables]},
        **({"fleet_gateway": gateway} if gateway else {}),
    }
    addresses = {"a": "10.0.0.1", "b": "10.0.0.2"}
    hosts = {name: {"address": at, "port": 22, "variables": {**variables}} for name, at in addresses.items()}
    hosts["b"]["variables"] |= {"fleet_host": of_b or {}}
    return plan_fleet({"hosts": hosts, "folder": str(tmp_path)}, library, of_recipes)


def words(planned: dict[str, Any]) -> list[str]:
    (rank,) = ranks_of(planned, "m")
    arguments: list[str] = rank["container"]["arguments"]
    return arguments


def extra(planned: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(words(planned)[2])
    return read


def test_it_is_planned_to_the_last_word(tmp_path: Path) -> None:
    planned = plan(tmp_path, {})
    assert found(planned) == []
    (rank,) = ranks_of(planned, "m")
    assert rank["container"]["entrypoint"] == "/bin/sh"
    program = words(planned)[3:]
    assert program[:2] == ["trtllm-serve", "org/m"], "its name for clients is that of its repository"
    given = dict(zip(program[2::2], program[3::2], strict=True))
    assert given == {
        "--extra_llm_api_options": "/tmp/gb10-trtllm.yml",
        "--backend": "pytorch",
        "--host": "0.0.0.0",
        "--max_batch_size": "4",
        "--max_num_tokens": "8192",
        "--max_seq_len": "32768",
        "--port": "8000",
        "--revision": "a" * 40,
    }
    read = service.from_plan(rank["supervisor"])
    assert (read.probes.metrics, read.probes.health) == (None, "/health")


def test_over_two_hosts_the_head_starts_it_among_nodes_that_ask_for_the_token(tmp_path: Path) -> None:
    """NVIDIA's way by mpirun needs an SSH server in each container."""
    planned = plan(tmp_path, PAIR, **OF_TWO)
    assert found(planned) == []
    head, worker = ranks_of(planned, "m")
    for rank in (head, worker):
        container = rank["container"]
        assert (container["entrypoint"], container["arguments"][0]) == ("ray", "start")
        assert container["env"]["RAY_AUTH_MODE"] == "token"
        assert container["env"]["RAY_AUTH_TOKEN_PATH"] in [mount["target"] for mount in container["mounts"]]
        probes = service.from_plan(rank["supervisor"]).probes
        assert probes.joined and probes.requires and probes.requires.least == [2, 52]
    shell, _, _, text, program, _, *options = head["exec"]
    assert (shell, program, worker["exec"]) == ("/bin/sh", "trtllm-serve", None)
    assert json.loads(text)["orchestrator_type"] == "ray"
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert (given["--tp_size"], given["--host"]) == ("2", "127.0.0.1")
    assert [row["port"] for row in planned["hosts"]["a"]["listens"]] == [8000, 18000, 22000, 26000, "any"]


def test_a_group_whose_variables_differ_is_refused(tmp_path: Path) -> None:
    """Ray's actors get the head's."""
    own = {"services": {"m": {"env": {"NCCL_SOCKET_IFNAME": "enP7s7"}}}}
    assert found(plan(tmp_path, PAIR, of_b=own, **OF_TWO)) == ["trtllm-variables-differ"]


def test_hosts_without_a_cable_are_refused_once(tmp_path: Path) -> None:
    assert found(plan(tmp_path, PAIR, cables=[], **OF_TWO)) == ["fabric-group-unconnected"]


def test_the_shell_writes_the_file_and_gives_way(tmp_path: Path) -> None:
    """The words as they are, with a program that shows what it was started with."""
    _, script, text, _, *rest = words(plan(tmp_path, {}))
    there = tmp_path / "extra.yml"
    shell = script.replace("/tmp/gb10-trtllm.yml", str(there))
    shown = subprocess.run(["/bin/sh", "-c", shell, text, "echo", *rest], check=True, stdout=subprocess.PIPE, text=True)
    assert shown.stdout.split() == rest
    assert yaml.safe_load(there.read_text()) == json.loads(text)


def test_the_pool_is_promised_in_tokens_and_finds_room(tmp_path: Path) -> None:
    planned = plan(tmp_path, {})
    kv, options_file = planned["services"]["m"]["kv"], extra(planned)
    assert options_file["cuda_graph_config"] == {"enable_padding": True}
    cache = options_file["kv_cache_config"]
    assert (kv["tokens"], cache["max_tokens"], kv["bytes"]) == (131072, 131072, (131072 + 64) * CELL)
    host = planned["hosts"]["a"]["memory"]["m"]
    free = (127601452 << 10) - sum(host[line]["high"] for line in ("reserve", "processes", "weights", "runtime"))
    assert free * cache["free_gpu_memory_fraction"] >= kv["bytes"]


def test_what_an_owner_writes_stays(tmp_path: Path) -> None:
    written = {"kv_cache_config": {"dtype": "fp8", "free_gpu_memory_fraction": 0.4}}
    planned = plan(tmp_path, {"flags": {"extra-llm-api-options": written}})
    cache = extra(planned)["kv_cache_config"]
    assert (cache["free_gpu_memory_fraction"], cache["dtype"], cache["max_tokens"]) == (0.4, "fp8", 131072)
    assert planned["services"]["m"]["kv"]["bytes"] == (131072 + 64) * CELL // 2


def test_of_a_cache_that_nobody_knows_nothing_is_planned(tmp_path: Path) -> None:
    planned = plan(
        tmp_path, {}, model={**RECIPE["model"], "config": "gpt-oss-120b", "repository": "openai/gpt-oss-120b"}
    )
    assert {"trtllm-not-judged", "memory-not-judged", "trtllm-vocabularies"} <= {*found(planned, "hint")}
    cache = extra(planned)["kv_cache_config"]
    assert cache.keys() == {"free_gpu_memory_fraction"}


@pytest.mark.parametrize(
    ("settings", "recipe", "rules"),
    [
        ({"open": False}, {}, ["service-key-engine"]),
        (PAIR, OF_TWO | {"image": {**RECIPE["image"], "release": "1.1.0"}}, ["trtllm-group", "trtllm-revision"]),
        (PAIR | {"flags": {"tp-size": 1}}, OF_TWO, ["trtllm-ranks"]),
        ({"flags": {"extra-llm-api-options": {"orchestrator_type": "rpc"}}}, {}, ["trtllm-orchestrator"]),
        ({"served_name": "m"}, {}, ["trtllm-served-name"]),
        ({"tls": "local"}, {}, ["service-tls-engine"]),
        ({"flags": {"host": "0.0.0.0"}}, {}, ["recipe-planned-flag"]),
        ({"flags": {"config": "/x.yml"}}, {}, ["recipe-planned-flag"]),
        ({"flags": {"free-gpu-memory-fraction": 0.9}}, {}, ["recipe-planned-flag"]),
        ({"flags": {"extra-llm-api-options": "/tmp/x.yml"}}, {}, ["schema-type"]),
        ({}, {"kind": "embed"}, ["trtllm-kind"]),
    ],
)
def test_what_it_can_not_be_is_refused_before(
    tmp_path: Path, settings: dict[str, Any], recipe: dict[str, Any], rules: list[str]
) -> None:
    assert found(plan(tmp_path, settings, **recipe)) == rules


def test_behind_a_gateway_nobody_else_reaches_it(tmp_path: Path) -> None:
    (tmp_path / "clients.yml").write_text("anna: key-of-anna-0000001\n")
    (tmp_path / "clients.yml").chmod(0o600)
    gateway = {"hosts": ["b"], "keys_file": "clients.yml"}
    planned = plan(tmp_path, {"listen": "0.0.0.0"}, gateway)
    assert found(planned) == []
    host = planned["hosts"]["a"]
    # the endpoint, and where its supervisor says whether it serves
    assert all(row["who"].startswith("the gateway on b") for row in host["listens"])
    assert {opened["port"]: opened["from"] for opened in host["firewall"]["open"]} == {
        8000: ["10.0.0.2"],
        20000: ["10.0.0.2"],
    }


def test_options_are_judged_where_the_release_is_known(tmp_path: Path) -> None:
    image, model = {**RECIPE["image"], "release": catalogue.NEWEST}, {**RECIPE["model"], "revision": None}
    unknown = plan(tmp_path, {"flags": {"max-num-tokenz": 1}}, image=image, model=model)
    assert found(unknown) == ["trtllm-option-unknown"]
    assert found(plan(tmp_path, {"flags": {"backend": "cpp"}}, image=image, model=model)) == ["trtllm-option-value"]
    assert found(plan(tmp_path, {}, image=image, model=model)) == []


@pytest.mark.parametrize(("release", "rules"), [("1.1.0", ["trtllm-revision"]), ("1.2.0rc6", []), (None, [])])
def test_a_release_that_knows_no_revision_is_refused(tmp_path: Path, release: str | None, rules: list[str]) -> None:
    image = {**RECIPE["image"], "release": release}
    assert found(plan(tmp_path, {}, image=image)) == rules


def test_what_hung_a_host_is_named(tmp_path: Path) -> None:
    image = {**RECIPE["image"], "reference": "nvcr.io/nvidia/tensorrt-llm/release:1.2.0rc6", "release": "1.2.0rc6"}
    model = {**RECIPE["model"], "repository": "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4"}
    assert "trtllm-nemotron-super" in found(plan(tmp_path, {}, image=image, model=model), "warning")
    assert "trtllm-nemotron-super" not in found(plan(tmp_path, {}, model=model), "warning")


LOG = """[TensorRT-LLM] TensorRT-LLM version: 1.3.0rc13
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.56 GiB for max tokens in paged KV cache (8224).
[TensorRT-LLM][INFO] [MemUsageChange] Allocated 16.05 GiB for max tokens in paged KV cache (263008).
[12/20/2025-04:21:10] [TRT-LLM] [I] max_seq_len=8224, max_num_requests=64, max_num_tokens=8192, max_batch_size=64
"""


def test_a_start_is_read() -> None:
    boot = ENGINES["trtllm"].boot(LOG)
    assert (boot.kv_cache_tokens, boot.max_model_len, boot.release) == (263008, 8224, "1.3.0rc13")
    assert not any(ENGINES["trtllm"].boot("nothing").as_dict().values())


def test_the_catalogue_is_as_its_tool_writes_it() -> None:
    assert options.as_json(catalogue.load()) == catalogue.DATA.read_text("utf-8")


def test_images_are_known_by_their_names() -> None:
    reference = "nvcr.io/nvidia/tensorrt-llm/release:1.3.0rc13"
    assert ENGINES["trtllm"].image_facts(reference) == {"reference": reference, "family": "ngc", "release": "1.3.0rc13"}
    older = "nvcr.io/nvidia/tensorrt-llm/release:spark-single-gpu-dev"
    assert ENGINES["trtllm"].image_facts(older) == {"reference": older, "family": "ngc", "release": None}


@pytest.mark.parametrize("backend", ["tensorrt", "trt"])
def test_the_old_backend_is_named(tmp_path: Path, backend: str) -> None:
    assert "trtllm-backend" in found(plan(tmp_path, {"flags": {"backend": backend}}), "warning")
    assert "trtllm-backend" not in found(plan(tmp_path, {"flags": {"backend": "pytorch"}}), "warning")
    of_recipe = {"flags": {**RECIPE.get("flags", {}), "backend": backend}}
    assert "trtllm-backend" in found(plan(tmp_path, {}, **of_recipe), "warning")
    assert "trtllm-backend" not in found(plan(tmp_path, {"flags": {"backend": None}}, **of_recipe), "warning")
