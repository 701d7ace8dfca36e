# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speculation without a method is what vLLM makes of its drafter."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.drafting import method_of

GEMMA = {"architectures": ["Gemma4AssistantForCausalLM"], "model_type": "gemma4_mtp"}


@pytest.mark.parametrize(
    ("speculation", "config", "expected"),
    [
        ({}, None, None),
        ({"method": "dflash", "model": "a/eagle3"}, None, "dflash"),
        ({"method": "qwen3_next_mtp"}, None, "mtp"),
        ({"method": "[ngram]"}, None, "ngram"),
        ({"method": 7, "model": "a/eagle3"}, None, None),
        ({"model": "ngram"}, None, "ngram"),
        ({"model": "yuhuili/EAGLE-LLaMA3-Instruct-8B"}, None, "eagle"),
        ({"model": "AngelSlim/Qwen3-8B_eagle3"}, None, "eagle3"),
        ({"model": "z-lab/Qwen3.6-27B-DFlash"}, None, "dflash"),
        ({"model": "deepseek-ai/dspark_qwen3_8b_block7"}, None, "dspark"),
        ({"model": "a/b"}, {"architectures": ["Qwen3DSparkModel"]}, "dspark"),
        ({"model": "google/gemma-4-31B-it-assistant"}, None, "mtp"),
        ({"model": "google/gemma-4-31B-it-assistant"}, GEMMA, "mtp"),
        ({"model": "Qwen/Qwen3-0.6B"}, None, "draft_model"),
    ],
)
def test_the_method_follows_from_the_drafter(
    speculation: dict[str, Any], config: dict[str, Any] | None, expected: str | None
) -> None:
    assert method_of(speculation, config) == expected
