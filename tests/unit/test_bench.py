# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmarks: equal services show no difference, a difference is found, and what is not whole is refused."""

from __future__ import annotations

import json
import math
import random
import re
import select
from dataclasses import asdict, replace
from subprocess import PIPE, Popen
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import data_file
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.client import Reply
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench import load as on_host
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.canary import ROUNDS as NIGHT_ROUNDS
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.canary import (
    name_of,
    night,
    night_points,
    skipped,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.compare import (
    LEAST,
    WRONG,
    Difference,
    beyond,
    differences,
    student,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.conditions import (
    NAMES,
    conditions,
    differing,
    unlike,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.form import (
    BETTER,
    GPU,
    SHOWN,
    BusyError,
    earlier,
    measured,
    run,
    tokens_a_step,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.report import (
    comparison,
    derived,
    plots,
    recipe_lines,
    table,
    verdict_text,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.sweep import (
    Point,
    asked,
    points,
    problems,
    steps,
    words,
    wrong_points,
)
from ansible_collections.gb10.fleet.plugins.plugin_utils._bench_page import page
from drift_fleet import planned
from hypothesis import given
from hypothesis import strategies as st

POINT = Point("512 tokens x 4", 512, 128, 4, 16)
ROUNDS = 8
Figures = dict[str, dict[str, list[float]]]


def simulated(
    seed: int, faster: float, noise: float, names: int = 3, rounds: int = ROUNDS, longer: float = 0.0
) -> tuple[Figures, Figures]:
    """Two sides in turns: what disturbs a round disturbs both, and each run has a noise of its own. longer: the share
    of runs that take longer, by a tenth in the mean."""
    chance = random.Random(seed)
    sides: tuple[Figures, Figures] = ({}, {})
    for point in (f"point {number}" for number in range(names)):
        for figure, more in BETTER.items():
            common = [chance.gauss(0, 0 if longer else 2 * noise) for _ in range(rounds)]
            for side, speed in zip(sides, (1.0, faster), strict=True):
                true = 100 * (speed if more else 1 / speed)
                side.setdefault(point, {})[figure] = [
                    true
                    * math.exp(one + chance.gauss(0, noise))
                    * math.exp((-1 if more else 1) * (longer and chance.random() < longer) * chance.expovariate(10))
                    for one in common
                ]
    return sides


def verdicts(seed: int, faster: float, **how: Any) -> set[str]:
    return {one.verdict for one in differences(*simulated(seed, faster, 0.02, **how), BETTER, True)}


# As 18 runs of stand-ins on two processors that six programs wanted (25 November 2026): a spread of 2 %, and a tail.
BUSY: dict[str, Any] = {"names": 1, "rounds": 16, "longer": 0.2}


def test_two_equal_services_show_no_difference() -> None:
    assert [verdicts(seed, 1.0) for seed in range(20)] == [{"no difference shown"}] * 20


@pytest.mark.parametrize("how", [{}, BUSY, BUSY | {"rounds": 8}])
def test_of_many_comparisons_of_equal_services_as_few_are_wrong_as_is_promised(how: dict[str, Any]) -> None:
    wrong = [seed for seed in range(1000) if verdicts(seed, 1.0, **how) != {"no difference shown"}]
    assert len(wrong) <= 1000 * WRONG + 3 * math.sqrt(1000 * WRONG)


def test_of_more_figures_each_is_asked_more_of() -> None:
    """All together are to be wrong as seldom as one alone: the same values have a wider interval among many."""
    before, after = simulated(3, 1.05, 0.02, names=20)
    point, (figure, *_) = "point 0", BETTER
    [alone] = differences({point: before[point]}, {point: after[point]}, {figure: BETTER[figure]}, True)
    among = {(one.point, one.figure): one for one in differences(before, after, BETTER, True)}[point, figure]
    assert among.low < alone.low and alone.high < among.high


@pytest.mark.parametrize("how", [{}, BUSY])
@pytest.mark.parametrize(("speed", "verdict"), [(1.1, "faster"), (1 / 1.1, "slower")])
def test_a_tenth_is_found(speed: float, verdict: str, how: dict[str, Any]) -> None:
    """And never the other way round."""
    found = [verdicts(seed, speed, **how) for seed in range(20)]
    assert sum(verdict in one for one in found) >= 18
    assert all(one <= {verdict, "no difference shown"} for one in found)


# Next token ms of two stand-ins, in turns at load 8 to 11: each value of the second lies above all of the first.
FIRST = [22.9, 22.4, 22.7, 21.8, 23.1, 22.1, 21.8, 21.7]
SECOND = [23.9, 25.5, 33.1, 25.3, 23.6, 23.5, 24.1, 24.7]


def test_a_single_run_that_took_long_hides_no_difference() -> None:
    values = [{"p": {"next token ms": side * 2}} for side in (FIRST, SECOND)]
    (found,) = differences(*values, {"next token ms": False}, True)
    assert found.verdict == "slower"
    assert (round(found.low, 3), round(found.high, 3)) == (1.049, 1.170)
    assert math.isclose(found.ratio, found.after / found.before)
    # one of sixteen runs of the first stood still for long: by the means it would be the slower one
    first = [10.0 + place / 50 for place in range(15)] + [4000.0]
    second = [11.0 + place / 50 for place in range(16)]
    values = [{"p": {"next token ms": side}} for side in (first, second)]
    (found,) = differences(*values, {"next token ms": False}, True)
    assert found.verdict == "slower"
    assert found.after < found.before
    assert found.ratio == found.low
    # what lasts, and disturbs both sides of a round alike, is left out all the same
    rounds = [1 + place % 8 for place in range(16)]
    values = [{"p": {"next token ms": [one * more for one in rounds]}} for more in (1.0, 1.1)]
    (found,) = differences(*values, {"next token ms": False}, True)
    assert found.verdict == "slower"


def test_the_default_number_of_rounds_outlives_an_odd_run() -> None:
    """With 8 rounds and the defaults' twelve figures no interval by ranks was left: one odd run hid a difference of 3.8
    times, in 10 of 10."""
    rounds = data_file("steps")["bench"]["rounds"]["default"]
    named = 0
    for seed in range(10):
        before, after = simulated(seed, 1.0, 0.1, names=4, rounds=rounds)
        first = after["point 0"]["first token ms"]
        first[:] = [value / 3.8 for value in first]
        first[seed] *= 3.8
        named += next(one.verdict for one in differences(before, after, BETTER, True)) == "faster"
    assert named >= 9


def test_where_none_is_shown_it_reports_how_many_rounds_would_show_one() -> None:
    (one,) = differences(*({"p": {"next token ms": side}} for side in (FIRST, SECOND)), {"next token ms": False}, True)
    assert (one.verdict, one.rounds) == ("slower", 0)
    asked = []
    for seed in range(20):
        before, after = simulated(seed, 1.0, 0.02, **BUSY | {"rounds": 8})
        asked += [found.rounds for found in differences(before, after, BETTER, True)]
    enough = sorted(rounds for rounds in asked if rounds)[len(asked) // 2]
    assert 8 < enough <= 16
    found = [verdicts(seed, 1.1, **BUSY | {"rounds": enough}) for seed in range(20)]
    assert sum("faster" in one for one in found) >= 18
    quiet = differences(*simulated(1, 1.0, 0.002), BETTER, True)
    assert {one.rounds for one in quiet} == {0}
    loud = differences(*simulated(1, 1.0, 3.0), BETTER, True)
    assert {one.rounds for one in loud} == {None}


@pytest.mark.parametrize(
    ("first", "second", "wrong", "below"),
    # any table of the Mann-Whitney U: the greatest U at which the test rejects
    [(4, 4, 0.05, 0), (5, 5, 0.05, 2), (8, 8, 0.05, 13), (8, 8, 0.01, 7), (5, 9, 0.05, 7), (20, 20, 0.05, 127)],
)
def test_ranks(first: int, second: int, wrong: float, below: int) -> None:
    assert beyond(first, second, wrong) == beyond(second, first, wrong) == below + 1
    assert beyond(3, 3, 0.05) == 0


@given(st.integers(0, 10_000), st.floats(0.5, 2), st.booleans())
def test_what_is_compared_the_other_way_round_is_the_inverse(seed: int, speed: float, paired: bool) -> None:
    before, after = simulated(seed, speed, 0.03, 1)
    there, back = differences(before, after, BETTER, paired), differences(after, before, BETTER, paired)
    opposite = {"faster": "slower", "slower": "faster"}
    for one, other in zip(there, back, strict=True):
        assert math.isclose(one.ratio * other.ratio, 1)
        assert math.isclose(one.low * other.high, 1)
        assert opposite.get(one.verdict, one.verdict) == other.verdict
        assert one.low <= one.ratio <= one.high


def test_runs_without_any_noise_differ_by_what_they_differ() -> None:
    flat: Figures = {"p": {figure: [100.0] * LEAST for figure in BETTER}}
    assert {one.verdict for one in differences(flat, flat, BETTER, False)} == {"no difference shown"}


def test_too_few_rounds_are_refused() -> None:
    few: Figures = {"p": {figure: [1.0, 2.0] for figure in BETTER}}
    with pytest.raises(ValueError, match="p was measured 2 times, expected at least 4"):
        differences(few, few, BETTER, True)


@pytest.mark.parametrize(
    ("freedom", "wrong", "t"),
    # any table of Student's distribution
    [(1, 0.05, 12.706), (2, 0.05, 4.303), (3, 0.05, 3.182), (7, 0.001, 5.408), (10, 0.01, 3.169), (30, 0.001, 3.646)],
)
def test_students_distribution(freedom: int, wrong: float, t: float) -> None:
    assert math.isclose(student(freedom, wrong), t, abs_tol=5e-4)


@pytest.mark.parametrize(
    ("context", "most", "expected"),
    [
        (None, None, ["512 tokens x 1", "8192 tokens x 1", "512 tokens x 4", "512 tokens x 16"]),
        (2048, 8.06, ["512 tokens x 1", "512 tokens x 4"]),
        (704, 1.0, ["512 tokens x 1"]),
        (703, None, []),
    ],
)
def test_what_does_not_fit_is_left_out(context: int | None, most: float | None, expected: list[str]) -> None:
    assert [point.name for point in points(context, most, [8192, 512, 512], [4, 16, 1], 128)] == expected


@given(st.integers(1, 5), st.integers(1, 12), st.sampled_from([["a"], ["a", "b"], ["a", "a"]]))
def test_both_sides_run_in_turns(count: int, rounds: int, names: list[str]) -> None:
    measured_points = [Point(str(number), 512, 128, 1, 4) for number in range(count)]
    order = steps([(name, "titan") for name in names], measured_points, rounds, 7)
    assert len(order) == count * (rounds + 1) * len(names)
    # whatever was sent once is never sent to the same service again, not even where it is measured against itself
    assert len({(step.service, step.seed) for step in order}) == len(order)
    for place in range(0, len(order), len(names)):
        turn = order[place : place + len(names)]
        assert len({(step.point, step.round) for step in turn}) == 1
        assert len({step.seed for step in turn}) == (2 if names == ["a", "a"] else 1)
        assert {step.side for step in turn} == ({0, 1} if len(names) > 1 else {1})
    if len(names) > 1:
        first = [order[place].side for place in range(0, len(order), 2)]
        assert abs(first.count(0) - first.count(1)) <= 1 + rounds % 2


def test_a_seed_of_another_point_is_not_the_same() -> None:
    order = steps([("a", "titan")], [POINT, Point("p", 1, 1, 1, 4)], 3, 0)
    load = {"words": ["--seed", "{seed}", "{prompt}", "{model}"], "more": {}}
    assert words(load, order[-1].point, order[-1].seed) == ["--seed", "7", "1", "{model}"]


RAW = {
    "completed": 16,
    "failed": 0,
    "total_input_tokens": 8200,
    "total_output_tokens": 2048,
    "duration": 12.5,
    "median_ttft_ms": 210.5,
    "median_tpot_ms": 31.25,
    "output_throughput": 163.8,
    "median_e2el_ms": 4190.0,
    "request_throughput": 1.28,
    "max_output_tokens_per_s": 200.0,
    "date": "20261124-033731",
}
KEYS = ENGINES["vllm"].spec.load_keys
ANSWER: dict[str, Any] = {
    "result": json.dumps(RAW),
    "seconds": 20.0,
    "gpu": [],
    "before": {"busy": 0, "answered": 1000, "prompted": 5000, "steps": 0, "accepted": 0},
    "after": {"busy": 0, "answered": 3050, "prompted": 13_750, "steps": 0, "accepted": 0},
}


def test_what_the_load_generator_wrote_is_read_and_kept() -> None:
    found = measured(POINT, ANSWER, KEYS)
    assert found["figures"] == {"first token ms": 210.5, "next token ms": 31.25, "tokens/s": 163.8}
    assert found["shown"] == {
        "request ms": 4190.0,
        "requests/s": 1.28,
        "peak tokens/s": 200.0,
        "prompt tokens/s": 700.0,
    }
    assert found["raw"] == RAW


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        # vllm bench serve ends with 0 where every request failed, with a wrong key as with a server that is gone
        ({"completed": 0, "failed": 16}, "0 of 16 requests were answered, expected all"),
        ({"completed": 15}, "15 of 16 requests"),
        ({"total_output_tokens": 2000}, "2000 tokens were answered, expected 2048"),
        ({"median_tpot_ms": 0}, "measured no next token ms"),
        ({"median_ttft_ms": "fast"}, "expected"),
        ({"median_ttft_ms": None}, "expected"),
        ({"output_throughput": -1}, "expected"),
    ],
)
def test_half_a_result_is_none(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        measured(POINT, ANSWER | {"result": json.dumps(RAW | change)}, KEYS)


@pytest.mark.parametrize("text", ["", "[]", "null", '{"completed": NaN}', "[" * 1000])
def test_what_is_no_result_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="what the load generator wrote"):
        measured(POINT, ANSWER | {"result": text}, KEYS)


def test_others_that_ask_meanwhile_are_seen() -> None:
    with pytest.raises(ValueError, match="others were answered 952 tokens meanwhile"):
        measured(POINT, ANSWER | {"after": {"busy": 0, "answered": 4000, "prompted": 0}}, KEYS)


def kept(**changes: Any) -> dict[str, Any]:
    """A run of two points, as it is written and read again."""
    alone = Point("512 tokens x 1", 512, 128, 1, 4)
    figures, shown = dict.fromkeys(BETTER, 10.0), {"request ms": 4190.0}
    results = [
        {"point": point, "round": number, "shown": shown, "raw": RAW}
        | {"figures": {name: value + number for name, value in figures.items()}}
        for number in range(LEAST + 1)
        for point in (alone, POINT)
    ]
    under = {
        "driver": "580.95",
        "engine": "vllm",
        "flags": ["--max-num-seqs 8"],
        "hosts": 1,
        "image": "sha256:1",
        "kernel": "6.11",
        "model": "m",
        "release": "0.32.0",
        "variables": {},
    }
    found = run("chat-1", "2026-11-24T04:00:00Z", {"name": "chat", "definition": "d"}, under, results)
    return earlier(json.dumps(found | changes).encode(), "chat-1.json")


def test_a_run_is_read_as_it_was_kept() -> None:
    found = kept()
    assert found["values"]["512 tokens x 1"]["tokens/s"] == [11.0, 12.0, 13.0, 14.0]  # round 0 warms up
    assert len(found["raw"]) == 2 * (LEAST + 1)  # of round 0 what was written alone
    assert found["shown"]["512 tokens x 1"]["request ms"] == [4190.0] * LEAST
    assert {*found["conditions"]} == {*NAMES}


@pytest.mark.parametrize("change", [{"points": []}, {"values": {}}, {"conditions": None}, {"at": 3}, {"raw": "x"}])
def test_a_damaged_run_is_not_compared_with(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"chat-1\.json"):
        kept(**change)


@pytest.mark.parametrize("key", NAMES)
def test_what_differs_has_to_be_asked_for(key: str) -> None:
    before = kept()["conditions"]
    other = {"hosts": 2, "flags": ["--max-num-seqs 16"], "variables": {"A": "1"}}.get(key, "another")
    (found,) = differing(before, before | {key: other}, [], "chat-1")
    assert f"-e changed={key}" in found.sentence()
    assert [*differing(before, before | {key: other}, [key], "chat-1")] == []


def test_another_workload_is_never_compared() -> None:
    run_points = kept()["points"]
    assert [*unlike(run_points, run_points, "chat-1")] == []
    (found,) = unlike([asdict(POINT)], run_points, "chat-1")
    assert "512 tokens x 1 (128 answered, 4 requests)" in found.sentence()


def test_where_a_service_listens_is_no_difference() -> None:
    plan = planned()
    name, service = next((name, one) for name, one in plan["services"].items() if one["engine"] == "vllm")
    slice_ = next(one for one in plan["hosts"][service["hosts"][0]]["services"] if one["name"] == name)
    seen = {"driver": None, "image": "sha256:1", "kernel": "6.11", "model": "m"}
    moved = json.loads(json.dumps(slice_).replace(slice_["proof"]["url"].rpartition(":")[2], "8999"))
    assert moved != slice_
    assert conditions(service, slice_, seen) == conditions(service, moved, seen)
    flags = conditions(service, slice_, seen)["flags"]
    assert not [flag for flag in flags if flag.startswith("--port")]


@pytest.mark.parametrize(
    ("name", "hosts", "sentence"),
    [
        ("", ["titan"], "write -e service=NAME"),
        ("chatt", ["titan"], 'no service "chatt"'),
        ("chat", [], "this run leaves out titan"),
        ("gguf", ["titan"], "served by llama_cpp, whose images bring no load generator"),
    ],
)
def test_what_cant_be_measured_is_refused_before(name: str, hosts: list[str], sentence: str) -> None:
    service = {"hosts": ["titan"], "engine": "vllm"}
    plan = {"services": {"chat": service, "gguf": service | {"engine": "llama_cpp"}}}
    found = problems(plan, [name], hosts, {"vllm": ["x"], "llama_cpp": []})
    assert sentence in "\n".join(one.sentence() for one in found)


def test_an_engine_with_a_load_generator_names_what_it_measures_by() -> None:
    needed = {"running", "waiting", "kv_use", "prompted", "generated"}
    for engine in ENGINES.values():
        if engine.spec.load:
            assert needed <= {*engine.spec.series}
            needed_keys = {"completed", "failed", "answered", "duration", *BETTER}
            assert needed_keys <= {*engine.spec.load_keys} <= needed_keys | {*SHOWN}
            assert {"{url}", "{model}", "{served}", "{seed}", "{file}"} <= {*engine.spec.load}
            assert {*engine.spec.load_more} == {"text", "image", "at_once", "rate", "depth"}


def test_the_page_escapes_and_shows_each_run() -> None:
    before, after = kept(), kept(name="<script>", service="&")
    found = differences(before["values"], after["values"], BETTER, True)
    text = page([before, after], found, True)
    assert "<script>" not in text
    assert text.count("<svg") == len(BETTER)
    assert text.count("<circle") == len(BETTER) * 2 * 2 * LEAST
    assert text.count("no difference shown") == len(found)
    assert page([after], [], False).count("<circle") == len(BETTER) * 2 * LEAST


def test_what_a_person_reads() -> None:
    found = kept()
    assert table(found)[1].split() == ["512", "tokens", "x", "1", "12.45", "12.45", "12.45"]
    middle = math.prod([11, 12, 13, 14]) ** 0.25
    prefill, decode, together, first = recipe_lines(found)
    assert prefill["value"] == float(f"{512_000 / middle:.4g}")
    assert decode["conditions"] == "1 request, 512 random prompt tokens"
    assert (together["what"], together["conditions"]) == ("decode", "4 requests, 512 random prompt tokens")
    assert (first["what"], first["unit"], first["value"]) == ("first token", "ms", 12.45)
    heads, alone, _four = derived(found)
    assert dict(zip(heads, alone, strict=True)) == {
        "": "512 tokens x 1",
        "prefill tok/s": f"{512_000 / middle:.4g}",
        "decode tok/s": f"{1000 / middle:.4g}",
        "request ms": "4190",
        **dict.fromkeys(("requests/s", "peak tokens/s", "prompt tokens/s", "tokens a step", *GPU), ""),
    }
    one = Difference("p", "tokens/s", 10, 11, 1.1, 1.05, 1.15, "faster", 0)
    assert comparison([one])[1].split()[-5:] == ["1.100", "1.050", "to", "1.150", "faster"]
    wide = Difference("p", "tokens/s", 10, 11, 1.1, 0.005, 156.95, "no difference shown", 40)
    assert "0.005" not in comparison([wide])[1] and "too wide  no difference shown" in comparison([wide])[1]
    none = replace(one, low=0.9, verdict="no difference shown")
    assert verdict_text(none) == "no difference shown, and none of 10 %"
    assert verdict_text(replace(none, rounds=14)) == "no difference shown; 14 rounds of both would show one of 10 %"
    assert verdict_text(replace(none, rounds=None)).startswith("no difference shown; more than 200 rounds")
    assert {plot["figure"] for plot in plots([found])} == {*BETTER}


def loaded(url: str, arguments: list[str]) -> dict[str, Any]:
    spec = ENGINES["vllm"].spec
    proof = {"url": url, "certificate": None, "key_file": None, "key_form": "%t"}
    slice_ = {"engine": "vllm", "proof": proof, "container": {"name": "c", "arguments": arguments}}
    parts = {key: getattr(spec, key) for key in ("load", "load_more", "load_tls", "code_flags")}
    return asked("chat", slice_, "m", parts, spec.series)


def test_the_load_generator_is_given_what_the_service_has() -> None:
    plain = loaded("http://127.0.0.1:8000", ["m"])["words"]
    assert plain[plain.index("--base-url") + 1] == "http://127.0.0.1:8000"
    assert plain[plain.index("--model") + 1] == "{model}"  # its host puts it in
    assert not {"--insecure", "--trust-remote-code"} & {*plain}
    whole = loaded("https://127.0.0.1:8000", ["m", "--trust-remote-code"])
    assert {"--insecure", "--trust-remote-code"} <= {*whole["words"]}
    left = re.compile(r"\{(?!model\})[a-z_]+\}")
    for point in points(None, None, [512], [4], 16, [4096], [2.0], ["512x256"]):
        assert not left.search(" ".join(words(whole, point, 1)))


def between(sent: list[str], option: str) -> str | None:
    return sent[sent.index(option) + 1] if option in sent else None


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("512 tokens x 4", {"--backend": "openai", "--max-concurrency": "4", "--request-rate": None}),
        ("512 tokens, 2.5/s", {"--request-rate": "2.5", "--num-prompts": "38", "--max-concurrency": None}),
        ("512 tokens after 4096 x 1", {"--random-prefix-len": "4096", "--random-input-len": "512"}),
        (
            "512 tokens, 512x256 x 4",
            {"--dataset-name": "random-mm", "--max-concurrency": "4", "--endpoint": "/v1/chat/completions"}
            # height first, as vLLM has it
            | {"--random-mm-bucket-config": "{(256, 512, 1): 1.0}", "--num-prompts": "16"},
        ),
    ],
)
def test_each_kind_of_point_has_words_of_its_own(place: str, expected: dict[str, str | None]) -> None:
    swept = points(None, None, [8192, 512], [1, 4], 16, [0, 4096], [2.5], ["512x256"])
    point = next(one for one in swept if one.name == place)
    sent = words(loaded("http://127.0.0.1:8000", ["m"]), point, 1)
    assert {option: between(sent, option) for option in expected} == expected


def test_sweeps_are_one_after_the_other_and_fit() -> None:
    swept = points(4096, 8.5, [512, 2048, 4096], [1, 8, 32], 128, [1024, 4096], [0.5, 4], ["256x256"])
    assert [point.name for point in swept] == [
        *("512 tokens x 1", "2048 tokens x 1", "512 tokens x 8", "512 tokens, 0.5/s", "512 tokens, 4/s"),
        *("512 tokens after 1024 x 1", "512 tokens, 256x256 x 1", "512 tokens, 256x256 x 8"),
    ]
    assert len({point.name for point in swept}) == len(swept)


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("prompts", [0], "prompts: 0; expected 1 or more"),
        ("concurrency", [4, -1], "concurrency: -1;"),
        ("depths", [-5], "depths: -5; expected 0 or more"),
        ("rates", [0.0], "rates: 0; expected 0.01 to 1000 requests a second"),
        ("rates", [math.nan], "rates: nan;"),
        ("images", ["512"], "images: 512; expected WIDTHxHEIGHT"),
        ("images", ["0x512"], "images: 0x512;"),
    ],
)
def test_sweeps_that_cant_be_sent_are_refused(option: str, value: list[Any], sentence: str) -> None:
    fine: dict[str, Any] = {
        "profile": "load",
        "prompts": [512],
        "concurrency": [4],
        "depths": [],
        "rates": [2.0],
        "images": ["9x9"],
    }
    assert [*wrong_points(fine)] == []
    (found,) = wrong_points(fine | {option: value})
    assert sentence in found.sentence()


