# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an owner writes otherwise than a recipe: another image or model, a longer context, a draft model, a pipeline.

The figures are those that owners and vLLM's own code gave.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.facts import model_of
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet

OF_TESTS = Path(__file__).parents[1] / "data" / "recipes"
LIBRARY, OF_RECIPES = load_all([OF_TESTS, SHIPPED_RECIPES])
CABLE = {"pool": "192.168.100.0/22", "cables": [["spark-2:1", "spark-3:1"]]}
PAIR, SOLO = ("spark-2", "spark-3"), ("titan",)
QWEN = "qwen3.6-35b-a3b-nvfp4"
VL = "qwen3-vl-235b-a22b-instruct-awq"


def plan(recipe: str, *names: str, **service: Any) -> dict[str, Any]:
    hosts = names or SOLO
    settings = {"recipe": recipe, "hosts": [*hosts], "port": 8000, "trust": ["code"], **service}
    variables: dict[str, Any] = {"fleet_services": {"s": settings}}
    if len(hosts) > 1:
        variables["fleet_fabric"] = CABLE
    inventory = {name: {"address": f"{name}.lan", "variables": variables} for name in hosts}
    return plan_fleet({"hosts": inventory, "folder": "/inventory"}, LIBRARY, OF_RECIPES)


def errors(found: dict[str, Any]) -> list[str]:
    return [finding["rule"] for finding in found["findings"] if finding["severity"] == "error"]


def command(found: dict[str, Any]) -> list[str]:
    return list(found["hosts"]["titan"]["services"][0]["container"]["arguments"])


SIXTY_FOUR_K = {"max_model_len": 65536, "max_num_seqs": 1}
NGC, NEWEST = "nvcr.io/nvidia/vllm:26.10-py3", "vllm/vllm-openai:v0.33.0"


@pytest.mark.parametrize(
    ("image", "release", "starts_with_vllm"),
    [
        pytest.param({"reference": NEWEST}, "0.33.0", False, id="img1: a tag that is a release"),
        pytest.param({"reference": NGC}, "0.31.0", True, id="img2: another family has another entrypoint"),
        pytest.param({"reference": "eugr/spark-vllm:latest", "release": "0.31.0"}, "0.31.0", True, id="img3: written"),
        pytest.param({"reference": "eugr/spark-vllm:latest", "release": None}, None, True, id="said to be unknown"),
        pytest.param({"digest": "sha256:" + "0" * 64}, "0.28.0", False, id="the recipe's own image, pinned"),
    ],
)
def test_an_images_name_decides_family_and_release(
    image: dict[str, Any], release: str | None, starts_with_vllm: bool
) -> None:
    found = plan(QWEN, image=image, workload=SIXTY_FOUR_K)
    assert errors(found) == []
    assert found["services"]["s"]["image"]["release"] == release
    assert (command(found)[:2] == ["vllm", "serve"]) is starts_with_vllm


def test_another_image_has_its_own_pool() -> None:
    """vLLM 0.33 needs more for one request than the recipe's 0.24 (its own code: 1.12 GiB, where 1.03 were planned)."""
    pools = [
        plan(QWEN, image=image, workload=SIXTY_FOUR_K)["services"]["s"]["kv"]["bytes"]
        for image in ({}, {"reference": NEWEST})
    ]
    assert pools == [1_135_050_752, 1_225_523_200]


@pytest.mark.parametrize(
    ("image", "rule", "remedy"),
    [
        pytest.param({"reference": "eugr/spark-vllm:latest"}, "service-image", "image.release", id="img3"),
        pytest.param({"reference": "vllm/vllm-openai:nightly"}, "service-image", "image.release", id="image-nightly"),
        pytest.param({"reference": "me/own:1"}, "service-image", "image.family and image.release", id="unknown"),
        pytest.param(
            {"reference": "lmsysorg/sglang:latest", "family": "custom", "release": None},
            "service-image-engine",
            "vllm/vllm-openai",
            id="image-of-sglang",
        ),
    ],
)
def test_what_an_images_name_does_not_show_must_be_written(image: dict[str, Any], rule: str, remedy: str) -> None:
    found = plan(QWEN, image=image)
    (finding,) = [finding for finding in found["findings"] if finding["severity"] == "error"]
    assert (finding["rule"], finding["place"]) == (rule, "fleet_services.s.image.reference")
    assert remedy in finding["remedy"]


def test_another_model_has_none_of_the_recipes_facts() -> None:
    """234 GB of BF16 planned with the weights of a 27B."""
    found = plan("qwen3.6-27b-nvfp4", model={"repository": "Qwen/Qwen3.5-122B-A10B"})
    assert {"memory-weights-estimated", "memory-does-not-fit"} <= {finding["rule"] for finding in found["findings"]}
    assert found["hosts"]["titan"]["models"][0]["bytes"] is None
    same = plan(
        "qwen3.6-27b-nvfp4", model={"repository": LIBRARY.recipes["qwen3.6-27b-nvfp4"].data["model"]["repository"]}
    )
    assert same["services"] == plan("qwen3.6-27b-nvfp4")["services"]


