# SPDX-License-Identifier: GPL-3.0-or-later
"""The time of one decode step and of a prompt, from bytes, work and overhead. It decides nothing.

The constants stand in ``data/speed.yml``; ``tools/forecast.py --fit`` fits them anew. docs/explanation/speed.md says
how far they are off.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..._base.gb10 import data_file
from ..._base.plan import Speed

# The memory's limit, in bytes a second (NVIDIA, DGX Spark user guide, hardware overview).
BANDWIDTH = 273e9
# What the best kernel reaches of it; a large matrix that is read alone reaches it.
_BEST = 0.92
# Tokens of a prompt that are computed together, and bytes a second between two hosts.
_CHUNK, _LINK = 8192, 10e9
# Tokens a step by the number of drafts, where nobody has measured the acceptance.
_MTP = (1.8, 2.45, 2.75, 3.0, 3.2)
_BLOCK = {"dflash": 3.4, "dspark": 2.6}
# Bytes that a drafter of its own reads once a step.
_DRAFTER = {"dflash": 2.0e9, "dspark": 2.7e9}
_LEAST = 1e-9


@dataclass(frozen=True)
class Part:
    """Weights of one kind. count: parameters. each: bytes of one, with its scales."""

    count: float = 0
    each: float = 2

    @property
    def bytes(self) -> float:
        return self.count * self.each


@dataclass(frozen=True)
class Cache:
    """Attention layers that are alike. elements: of a token and layer. window: tokens that they look back on; 0 for
    all."""

    layers: int
    elements: float
    window: int = 0


@dataclass(frozen=True)
class Shape:
    """What a step of a model reads. attention: with recurrent layers. dense: with shared experts. routed: all experts
    of all layers. state: bytes of the recurrent state of a sequence. queries: heads x width of an attention layer.
    prediction: parameters of a prediction layer that one token reads."""

    layers: int
    hidden: int
    attention: Part
    dense: Part
    routed: Part
    output: Part
    experts: int = 0
    top_k: int = 0
    caches: tuple[Cache, ...] = ()
    state: float = 0
    queries: int = 0
    prediction: float = 0

    @property
    def chosen(self) -> float:
        """The share of the experts that one token is computed by."""
        return min(1.0, self.top_k / self.experts) if self.experts else 0.0

    def touched(self, tokens: float) -> float:
        """The share of the experts that several tokens read, if each one chooses by itself."""
        return 1.0 - float((1 - self.chosen) ** max(1.0, tokens))

    def bytes_read(self, tokens: float) -> float:
        always = self.attention.bytes + self.dense.bytes + self.output.bytes
        return always + self.routed.bytes * self.touched(tokens)

    def cached(self, tokens: float, element: float) -> float:
        """Bytes that one sequence of so many tokens reads in a step. element: bytes of an element of the cache."""
        kept = sum(cache.layers * cache.elements * min(tokens, cache.window or tokens) for cache in self.caches)
        return kept * element + 2 * self.state


@dataclass(frozen=True)
class Drafts:
    """Speculative decoding. count: drafts a step. accepted: tokens a step with the engine's own, None where unknown."""

    method: str = "mtp"
    count: int = 1
    accepted: float | None = None

    @property
    def tokens(self) -> float:
        """Tokens a step."""
        if self.accepted is not None:
            return max(1.0, self.accepted)
        usual = _BLOCK.get(self.method, _MTP[min(max(self.count, 1), len(_MTP)) - 1])
        return min(usual, self.count + 1)


@dataclass(frozen=True)
class Setup:
    """How it is served. element: bytes of an element of the KV cache. known: whether shape and engine are known. clock:
    the GPU's, as a share of the one that it runs at by itself."""

    engine: str = ""
    kernel: str = ""
    eager: bool = False
    tensor: int = 1
    pipeline: int = 1
    element: float = 2
    drafts: Drafts | None = None
    known: bool = True
    clock: float = 1.0

    @property
    def hosts(self) -> int:
        return self.tensor * self.pipeline


@dataclass(frozen=True)
class Load:
    """requests: at once. prompt, answer: tokens. depth: tokens that the cache holds before the prompt."""

    requests: int = 1
    prompt: int = 2048
    answer: int = 256
    depth: int = 0


