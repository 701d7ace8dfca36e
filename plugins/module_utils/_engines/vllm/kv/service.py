# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What the planner asks of a service: the KV bytes that its workload needs, and the pool that given bytes make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv import pool
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv.answer import answer
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv.config import read_model
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv.flags import read_flags
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv.inverse import least_bytes_to_serve
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv.model import Model
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv.release import parse_release
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.kv.settings import resolve


@dataclass(frozen=True)
class ServiceKv:
    """A service's cache, decided but for its size. All bytes are of one rank."""

    layout: pool.Layout
    model: Model

    def bytes_for(self, sequences: int, tokens: int | None = None) -> int:
        """The least --kv-cache-memory-bytes for so many sequences of so many tokens (without: of max_model_len).

        Raises FleetError for a workload that these options can't hold, and a start that vLLM refuses with any memory.
        """
        return least_bytes_to_serve(self.layout, sequences, tokens or self.layout.settings.max_model_len)

    def pool(self, available_bytes: int) -> dict[str, Any]:
        """The pool in so many bytes, in the form of a truth. Raises FleetError where vLLM would refuse to start."""
        return answer(pool.fill(self.layout, available_bytes), self.model)


def kv_for_service(
    config: object, flags: Mapping[str, Any], vllm_version: str, *, long_allowed: bool = False
) -> ServiceKv:
    """The cache of a service with these vLLM options, which hold its parallel sizes, length and sequences too.

    long_allowed: whether VLLM_ALLOW_LONG_MAX_MODEL_LEN lets a length be longer than the model's own.
    Raises FleetError with every problem: unknown model or option value, or a start that vLLM refuses.
    """
    release = parse_release(vllm_version)
    model = read_model(config, release)
    return ServiceKv(pool.arrange(model, resolve(read_flags(flags), model, release, long_allowed)), model)
