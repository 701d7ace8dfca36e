# SPDX-License-Identifier: GPL-3.0-or-later
"""How SGLang is asked whether it loads, serves and lives."""

from collections.abc import Mapping

from ..._base.gb10 import data_table
from ..._base.layers import Value
from ..._base.sizes import quantity
from ..._on_host.rank.probes import Metrics, Probes
from .. import openai
from ..placed import Placed

# Names of 0.5.9 and 0.5.23, as in `SPEC.series`. The first two count a request once it has been answered, the third
# moves with every batch (since 0.5.9), the fourth with every piece of an answer that is streamed. Before 0.5.9 the KV
# gauge alone moves while a prompt is read in parts (managers/scheduler_metrics_mixin.py).
_METRICS = Metrics(**data_table("sglang_metrics"))
# Its own watchdog gives up on a step after that time (0.5.3 to 0.5.23), and needs a moment to say so.
_WATCHDOG, _STEP_S = "watchdog-timeout", 300
# Of PyTorch, NCCL and its queues between ranks.
_SHARED_MEMORY = ["psm_", "nccl-", "torch_", "sem.mp-"]


def probes(placed: Placed, decided: Mapping[str, Value], model: str) -> Probes:
    """model: its name for clients. /health computes a token itself, and answers 503 until the server's own warm-up is
    over (entrypoints/http_server.py); without a key, as /metrics does (utils/auth.py)."""
    step_s = quantity(decided[_WATCHDOG].value) if _WATCHDOG in decided else None
    return Probes(
        health="/health",
        proof=openai.request(placed.recipe["kind"], model, "gb10"),
        metrics=_METRICS,
        patience_s=max(_STEP_S, step_s or 0),
        exit_words={"0": "as SGLang does when one of its processes has failed"},
        shared_memory=_SHARED_MEMORY,
    )