def test_nothing_is_sent_where_others_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    found = on_a_host(monkeypatch, UP, running=3)
    assert "result" not in found
    with pytest.raises(BusyError, match="3 requests of others run there, expected none"):
        measured(POINT, {"result": "", "after": None, **found}, KEYS)


METRICS = (
    "vllm:generation_tokens_total 5\nvllm:prompt_tokens_total 7\n"
    "vllm:num_requests_running %s\nvllm:num_requests_waiting 0\n"
)


def on_a_host(
    monkeypatch: pytest.MonkeyPatch,
    ends: dict[str, tuple[int, str, str]],
    running: int = 0,
    first: dict[str, tuple[int, str, str]] | None = None,
) -> dict[str, Any]:
    """What it answers with these ends of commands, by a word of them. first: other ends, once. The key is in no
    command."""
    once = {**(first or {})}
    models = Reply(200, json.dumps({"data": [{"root": "org/m"}]}))
    monkeypatch.setattr(on_host, "stranger", lambda *_: None)
    monkeypatch.setattr(on_host, "read_key", lambda *_: "hidden")
    monkeypatch.setattr(on_host, "read_driver", lambda _: None)
    monkeypatch.setattr(on_host, "fetch", lambda *_, **__: models)
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(on_host, "_IDLE_S", 0.0)
    text = Reply(200, METRICS % running)
    monkeypatch.setattr(f"{on_host.metrics.__module__}.fetch", lambda *_, **__: text)

    def run(command: Any, variables: Any) -> tuple[int, str, str]:
        assert "hidden" not in " ".join(command)
        assert variables.get("OPENAI_API_KEY", "hidden") == "hidden"
        if word := next((word for word in once if word in command), None):
            return once.pop(word)
        return next((end for word, end in ends.items() if word in command), (0, "", ""))

    load = loaded("http://127.0.0.1:8000", ["m"])
    return on_host.load(run, load, words(load, POINT, 1))


