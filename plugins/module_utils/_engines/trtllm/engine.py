# SPDX-License-Identifier: GPL-3.0-or-later
"""TensorRT-LLM as an engine (`_engines.engine.Engine`)."""

import re
from collections.abc import Iterable, Mapping

from ..._base.findings import Finding
from ..._base.gb10 import default_layer
from ..._base.layers import Layer, Value
from ..._facts.models.purpose import CHAT
from ..._on_host.rank.probes import Probes
from .. import openai, ray
from ..engine import Engine
from ..interface import ServiceSizing
from ..memory.boots import BootLog
from ..observed import Observed
from ..options import Judged
from ..placed import Placed
from . import launch, sizing
from .catalogue import SPEC, load

_POOL = re.compile(r"for max tokens in paged KV cache \((\d+)\)")
_LONGEST = re.compile(r"max_seq_len=(\d+), max_num_requests=")
_RELEASE = re.compile(r"TensorRT-LLM version: (\S+)")
_OTHERWISE = (
    "an older Ray lets in all who reach its ports; take your own image with a newer one (docs/how-to/image-build.md)"
)


class TrtLlm(Engine):
    spec = SPEC
    judged_by = Judged("trtllm", "TensorRT-LLM", "tensorrt_llm/commands/serve.py", load)
    problems = staticmethod(launch.problems)
    flags = staticmethod(launch.flags)
    group_problems = staticmethod(launch.group_problems)
    group_layers = staticmethod(launch.group_layers)
    memory_flags = staticmethod(sizing.memory_flags)
    at_once = staticmethod(sizing.sequences)
    launch = staticmethod(launch.launch)  # last: it hides the module

    def default_layers(self) -> tuple[Layer, Layer]:
        return default_layer("trtllm_flags"), default_layer("offline_env")

    def listens(self, placed: Placed) -> Iterable[tuple[int, str]]:
        return ray.listens(placed) if placed.is_group else ()

    def served_name(self, placed: Placed, flags: Mapping[str, Value]) -> str:
        return str(placed.model["repository"])

    def probes(self, placed: Placed, flags: Mapping[str, Value]) -> Probes:
        """Its Prometheus text counts no tokens and is there only where an option asks for it (openai_server.py), so
        that it shows by the proof alone that it lives."""
        return Probes(
            health="/health",
            proof=openai.request(CHAT, self.served_name(placed, flags), "gb10"),
            metrics=None,
            shared_memory=["psm_", "nccl-", "torch_", "sem.mp-", *(ray.SHARED_MEMORY if placed.is_group else ())],
            joined=ray.JOINED if placed.is_group else None,
            requires=ray.requires(_OTHERWISE) if placed.is_group else None,
        )

    def boot(self, log: str) -> BootLog:
        """cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp and _torch/pyexecutor, 1.0; a first, small pool is set up
        to measure with, so that the last counts."""
        tokens, longest, release = (
            found[-1] if found else None for found in (pattern.findall(log) for pattern in (_POOL, _LONGEST, _RELEASE))
        )
        return BootLog(
            kv_cache_tokens=int(tokens) if tokens else None,
            max_model_len=int(longest) if longest else None,
            release=release,
        )

    def size(self, placed: Placed, observed: Observed) -> tuple[ServiceSizing, list[Finding]]:
        return sizing.size_service(placed)
