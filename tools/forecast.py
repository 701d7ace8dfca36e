# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forecast published speeds, fit the constants of the forecast, and say how far it is off.

    python tools/forecast.py ROWS MODELS            forecasts as JSON, by the rows' ids
    python tools/forecast.py --judge ROWS MODELS    the table of errors of these rows, with the constants as they are
    python tools/forecast.py --table                the same of our rows: each family is judged by a fit without it
    python tools/forecast.py --fit                  fit data/speed.yml to data/speed_rows.yml, then print that table

ROWS: a list of maps with the keys id, geometry, scheme, engine, kernel, eager, kv, hosts, tp, pp, conc, prompt, depth,
out, spec and clock; or a file like data/speed_rows.yml. MODELS: shapes, as under `models` there. What a row leaves out,
or names by a word that is not known here, makes its interval wider.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "collections"))

from ansible_collections.gb10.fleet.plugins.module_utils._engines.speed import forecast as speed  # noqa: E402

CONSTANTS, ROWS = ROOT / "data" / "speed.yml", ROOT / "data" / "speed_rows.yml"
# Bytes a parameter of attention, MLP, routed experts and the output layer. A checkpoint's own index is exact; of
# published rows the scheme's name alone is known.
SCHEMES = {
    "bf16": (2.0, 2.0, 2.0, 2.0),
    "fp8": (1.0, 1.0, 1.0, 2.0),
    "int4": (0.52, 0.52, 0.52, 2.0),
    "nvfp4": (0.5625, 0.5625, 0.5625, 2.0),
    "nvfp4-full": (0.5625, 0.5625, 0.5625, 0.5625),
    "nvfp4-mix": (1.0, 0.62, 0.5625, 2.0),
    "nvfp4-exp": (2.0, 0.5625, 0.5625, 2.0),
    "mxfp4": (2.0, 2.0, 0.53, 2.0),
    "mxfp4-all": (0.53, 0.53, 0.53, 0.53),
    "dsv4": (1.0, 1.0, 0.53, 2.0),
    "gguf-q8": (1.06, 1.06, 1.06, 1.06),
    "gguf-q4": (0.56, 0.56, 0.56, 0.82),
    "gguf-q4km": (0.6, 0.6, 0.6, 0.82),
    "gguf-q5": (0.7, 0.7, 0.7, 0.82),
    "gguf-iq3": (0.45, 0.45, 0.42, 0.82),
    "gguf-mxfp4": (1.06, 1.06, 0.53, 1.06),
}
# The same in other words: of one, what it begins with is enough.
_SCHEME_WORDS = {
    **dict.fromkeys(("awq", "gptq", "autoround", "auto-round", "w4a16", "w4a8", "int4"), "int4"),
    **dict.fromkeys(("bfloat16", "float16", "fp16", "f16", "bf16"), "bf16"),
    **dict.fromkeys(("w8a8", "int8", "w8a16", "float8", "mxfp8", "fp8"), "fp8"),
    **{"fp4": "nvfp4", "nvfp4": "nvfp4", "mxfp4": "mxfp4", "gguf-mxfp4": "gguf-mxfp4", "iq3": "gguf-iq3"},
    **{"iq4": "gguf-q4", "q4-k": "gguf-q4km", "ud-q4": "gguf-q4km", "q4": "gguf-q4", "q5": "gguf-q5", "q8": "gguf-q8"},
    **{"ud-q8": "gguf-q8", "ud-q5": "gguf-q5", "ud-iq3": "gguf-iq3"},
}
_ELEMENTS = {
    **dict.fromkeys(("fp8", "int8", "e4m3", "e5m2", "1"), 1.0),
    **{"q8": 1.06, "nvfp4": 0.5625, "fp4": 0.5625, "q4": 0.5625, "int4": 0.5625, "q5": 0.7},
}
_ENGINES = {
    **{"vllm": "vllm", "sglang": "sglang", "trtllm": "trt-llm", "tensorrtllm": "trt-llm", "ollama": "ollama"},
    **dict.fromkeys(("llamacpp", "llamaserver", "ikllamacpp", "lmstudio", "koboldcpp"), "llama.cpp"),
}
_METHODS = {"mtp": "mtp", "eagle3": "eagle3", "eagle": "eagle", "dflash": "dflash", "dspark": "dspark"}
# Drafts a step that a drafter makes where a row does not say so.
_USUAL = {"dflash": 7, "dspark": 7, "mtp": 1, "eagle3": 3}
_OUTLIER = 0.15  # from this error on, as a logarithm, a row pulls no harder
_FULL_CLOCK = 3003.0  # MHz
_MOST = 1e9  # what no figure of a row reaches
_NOISE = 0.12  # what two sources of one thing differ by