UP = {"inspect": (0, "17 sha256:1\n", "")}


def test_a_run_on_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    found = on_a_host(monkeypatch, UP | {"cat": (0, json.dumps(RAW), "")})
    assert found["seen"]["model"] == "org/m"
    assert json.loads(found["result"]) == RAW
    none = {"steps": 0, "accepted": 0, "a_step": 0}
    assert found["before"] == found["after"] == {"busy": 0, "answered": 5, "prompted": 7, **none}


def test_a_run_with_drafts_counts_them_and_reads_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    series = ENGINES["vllm"].spec.series
    drafts = f'{series["draft_steps"]}{{a="b"}} 40.0\n{series["draft_accepted"]}{{a="b"}} 64.0\n'
    monkeypatch.setattr(f"{__name__}.METRICS", METRICS + drafts)
    shown = "2400, 80.5, 60\\n[N/A], 1, 2\\n799, 19.5, 50\\n"
    writes = ("sh", "-c", f"printf '{shown}'; exec sleep 60")
    monkeypatch.setattr(on_host, "watched", lambda _names: Popen(writes, stdout=PIPE, text=True))
    monkeypatch.setattr(on_host, "_generated", lambda *_: select.select([], [], [], 0.3) and "{}")
    found = on_a_host(monkeypatch, UP)
    assert found["after"]["steps"] == 40 and found["after"]["accepted"] == 64
    assert found["gpu"] == [2400, 80.5, 60]


