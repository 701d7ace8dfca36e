# SPDX-License-Identifier: GPL-3.0-or-later
"""What a planned service is expected to reach."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import geometric_mean
from typing import Any

from ..._base import worded
from ..._base.findings import Finding
from ..._base.place import Place
from ..._base.plan import OwnSpeed, ServiceSpeed, Speed
from ..._base.sizes import quantity
from ..._facts.models.drafting import method_of
from ..._facts.models.purpose import CHAT
from ..placed import Placed
from .forecast import BANDWIDTH, Drafts, Load, Point, Setup, Shape, calibrated, constants, forecast, spans
from .of_model import shape_of


def own_setup(setup: Setup, run: Mapping[str, Any]) -> Setup:
    """With the acceptance that a run has shown."""
    if setup.drafts is None or run["accepted"] is None:
        return setup
    return replace(setup, drafts=replace(setup.drafts, accepted=run["accepted"]))


def own_factor(shape: Shape, setup: Setup, load: Load, run: Mapping[str, Any]) -> float:
    """Measured over forecast, from the points with the fewest and the most requests."""
    points = [
        Point(
            Load(**{key: point[key] for key in ("requests", "prompt", "answer", "depth")}),
            geometric_mean(point["decode"]),
        )
        for point in run["points"]
    ]
    points.sort(key=lambda point: (point.load.requests, point.load.depth + point.load.prompt))
    most = next(point for point in points if point.load.requests == points[-1].load.requests)
    return calibrated(shape, setup, load, (most, points[0]))


def is_sound(shape: Shape, setup: Setup, load: Load, factor: float) -> bool:
    """Whether a machine is as fast as the forecast allows: what a slow machine shows is nobody's measure."""
    found = forecast(shape, setup, load)
    return factor * found["decode"] >= found["low"]


PROMPT, ANSWER = 2048, 256
# Below the smallest model that anybody has measured (data/speed_rows.yml), a step is nothing but overhead.
_LEAST_BYTES = 200_000_000
# Requests beyond which nobody has measured.
_MOST_AT_ONCE = 256
_PIPELINE = ("pipeline-parallel-size", "pp-size")
_EAGER = ("enforce-eager", "disable-cuda-graph")
_ELEMENTS = ("kv-cache-dtype", "cache-type-k")
_BITS = {"fp8": 1.0, "nvfp4": 0.5625, "fp4": 0.5625, "q8_0": 1.0625, "q4_0": 0.5625, "int8": 1.0}
_DRAFT_COUNTS = ("num_speculative_tokens", "max_draft_len")


def speed_of(
    placed: Placed,
    flags: Mapping[str, object],
    slots: int,
    requested: int | None = None,
    record: Mapping[str, Any] | None = None,
    kernels: str | None = None,
) -> ServiceSpeed | None:
    """None for a service that makes no tokens, and for a model whose config.json is not known or that is smaller than
    any measured one. slots: requests that it works on at once. requested: bytes that its engine takes on each host.
    record: of its own benchmarks. kernels: of its last start."""
    model = placed.model
    is_tiny = (model["weights_bytes"] or _LEAST_BYTES) < _LEAST_BYTES
    if placed.recipe["kind"] != CHAT or not isinstance(placed.config, Mapping) or is_tiny:
        return None
    shape = shape_of(placed.config, model["weights_bytes"], model["repository"], model["quantization"])
    if shape is None:
        return None
    setup = setup_of(placed, shape, flags)
    loads = [Load(1, PROMPT, ANSWER), *([Load(slots, PROMPT, ANSWER)] if 1 < slots <= _MOST_AT_ONCE else [])]
    alone, *together = (_rounded(forecast(shape, setup, load)) for load in loads)
    return {
        "alone": alone,
        "together": together[0] if together else None,
        "prompt": PROMPT,
        "pays": _pays(shape, setup),
        "full_s": _full(flags, requested, model["weights_bytes"], setup.hosts),
        "own": _own(shape, setup, loads, record, kernels) if record else None,
    }


def _full(flags: Mapping[str, object], requested: int | None, weights: int | None, hosts: int) -> float:
    """Seconds in which a host reads its KV pool. It has at most what the weights leave: a start may show that it has
    less, and decides nothing."""
    most = quantity(flags.get("kv-cache-memory-bytes")) or (requested or 0) - (weights or 0) // hosts
    return float(f"{max(0, most) / (BANDWIDTH * constants()['cache']):.4g}")


def _own(shape: Shape, setup: Setup, loads: Sequence[Load], record: Mapping[str, Any], kernels: str | None) -> OwnSpeed:
    run = record["runs"][-1]
    as_run = own_setup(setup, run)
    factors = [own_factor(shape, as_run, load, run) for load in loads]
    found = [
        _rounded(forecast(shape, as_run, load, (factor, 1.0))) for load, factor in zip(loads, factors, strict=True)
    ]
    return {
        "alone": found[0],
        "together": found[1] if len(found) > 1 else None,
        "sound": is_sound(shape, as_run, loads[0], factors[0]),
        "record": record,
        "kernels": kernels,
    }


