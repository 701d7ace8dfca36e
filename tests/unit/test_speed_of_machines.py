# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that is slower than it should be is found, though it was never faster; a healthy fleet is left alone."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.action import bench
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.canary import ROUNDS, night, night_points
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.expected import (
    judged,
    kept_record,
    records,
    share_lines,
    with_run,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.form import BETTER, GPU, run

POOL = {"context": 4096, "max_concurrency": 8.0}
CONDITIONS = {
    **{"driver": "580.1", "engine": "vllm", "flags": ["--a b"], "hosts": 1, "image": "sha256:1", "kernel": "6.17"},
    **{"model": "m", "release": "0.28.0", "variables": {}},
}
# A published machine in the low-power state, and the same one after its AC power was taken away.
SICK, WELL = 42.7, 73.9
SPEED: Any = {"alone": {"decode": 74.0, "low": 48.1, "high": 99.9, "limit": 96.0}, "together": None}


def measured(
    name: str, rate: float, seed: int, noise: float = 0.01, gpu: tuple[float, ...] = (), **under: Any
) -> dict[str, Any]:
    """A run whose single stream has that rate. noise: of each round, as a share. gpu: as `GPU`."""
    chance = random.Random(f"{name} {seed}")
    results = [
        {"point": point, "round": number, "shown": dict(zip(GPU, gpu, strict=False)), "raw": {}}
        | {
            "figures": {
                figure: (1000 / rate if not more else rate)
                * (1 + 0.4 * (point.at_once - 1))
                * math.exp(chance.gauss(0, noise))
                for figure, more in BETTER.items()
            }
        }
        for number in range(ROUNDS + 1)
        for point in night_points(POOL)
    ]
    return run(
        name, f"2026-11-{seed % 28 + 1:02}T03:00:00Z", {"name": name, "definition": "d"}, CONDITIONS | under, results
    )


def planned(*names: str, speed: Any = SPEED, **more: Any) -> Any:
    """A plan of services that serve the same, each on a machine of its own."""
    services = {
        name: {
            "hosts": [f"h{number}"],
            "boot": {"key": "k"},
            "flags": {},
            "speed": speed and {**speed, "own": None},
            **more,
        }
        for number, name in enumerate(names)
    }
    hosts = {host: {"gpu": {"clock_max_mhz": None}} for service in services.values() for host in service["hosts"]}
    return {"services": services, "hosts": hosts}


def kept(name: str, *rates: float, **more: Any) -> Any:
    """The record after a run of each rate."""
    record = None
    for seed, rate in enumerate(rates, 1):
        record = with_run(record, measured(name, rate, seed, **more))
    return record


EIGHT = tuple(f"s{number}" for number in range(8))


def fleet(day: int, slow: dict[str, float], before: dict[str, Any] | None = None, rate: float = WELL) -> dict[str, Any]:
    """The records after a night of eight like machines; each is a little faster or slower than the others, always
    alike. before: those of the night before."""
    own = {name: (1 + 0.02 * math.sin(number)) * rate for number, name in enumerate(EIGHT)} | slow
    return {name: with_run((before or {}).get(name), measured(name, own[name], day)) for name in EIGHT}


def test_a_machine_that_was_always_slow_is_found_without_any_other() -> None:
    sick = measured("chat", SICK, 1)
    assert night("titan", "chat", sick, measured("chat", SICK, 2), 5).findings == ()  # it is its own measure
    (one,) = judged(planned("chat"), {"chat": kept("chat", SICK, SICK)})
    assert one.severity == "warning" and "44 % of the memory's limit" in one.sentence()
    assert "below 1 GHz do as doctor.yml says" in one.remedy and "48.1 to 99.9" in one.expected
    assert judged(planned("chat"), {"chat": kept("chat", WELL, WELL)}) == []
    assert judged(planned("chat", speed=None), {"chat": kept("chat", SICK, SICK)}) == []


def test_a_machine_that_was_mended_is_left_alone() -> None:
    assert judged(planned("chat"), {"chat": kept("chat", SICK, SICK, WELL)}) == []
    assert len(kept("chat", SICK, SICK, WELL)["runs"]) == 2


@pytest.mark.parametrize(
    ("gpu", "hosts", "cause"),
    [
        ((799, 19.5, 50), 1, "799 MHz, 20 W, the low-power state"),
        ((2400, 80, 91), 1, "91 degrees"),
        ((1500, 60, 60), 1, "held back"),
        ((2400, 80, 60), 2, "rails first"),
        ((2400, 80, 60), 1, "another MoE or attention kernel"),
        ((), 1, "nvidia-smi -q -d CLOCK: below 1 GHz"),
    ],
)
def test_the_likely_cause_is_what_was_read_while_it_answered(gpu: Any, hosts: int, cause: str) -> None:
    plan = planned("chat", hosts=["titan", "spark-2"][:hosts])
    (one,) = judged(plan, {"chat": kept("chat", SICK, SICK, gpu=gpu)})
    assert cause in one.remedy and "-e service=chat" in one.remedy


RUNNING = (2400, 80, 60)


@pytest.mark.parametrize(
    ("rails", "cause"),
    [
        ({"titan": "", "spark-2": "spark-2 enp1s0f1np1: no carrier"}, "of its rails spark-2 enp1s0f1np1: no carrier"),
        ({"titan": "titan enp1s0f1np1: 100000 Mb/s", "spark-2": ""}, "100000 Mb/s: mend that first"),
        ({"titan": "", "spark-2": ""}, "another MoE or attention kernel"),  # the rails are well
        ({"titan": "titan enp1s0f1np1: no carrier"}, "rails first"),  # one end alone shows no cable
        ({}, "rails first"),
        (None, "rails first"),
    ],
)
def test_a_rail_that_fails_is_named(rails: Any, cause: str) -> None:
    plan = planned("chat", hosts=["titan", "spark-2"])
    (one,) = judged(plan, {"chat": kept("chat", SICK, SICK, gpu=RUNNING)}, rails)
    assert cause in one.remedy


def computing(plan: Any, kernels: dict[str, str | None], **flags: str) -> Any:
    """The plan, its services with the kernels that their starts chose."""
    for name, service in plan["services"].items():
        service["flags"] = {option.replace("_", "-"): value for option, value in flags.items()}
        if service["speed"] and name in kernels:
            service["speed"] = {**service["speed"], "own": {"kernels": kernels[name]}}
    return plan


@pytest.mark.parametrize(
    ("kernels", "flags", "cause"),
    [
        ("TRITON MoE", {"moe_backend": "marlin"}, "computes with TRITON MoE, and its flags name moe-backend: marlin"),
        ("MARLIN MoE", {"moe_backend": "marlin"}, "another MoE or attention kernel"),
        ("TRITON MoE, MARLIN MoE", {"moe_backend": "marlin"}, "another MoE or attention kernel"),  # a drafter's
        ("FLASHINFER_CUTLASS MoE", {"moe_backend": "flashinfer-cutlass"}, "another MoE or attention kernel"),
        ("TRITON_ATTN attention", {"attention_backend": "FLASHINFER"}, "name attention-backend: FLASHINFER"),
        ("TRITON_ATTN attention", {"moe_backend": "marlin"}, "another MoE or attention kernel"),  # it has no experts
        (None, {"moe_backend": "marlin"}, "another MoE or attention kernel"),
    ],
)
def test_a_kernel_that_is_not_the_wanted_one_is_named(kernels: Any, flags: dict[str, str], cause: str) -> None:
    plan = computing(planned("chat"), {"chat": kernels}, **flags)
    (one,) = judged(plan, {"chat": kept("chat", SICK, SICK, gpu=RUNNING)})
    assert cause in one.remedy


def test_a_kernel_that_the_twins_do_not_have_is_named() -> None:
    plan = computing(planned(*EIGHT), dict.fromkeys(EIGHT[1:], "MARLIN MoE") | {"s0": "TRITON MoE"})
    known = {name: kept(name, WELL, WELL, gpu=RUNNING) for name in EIGHT[1:]}
    found = judged(plan, known | {"s0": kept("s0", SICK, SICK, gpu=RUNNING)})
    (one,) = [one for one in found if one.rule == "bench-behind-twins"]
    assert "it computes with TRITON MoE, and s1 with MARLIN MoE" in one.remedy


def test_a_machine_that_is_kept_to_a_lower_clock_is_no_twin_and_not_held_back() -> None:
    """fleet_host.gpu.clock_max_mhz is kept with each record: who chose it knows why it is slower."""
    plan = {**planned("chat"), "hosts": {"h0": {"gpu": {"clock_max_mhz": 1500}}}}
    _file, text = kept_record(plan, "chat", kept("chat", SICK, SICK, gpu=(1500, 40, 60)))  # type: ignore[arg-type]
    record = json.loads(text)
    assert [run.get("clock_max_mhz") for run in record["runs"]] == [None, 1500]
    record["runs"][0]["clock_max_mhz"] = 1500
    (one,) = judged(planned("chat"), {"chat": record})
    assert "held back" not in one.remedy
    free = {name: kept(name, WELL, WELL) for name in EIGHT[1:]}
    capped = {"s0": {**record, "service": "s0"}, **free}
    assert not [one for one in judged(planned(*EIGHT, speed=None), capped) if one.rule == "bench-behind-twins"]


def test_a_noisy_minute_is_no_slow_machine() -> None:
    """However slow one run was: the run before it or after it was not."""
    for rates in ((SICK,), (WELL, SICK), (SICK, WELL)):
        assert judged(planned("chat"), {"chat": kept("chat", *rates)}) == []
        others = {name: kept(name, WELL, WELL) for name in EIGHT[1:]}
        assert judged(planned(*EIGHT), {"s0": kept("s0", *rates), **others}) == []
    record = kept("chat", 45.0, 45.0)
    record["runs"][0]["points"][0]["decode"][0] = 50.0
    assert judged(planned("chat"), {"chat": record}) == []


def test_one_of_eight_is_named_by_its_twins() -> None:
    for factor in (0.58, 0.85):
        slow = {"s3": factor * WELL}
        found = judged(planned(*EIGHT), fleet(2, slow, fleet(1, slow)))
        assert [(one.host, "s3" in one.sentence()) for one in found] == [("h3", True)]
        assert "7 that serve the same" in found[0].expected


def test_a_service_that_is_slow_everywhere_names_no_machine() -> None:
    assert judged(planned(*EIGHT), fleet(2, {}, fleet(1, {}, rate=SICK), rate=SICK)) == []


def test_another_launch_or_the_same_host_is_no_twin() -> None:
    known = {"a": kept("a", 0.8 * WELL, 0.8 * WELL), "b": kept("b", WELL, WELL)}
    plan = planned("a", "b", speed=None)
    assert len(judged(plan, known)) == 1
    plan["services"]["b"]["boot"] = {"key": "of another image"}
    assert judged(plan, known) == []
    plan = planned("a", "b", speed=None)
    plan["services"]["b"]["hosts"] = ["h0"]
    assert judged(plan, known) == []


def test_a_healthy_fleet_is_left_alone_for_a_hundred_days() -> None:
    """And one machine that turns slow on a day is named the night after it."""
    before: dict[str, Any] = {}
    for day in range(100):
        before = fleet(day, {}, before)
        assert judged(planned(*EIGHT), before) == [], day
    once = fleet(100, {"s5": SICK}, before)
    assert judged(planned(*EIGHT), once) == []
    assert [one.host for one in judged(planned(*EIGHT), fleet(101, {"s5": SICK}, once))] == ["h5"]


def test_a_benchmark_shows_the_share_of_the_limit() -> None:
    (line,) = share_lines(SPEED, kept("chat", WELL))
    assert "77 % of the memory's limit of 96; expected 74, 48.1 to 99.9" in line
    assert "doctor.yml" in share_lines(SPEED, kept("chat", SICK))[1]
    assert share_lines(None, kept("chat", WELL)) == []


def test_a_run_without_a_single_request_names_no_machine() -> None:
    found = measured("chat", SICK, 1)
    found["points"] = [point for point in found["points"] if point["at_once"] == 4]
    record = with_run(with_run(None, found), found)
    assert share_lines(SPEED, record) == [] and judged(planned("chat"), {"chat": record}) == []
    found["points"] = []
    assert with_run(None, found) is None


def test_two_runs_of_one_benchmark_are_both_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that is compared with itself: both of its runs judge the machine."""
    runs = [measured("chat", SICK, 1), measured("chat", SICK, 2)]
    monkeypatch.setattr(bench.of_plan, "finished_runs", lambda *_: runs)
    monkeypatch.setattr(bench, "_before", lambda _: None)
    monkeypatch.setattr(bench, "page", lambda *_: "")
    monkeypatch.setattr(bench, "show", lambda _: None)
    (tmp_path / "bench").mkdir()
    plan = planned("chat")
    plan["services"]["chat"]["measured"] = []
    bench._kept({"folder": str(tmp_path / "bench"), "plan": plan, "share": ""})
    (record,) = (json.loads(path.read_text("utf-8")) for path in tmp_path.glob("speeds/h0/*.json"))
    assert len(record["runs"]) == 2 and len(judged(planned("chat"), {"chat": record})) == 1


def test_a_plan_brings_its_records() -> None:
    plan = planned("a", "b")
    plan["services"]["a"]["speed"]["own"] = {"record": kept("a", SICK, SICK), "kernels": None}
    assert [*records(plan)] == ["a"] and len(judged(plan, records(plan))) == 1