def test_an_overlay_over_a_models_file_needs_that_model() -> None:
    """As nvidia-gemma-26b-assistant was: gemma4_patched.py is in the checkpoint of the recipe alone."""
    found = plan("gemma-4-26b-patched-loader", model={"repository": "nvidia/Gemma-4-26B-A4B-NVFP4"})
    (finding,) = [finding for finding in found["findings"] if finding["severity"] == "error"]
    assert finding["rule"] == "service-model-overlay"
    assert "gemma4_patched.py" in finding["found"]


DRAFT = "z-lab/Qwen3.6-27B-DFlash"


@pytest.mark.parametrize(
    ("written", "drafts"),
    [({"method": "dflash", "model": DRAFT, "num_speculative_tokens": 15}, [DRAFT]), (None, [])],
    ids=["drafttest: a draft of the service's own", "none"],
)
def test_the_draft_that_the_flags_name_is_staged(written: dict[str, Any] | None, drafts: list[str]) -> None:
    found = plan("qwen3.6-27b-nvfp4", flags={"speculative-config": written})
    assert [model["repository"] for model in found["hosts"]["titan"]["models"]][1:] == drafts


def test_the_drafts_revision_is_the_recipes_where_it_names_the_same() -> None:
    found = plan("qwen3.6-35b-a3b-dflash")
    declared = LIBRARY.recipes["qwen3.6-35b-a3b-dflash"].data["model"]["draft"]
    assert [model["revision"] for model in found["hosts"]["titan"]["models"]][1:] == [declared["revision"]]


@pytest.mark.parametrize(
    "flags", [{"pipeline-parallel-size": 2}, {"pipeline-parallel-size": 2, "tensor-parallel-size": 1}]
)
def test_a_pipeline_over_all_hosts_is_not_tensor_parallel_too(flags: dict[str, int]) -> None:
    """Half of what two requests of 262,144 tokens need."""
    found = plan(VL, *PAIR, flags=flags)
    assert errors(found) == []
    assert found["services"]["s"]["kv"]["bytes"] == 25_233_702_912


def test_replicas_are_services() -> None:
    """The plan had invented a pipeline of two beside them."""
    found = plan(VL, *PAIR, flags={"data-parallel-size": 2, "tensor-parallel-size": 1})
    (finding,) = [finding for finding in found["findings"] if finding["severity"] == "error"]
    assert (finding["rule"], finding["found"]) == ("group-data-parallel", "2 replicas in one service on 2 hosts")
    assert "replicas: 2" in finding["remedy"]


YARN = {
    "text_config": {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 262144}}
}