@dataclass(frozen=True)
class Row:
    """A published measurement. doubtful: a figure that nothing is fitted to or judged by."""

    id: str
    family: str
    source: str
    configuration: str
    shape: speed.Shape
    setup: speed.Setup
    load: speed.Load
    decode: float | None = None
    first: float | None = None
    doubtful: bool = False
    first_doubtful: bool = False


# Reading ------------------------------------------------------------------------------------------------------------


def read(rows: Path, models: Path) -> list[Row]:
    """The rows of a file, in either form. Nothing in it is an error: what can't be read is unknown."""
    written = yaml.safe_load(rows.read_text("utf-8"))
    known = yaml.safe_load(models.read_text("utf-8")) or {}
    known = known["models"] if isinstance(known, Mapping) and isinstance(known.get("models"), Mapping) else known
    flat: Any = written
    if isinstance(written, Mapping):
        by_id = ({"id": name, **row} for name, row in written.items() if isinstance(row, Mapping))
        flat = [*(_flat(written["runs"]) if isinstance(written.get("runs"), list) else by_id)]
    flat = flat if isinstance(flat, list) else []
    return [_row(one if isinstance(one, Mapping) else {}, known, at) for at, one in enumerate(flat)]


def _flat(runs: Iterable[Mapping[str, Any]]) -> Iterable[dict[str, Any]]:
    """Points of runs as rows by themselves."""
    for run in runs:
        for point in run["points"]:
            conc, prompt, depth, out = point["at"]
            row = {
                **run["setup"],
                **{key: run[key] for key in ("source", "model", "kernel", "spec", "clock") if key in run},
            }
            row |= {"id": point["id"], "conc": conc, "prompt": prompt, "depth": depth, "out": out}
            row |= {"decode_stream": point.get("decode"), "prefill": point.get("prefill"), "ttft_s": point.get("first")}
            yield {**row, "doubt": point.get("doubt", [])}


def _number(value: object, default: float) -> float:
    """A figure as rows write it: `4`, `"16,384"`, `8k`."""
    if isinstance(value, str) and (
        found := re.fullmatch(r"(\d+(?:\.\d+)?)(k?)", value.strip().lower().replace(",", ""))
    ):
        value = float(found[1]) * (1024 if found[2] else 1)
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST
    return float(value) if good and isinstance(value, int | float) else default


