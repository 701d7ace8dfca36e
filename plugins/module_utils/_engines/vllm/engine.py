# SPDX-License-Identifier: GPL-3.0-or-later
"""vLLM as an engine (`_engines.engine.Engine`)."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..._base.findings import Finding
from ..._base.gb10 import default_layer
from ..._base.layers import Layer, Value
from ..._base.sizes import quantity
from ..._facts.models.config import ConfigJson
from ..._on_host.rank.probes import Probes
from ..engine import Engine
from ..interface import Facts
from ..memory.budget import Share
from ..placed import Placed
from . import adapters, choices, launch, lint_request, parallel, placement, probes, propose, sizing
from .catalogue.version import parse
from .rules.group import OPEN_RAY
from .spec import SPEC
from .text.boot_log import parse_boot_log
from .text.flags import draft_repository
from .text.image_facts import image_of


class Vllm(Engine):
    spec = SPEC
    draft = staticmethod(draft_repository)
    overlays = staticmethod(placement.key_check)
    flags = staticmethod(placement.flags)
    group_layers = staticmethod(placement.group_layers)
    variables = staticmethod(placement.variables)
    served_name = staticmethod(placement.served_name)
    sequences = staticmethod(sizing.sequences)
    judged_launch = staticmethod(launch.judged_launch)
    listens = staticmethod(launch.listens)
    warm_words = (8, 1024, 0)
    boot = staticmethod(parse_boot_log)
    size = staticmethod(sizing.size_service)
    judge = staticmethod(lint_request.lint)
    for_host = staticmethod(lint_request.on_host)
    # last, since each hides the module of its name
    propose = staticmethod(propose.propose)
    adapters = staticmethod(adapters.sources)
    launch = staticmethod(launch.launch)
    choices = staticmethod(choices.choices)

    def default_layers(self) -> tuple[Layer, Layer]:
        return default_layer("flags"), default_layer("env")

    def image_facts(self, reference: str) -> dict[str, str | None]:
        image = image_of(reference)
        if image.engine:  # refused by that, and not for what nobody knows of its vLLM
            return {"reference": reference, "family": image.family, "release": image.vllm}
        known = {"family": None if image.unknown else image.family, "release": image.vllm}
        return {"reference": reference, **{key: value for key, value in known.items() if value is not None}}

    def problems(self, placed: Placed) -> Iterable[Finding]:
        return [*placement.own_middleware(placed), *placement.foreign_image(placed), *placement.traces(placed)]

    def group_problems(self, placed: Placed) -> Iterable[Finding]:
        release, shape = placed.image["release"], placement.shape(placed)
        return parallel.problems(placed.place, placed.port, len(placed.hosts), placed.flags, release, shape)

    def probes(self, placed: Placed, flags: Mapping[str, Value]) -> Probes:
        asks, open_ray = placement.uses_ray(placed), OPEN_RAY in placed.silence
        limit = placed.environments.get(placed.head.name, {}).get(probes.STEP_S)
        step_s = quantity(limit.value) if limit else None
        return probes.probes(placed.recipe["kind"], self.served_name(placed, flags), asks, open_ray, step_s)

    def cold_bytes(self, config: Mapping[str, object] | None, flags: Mapping[str, object]) -> int:
        """Compiling copies the embedding, which then is the peak of the profiling pass (two starts of one text model:
        315,184 and 321,136 tokens)."""
        if flags.get("kv-cache-memory-bytes") or flags.get("enforce-eager"):
            return 0
        text = ConfigJson(config or {}).text
        width, words = text.get("hidden_size"), text.get("vocab_size")
        return 2 * width * words if isinstance(width, int) and isinstance(words, int) else 0

    def same_release(self, planned: str, shown: str) -> bool:
        builds = [parse(text) for text in (planned, shown)]
        return None in builds or len({build.release for build in builds if build}) == 1

    def ranks_of(self, fingerprint: str) -> int | None:
        """Since 0.32 a fingerprint has the parallel sizes, ``vllm-0.32.0-tp2-57c051c7``."""
        sizes = re.findall(r"-[tp]p(\d+)(?=-)", fingerprint)
        return math.prod(map(int, sizes)) if sizes else None

    def memory_flags(self, placed: Placed, shares: Sequence[Share]) -> Layer:
        return sizing.memory_flags(placed.flags, shares)

    def request(self, facts: Facts) -> dict[str, Any] | None:
        config = facts.sizing.config if isinstance(facts.sizing, sizing.VllmSizing) else None
        return lint_request.head_request(facts, config)