@pytest.mark.parametrize(
    ("env", "flags", "refused"),
    [
        ({}, {}, True),  # R113, which says what to write, stands for kv-length
        ({"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, {}, False),
        ({}, {"hf-overrides": YARN}, False),
        ({"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}, {"hf-overrides": YARN}, False),
    ],
    ids=["nothing", "the variable", "YaRN", "both"],
)
def test_a_longer_context_is_vllms_to_judge(env: dict[str, str], flags: dict[str, Any], refused: bool) -> None:
    workload = {"max_model_len": 1_010_000, "max_num_seqs": 1}
    found = plan("qwen3.6-27b-nvfp4", workload=workload, env=env, flags=flags)
    assert "R113" in errors(found) if refused else "kv-length" not in errors(found)
    assert refused or found["services"]["s"]["kv"]["max_concurrency"] >= 1


def test_a_models_own_code_has_a_place_to_be_copied_to() -> None:
    """A1: transformers makes $HF_HOME/modules, in the mount of the models, which is read-only."""
    container = plan(QWEN)["hosts"]["titan"]["services"][0]["container"]
    assert container["env"]["HF_MODULES_CACHE"].startswith("/tmp/")
    assert all(not container["env"]["HF_MODULES_CACHE"].startswith(mount["target"]) for mount in container["mounts"])


def test_sound_needs_an_image_that_takes_audio() -> None:
    """The recipe's config is that of the language model alone, and hid what the repository is known for."""
    found = plan("nemotron-3-nano-omni-30b-a3b-nvfp4", flags={"limit-mm-per-prompt": {"audio": 1}})
    assert "R012" in errors(found)


def test_a_request_without_a_config_is_no_config() -> None:
    """B4: the map of a request was read as config.json, and R115 missed a rope_theta in it."""
    assert not model_of({"repository": "a/b", "config": None}, None).config.values
    assert not model_of({"repository": "a/b"}, None).config.values
    assert model_of({"architectures": ["X"], "max_position_embeddings": 8}, "a/b").native_length == 8


@pytest.mark.parametrize(
    ("service", "domains", "warned"),
    [
        ({}, ["none.invalid"], False),
        ({"flags": {"allowed-media-domains": ["a.example"]}}, ["a.example"], False),
        ({"flags": {"allowed-media-domains": None}}, [], True),
        ({"image": {"reference": "eugr/spark-vllm:latest", "release": None}}, [], True),  # it might not know the option
        ({"image": {"reference": "vllm/vllm-openai:v0.10.2"}}, [], True),
    ],
)
def test_media_is_fetched_from_declared_domains_alone(
    service: dict[str, Any], domains: list[str], warned: bool
) -> None:
    """security 10: vLLM takes an empty list for all domains."""
    found = plan(QWEN, **service)
    words = command(found)
    option = words.index("--allowed-media-domains") if "--allowed-media-domains" in words else None
    assert ([] if option is None else words[option + 1 : option + 2]) == domains
    assert ("R160" in {one["rule"] for one in found["findings"]}) == warned
    assert found["hosts"]["titan"]["services"][0]["container"]["env"]["VLLM_MEDIA_URL_ALLOW_REDIRECTS"] == "0"


NANO = "nemotron-3-nano-30b-a3b-nvfp4"
SHARE = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS"


@pytest.mark.parametrize(
    ("reference", "service", "written", "bounded"),
    [
        ("vllm/vllm-openai:v0.19.1", {}, None, True),  # off by itself
        ("vllm/vllm-openai:v0.20.0", {}, "0", True),
        ("vllm/vllm-openai:v0.33.0", {}, "0", True),
        ("vllm/vllm-openai:v0.33.0", {"env": {SHARE: "1"}}, "1", False),
        ("vllm/vllm-openai:v0.33.0", {"env": {SHARE: "1"}, "eager": True}, "1", True),  # there are no graphs
    ],
)
def test_no_estimate_of_graphs_enters_a_pool(
    reference: str, service: dict[str, Any], written: str | None, bounded: bool
) -> None:
    """vLLM, issue 44740: on a GB10 it went from -35.7 to 5.1 GiB."""
    flags = {"gpu-memory-utilization": 0.5, **({"enforce-eager": True} if service.pop("eager", None) else {})}
    found = plan(QWEN, image={"reference": reference, "digest": None}, flags=flags, **service)
    assert found["hosts"]["titan"]["services"][0]["container"]["env"].get(SHARE) == written
    pool = found["hosts"]["titan"]["memory"]["s"]["kv_pool"]
    assert (pool["high"] - pool["low"] < 8 << 30) is bounded


@pytest.mark.parametrize(
    ("recipe", "hosts", "service", "processes_gib"),
    [
        (NANO, SOLO, {}, [3.0]),  # Marlin, as the recipe says
        (NANO, SOLO, {"flags": {"moe-backend": "flashinfer_cutlass"}}, [8.7]),
        (NANO, SOLO, {"flags": {"moe-backend": None}, "image": {"release": "0.18.1"}}, [8.7]),
        (NANO, SOLO, {"flags": {"moe-backend": None}, "image": {"release": "0.28.0"}}, [3.0]),
        (VL, PAIR, {}, [6.0, 3.0]),
        (VL, PAIR, {"flags": {"limit-mm-per-prompt": {"image": 0, "video": 0}}}, [3.0, 3.0]),
    ],
)
def test_kernels_and_a_groups_head_decide_what_processes_take(
    recipe: str, hosts: tuple[str, ...], service: dict[str, Any], processes_gib: list[float]
) -> None:
    found = plan(recipe, *hosts, **service)
    planned = [found["hosts"][host]["memory"]["s"]["processes"]["expected"] for host in hosts]
    assert [round(one / (1 << 30), 1) for one in planned] == processes_gib


@pytest.mark.parametrize(
    ("target", "reserve_gib"), [(None, 10.5), ("graphical.target", 10.5), ("multi-user.target", 5)]
)
def test_a_desktop_that_stays_is_planned_with(target: str | None, reserve_gib: float) -> None:
    services = {"s": {"recipe": NANO, "hosts": ["titan"], "port": 8000, "trust": ["code"]}}
    variables = {"fleet_services": services, "fleet_host": {"host_tuning": {"default_target": target}}}
    inventory = {"hosts": {"titan": {"address": "titan.lan", "variables": variables}}, "folder": "/inventory"}
    memory = plan_fleet(inventory, LIBRARY, OF_RECIPES)["hosts"]["titan"]["memory"]["s"]
    assert memory["reserve"]["expected"] == reserve_gib * (1 << 30)