def _row(row: Mapping[str, Any], models: Mapping[str, Any], at: int) -> Row:
    found = models.get(str(row.get("geometry"))) if isinstance(models, Mapping) else None
    scheme = _words(row.get("scheme")).replace("_", "-").replace(" ", "-")
    each = SCHEMES.get(scheme) or SCHEMES.get(_begins(scheme.removeprefix("gguf-"), _SCHEME_WORDS) or "")
    model = found if isinstance(found, Mapping) else None
    shape = _shape(model, each or _guessed(scheme)) if model else _by_name(row, each or _guessed(scheme))
    hosts = max(1, int(_number(row.get("hosts"), 1)))
    stages = max(1, int(_number(row.get("pp"), 1)))
    tensor = max(1, int(_number(row.get("tp"), hosts // stages or 1)))
    engine = _begins(re.sub(r"[^a-z]", "", _words(row.get("engine"))), _ENGINES) or ""
    eager = _words(row.get("eager")) in {"true", "yes", "on", "1", "eager", "enforced", "enforce-eager"}
    element = _begins(_words(row.get("kv")), _ELEMENTS) or 2.0
    setup = speed.Setup(
        engine,
        str(row.get("kernel") or ""),
        eager,
        tensor,
        stages,
        element,
        _drafts(row.get("spec")),
        known=model is not None and each is not None and engine != "",
        clock=_clock(row.get("clock")),
    )
    load = speed.Load(
        max(1, int(_number(row.get("conc"), 1))),
        int(_number(row.get("prompt"), 256)) or 1,
        int(_number(row.get("out"), 256)),
        int(_number(row.get("depth"), 0)),
    )
    doubts = {"other", *map(str, row["doubt"])} - {"other"} if isinstance(row.get("doubt"), list) else set()
    doubts |= _doubts(str(row["unclear"])) if row.get("unclear") else set()
    decode, first = (_number(row.get(key), 0) or None for key in ("decode_stream", "ttft_s"))
    assumed = setup.drafts is not None and setup.drafts.accepted is None
    names = ("source", "model", "scheme", "engine", "release", "kernel", "eager", "kv", "hosts", "tp", "pp")
    return Row(
        f"row {at + 1}" if row.get("id") is None else str(row["id"]),
        str(model.get("family", "")) if model else "",
        f"{row.get('source')} {row.get('model')}",
        " ".join(str(row.get(name)) for name in names) + str(setup.drafts and setup.drafts.count),
        shape,
        setup,
        load,
        decode,
        first,
        doubtful=not setup.known or assumed or bool(doubts - {"short prompt", "warming"}),
        first_doubtful=not setup.known or bool(doubts & {"warming", "prefill"}),
    )


T = TypeVar("T")


def _words(value: object) -> str:
    return "" if value is None else str(value).strip(" []'\"").lower()


def _begins(word: str, names: Mapping[str, T]) -> T | None:
    """Of the longest name that a word begins with."""
    return next((names[name] for name in sorted(names, key=len, reverse=True) if word.startswith(name)), None)


def _doubts(words: str) -> set[str]:
    found = {name for name, part in (("warming", "first point"), ("short prompt", "short prompt")) if part in words}
    return found or {"prefill" if "prefill" in words else "other"}


def _clock(words: object) -> float:
    """`2200-2400 of 3003 MHz`, `2200 MHz` and the like as a share; 1 for what says nothing."""
    if isinstance(words, float) and 0 < words <= 1:
        return max(0.1, words)
    text = re.sub(r"(\d+(?:\.\d+)?) ?[gG][hH]z", lambda found: f"{1000 * float(found[1]):.0f}", str(words or ""))
    found = [float(number) for number in re.findall(r"\d{3,4}", text)][:3]
    full = found.pop() if len(found) > 1 and " of " in str(words) else _FULL_CLOCK
    return min(1.0, max(0.1, sum(found) / len(found) / full)) if found and full else 1.0


def _drafts(spec: object) -> speed.Drafts | None:
    if not spec:
        return None
    given: Mapping[str, Any] = spec if isinstance(spec, Mapping) else {"method": str(spec)}
    written = _words(given.get("method") or "mtp")
    method = next((of for name, of in _METHODS.items() if name in written), written)
    ending = re.search(r"\d+$", written.removeprefix("eagle3"))
    many = next(
        (given[key] for key in ("k", "num_speculative_tokens", "draft") if given.get(key)), ending and ending[0]
    )
    count = int(_number(many, 0)) or _USUAL.get(method, 3)
    accepted = _number(given.get("accept_len"), 0) or None
    return speed.Drafts(method, count, accepted)


def _guessed(scheme: str) -> tuple[float, float, float, float]:
    """Bytes a parameter by the bits in the name of a scheme; 8 bits where it has none."""
    bits = re.search(r"(?<!\d)([2-8]|16|32)(?!\d)", scheme)
    each = int(bits[1]) / 8 * (1.1 if int(bits[1]) < 16 else 1) if bits else 1.0
    return each, each, each, max(each, 1.0)


def _shape(model: Mapping[str, Any], each: Sequence[float]) -> speed.Shape:
    def billions(key: str) -> float:
        return 1e9 * _number(model.get(key), 0)

    rows = model.get("kv") if isinstance(model.get("kv"), list) else []
    caches = [one for one in rows or [] if isinstance(one, list) and len(one) == 3]
    return speed.Shape(
        int(_number(model.get("layers"), 40)),
        int(_number(model.get("hidden"), 4096)),
        speed.Part(billions("attn"), each[0]),
        speed.Part(billions("mlp"), each[1]),
        speed.Part(billions("experts"), each[2]),
        speed.Part(billions("head"), each[3]),
        int(_number(model.get("n_experts"), 0)),
        int(_number(model.get("top_k"), 0)),
        tuple(speed.Cache(int(_number(a, 0)), _number(b, 0), int(_number(c, 0))) for a, b, c in caches),
        1e6 * _number(model.get("state_mb"), 0),
        int(_number(model.get("qdim"), 4096)),
        billions("mtp"),
    )


def _by_name(row: Mapping[str, Any], each: Sequence[float]) -> speed.Shape:
    """A shape where none is known: from the size that a model's name states, else of a usual model."""
    name = f"{row.get('model', '')} {row.get('geometry', '')}".lower()
    whole, active = re.search(r"(\d+(?:\.\d+)?)b(?![a-z])", name), re.search(r"a(\d+(?:\.\d+)?)b", name)
    total = min(2000.0, float(whole[1])) if whole else 30.0
    read_of = min(total, float(active[1])) if active else total if whole else 6.0
    attention = 0.25 * read_of
    routed = total - attention if read_of < total else 0.0
    model = {"attn": attention, "layers": 40, "hidden": 4096, "head": 0.6, "kv": [[20, 1024, 0]]}
    model |= {"experts": routed, "n_experts": 128, "top_k": 8} if routed else {"mlp": 0.75 * read_of}
    if routed:
        model["top_k"] = max(1, min(128, round(128 * (read_of - attention) / routed)))
    return _shape(model, each)


# Fitting ------------------------------------------------------------------------------------------------------------


def _solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Of a symmetric positive matrix, by elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        for below in range(at + 1, size):
            factor = rows[below][at] / rows[at][at]
            rows[below] = [a - factor * b for a, b in zip(rows[below], rows[at], strict=True)]
    found = [0.0] * size
    for at in reversed(range(size)):
        rest = sum(rows[at][other] * found[other] for other in range(at + 1, size))
        found[at] = (rows[at][size] - rest) / rows[at][at]
    return found


def _fitted(
    values: Mapping[str, float],
    priors: Mapping[str, tuple[float, float]],
    errors: Callable[[Mapping[str, float]], list[float]],
    weights: Sequence[float],
    noise: float,
    outlier: float,
) -> dict[str, float]:
    """Robust least squares of logarithms with priors, by Gauss and Newton. priors: expected value and spread."""
    names = [*priors]
    now = dict(values)
    for _ in range(12):
        of = errors(now)
        slopes = []
        for name in names:
            moved = errors({**now, name: now[name] * math.exp(1e-4)})
            slopes.append([(b - a) / 1e-4 for a, b in zip(of, moved, strict=True)])
        pull = [
            (weight / noise) ** 2 * min(1.0, outlier / max(1e-9, abs(error)))
            for weight, error in zip(weights, of, strict=True)
        ]
        matrix = [[sum(p * a * b for p, a, b in zip(pull, one, two, strict=True)) for two in slopes] for one in slopes]
        right = [-sum(p * a * e for p, a, e in zip(pull, one, of, strict=True)) for one in slopes]
        for at, name in enumerate(names):
            prior, spread = priors[name]
            matrix[at][at] = 1.02 * (matrix[at][at] + spread**-2)
            right[at] += math.log(prior / now[name]) * spread**-2
        steps = [min(0.3, max(-0.3, step)) for step in _solve(matrix, right)]
        now |= {name: now[name] * math.exp(step) for name, step in zip(names, steps, strict=True)}
        if max(map(abs, steps)) < 1e-3:
            break
    return now


def fit(rows: Sequence[Row], start: Mapping[str, float] | None = None) -> dict[str, float]:
    """The constants, from these rows alone. A row of a source or a family with many rows counts for less."""
    table = yaml.safe_load(CONSTANTS.read_text("utf-8"))["constants"]
    now = dict(start or {name: one["prior"] for name, one in table.items()})
    for is_prompt, noise, outlier in ((False, _NOISE, _OUTLIER), (True, 2 * _NOISE, 2 * _OUTLIER)):
        priors = {
            name: (one["prior"], one["spread"])
            for name, one in table.items()
            if name.startswith("prompt_") == is_prompt
        }
        used = [row for row in rows if _measured(row, is_prompt)]
        runs, families = Counter(row.source for row in used), Counter(row.family for row in used)
        weights = [(runs[row.source] * families[row.family] / 20) ** -0.25 for row in used]

        def errors(of: Mapping[str, float], used: Sequence[Row] = used, is_prompt: bool = is_prompt) -> list[float]:
            return [math.log((_measured(row, is_prompt) or 1) / _expected(row, of, is_prompt)) for row in used]

        now = _fitted(now, priors, errors, weights, noise, outlier)
    return now


def _measured(row: Row, is_prompt: bool) -> float | None:
    """A figure that may be fitted to."""
    if is_prompt:
        return None if row.first_doubtful else row.first
    return None if row.doubtful else row.decode


def _expected(row: Row, of: Mapping[str, float], is_prompt: bool) -> float:
    if is_prompt:
        return speed.first_token(row.shape, row.setup, row.load, of)
    step = sum(speed.step_times(row.shape, row.setup, row.load, of).values())
    return (row.setup.drafts.tokens if row.setup.drafts else 1.0) / step


# Judging ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """A row beside its forecast, by constants that know nothing of its family."""

    row: Row
    forecast: speed.Speed
    of: Mapping[str, float]


def without_its_family(rows: Sequence[Row]) -> list[Judged]:
    """Each row by a fit without its family."""
    start = speed.constants()
    found = []
    for family in sorted({row.family for row in rows if row.family}):
        of = fit([row for row in rows if row.family != family], start)
        found += judged([row for row in rows if row.family == family], of)
    return found


def judged(rows: Iterable[Row], of: Mapping[str, float]) -> list[Judged]:
    return [Judged(row, speed.forecast(row.shape, row.setup, row.load, by=of), of) for row in rows]


def after_two_points(found: Sequence[Judged]) -> list[float]:
    """Errors of decode of each setup after two points of it, one request and the most: of all its other points."""
    errors = []
    for name in sorted({one.row.configuration for one in found}):
        here = [one for one in found if one.row.configuration == name and not one.row.doubtful and one.row.decode]
        here.sort(key=lambda one: (one.row.load.requests, one.row.load.depth + one.row.load.prompt))
        if len(here) < 3:
            continue
        chosen = [here[0]]
        most = max(one.row.load.requests for one in here)
        if most > here[0].row.load.requests:
            chosen.append(next(one for one in here if one.row.load.requests == most))
        points = tuple(speed.Point(one.row.load, one.row.decode or 1) for one in chosen)
        for one in here:
            if one not in chosen:
                factor = speed.calibrated(one.row.shape, one.row.setup, one.row.load, points, by=one.of)
                errors.append(factor * one.forecast["decode"] / (one.row.decode or 1) - 1)
    return errors


def table(found: Sequence[Judged]) -> str:
    """Errors of decode by classes, of the first token, and after two points."""
    clear = [one for one in found if one.row.decode and not one.row.doubtful]
    classes: list[tuple[str, Callable[[Judged], bool]]] = [
        ("decode, all", lambda one: True),
        ("1 request", lambda one: one.row.load.requests == 1),
        ("2 to 8 requests", lambda one: 1 < one.row.load.requests <= 8),
        ("more requests", lambda one: one.row.load.requests > 8),
        ("dense", lambda one: not one.row.shape.experts and not one.row.shape.state),
        ("hybrid", lambda one: not one.row.shape.experts and bool(one.row.shape.state)),
        ("mixture", lambda one: bool(one.row.shape.experts) and not one.row.shape.state),
        ("hybrid mixture", lambda one: bool(one.row.shape.experts) and bool(one.row.shape.state)),
        ("one host", lambda one: one.row.setup.hosts == 1),
        ("several hosts", lambda one: one.row.setup.hosts > 1),
        ("16k tokens deep and more", lambda one: one.row.load.depth + one.row.load.prompt >= 16000),
        ("speculation, acceptance stated", lambda one: one.row.setup.drafts is not None),
        *((name, _of_engine(name)) for name in sorted({one.row.setup.engine for one in clear})),
        *((name, _of_family(name)) for name in sorted({one.row.family for one in clear})),
    ]
    lines = [
        "| | rows | median error | within 20 % | within 30 % | in the interval |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, belongs in classes:
        here = [one for one in clear if belongs(one)]
        lines += _line(name, [_of_decode(one) for one in here])
    guessed = [one for one in found if one.row.decode and one.forecast["assumed"] and one.row.setup.known]
    lines += _line("speculation, acceptance guessed", [_of_decode(one) for one in guessed])
    prompts = [one for one in found if one.row.first and not one.row.first_doubtful]
    lines += _line(
        "first token",
        [
            (
                one.forecast["ttft_s"] / one.row.first - 1,
                one.forecast["ttft_low"] <= one.row.first <= one.forecast["ttft_high"],
            )
            for one in prompts
            if one.row.first
        ],
    )
    low, high = speed.spans()["measured"]
    lines += _line("decode after two points", [(e, low <= 1 / (1 + e) <= high) for e in after_two_points(found)])
    return "\n".join(lines)


def _of_engine(name: str) -> Callable[[Judged], bool]:
    return lambda one: one.row.setup.engine == name


def _of_family(name: str) -> Callable[[Judged], bool]:
    return lambda one: one.row.family == name


def _of_decode(one: Judged) -> tuple[float, bool]:
    measured = one.row.decode or 1.0
    return one.forecast["decode"] / measured - 1, one.forecast["low"] <= measured <= one.forecast["high"]


def _line(name: str, errors: Sequence[tuple[float, bool]]) -> list[str]:
    if not errors:
        return []
    sizes = [abs(error) for error, _ in errors]

    def share(count: int) -> str:
        return f"{100 * count / len(errors):.0f} %"

    return [
        f"| {name} | {len(errors)} | {100 * statistics.median(sizes):.1f} % | {share(sum(e <= 0.2 for e in sizes))} "
        f"| {share(sum(e <= 0.3 for e in sizes))} | {share(sum(inside for _, inside in errors))} |"
    ]


# The commands -------------------------------------------------------------------------------------------------------

_SHOWN = ("decode", "low", "high", "ttft_s", "ttft_low", "ttft_high")
# A row that nothing is known of: a usual model, and an interval that promises nothing.
_ANYTHING = {"decode": 20.0, "low": 1.0, "high": 200.0, "ttft_s": 1.0, "ttft_low": 0.05, "ttft_high": 60.0}


def figures_of(row: Row) -> dict[str, float]:
    found = speed.forecast(row.shape, row.setup, row.load)
    figures = {"decode": found["decode"], "low": found["low"], "high": found["high"]}
    figures |= {"ttft_s": found["ttft_s"], "ttft_low": found["ttft_low"], "ttft_high": found["ttft_high"]}
    good = all(math.isfinite(value) and value > 0 for value in figures.values())
    return {name: float(f"{figures[name]:.4g}") for name in _SHOWN} if good else _ANYTHING


def main(words: list[str]) -> int:
    if words in (["--fit"], ["--table"]):
        rows = read(ROWS, ROWS)
        if words == ["--fit"]:
            _write(fit(rows))
            speed.constants.cache_clear()
        print(table(without_its_family(rows)))
        return 0
    if len(words) == 3 and words[0] == "--judge":
        print(table(judged(read(Path(words[1]), Path(words[2])), speed.constants())))
        return 0
    if len(words) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    lines = [f"{json.dumps(row.id)}: {json.dumps(figures_of(row))}" for row in read(Path(words[0]), Path(words[1]))]
    print("{" + ",\n ".join(lines) + "}")
    return 0


def _write(values: Mapping[str, float]) -> None:
    text = CONSTANTS.read_text("utf-8")
    for name, value in values.items():
        text = re.sub(rf"(?m)^(  {name}: {{value: )[^,]+", rf"\g<1>{float(f'{value:.4g}')}", text)
    CONSTANTS.write_text(text, "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