def test_a_run_that_fails_leaves_no_watcher_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    waits = ("sleep", "60")
    monkeypatch.setattr(
        on_host, "watched", lambda _names: begun.append(Popen(waits, stdout=PIPE, text=True)) or begun[0]
    )
    with pytest.raises(ValueError, match="Killed"):
        on_a_host(monkeypatch, UP | {"timeout": (137, "", "Killed")})
    assert begun[0].returncode is not None


def test_tokens_a_step_follow_from_its_drafts() -> None:
    before, after = (
        {**ANSWER[key], "steps": steps, "accepted": 2 * steps} for key, steps in (("before", 10), ("after", 60))
    )
    shown = measured(POINT, {**ANSWER, "before": before, "after": after, "gpu": [799, 19.5, 50]}, KEYS)["shown"]
    assert (shown["tokens a step"], shown["GPU MHz"], shown["GPU W"], shown["GPU C"]) == (3, 799, 19.5, 50)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_look_alone_reads_what_drafts_come_to(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    """SGLang has a gauge in place of counters; llama-benchy measures between two looks."""
    series = {**ENGINES["vllm"].spec.series, **ENGINES[engine].spec.series}
    names = [series[name] for name in ("draft_steps", "draft_accepted")] if engine == "vllm" else []
    names = names or [series["tokens_a_step"]]
    shown = "".join(f'{name}{{tp_rank="0"}} {value}\n' for name, value in zip(names, (40.0, 64.0), strict=False))
    monkeypatch.setattr(f"{__name__}.METRICS", METRICS + shown)
    monkeypatch.setattr(f"{__name__}.words", lambda *_: [])
    load = loaded("http://127.0.0.1:8000", ["m"]) | {"drafts": names}
    monkeypatch.setattr(f"{__name__}.loaded", lambda *_: load)
    look = on_a_host(monkeypatch, UP)["before"]
    before = {**look, "steps": 0, "accepted": 0, "a_step": 0} if engine == "vllm" else look
    assert tokens_a_step(before, look) == {"tokens a step": 2.6 if engine == "vllm" else 40.0}
    assert tokens_a_step({**look, "steps": 40}, {**look, "a_step": 0}) == {}


NOT_BEGUN = (
    126,
    "OCI runtime exec failed: exec failed: unable to start container process: read init-p: connection reset by peer",
    "",
)


def test_what_docker_could_not_begin_is_begun_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    found = on_a_host(monkeypatch, UP | {"cat": (0, json.dumps(RAW), "")}, first={"timeout": NOT_BEGUN})
    assert json.loads(found["result"]) == RAW


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ({"inspect": (1, "", "No such object: c")}, "its container c does not run"),
        (UP | {"timeout": (137, "", "Killed")}, "the load generator ended with 137: Killed"),
        (UP | {"cat": (1, "", "No such file")}, "the load generator left no result: No such file"),
        (UP | {"timeout": NOT_BEGUN}, "the load generator ended with 126: OCI runtime exec failed"),
    ],
)
def test_what_ends_on_the_host_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, ends: dict[str, tuple[int, str, str]], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        on_a_host(monkeypatch, ends)


