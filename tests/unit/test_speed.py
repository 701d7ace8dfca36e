# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the forecast of speed is off, on families that its constants know nothing of."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.plan import Speed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.speed import forecast as speed

ROOT = Path(__file__).resolve().parents[2]


def _tool() -> Any:
    spec = importlib.util.spec_from_file_location("forecast_tool", ROOT / "tools" / "forecast.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["forecast_tool"] = module
    spec.loader.exec_module(module)
    return module


TOOL = _tool()
ROWS = TOOL.read(TOOL.ROWS, TOOL.ROWS)


@pytest.fixture(scope="module")
def found() -> list[Any]:
    """Each row by constants that are fitted without its family."""
    judged: list[Any] = TOOL.without_its_family(ROWS)
    return judged


def test_a_family_that_no_constant_knows_is_forecast(found: list[Any]) -> None:
    clear = [one for one in found if one.row.decode and not one.row.doubtful]
    errors = [abs(one.forecast["decode"] / one.row.decode - 1) for one in clear]
    assert len(clear) > 200
    assert statistics.median(errors) <= 0.10
    assert sum(error <= 0.2 for error in errors) >= 0.8 * len(errors)
    assert sum(one.forecast["low"] <= one.row.decode <= one.forecast["high"] for one in clear) >= 0.9 * len(clear)


def test_the_interval_of_one_host_is_narrow(found: list[Any]) -> None:
    for one in found:
        if one.row.setup.hosts == 1 and one.row.setup.known and not one.forecast["assumed"]:
            low, high = one.forecast["low"] / one.forecast["decode"], one.forecast["high"] / one.forecast["decode"]
            assert low >= 0.65 - 1e-9 and high <= 1.35 + 1e-9, one.row.id


def test_the_first_token_lies_in_its_interval(found: list[Any]) -> None:
    prompts = [one for one in found if one.row.first and not one.row.first_doubtful]
    inside = sum(one.forecast["ttft_low"] <= one.row.first <= one.forecast["ttft_high"] for one in prompts)
    assert inside >= 0.85 * len(prompts) > 60
    for one in prompts:  # nobody may promise it better
        assert (
            one.forecast["ttft_low"] <= 0.5 * one.forecast["ttft_s"]
            and one.forecast["ttft_high"] >= 1.7 * one.forecast["ttft_s"]
        )


def test_two_points_of_a_service_forecast_its_others(found: list[Any]) -> None:
    errors = TOOL.after_two_points(found)
    assert statistics.median(map(abs, errors)) <= 0.04 and len(errors) > 100


def test_the_constants_are_those_of_their_rows() -> None:
    of = speed.constants()
    again = TOOL.fit(ROWS, of)
    assert {name: round(again[name] / of[name], 2) for name in of} == dict.fromkeys(of, 1.0)


def test_a_forecast_is_printed_for_whatever_a_row_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = {"id": "a", "geometry": "qwen2.5-7b", "scheme": "fp8", "engine": "vllm", "conc": 1, "prompt": 2048}
    values: list[Any] = [None, -1, 0, 1e300, float("nan"), "?", [], [1], {}, {"k": []}, True]
    odd: list[Any] = [
        *(
            {**whole, "id": f"{key} {value}", key: value}
            for key in (*whole, "spec", "kv", "hosts", "tp", "pp", "depth")
            for value in values
        ),
        {},
        None,
        {"id": "unknown", "model": "Some-70B-A5B", "engine": "new", "scheme": "int3", "hosts": 4},
        {"id": "drafts", **{**whole, "id": "drafts"}, "spec": {"method": "mtp", "k": 3}},
    ]
    rows, models = tmp_path / "rows.yml", tmp_path / "models.yml"
    rows.write_text(yaml.safe_dump([whole, *odd]), "utf-8")
    models.write_text(yaml.safe_dump(yaml.safe_load(TOOL.ROWS.read_text("utf-8"))["models"]), "utf-8")
    assert TOOL.main([str(rows), str(models)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {"a", "unknown", "drafts", "row 2"} <= {*printed, "row 2"}
    for name, row in printed.items():
        assert [*row] == ["decode", "low", "high", "ttft_s", "ttft_low", "ttft_high"], name
        assert 0 < row["low"] <= row["decode"] <= row["high"] and 0 < row["ttft_low"] <= row["ttft_high"], name
    widths = {name: printed[name]["high"] / printed[name]["low"] for name in ("a", "drafts", "unknown")}
    assert widths["a"] < widths["drafts"] and widths["a"] < widths["unknown"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"conc": "4", "prompt": " 8192 "}, {"conc": 4, "prompt": 8192}),
        ({"prompt": "8k"}, {"prompt": 8192}),
        ({"prompt": "16,384"}, {"prompt": 16384}),
        ({"hosts": "2", "tp": 2.0}, {"hosts": 2, "tp": 2}),
        ({"kv": "fp8_e4m3"}, {"kv": "fp8"}),
        ({"kv": "Q8_0"}, {"kv": "q8_0"}),
        ({"engine": "vLLM"}, {"engine": "vllm"}),
        ({"engine": "llama-cpp"}, {"engine": "llama.cpp"}),
        ({"engine": "TensorRT-LLM"}, {"engine": "trt-llm"}),
        ({"scheme": " FP8 "}, {"scheme": "fp8"}),
        ({"eager": "true"}, {"eager": True}),
        ({"spec": {"method": "MTP", "k": "3"}}, {"spec": {"method": "mtp", "k": 3}}),
        ({"spec": "mtp-2"}, {"spec": {"method": "mtp", "k": 2}}),
        ({"spec": {"method": "qwen3_next_mtp", "num_speculative_tokens": 2}}, {"spec": {"method": "mtp", "k": 2}}),
        ({"spec": "eagle3"}, {"spec": {"method": "eagle3", "k": 3}}),
        ({"engine": "vLLM 0.26.0"}, {"engine": "vllm"}),
        ({"engine": "llama.cpp b9071"}, {"engine": "llama.cpp"}),
        ({"engine": "ik_llama.cpp"}, {"engine": "llama.cpp"}),
        ({"scheme": "fp8-block"}, {"scheme": "fp8"}),
        ({"scheme": "w8a8"}, {"scheme": "fp8"}),
        ({"scheme": "AWQ"}, {"scheme": "int4"}),
        ({"scheme": "gptq-int4"}, {"scheme": "int4"}),
        ({"scheme": "bfloat16"}, {"scheme": "bf16"}),
        ({"scheme": "nvfp4_mix"}, {"scheme": "nvfp4-mix"}),
        ({"scheme": "UD-Q4_K_XL"}, {"scheme": "gguf-q4km"}),
        ({"scheme": "Q8_0"}, {"scheme": "gguf-q8"}),
        ({"eager": "yes"}, {"eager": True}),
        ({"kv": 1}, {"kv": "fp8"}),
        ({"kv": "e5m2"}, {"kv": "fp8"}),
        ({"clock": "2.2 GHz"}, {"clock": "2200 MHz"}),
    ],
)
def test_a_row_in_other_words_is_the_same_row(written: dict[str, Any], meant: dict[str, Any]) -> None:
    models = yaml.safe_load(TOOL.ROWS.read_text("utf-8"))["models"]
    whole = {"geometry": "qwen2.5-7b", "scheme": "fp8", "engine": "vllm", "conc": 1, "prompt": 2048}
    first, second = (TOOL.figures_of(TOOL._row({**whole, **row}, models, 0)) for row in (written, meant))
    assert first == second


