# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases of a start, in recorded logs of each engine, in hostile ones, and in what a host keeps."""

from __future__ import annotations

import json
import math
import re
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._engines.observed import require_observed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.starts import (
    BOOTS,
    CAUSES,
    PHASES,
    Expected,
    forecast,
    last_words,
    of_class,
    rows,
    seconds_a_gb,
    slow_start,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.starts import (
    journal_lines,
    read_kept,
    read_starts,
    starts,
)

LOGS = Path(__file__).resolve().parents[1] / "data" / "start_logs"
EXPECTED: dict[str, dict[str, Any]] = yaml.safe_load((LOGS / "phases.yml").read_text("utf-8"))


def seconds(line: str) -> float | None:
    """What the line's own clock shows; llama.cpp counts minutes, seconds, thousandths from its start."""
    if found := re.match(r"(\d+)\.(\d\d)\.(\d{3})\.\d{3} ", line):
        return int(found[1]) * 60 + int(found[2]) + int(found[3]) / 1000
    if found := re.search(r"(?<!\d)(\d\d):(\d\d):(\d\d)(?:[.,](\d{3}))?", line[:60]):
        return int(found[1]) * 3600 + int(found[2]) * 60 + int(found[3]) + int(found[4] or 0) / 1000
    return None


def recorded(name: str) -> list[tuple[float, str]]:
    """A recorded log between the lines of a supervisor: it begins with the first line, and answers at the last."""
    at, lines = 0.0, []
    for line in (LOGS / f"{name}.log").read_text("utf-8").splitlines():
        shown = seconds(line)
        at = at if shown is None else shown
        lines.append((at, line))
    first, last = next(at for at, _ in lines if at), lines[-1][0]
    return [
        (first, "gb10.fleet: epoch 1: all 1 ranks get ready"),
        (first, "gb10.fleet: the model loads; that may take as long as something moves"),
        *[(at or first, line) for at, line in lines],
        (last, "gb10.fleet: the model answers, 1.0 s after its start"),
        (last, "gb10.fleet: serving m at http://127.0.0.1:8000"),
    ]


@pytest.mark.parametrize("name", sorted(path.stem for path in LOGS.glob("*.log")))
def test_a_recorded_start_adds_up_by_phase(name: str) -> None:
    lines = recorded(name)
    [start] = starts(lines, rows(EXPECTED[name]["engine"]))
    clock = lines[-1][0] - lines[0][0]
    assert start["seconds"] == pytest.approx(clock, abs=0.1)
    assert sum(start["phases"].values()) == pytest.approx(clock, abs=0.5)
    assert start["phases"].get("other", 0.0) <= 0.05 * clock
    assert {phase: round(took) for phase, took in start["phases"].items() if took >= 0.5} == EXPECTED[name]["phases"]
    assert start["caches"] == EXPECTED[name]["caches"]
    assert set(start["phases"]) <= set(PHASES)


OURS = [
    (10.0, "gb10.fleet: epoch 1: all 1 ranks get ready"),
    (12.0, "gb10.fleet: the model loads; that may take as long as something moves"),
    (40.0, "gb10.fleet: the model answers, 28.0 s after its start"),
    (41.0, "gb10.fleet: serving m at http://127.0.0.1:8000"),
]
SPENT = {"container": 2.0, "first answer": 28.0, "warm-up": 1.0}


def of(lines: list[tuple[float, str]], engine: str = "vllm") -> list[dict[str, Any]]:
    return [*starts(lines, rows(engine))]


def test_every_engine_has_rows_that_compile_and_name_known_phases() -> None:
    for engine in ENGINES:
        for row in rows(engine):
            assert re.compile(row["line"]).groups <= 1
            assert {row["of"], row.get("before", "other"), row.get("after", "other")} <= set(PHASES)
            assert row.get("caches") in (None, "warm", "cold")
    assert set(CAUSES) == set(PHASES)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], []),
        (OURS, [SPENT]),
        (OURS[1:], []),  # the journal begins in its middle
        (OURS[:3], []),  # it is on its way
        ([*OURS[:2], (30.0, "gb10.fleet: the epoch ends: its container ended with status 1"), *OURS[2:]], []),
        ([*OURS[:2], *((at + 20, text) for at, text in OURS)], [SPENT]),
        ([*OURS, *((at + 100, text) for at, text in OURS)], [SPENT, SPENT]),
    ],
)  # fmt: skip
def test_only_a_start_with_its_end_counts(lines: list[tuple[float, str]], expected: list[Any]) -> None:
    assert [start["phases"] for start in of(lines)] == expected


@pytest.mark.parametrize(
    "line",
    [
        "Loading weights took 99999999999999999999999999999999999999 seconds",
        "Loading weights took 1.2.3.4 seconds",
        "Loading weights took nan seconds",
        "Loading weights took -5 seconds",
        "Graph capturing finished in 0 secs, took 0 GiB",
        "\x1b[31mModel loading took 1 GiB and 3 seconds\x1b[0m",
        "Capture " + "a " * 20_000 + "cuda graph",
        "Compiling a graph for " * 2_000,
    ],
)
def test_no_line_of_an_engine_makes_more_or_less_time_than_the_clock(line: str) -> None:
    for engine in ENGINES:
        [start] = of([*OURS[:2], (20.0, line), (15.0, line), *OURS[2:]], engine)
        assert sum(start["phases"].values()) == pytest.approx(31.0, abs=0.3)
        assert start["seconds"] == 31.0