POOL = {"context": 4096, "max_concurrency": 8.0}


def measured_at_night(seed: int, slower: float = 1.0, noise: float = 0.01, **conditions_: Any) -> dict[str, Any]:
    """A night's run; each has disturbances of its own."""
    chance = random.Random(seed)
    results = [
        {"point": point, "round": number, "shown": {}, "raw": {}}
        | {
            "figures": {
                figure: 100 * (1 / slower if more else slower) * math.exp(chance.gauss(0, noise))
                for figure, more in BETTER.items()
            }
        }
        for number in range(NIGHT_ROUNDS + 1)
        for point in night_points(POOL)
    ]
    under = kept()["conditions"] | conditions_
    found = run(name_of("chat"), "2026-11-24T03:00:00Z", {"name": "chat", "definition": "d"}, under, results)
    return earlier(json.dumps(found).encode(), "chat-canary.json")


def reported(before: dict[str, Any] | None, tonight: dict[str, Any], percent: float = 5) -> list[str]:
    return [f"{one.severity}: {one.sentence()}" for one in night("titan", "chat", before, tonight, percent).findings]


def test_the_first_night_is_kept_and_no_drift() -> None:
    found = night("titan", "chat", None, measured_at_night(1), 5)
    assert found.keep
    assert [one.severity for one in found.findings] == ["hint"]


