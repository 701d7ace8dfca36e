# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a release's source decides the memory of its profiling pass, and what a start makes of it."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.layers import Value
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.activations import Start, layer, peak
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import load
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.source import Source
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.version import parse
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.division import stage_layers
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.runner import Service, start
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.parameters import size_of_weights, stages
from test_memory import BOOTS

FILE = Path(__file__).parents[2] / "tools" / "profiling.py"
SPEC = importlib.util.spec_from_file_location("gb10_profiling", FILE)
assert SPEC is not None and SPEC.loader is not None
gb10_profiling = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(gb10_profiling)
LATENT = """
class Layer:
    def forward(self):
        torch.empty((self.chunked_prefill_workspace_size, self.num_heads, self.qk_nope_head_dim + self.v_head_dim))

def determine_chunked_prefill_workspace_size(config):
    return min(max(8 * config.length, 4 * config.requests * config.block), 64 * 1024)
"""
OF_SOME = """
DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES = frozenset({"AForCausalLM"})

class VllmConfig:
    def use_v2_model_runner(self):
        if self.speculative_config.method == "dspark":
            return True
        return self._is_default_v2_model_runner_model()

    def _is_default_v2_model_runner_model(self):
        if model_config.runner_type != "generate" or getattr(model_config, "is_hybrid", False):
            return False
        return any(a in DEFAULT_V2_MODEL_RUNNER_ARCHITECTURES for a in names) or not model_config.is_moe

    def _get_v2_model_runner_unsupported_features(self):
        if speculative_config.method in ("ngram",):
            return ["n-gram"]
        elif speculative_config.method not in ("eagle", "mtp"):
            return ["this method"]
        if speculative_config.method == "eagle" and self.stages > 1:
            return ["eagle over stages"]
"""
OF_ALL = """
class VllmConfig:
    def use_v2_model_runner(self):
        return not self._get_v2_model_runner_unsupported_features()

    def _get_v2_model_runner_unsupported_features(self):
        if speculative_config.method in ("suffix", "custom_class"):
            return ["this method"]
"""
METHODS = """
from typing import Literal
SpeculativeMethod = Literal["ngram", "mtp", "eagle", "medusa", "qwen3_next_mtp"]
"""
WITH_ENCODER = """
class GPUModelRunner:
    def profile_run(self):
        self.encoder_runner.profile_encoder_cache(inputs, budget)
"""
ATTENTION = "vllm/model_executor/layers/attention/mla_attention.py"


def facts(config: str = "", runner: str = "", attention: str = LATENT) -> set[str]:
    files = {"vllm/config/vllm.py": config, "vllm/v1/worker/gpu/model_runner.py": runner, ATTENTION: attention}
    return set(gb10_profiling.profiling(Source({**files, "vllm/config/speculative.py": METHODS})))


def test_facts_of_a_release_that_has_the_second_runner_for_some() -> None:
    assert facts(OF_SOME) == {
        *("mla-workspace", "v2", "v2-always dspark", "v2-architecture AForCausalLM", "v2-dense"),
        *("v2-only generate", "v2-only attention", "v2-never ngram", "v2-never medusa"),
    }


def test_facts_of_a_release_that_has_it_for_all_and_profiles_encoders() -> None:
    named = {"v2-never suffix", "v2-never custom_class"}
    assert facts(OF_ALL, WITH_ENCODER) == {"mla-workspace", "v2", "v2-all", "v2-encoder", *named}


def test_a_workspace_of_another_size_is_no_fact_that_is_known() -> None:
    assert facts(attention=LATENT.replace("64 * 1024", "96 * 1024")) == set()
    assert facts(attention=LATENT.replace("torch.empty", "list")) == set()


def test_the_newest_release_has_facts_that_the_plan_reckons_with() -> None:
    """A release that chooses otherwise, or with other constants, needs another look."""
    known = set(load().newest.registries["profiling"])
    assert {"mla-workspace", "v2", "v2-all", "v2-encoder"} <= known


def config(name: str) -> dict[str, Any]:
    found, _ = Library({}, (SHIPPED_RECIPES,)).config(name, "")
    assert found is not None
    return dict(found)


def begun(name: str, release: str, **flags: Any) -> Start:
    version = parse(release)
    assert version is not None
    forced, pools, hybrid = flags.pop("forced", None), flags.pop("pools", False), flags.pop("hybrid", False)
    drafter = flags.pop("drafter", None)
    service = Service(config(name), drafter, flags, 8192, 4, 1, 32768)
    return start(replace(service, hybrid=hybrid, pools=pools, forced=forced), version)


def drafting(method: str) -> dict[str, Any]:
    return {"speculative-config": {"method": method, "model": "a/b", "num_speculative_tokens": 3}}


MIXED = {"layer_types": ["full_attention", "sliding_attention"], "dflash_config": {"target_layer_ids": [1, 2, 3, 4]}}


