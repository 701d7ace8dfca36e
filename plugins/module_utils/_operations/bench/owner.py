# SPDX-License-Identifier: GPL-3.0-or-later
"""The community's benchmark, llama-benchy, through an endpoint as clients reach it: one request at a time, by depth.

Its words and its result are those of release 0.4.0 (llama_benchy/config.py, runner.py, results.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..._base.forms import forms
from ..._base.received import Unread, checked, is_list, is_map, parsed
from .form import MOST_BYTES, NotWholeError
from .sweep import SPARE_TOKENS, Point

RELEASE = "0.4.0"
# Requests of one token beside the measured one: two that count what a chat template adds, three that measure how long
# the smallest answer takes.
_SMALL_REQUESTS = 5
_FORMS = forms("bench_owner")
_RUN, _RESULT = _FORMS["run"], _FORMS["result"]


def owner_points(context: int | None, prompts: Sequence[int], depths: Sequence[int], answer: int) -> list[Point]:
    """Each prompt at each depth, under llama-benchy's own names. context: tokens of the longest request, None where
    that isn't known. What does not fit is left out."""
    return [
        Point(f"pp{prompt} tg{answer}" + (f" @ d{depth}" if depth else ""), prompt, answer, 1, 1, depth=depth)
        for depth in sorted({*depths})
        for prompt in sorted({*prompts})
        if context is None or depth + prompt + answer + SPARE_TOKENS <= context
    ]


def owner_words(point: Point, url: str, served: str, tokenizer: str, file: str) -> list[str]:
    """For one run of a point; the key is not among them. url: of the OpenAI API, with its ``/v1``. served: the model's
    name there. tokenizer: a folder of the controller. file: the result's.

    Its answer is as long as was asked for, so that it can be counted. Whether a model answers with sense is `verify`'s
    affair: one of random weights does not.
    """
    return [
        *("--base-url", url, "--model", served, "--served-model-name", served, "--tokenizer", tokenizer),
        *("--pp", f"{point.prompt}", "--tg", f"{point.answer}", "--depth", f"{point.depth}", "--concurrency", "1"),
        *("--runs", "1", "--no-warmup", "--exact-tg", "--skip-coherence", "--latency-mode", "generation"),
        *("--no-results-on-fail", "--format", "json", "--save-result", file),
    ]


def _figures(value: Unread) -> Unread | dict[str, Unread]:
    return {"values": value["values"]} if is_map(value) else value


def owner_measured(point: Point, content: bytes) -> dict[str, Any]:
    """``{figures, shown, raw, answered}`` of one run. content: its result. answered: tokens of all its requests.

    NotWholeError where the request was not answered whole; ValueError for what is no result.
    """
    raw = parsed(content, MOST_BYTES, "llama-benchy's result")
    if not is_map(raw) or not is_list(raw.get("benchmarks")):
        raise ValueError("llama-benchy's result is no map with benchmarks")
    # of what it writes, what is used
    runs = [{key: benchmark[key] for key in _RUN["options"] if key in benchmark} for benchmark in raw["benchmarks"]]
    shown = [{key: _figures(value) for key, value in run.items()} for run in runs]
    found = checked(_RESULT, {"version": raw.get("version"), "benchmarks": shown}, "llama-benchy's result")
    if found["version"] != RELEASE:
        raise ValueError(f"llama-benchy is {found['version']}, expected {RELEASE}")
    sizes = (point.depth, point.prompt, point.answer)
    fitting = [
        benchmark
        for benchmark in found["benchmarks"]
        if (benchmark["context_size"], benchmark["prompt_size"], benchmark["response_size"]) == sizes
    ]
    if len(fitting) != 1:
        raise NotWholeError(f"llama-benchy measured {len(fitting)} runs of it, expected one")
    first, speed = (_only(fitting[0][name], name) for name in ("e2e_ttft", "tg_throughput"))
    each = 1000 / speed
    whole = first + each * (point.answer - 1)
    return {
        "figures": {"first token ms": first, "next token ms": each, "tokens/s": 1000 * point.answer / whole},
        "shown": {"request ms": whole},
        "raw": raw,
        "answered": point.answer + _SMALL_REQUESTS,
    }


def _only(metric: Mapping[str, Any] | None, name: str) -> float:
    values = metric["values"] if metric else []
    if len(values) != 1 or values[0] <= 0:
        raise NotWholeError(f"llama-benchy measured {len(values)} values of {name}, expected one above 0")
    return float(values[0])


def community_table(run: Mapping[str, Any]) -> list[list[str]]:
    """Heads and rows as llama-benchy shows them: mean and standard deviation over the rounds. Of a prompt that takes no
    longer than the smallest request it tells no speed."""
    rows = [["test", "t/s"]]
    for point in run["points"]:
        results = [raw["result"] for raw in run["raw"] if raw["round"] and raw["point"] == point["name"]]
        depth = f" @ d{point['depth']}" if point["depth"] else ""
        for name, key in ((f"pp{point['prompt']}", "pp_throughput"), (f"tg{point['answer']}", "tg_throughput")):
            values = [
                value
                for result in results
                for benchmark in result["benchmarks"]
                for value in ((benchmark.get(key) or {}).get("values") or [])
            ]
            rows.append([f"{name}{depth}", _spread(values) if len(values) == len(results) else "too short to tell"])
    return rows


def _spread(values: Sequence[float]) -> str:
    mean = sum(values) / len(values)
    deviation = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5
    return f"{mean:.2f} ± {deviation:.2f}"
