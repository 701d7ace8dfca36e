# SPDX-License-Identifier: GPL-3.0-or-later
"""How a supervisor sees that `vllm serve` loads, serves and lives."""

from ..._base.gb10 import data_table
from ..._on_host.rank.probes import Metrics, Probes
from .. import openai, ray
from .rules.group import OPEN_RAY

# vllm/v1/metrics/loggers.py. No token is counted before a prompt has been read to its end, since an iteration has
# figures only where a step gave outputs (v1/engine/async_llm.py); the KV gauge comes with every step (0.11 to 0.33).
_METRICS = Metrics(**data_table("vllm_metrics"))
# Where several ranks compute, vLLM itself gives up on a step after this (envs.py).
STEP_S = "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"
_STEP_S = 300
# Of vLLM, PyTorch, NCCL and Ray.
_SHARED_MEMORY = ["psm_", "nccl-", "torch_", "vllm", *ray.SHARED_MEMORY, "sem.mp-"]

_OTHERWISE = (
    "an older Ray lets in everybody who reaches its ports; take an image with a newer one, or write "
    f"{OPEN_RAY} with your reason in the service's silence"
)


def probes(kind: str, model: str, on_ray: bool, open_ray: bool = False, step_s: int | None = None) -> Probes:
    """kind: chat or embed. model: its name for clients. on_ray: whether ranks are nodes of Ray. open_ray: the owner
    takes a Ray that asks for no token. step_s: what the owner lets one step take."""
    return Probes(
        health="/health",
        proof=openai.request(kind, model, "gb10"),
        metrics=_METRICS,
        patience_s=max(_STEP_S, step_s or 0),
        exit_words={"0": "as vLLM does when its engine has died"},
        shared_memory=_SHARED_MEMORY,
        joined=ray.JOINED if on_ray else None,
        requires=ray.requires(_OTHERWISE) if on_ray and not open_ray else None,
    )