def expected_total(speed: ServiceSpeed | None, running: float, kv_use: float = 0.0) -> float | None:
    """Tokens a second of all requests that are worked on now; None where no forecast says. A sound benchmark of its own
    says it best. kv_use: the part of the KV pool in use."""
    if speed is None or running < 1:
        return None
    of = speed["own"] if speed["own"] and speed["own"]["sound"] else speed
    total, power, most = totals(of)
    if most == 1 and running >= 1.5:
        return None
    step = running / (total * min(running, most) ** power)
    return float(running / (step + kv_use * speed["full_s"] / of["alone"]["accepted"]))


def totals(of: ServiceSpeed | OwnSpeed) -> tuple[float, float, int]:
    """Tokens a second of one request, the power of the number of requests that it grows by, and up to how many."""
    total, together = of["alone"]["total"], of["together"]
    if together is None:
        return total, 0.0, 1
    return total, math.log(together["total"] / total) / math.log(together["requests"]), together["requests"]


def least_share(speed: ServiceSpeed, accepted_known: bool) -> float:
    """Of the expected rate, which nine of ten services reach. accepted_known: whether its engine says how many drafts
    it accepts."""
    shares = (of["low"] / of["decode"] for of in (speed["alone"], speed["together"]) if of)
    guessed = speed["alone"]["assumed"] and accepted_known
    return min(shares) / (spans()["guessed_acceptance"][0] if guessed else 1)


def reported_decode(service: Mapping[str, Any]) -> float:
    """The tokens a second that others report of one request; the largest, 0 where nobody does."""
    decodes = (item for item in service.get("measured", ()) if item["what"] == "decode")
    return max((item["value"] for item in decodes if item["conditions"].startswith("1 request")), default=0)


def drafts_that_cost(service: str, speed: ServiceSpeed | None) -> Iterator[Finding]:
    """A hint where a benchmark has shown that fewer drafts are accepted than pay."""
    if speed is None or not speed["own"] or not speed["pays"]:
        return
    found = speed["own"]["record"]["runs"][-1]["accepted"]
    if found and found < speed["pays"]:
        place = Place(service=service, option="flags.speculative-config")
        yield worded.hint("speed-drafts", place, tokens=f"{found:.2g}", pays=f"{speed['pays']:.2g}")


def setup_of(placed: Placed, shape: Shape, flags: Mapping[str, object]) -> Setup:
    """How a placed service runs, by its decided options. Engines write the same by few names."""
    name, hosts = placed.engine.spec.name, len(placed.hosts)
    stages = next((many for key in _PIPELINE if (many := quantity(flags.get(key)))), 1)
    if placed.engine.spec.head_loads:  # llama.cpp divides the layers
        stages = hosts
    backends = " ".join(str(flags.get(key, "")) for key in ("moe-backend", "moe-runner-backend", "linear-backend"))
    written = str(next((flags[key] for key in _ELEMENTS if flags.get(key)), "auto"))
    return Setup(
        engine=name,
        kernel=backends.strip(),
        eager=any(flags.get(key) is True for key in _EAGER),
        tensor=max(1, hosts // stages),
        pipeline=min(stages, hosts),
        element=next((each for part, each in _BITS.items() if written.startswith(part)), 2.0),
        drafts=_drafts(placed, shape, flags.get("speculative-config")),
    )


def _drafts(placed: Placed, shape: Shape, written: object) -> Drafts | None:
    if not isinstance(written, Mapping):
        return None
    method = method_of(written, placed.drafter) or "draft_model"
    if method == "mtp" and not shape.prediction:
        method = "assistant"
    count = next((many for key in _DRAFT_COUNTS if (many := quantity(written.get(key)))), 1)
    return Drafts(method, count)


def _pays(shape: Shape, setup: Setup) -> float | None:
    """Tokens a step from which a request alone is faster with its drafts than without."""
    if setup.drafts is None:
        return None
    load = Load(1, PROMPT, ANSWER)
    plain = Setup(setup.engine, setup.kernel, setup.eager, setup.tensor, setup.pipeline, setup.element)
    return round(forecast(shape, setup, load)["step_ms"] / forecast(shape, plain, load)["step_ms"], 2)


def _rounded(found: Speed) -> Speed:
    """With four digits: no forecast has more, and a plan is the same on every machine."""
    figures: dict[str, Any] = {**found}
    short = {key: float(f"{value:.4g}") for key, value in figures.items() if isinstance(value, float)}
    rounded: Speed = {**found, **short}  # type: ignore[typeddict-item]
    return rounded
