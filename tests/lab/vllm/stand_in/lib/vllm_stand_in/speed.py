# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How fast the stand-in is by its options, so that whoever searches for the fastest ones can be held to a known best.

VLLM_STAND_IN_OPTIONS=0.05 makes each token of an answer take 0.05 s times what `slowness` says.
No real engine behaves by these figures; that settings have effects of their own, a peak between two extremes, and pairs
that only help together, is what they share with one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

# What each costs, as a logarithm: 0.1 is about 10 % slower than the best of its kind.
_BATCHED = {1024: 0.22, 2048: 0.12, 4096: 0.05, 8192: 0.0, 16384: 0.1, 32768: 0.25}
_ATTENTION = {"FLASHINFER": 0.0, "FLASH_ATTN": 0.09, "TRITON_ATTN": 0.16}
_ATTENTION_OTHERWISE = 0.07
_EAGER, _PIECEWISE, _SPECULATION = 0.2, 0.04, 0.13
# A small cache helps with one attention, and costs with every other one.
_FP8 = {"FLASHINFER": -0.12}
_FP8_OTHERWISE = 0.05
_WAITING = 0.35


def slowness(options: Mapping[str, Any], users: int = 4) -> float:
    """By what the time of a token is multiplied. options: as vLLM's parser names them, those that were not given None
    or absent. users: how many requests the load sends at a time."""
    attention = options.get("attention_backend")
    cost = _BATCHED.get(options.get("max_num_batched_tokens") or 8192, 0.3)
    cost += _ATTENTION.get(str(attention), _ATTENTION_OTHERWISE)
    cost += _EAGER if options.get("enforce_eager") else 0.0
    if (options.get("compilation_config") or {}).get("cudagraph_mode") == "PIECEWISE":
        cost += _PIECEWISE
    cost += _SPECULATION if options.get("speculative_config") else 0.0
    if str(options.get("kv_cache_dtype")).startswith("fp8"):
        cost += _FP8.get(str(attention), _FP8_OTHERWISE)
    # who waits for a place is answered later
    cost += _WAITING * max(0.0, math.log2(users / (options.get("max_num_seqs") or 256)))
    return math.exp(cost)