@pytest.mark.parametrize(
    ("name", "release", "more", "second", "sees"),
    [
        ("qwen3-vl-8b", "0.21.0", {}, False, True),
        ("qwen3-vl-8b", "0.26.0", {}, True, False),
        ("qwen3-vl-8b", "0.26.0", {"pools": True}, False, True),
        ("qwen3-vl-8b", "0.28.0", {}, True, True),
        # a build between 0.26 and 0.27 may be as far as 0.27 is
        ("qwen3-vl-8b", "0.26.1rc1.dev1231", {}, True, True),
        ("qwen3.5-27b", "0.28.0", {"hybrid": True}, False, True),
        ("qwen3.5-27b", "0.33.0", {"hybrid": True}, True, True),
        ("qwen3.5-27b", "0.28.0", {"hybrid": True, "drafter": MIXED, **drafting("dflash")}, True, True),
        ("gpt-oss-120b", "0.28.0", {}, False, False),
        ("gpt-oss-120b", "0.29.0", {}, True, False),
        ("qwen3-8b", "0.26.0", drafting("ngram"), False, False),
        ("qwen3-8b", "0.33.0", drafting("ngram"), True, False),
        ("qwen3-8b", "0.33.0", drafting("suffix"), False, False),
        ("qwen3-8b", "0.33.0", {"forced": "0"}, False, False),
        ("gpt-oss-120b", "0.26.0", {"forced": "1"}, True, False),
        ("qwen3-8b", "0.23.0", {}, True, False),
        ("qwen3-8b", "0.24.0", drafting("draft_model"), False, False),
    ],
)
def test_the_runner_is_the_one_that_the_release_takes(
    name: str, release: str, more: dict[str, Any], second: bool, sees: bool
) -> None:
    begins = begun(name, release, **more)
    assert (begins.second_runner, begins.sees) == (second, sees)


def test_a_dense_model_with_images_counts_its_encoder_from_0_27_on() -> None:
    earlier, later = (peak(config("qwen3-vl-8b"), begun("qwen3-vl-8b", text)) for text in ("0.26.0", "0.27.0"))
    assert earlier is not None and later is not None
    assert later - earlier > 1 << 30


@pytest.mark.parametrize(
    ("length", "sequences", "block", "tokens"),
    [(202752, 4, 0, 65536), (4096, 4, 0, 32768), (512, 4, 0, 4096), (512, 64, 16, 4096), (4096, 2048, 64, 131072)],
)
def test_the_workspace_of_latent_attention_is_as_long_as_vllm_makes_it(
    length: int, sequences: int, block: int, tokens: int
) -> None:
    version = parse("0.28.0")
    assert version is not None
    service = Service(config("glm-4.7-flash"), None, {}, 8192, sequences, 1, length, block)
    assert start(service, version).latent == tokens


def test_ranks_divide_the_workspace_of_latent_attention() -> None:
    alone = Start(tokens=1, sequences=1, latent=65536)
    one, four = (layer(config("deepseek-v3"), replace(alone, ranks=ranks)) for ranks in (1, 4))
    assert one == pytest.approx(4 * four, rel=0.01)
    assert one == pytest.approx(4 << 30, rel=0.01)


def test_layers_that_a_drafter_reads_are_kept() -> None:
    read = begun("qwen3.5-27b", "0.28.0", drafter=MIXED, **drafting("dflash"))
    assert read.read_layers == 4
    assert begun("qwen3-8b", "0.28.0", **drafting("eagle3")).read_layers == 3
    plain = layer(config("qwen3.5-27b"), replace(read, read_layers=0))
    assert layer(config("qwen3.5-27b"), read) - plain == 4 * 2 * 8192 * 5120


def test_a_batch_of_many_tokens_holds_as_many_images() -> None:
    def encoder(tokens: int, sequences: int = 64, **images: int) -> int:
        seen = Start(tokens, sequences, images=images)
        return (peak(config("gemma-4-26b-a4b"), seen) or 0) - (
            peak(config("gemma-4-26b-a4b"), replace(seen, sees=False)) or 0
        )

    assert encoder(65536) > encoder(8192)
    assert encoder(65536, sequences=1, video=1) < encoder(65536, video=1)


@pytest.mark.parametrize("read", BOOTS["stages"], ids=lambda read: f"{read['config']} {len(read['loaded_gib'])}")
def test_each_stage_of_a_pipeline_holds_what_it_loaded(read: dict[str, Any]) -> None:
    shape, loaded = config(read["config"]), read["loaded_gib"]
    whole, layers = size_of_weights(shape, "", "none"), stage_layers(shape, len(loaded), {})
    assert whole is not None and layers is not None
    found = stages(shape, whole.expected, layers, 1)
    assert [size / (1 << 30) for size in found] == pytest.approx(loaded, abs=0.2)


@pytest.mark.parametrize("shape", [{}, {"hidden_size": 4}, {"vision_config": 5, "hidden_size": 8, "vocab_size": 9}])
def test_a_config_without_a_shape_is_no_trap(shape: dict[str, Any]) -> None:
    begins = Start(tokens=8192, sequences=4, latent=65536, read_layers=2)
    assert peak(shape, begins) is None or layer(shape, begins) >= 0
    assert stages(shape, 10, [1, 2], 2) == [3, 3]


def test_weights_smaller_than_the_embedding_are_divided_evenly() -> None:
    assert stages(config("qwen3-32b"), 1000, [32, 32], 1) == [500, 500]


def test_an_owner_may_divide_the_layers() -> None:
    written = {"VLLM_PP_LAYER_PARTITION": Value("40,24", "service", "")}
    assert stage_layers(config("qwen3-32b"), 2, written) == [40, 24]
    assert stage_layers(config("qwen3-32b"), 3, written) == [21, 22, 21]
    assert stage_layers(config("qwen3-32b"), 5, {}) == [13, 13, 13, 13, 12]