def test_equal_nights_are_no_drift() -> None:
    before = measured_at_night(1)
    assert [reported(before, measured_at_night(seed)) for seed in range(2, 202)] == [[]] * 200
    assert not night("titan", "chat", before, measured_at_night(2), 5).keep


def test_a_slower_night_is_drift_with_its_figures_and_what_helps() -> None:
    before = measured_at_night(1)
    nights = [reported(before, measured_at_night(seed, 1.15)) for seed in range(2, 22)]
    assert sum(bool(found) for found in nights) >= 18
    (one,) = reported(before, measured_at_night(2, 1.3))
    assert one.startswith("warning: speed of chat: 512 tokens x 1: ")
    assert "1.3" in one and "as measured at 2026-11-24T03:00:00Z" in one
    assert "gb10.fleet.bench -e service=chat -e against=chat-canary -e prompts=512 -e concurrency=1,4" in one


@pytest.mark.parametrize("slower", [1 / 1.3, 1.03])
def test_a_faster_night_or_one_within_what_is_tolerated_is_none(slower: float) -> None:
    assert reported(measured_at_night(1), measured_at_night(2, slower)) == []
    # one figure is no interval: noise of a night can't be told from a slower service
    assert reported(measured_at_night(1, noise=0.3), measured_at_night(2, 1.1, noise=0.3)) == []


def test_what_was_declared_is_measured_anew_and_what_changed_by_itself_is_named() -> None:
    before = measured_at_night(1)
    found = night("titan", "chat", before, measured_at_night(2, 1.3, image="sha256:2"), 5)
    assert found.keep
    assert "image changed since 2026-11-24T03:00:00Z" in found.findings[0].sentence()
    (one,) = night("titan", "chat", before, measured_at_night(2, 1.3, kernel="6.17"), 5).findings
    assert one.reason == "kernel 6.11, now 6.17"
    assert "-e changed=kernel" in one.remedy


def test_a_service_with_a_small_pool_is_measured_all_the_same() -> None:
    assert [point.name for point in night_points({"context": 512, "max_concurrency": 2.0})] == ["256 tokens x 1"]
    assert night_points({"context": 256, "max_concurrency": None}) == []
    assert skipped("titan", "chat", "3 requests of others").severity == "hint"