def test_a_clock_that_goes_back_loses_no_second() -> None:
    [start] = of([*OURS[:2], (30.0, "Loading weights took 5 seconds"), (11.0, "init engine (profile"), *OURS[2:]])
    assert start["phases"] == {"container": 2.0, "weights": 18.0, "first answer": 10.0, "warm-up": 1.0}


def test_what_an_engine_prints_divides_the_time_before() -> None:
    printed = [(20.0, "Model loading took 1 GiB and 3.0 seconds"), (38.0, "Dynamo bytecode transform time: 4 s")]
    [start] = of([*OURS[:2], *printed, *OURS[2:]])
    assert start["phases"] == {
        "container": 2.0, "program": 5.0, "weights": 3.0, "profiling": 14.0, "compilation": 4.0, "first answer": 2.0,
        "warm-up": 1.0,
    }  # fmt: skip


JOURNAL = """\
1764258000.000001 titan gb10-chat[77]: gb10.fleet: epoch 1: all 1 ranks get ready
-- Boot 0f3e --
1764258002.5 titan gb10-chat[77]: gb10.fleet: the model loads; that may take as long as something moves
1764258060.25 titan gb10-chat[77]: (EngineCore pid=17) INFO [core.py:402] Loading weights took 50.0 seconds
1764258062.5 titan gb10-chat[77]: gb10.fleet: the model answers, 60.0 s after its start
1764258063.0 titan gb10-chat[77]: gb10.fleet: serving chat at http://127.0.0.1:8000
"""


def test_a_journal_is_read_once_and_kept(tmp_path: Path) -> None:
    asked: list[list[str]] = []

    def run(words: list[str]) -> tuple[int, str, str]:
        asked.append(words)
        return 0, "\n".join(reversed(JOURNAL.splitlines())), ""  # as journalctl does with --grep and --lines

    kept = tmp_path / "x.json"
    first = read_starts(run, "gb10-chat.service", rows("vllm"), str(kept))
    assert first == [
        {
            "began": "2025-11-27T15:40:00+00:00",
            "caches": None,
            "seconds": 63.0,
            "phases": {"container": 2.5, "weights": 57.8, "first answer": 2.2, "warm-up": 0.5},
        }
    ]
    assert asked[0][:1] == ["journalctl"] and re.compile(asked[0][-1])
    old = {"began": "2025-11-20T15:40:00+00:00", "caches": "warm", "seconds": 9.0, "phases": {}}
    kept.write_text(json.dumps({"service": "chat", "image": "i", "model": "m", "starts": [old, *first]}))
    assert read_starts(run, "gb10-chat.service", rows("vllm"), str(kept)) == [old, *first]
    # what the journal has lost stays; a second run changes nothing
    assert read_starts(lambda _words: (1, "", ""), "gb10-chat.service", rows("vllm"), str(kept)) == [old, *first]
    require_observed(
        "start", {"service": "chat", "image": "i", "model": "a/b", "gb": 3.4, "loader": "lazy", "starts": [old, *first]}
    )


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"starts": 3}', '{"starts": [3, {"began": 7}]}', "[" * 50_000]
)
def test_what_a_host_kept_and_cannot_be_read_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    assert read_kept(str(tmp_path / "x.json")) == []


def test_long_lines_of_a_publishers_code_take_no_time() -> None:
    flood = "Compiling a graph for " * 2_000
    text = "".join(f"{1764258000 + number}.5 titan gb10-chat[77]: {flood}\n" for number in range(200))
    began = time.process_time()
    assert [*starts(journal_lines(text), rows("vllm"))] == []
    assert time.process_time() - began < 5


def start(seconds: float, caches: str | None = "warm", **phases: float) -> dict[str, Any]:
    return {"began": "2025-11-27T15:40:00+00:00", "caches": caches, "seconds": seconds, "phases": phases}


USUAL = [start(80, weights=40, compilation=20), start(90, weights=42, compilation=22), start(85, weights=41)]


@pytest.mark.parametrize(
    ("starts_", "phase"),
    [
        ([], None),
        ([start(900)], None),
        (USUAL, None),
        ([*USUAL, start(110, weights=70)], None),  # within half as long again
        ([start(2), start(2), start(20)], None),  # ten times as long, and nobody waits for it
        ([*USUAL, start(300, "cold", weights=41, compilation=230)], "compilation"),
        ([*USUAL, start(300, weights=250, compilation=20)], "weights"),
        ([*USUAL, start(300)], "other"),
        ([*USUAL, start(300, **{"first answer": 200.0, "somebody's": 9.0})], "first answer"),
    ],
)
def test_a_slow_start_is_named_by_its_phase_and_the_usual_cause(starts_: list[Any], phase: str | None) -> None:
    found = [*slow_start("chat", starts_)]
    assert [finding.rule for finding in found] == ([] if phase is None else ["start-slow"])
    if phase is not None:
        assert f"of them {phase}; the median of 3 before is 85" in found[0].found
        assert found[0].reason.endswith(CAUSES[phase])


