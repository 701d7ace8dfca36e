# SPDX-License-Identifier: GPL-3.0-or-later
"""SGLang as an engine (`_engines.engine.Engine`)."""

import re
from collections.abc import Iterable, Mapping

from ..._base.findings import Finding
from ..._base.gb10 import data_table, default_layer
from ..._base.layers import Layer, Value
from ..._base.sizes import quantity
from ..._on_host.rank.probes import Metrics, Probes
from .. import openai
from ..engine import Engine, divided
from ..interface import ServiceSizing as AnySizing
from ..memory.boots import BootLog
from ..observed import Observed
from ..options import Judged, first_of
from ..placed import Placed
from . import launch, sizing
from .catalogue import DRAFT, PIPELINE, SPEC, TENSOR, load

# Names of 0.5.9 and 0.5.23, as in `SPEC.series`. The first two count a request once it has been answered, the third
# moves with every batch (since 0.5.9), the fourth with every piece of an answer that is streamed. Before 0.5.9 the KV
# gauge alone moves while a prompt is read in parts (managers/scheduler_metrics_mixin.py).
METRICS = Metrics(**data_table("sglang_metrics"))
# Its own watchdog gives up on a step after that time (0.5.3 to 0.5.23), and needs a moment to say so.
_WATCHDOG, _STEP_S = "watchdog-timeout", 300
# Of PyTorch, NCCL and its queues between ranks.
_SHARED_MEMORY = ["psm_", "nccl-", "torch_", "sem.mp-"]
# What it logs of its memory while it starts, the same from 0.5.3 to 0.5.23: model_executor/model_runner.py and
# managers/scheduler.py. It counts in GiB and prints GB.
_WEIGHTS = re.compile(r"^.*?Load weight end\..*mem usage=([\d.]+) GB", re.MULTILINE)
_POOL = re.compile(r"^.*?max_total_num_tokens=(\d+), .*context_len=(\d+)", re.MULTILINE)


class Sglang(Engine):
    spec = SPEC
    warm_words = (1024, 0)
    judged_by = Judged("sglang", "SGLang", "sglang/srt/server_args.py", load)
    problems = staticmethod(launch.problems)
    flags = staticmethod(launch.flags)
    group_layers = staticmethod(launch.group_layers)
    at_once = staticmethod(sizing.sequences)
    memory_flags = staticmethod(sizing.memory_flags)
    launch = staticmethod(launch.launch)  # last: it hides the module

    def default_layers(self) -> tuple[Layer, Layer]:
        return default_layer("sglang_flags"), default_layer("offline_env")

    def draft(self, flags: Mapping[str, object]) -> str | None:
        named = str(first_of(flags, DRAFT) or "")
        return named if re.fullmatch(r"[\w.-]+/[\w.-]+", named) else None

    def group_problems(self, placed: Placed) -> Iterable[Finding]:
        return divided(placed, "sglang-ranks", TENSOR, PIPELINE)

    def served_name(self, placed: Placed, flags: Mapping[str, Value]) -> str:
        return str(flags["served-model-name"].value)

    def probes(self, placed: Placed, flags: Mapping[str, Value]) -> Probes:
        """/health computes a token itself, and answers 503 until the server's own warm-up is over
        (entrypoints/http_server.py); without a key, as /metrics does (utils/auth.py)."""
        step_s = quantity(flags[_WATCHDOG].value) if _WATCHDOG in flags else None
        return Probes(
            health="/health",
            proof=openai.request(placed.recipe["kind"], self.served_name(placed, flags), "gb10"),
            metrics=METRICS,
            patience_s=max(_STEP_S, step_s or 0),
            exit_words={"0": "as SGLang does when one of its processes has failed"},
            shared_memory=_SHARED_MEMORY,
        )

    def boot(self, log: str) -> BootLog:
        weights, pools = _WEIGHTS.findall(log), _POOL.findall(log)
        tokens, context = (int(pools[-1][0]), int(pools[-1][1])) if pools else (None, None)
        return BootLog(
            weights_gib=float(weights[0]) if weights else None,
            kv_cache_tokens=tokens,
            max_model_len=context,
            max_concurrency=tokens / context if tokens and context else None,
        )

    def size(self, placed: Placed, observed: Observed) -> tuple[AnySizing, list[Finding]]:
        sized, findings = sizing.size_service(placed)
        return sized, [*findings, *([] if placed.is_group else self.group_problems(placed))]