@functools.cache
def constants() -> Mapping[str, float]:
    """Those of ``data/speed.yml`` by name."""
    rows: dict[str, dict[str, float]] = data_file("speed")["constants"]
    return {name: row["value"] for name, row in rows.items()}


@functools.cache
def spans() -> Mapping[str, tuple[float, float]]:
    rows: dict[str, list[float]] = data_file("speed")["spans"]
    return {name: (low, high) for name, (low, high) in rows.items()}


def forecast(
    shape: Shape,
    setup: Setup,
    load: Load,
    factors: tuple[float, float] | None = None,
    by: Mapping[str, float] | None = None,
) -> Speed:
    """What to expect. factors: of decode and of the first token, measured over forecast, where somebody has measured
    this service (`calibrated`). by: other constants than those of ``data/speed.yml``."""
    of = constants() if by is None else by
    times = step_times(shape, setup, load, of)
    step, accepted = max(_LEAST, sum(times.values())), setup.drafts.tokens if setup.drafts else 1.0
    own, first = factors or (1.0, 1.0)
    decode, wait = own * accepted / step, first * first_token(shape, setup, load, of)
    low, high = _span(setup, load, factors is not None)
    early, late = spans()["first_token" if load.prompt >= 2048 else "short_prompt"]
    if not setup.known:
        early, late = early / 2, late * 2
    read = shape.bytes_read(load.requests) + load.requests * shape.cached(load.depth + load.prompt, setup.element)
    return {
        "requests": load.requests,
        "decode": decode,
        "low": low * decode,
        "high": high * decode,
        "total": load.requests * decode,
        "limit": accepted * BANDWIDTH * setup.tensor / max(1.0, read),
        "bound": max(times, key=lambda name: times[name]),
        "step_ms": 1000 * step / own,
        "accepted": accepted,
        "assumed": setup.drafts is not None and setup.drafts.accepted is None,
        "ttft_s": wait,
        "ttft_low": early * wait,
        "ttft_high": late * wait,
        "prefill": load.prompt / max(_LEAST, wait),
    }


def _span(setup: Setup, load: Load, measured: bool) -> tuple[float, float]:
    """Between which factors nine of ten measurements lie."""
    if measured:
        return spans()["measured"]
    group = "one_host" if setup.hosts == 1 else "hosts" if load.requests == 1 else "hosts_many"
    low, high = spans()[group]
    guessed = setup.drafts is not None and setup.drafts.accepted is None
    for applies, name in ((guessed, "guessed_acceptance"), (not setup.known, "unknown")):
        if applies:
            low, high = low * spans()[name][0], high * spans()[name][1]
    return low, high


def step_times(shape: Shape, setup: Setup, load: Load, of: Mapping[str, float]) -> dict[str, float]:
    """Seconds of one decode step by what takes them."""
    many, drafts = load.requests, setup.drafts
    tokens = many * (drafts.count + 1 if drafts else 1)
    layer = 1e-6 * of[_overhead(setup)]
    # drafts go on with the sequence, and choose more of the same experts than other requests do
    apart = many * (1 + drafts.count * of["draft_expert"] if drafts else 1)
    size = (max(1e6, shape.bytes_read(apart)) / 8e9) ** of["size"]
    batch = of["batch"] if tokens > 1 else 1.0
    weights = sum(part.bytes / _speed(part, size, of, batch) for part in (shape.attention, shape.dense, shape.output))
    weights += shape.routed.bytes * shape.touched(apart) / _speed(shape.routed, size, of, factor=of["expert"])
    length = load.depth + load.prompt + load.answer / 2
    active = shape.attention.count + shape.dense.count + shape.output.count + shape.routed.count * shape.chosen
    times = {
        "weights": weights / setup.tensor,
        "cache": many * shape.cached(length, setup.element) / (BANDWIDTH * of["cache"]) / setup.tensor,
        "work": 2 * active * (tokens - 1) / (1e12 * of["work"]) / setup.tensor,
        "overhead": shape.layers * layer + many * 1e-6 * of["request"],
        "network": 0.0,
        "drafts": _drafting(shape, drafts, layer) / setup.tensor if drafts else 0.0,
    }
    reduce = 1e-6 * of["reduce"]
    if setup.tensor > 1:
        times["network"] = 2 * shape.layers * (reduce + tokens * shape.hidden * 2 / _LINK)
    times["network"] += (setup.pipeline - 1) * 2 * reduce
    slower = float(setup.clock ** -of["clock"])
    return {name: slower * seconds for name, seconds in times.items()}


