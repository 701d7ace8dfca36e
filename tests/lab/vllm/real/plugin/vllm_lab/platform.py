# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU platform of vLLM 0.32, taught to take what is written for one GPU a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vllm.platforms.cpu import CpuPlatform  # type: ignore[import-not-found]  # only in the image

if TYPE_CHECKING:
    from vllm.config import VllmConfig  # type: ignore[import-not-found]  # only in the image

# 65,536 tokens of the tiny model; see README.md.
KV_CACHE_BYTES = 32 << 20


class LabPlatform(CpuPlatform):  # type: ignore[misc]  # mypy does not know the base class, see above
    # The stock platform has none ("current platform cpu does not support ray"). The image tells Ray that each host
    # has one such resource (RAY_OVERRIDE_RESOURCES).
    ray_device_key = "GPU"

    @classmethod
    def get_device_communicator_cls(cls) -> str:
        return "vllm_lab.communicator.NetworkCommunicator"

    @classmethod
    def check_and_update_config(cls, vllm_config: VllmConfig) -> None:
        from vllm.config import CompilationMode  # noqa: PLC0415  # it asks for the platform itself

        # A share of the GPU's memory (--gpu-memory-utilization) would mean that share of the machine's RAM here.
        if vllm_config.cache_config.kv_cache_memory_bytes is None:
            vllm_config.cache_config.kv_cache_memory_bytes = KV_CACHE_BYTES
        # There is no compiler in the image.
        vllm_config.compilation_config.mode = CompilationMode.NONE
        if vllm_config.model_config is not None:
            vllm_config.model_config.enforce_eager = True
        # The stock platform runs a single rank in a process of its own, for the sake of OpenMP pinning. On a GPU it
        # is the engine's own process: same processes to watch and kill, and a third less time to start.
        executor = vllm_config.parallel_config.distributed_executor_backend
        super().check_and_update_config(vllm_config)
        vllm_config.parallel_config.distributed_executor_backend = executor
