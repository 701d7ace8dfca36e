# SPDX-License-Identifier: GPL-3.0-or-later
"""SGLang as an engine (`_engines.engine.Engine`)."""

import re
from collections.abc import Iterable, Mapping

from ..._base.findings import Finding
from ..._base.gb10 import default_layer
from ..._base.layers import Layer, Value
from ..._on_host.rank.probes import Probes
from ..engine import Engine, divided
from ..interface import ServiceSizing as AnySizing
from ..observed import Observed
from ..options import Judged, first_of
from ..placed import Placed
from . import launch, probes, sizing
from .boot_log import parse_boot_log
from .catalogue import DRAFT, PIPELINE, SPEC, TENSOR, load


class Sglang(Engine):
    spec = SPEC
    warm_words = (1024, 0)
    judged_by = Judged("sglang", "SGLang", "sglang/srt/server_args.py", load)
    problems = staticmethod(launch.problems)
    flags = staticmethod(launch.flags)
    group_layers = staticmethod(launch.group_layers)
    boot = staticmethod(parse_boot_log)
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
        return probes.probes(placed, flags, self.served_name(placed, flags))

    def size(self, placed: Placed, observed: Observed) -> tuple[AnySizing, list[Finding]]:
        sized, findings = sizing.size_service(placed)
        return sized, [*findings, *([] if placed.is_group else self.group_problems(placed))]