def _overhead(setup: Setup) -> str:
    if setup.engine in {"llama.cpp", "ollama"}:
        return "layer_llama"
    return "layer_eager" if setup.eager else "layer"


def _width(part: Part) -> str:
    return "16" if part.each >= 1.5 else "8" if part.each >= 0.8 else "4"


def _speed(part: Part, size: float, of: Mapping[str, float], batch: float = 1.0, factor: float = 1.0) -> float:
    """Bytes a second that weights of a kind are read at. size: a step that reads more in all reads faster. batch: what
    whole matrices gain by several tokens, in 16 bits alone."""
    width = _width(part)
    own = of[f"read_{width}"] * size * (batch if width == "16" else 1.0)
    return BANDWIDTH * min(_BEST, factor * min(_BEST, own))


def _drafting(shape: Shape, drafts: Drafts, layer: float) -> float:
    """Seconds of the drafts of one step: a prediction layer makes each by itself, a drafter all at once."""
    best = BANDWIDTH * _BEST
    if drafts.method in {"ngram", "suffix"}:
        return 0.0
    if drafts.method in {"mtp", "eagle", "eagle3"}:
        each = shape.output.bytes + shape.prediction * shape.attention.each
        return drafts.count * (each / best + 2 * layer)
    return (_DRAFTER.get(drafts.method, 0.8e9) + shape.output.bytes) / best


def first_token(shape: Shape, setup: Setup, load: Load, of: Mapping[str, float]) -> float:
    """Seconds until the first token: the prompt is bound by work, and reads all weights once a chunk."""
    prompt = max(1, load.prompt)
    chunks = math.ceil(prompt / _CHUNK)
    routed = shape.routed.bytes * shape.touched(min(prompt, _CHUNK))
    read = chunks * (shape.attention.bytes + shape.dense.bytes + routed) / (BANDWIDTH * of["prompt_read"])
    computed = sum(2 * prompt * part.count / _rate(part, setup, of) for part in (shape.attention, shape.dense))
    if shape.experts:
        chosen = shape.routed.count * shape.chosen
        computed += 2 * prompt * chosen / (_rate(shape.routed, setup, of) * of["prompt_expert"])
    pairs = prompt * load.depth + prompt * prompt / 2
    looked = sum(
        cache.layers * (min(pairs, prompt * cache.window) if cache.window else pairs) for cache in shape.caches
    )
    attended = 4 * shape.queries * looked / (1e12 * of["prompt_attention"])
    shared = 1 + (setup.tensor - 1) * of["prompt_tensor"]
    alone = (read + computed + attended) / shared + 1e-3 * of["prompt_start"]
    return alone * (load.requests + 1) / 2 / setup.clock


def _rate(part: Part, setup: Setup, of: Mapping[str, float]) -> float:
    """Operations a second on a prompt."""
    rate = 1e12 * of[f"prompt_{_width(part)}"]
    if "marlin" in setup.kernel.lower() and _width(part) != "16":
        rate *= of["prompt_marlin"]
    return rate * (of["prompt_llama"] if _overhead(setup) == "layer_llama" else 1.0)


@dataclass(frozen=True)
class Point:
    """A measurement: of one stream's decode, tokens a second, under a load."""

    load: Load
    decode: float


def calibrated(
    shape: Shape, setup: Setup, load: Load, points: tuple[Point, ...], by: Mapping[str, float] | None = None
) -> float:
    """The factor of decode under a load, from a service's own points: between the fewest and the most requests by the
    logarithm of their number."""
    of = {
        point.load.requests: point.decode / forecast(shape, setup, point.load, by=by)["decode"]
        for point in sorted(points, key=lambda item: item.load.requests)
    }
    fewest, most = min(of), max(of)
    if fewest == most:
        return of[fewest]
    place = (math.log(load.requests) - math.log(fewest)) / (math.log(most) - math.log(fewest))
    place = min(1.0, max(0.0, place))
    return float(of[fewest] ** (1 - place) * of[most] ** place)