def test_the_last_start_in_a_few_words() -> None:
    assert last_words([]) == ""
    last = start(83.4, "cold", weights=40.2, compilation=22.0, graphs=0.4, **{"\x1b[2J": 9.0})
    assert last_words([start(5), last]) == "started in 83 s, with cold caches: weights 40, compilation 22 s"


# The forecast --------------------------------------------------------------------------------------------------------


def without(row: dict[str, Any]) -> list[dict[str, Any]]:
    return [other for other in BOOTS if other is not row]


def test_published_starts_lie_within_what_the_others_forecast() -> None:
    """Each start by all others: docs/explanation/starts.md has these figures."""
    whole = [row for row in BOOTS if "seconds" in row]
    expected = [of_class(row["gb"], row["loader"], row["caches"], without(row)) for row in whole]
    inside = [one.low <= row["seconds"] <= one.high for one, row in zip(expected, whole, strict=True) if one]
    errors = [max(row["seconds"] / m, m / row["seconds"]) for one, row in zip(expected, whole, strict=True) if one
              for m in [math.sqrt(one.low * one.high)]]  # fmt: skip
    assert (sum(inside), len(inside)) == (11, 13)
    assert statistics.median(errors) == pytest.approx(1.31, abs=0.02)


@pytest.mark.parametrize(
    ("gb", "loader", "caches", "known"),
    [
        (19.0, "lazy", "cold", True),
        (80.0, "direct", "warm", True),
        (0.4, "lazy", "cold", False),  # far from all that were published
        (900.0, "lazy", "cold", False),
        (19.0, "direct", "tepid", False),
    ],
)
def test_a_start_like_no_published_one_is_not_forecast(gb: float, loader: str, caches: str, known: bool) -> None:
    found = of_class(gb, loader, caches)
    assert (found is not None) == known
    if found:
        assert 0 < found.low < found.high
        more = of_class(gb * 1.5, loader, caches)
        assert more and more.low > found.low and more.high > found.high


def test_lazy_loading_and_cold_caches_take_longer() -> None:
    for gb in (10.0, 40.0, 100.0):
        lazy, direct = (of_class(gb, loader, "warm") for loader in ("lazy", "direct"))
        cold = of_class(gb, "direct", "cold")
        assert lazy and direct and cold and lazy.high > direct.high and cold.low > direct.low


def record(*seconds: float, image: str = "i", model: str = "m") -> dict[str, Any]:
    starts_ = [start(took, weights=took / 2) for took in seconds]
    return {"service": "chat", "image": image, "model": model, "gb": 20.0, "loader": "lazy", "starts": starts_}


def test_what_a_hosts_disk_has_shown_narrows_the_forecast_of_another_model() -> None:
    records = {"k": record(100, 104), "x": record(90) | {"loader": "direct"}, "y": record(80) | {"gb": None}}
    own = seconds_a_gb(records, "lazy")
    assert own == [2.5, 2.6]
    assert seconds_a_gb(records | {"z": record() | {"starts": [start(80)]}}, None) == []
    class_, here = of_class(40.0, "lazy", "warm"), of_class(40.0, "lazy", "warm", own=own)
    assert class_ and here and here.high - here.low < class_.high - class_.low
    assert here.basis.startswith("by how this host has read weights, and ")
    once = of_class(40.0, "lazy", "warm", own=[2.5])
    assert once and once.high - once.low > here.high - here.low


UNSEEN = Expected(1, 2, "by its class")


@pytest.mark.parametrize(
    ("kept_", "low", "high", "basis"),
    [
        ({}, 1, 2, "by its class"),
        ({"titan": {"k": record(100, 80)}}, 64, 130, "by its last 2 on titan"),
        ({"titan": {"k": record()}}, 1, 2, "by its class"),
        ({"cedar": {"k": record(500, 80)}}, 300, 800, "by those of this image and model on cedar"),
        ({"cedar": {"k": record(500)}, "oak": {"x": record(5)}}, 300, 800, "by those of this image and model on cedar"),
        ({"titan": {"other": record(50)}}, 30, 80, "by those of this image and model on titan"),
        ({"cedar": {"k": record(500, image="j")}}, 1, 2, "by its class"),
        ({"cedar": {"k": record(500, model="n")}}, 1, 2, "by its class"),
    ],
)  # fmt: skip
def test_what_was_seen_comes_before_the_class(kept_: dict[str, Any], low: float, high: float, basis: str) -> None:
    found = forecast(kept_, "titan", "k", "i", "m", UNSEEN)
    assert found and (found.low, found.high, found.basis) == (pytest.approx(low), pytest.approx(high), basis)
