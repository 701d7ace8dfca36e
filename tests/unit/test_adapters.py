# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""LoRA adapters: what vLLM sets aside for them, as its own code did, and where they come from."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.adapters import Adapters, memory, sources
from kv_cases import config

LORA = {"enable-lora": True, "max-loras": 3, "max-lora-rank": 16}
# A model's config.json with these sizes wherever it names them.
SMALL = {
    **{"hidden_size": 256, "num_hidden_layers": 4, "vocab_size": 1000, "num_experts": 8, "n_routed_experts": 8},
    **{"moe_intermediate_size": 64, "intermediate_size": 512, "shared_expert_intermediate_size": 128},
    **{"moe_shared_expert_intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64},
    **{"mamba_num_heads": 8, "mamba_head_dim": 32, "ssm_state_size": 64, "n_groups": 2, "linear_num_key_heads": 2},
    **{"linear_num_value_heads": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64},
    **{"hybrid_override_pattern": "ME*E"},
}


def small(name: str) -> dict[str, Any]:
    found = config(name)
    text = found.get("text_config", found)
    text |= {key: value for key, value in SMALL.items() if key in text}
    if "layer_types" in text:
        text["layer_types"] = text["layer_types"][:4]
    return found | {"vocab_size": 1000}


# Bytes of all lora_a and lora_b that vLLM 0.32.0 (CPU) had allocated once such a model was up, with LORA.
@pytest.mark.parametrize(("name", "allocated"), [("qwen3-30b-a3b", 3979776)])
def test_what_vllm_sets_aside(name: str, allocated: int) -> None:
    found = memory(small(name), LORA)
    assert found is not None
    assert found.slots == allocated


@pytest.mark.parametrize(
    ("flags", "slots", "copies"),
    [
        ({}, 0, 0),
        (LORA, 3979776, 789504),
        (LORA | {"max-loras": 6}, 2 * 3979776, 2 * 789504),
        (LORA | {"max-cpu-loras": 6}, 3979776, 2 * 789504),
        (LORA | {"max-lora-rank": 64}, 4 * 3979776, 4 * 789504),
        (LORA | {"lora-target-modules": ["o_proj"]}, 196608, 196608),
        (LORA | {"lora-target-modules": ["q_proj", "o_proj"]}, 491520 + 196608, 491520 + 196608),
    ],
)
def test_by_places_rank_and_modules(flags: dict[str, Any], slots: int, copies: int) -> None:
    assert memory(small("qwen3-30b-a3b"), flags) == Adapters(slots, copies)


def test_a_rank_has_a_part_of_what_is_shared_out() -> None:
    whole, half = (memory(small("qwen3-30b-a3b"), LORA | {"tensor-parallel-size": ranks}) for ranks in (1, 2))
    assert whole is not None
    assert half is not None
    assert whole.slots / 2 < half.slots < whole.slots
    assert whole.copies == half.copies


def test_unknown_models() -> None:
    assert memory(None, LORA) is None
    assert memory({"architectures": ["Own"]}, LORA) is None
    assert memory(None, {}) == Adapters()


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (None, []),
        ("sql=/srv/lora/sql", ["/srv/lora/sql"]),
        (["a=/srv/a", "b=own/adapter", "c=/srv/a"], ["/srv/a", "own/adapter"]),
        ([{"name": "a", "path": "/srv/a"}, '{"name": "b", "path": "/srv/b"}'], ["/srv/a", "/srv/b"]),
        (["{broken", "nothing", 3], []),
    ],
)
def test_where_adapters_come_from(written: Any, found: list[str]) -> None:
    assert sources({"lora-modules": written}) == found