def test_rows_by_id_and_rows_of_one_id_are_all_read(tmp_path: Path) -> None:
    file, row = tmp_path / "rows.yml", {"geometry": "qwen2.5-7b", "scheme": "fp8", "engine": "vllm"}
    file.write_text(yaml.safe_dump({"a": row, "b": row}), "utf-8")
    assert [one.id for one in TOOL.read(file, TOOL.ROWS)] == ["a", "b"]
    file.write_text(yaml.safe_dump([{**row, "id": 7}, {**row, "id": None}]), "utf-8")
    assert [one.id for one in TOOL.read(file, TOOL.ROWS)] == ["7", "row 2"]
    file.write_text("", "utf-8")
    assert TOOL.read(file, TOOL.ROWS) == []


SHAPE = speed.Shape(
    48, 2048, speed.Part(1e9, 1), speed.Part(), speed.Part(29e9, 0.5625), speed.Part(0.3e9, 2), 128, 8,
    (speed.Cache(48, 1024),), queries=4096,
)  # fmt: skip


def _decode(setup: speed.Setup | None = None, **load: int) -> Speed:
    return speed.forecast(SHAPE, setup or speed.Setup(), speed.Load(**load))


def test_what_costs_time_shows() -> None:
    one = _decode()
    assert one["decode"] < one["limit"] and one["bound"] == "weights"
    assert _decode(depth=60_000)["decode"] < one["decode"]
    many = _decode(requests=16)
    assert many["decode"] < one["decode"] < many["total"] and many["ttft_s"] == pytest.approx(8.5 * one["ttft_s"])
    two = _decode(speed.Setup(tensor=2))
    assert two["decode"] < one["decode"] and two["limit"] == pytest.approx(2 * one["limit"])  # too small to divide
    large = dataclasses.replace(SHAPE, layers=80, dense=speed.Part(70e9, 1))
    alone, shared = (speed.forecast(large, speed.Setup(tensor=n), speed.Load())["decode"] for n in (1, 2))
    assert 1.2 * alone < shared < 2 * alone
    assert _decode(speed.Setup(eager=True))["decode"] < 0.7 * one["decode"]


def test_drafts_pay_from_an_acceptance_on() -> None:
    def rate(accepted: float) -> float:
        return _decode(speed.Setup(drafts=speed.Drafts("mtp", 3, accepted)))["decode"]

    alone = _decode()["decode"]
    assert rate(1.0) < alone < rate(3.0)
    pays = alone / rate(1.0)
    assert rate(pays) == pytest.approx(alone)
    assert _decode(speed.Setup(drafts=speed.Drafts("mtp", 3)))["assumed"]
