# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why is it slow? One sentence with its number, from what hosts, engine and gateway show."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.why import why
from drift_fleet import planned, state_of
from unit.test_status import rank, shown

PAIR = {"pair": {"recipe": "lab-tiny", "hosts": ["spark-2", "spark-3"], "port": 8000}}
PLAN = planned(fleet_services=PAIR)
SPEED = {
    "alone": {"total": 74.0, "accepted": 1.0, "low": 60.0, "decode": 74.0, "assumed": False, "ttft_s": 0.5},
    "together": {"requests": 16, "total": 540.0, "low": 430.0, "decode": 540.0},
    **{"own": None, "full_s": 0.2, "prompt": 2048, "pays": None},
}
PLAN["services"]["pair"]["speed"] = SPEED
WELL = {"use_percent": 96.0, "clock_mhz": 2400.0, "power_w": 50.0, "heat_c": 64.0}
SERVER = {"up": True, "status": "UP", "running": 8, "waiting": 0}
Seen = dict[str, Any]


def seen() -> Seen:
    """Two ranks under load, that do what is expected of them."""
    busy = {"running": 4, "waiting": 0, "kv_use": 0.5, "tokens_per_s": 34.0}
    states = {host: copy.deepcopy(state_of(PLAN, host)) for host in ("spark-2", "spark-3")}
    for state in states.values():
        state["gpu"]["figures"] = dict(WELL)
    return {
        "plan": copy.deepcopy(PLAN),
        "ranks": {"spark-2": [shown(rank(**busy))], "spark-3": [shown(rank(1))]},
        "states": states,
        "gateways": {},
        "counts": [{"prompted": 1000.0, "answered": 1000.0}, {"prompted": 1100.0, "answered": 1680.0}],
    }


def of_head(**changes: Any) -> Callable[[Seen], None]:
    return lambda found: found["ranks"]["spark-2"][0]["supervisor"].update(changes)


def gpu(host: str, **figures: float) -> Callable[[Seen], None]:
    return lambda found: found["states"][host]["gpu"]["figures"].update(figures)


def cable(found: Seen) -> None:
    links = found["states"]["spark-3"]["fabric"]["links"]
    links["enp1s0f1np1"]["speed_mbps"] = 10_000


def loads(found: Seen) -> None:
    found["ranks"]["spark-3"] = [shown(rank(1, state="loading"))]


def silent(found: Seen) -> None:
    del found["ranks"]["spark-3"], found["states"]["spark-3"]


def at_gateway(found: Seen) -> None:
    found["plan"]["hosts"]["titan"]["gateway"] = {"servers": {"pair": {"pair": "spark-2"}}}
    total = {**SERVER, "running": 20, "waiting": 12}
    found["gateways"] = {"titan": {"servers": {"pair": {"pair": SERVER, "BACKEND": total}}}}


def prompts(found: Seen) -> None:
    found["counts"] = [{"prompted": 0.0, "answered": 0.0}, {"prompted": 600_000.0, "answered": 640.0}]


def alone(found: Seen) -> None:
    for host in ("spark-2", "spark-3"):
        found["states"][host]["gpu"]["figures"]["use_percent"] = 0.0
    of_head(running=0, tokens_per_s=0.0, kv_use=0.0)(found)


def unknown(found: Seen) -> None:
    found["plan"]["services"]["pair"]["speed"] = None


@pytest.mark.parametrize(
    ("change", "rule", "words"),
    [
        (lambda _found: None, "why-as-expected", "34.0 tokens a second for 4 requests, 8.5 for each"),
        (loads, "why-not-serving", "rank 1 on spark-3 is loading"),
        (silent, "why-not-serving", "rank 1 on spark-3 is not read"),
        (gpu("spark-3", heat_c=93.0), "gpu-hot", "93 degrees"),
        (gpu("spark-3", clock_mhz=702.0), "gpu-slow", "702 MHz"),
        (gpu("spark-3", clock_mhz=1900.0), "why-rank", "1900 MHz, while spark-2 has 2400 MHz"),
        (cable, "fabric-", "10000 Mb/s"),
        (at_gateway, "why-gateway", "12 requests wait at the gateway on titan, while 8 are answered"),
        (of_head(waiting=7, kv_use=0.97), "why-pool", "7 requests wait for room in the KV pool, which is 97% full"),
        (of_head(waiting=3), "why-waits", "3 requests wait in the engine, while 4 are answered"),
        (prompts, "why-prompts", "of its time goes to prompts: 600,000 tokens of prompts for 640 tokens of answers"),
        (of_head(tokens_per_s=11.0), "why-below", "11.0 tokens a second for 4 requests; expected about 33"),
        (unknown, "why-rate", "no forecast to compare with"),
        (alone, "why-idle", "no request runs or waits"),
    ],
)
def test_the_first_sentence_names_the_cause_and_its_number(
    change: Callable[[Seen], None], rule: str, words: str
) -> None:
    found = seen()
    change(found)
    first = why(found.pop("plan"), "pair", **found).splitlines()[0]
    assert words in first and f"[{rule}" in first, first


def test_the_worst_is_first_and_the_rest_follows() -> None:
    found = seen()
    for change in (at_gateway, gpu("spark-3", heat_c=93.0), of_head(waiting=7, kv_use=0.97)):
        change(found)
    lines = why(found.pop("plan"), "pair", **found).splitlines()
    assert [line.rpartition("[")[2] for line in lines] == [
        *("gpu-hot]", "why-gateway]", "why-pool]", "why-as-expected]")
    ]


def worn(found: Seen) -> None:
    for state in found["states"].values():
        state["drives"]["nvme0"]["used"] = 97


@pytest.mark.parametrize(
    ("change", "rule"), [(at_gateway, "why-gateway"), (alone, "why-idle"), (lambda _found: None, "why-as-expected")]
)
def test_an_illness_that_slows_nothing_is_no_cause(change: Callable[[Seen], None], rule: str) -> None:
    """A worn drive stood before the queue."""
    found = seen()
    worn(found)
    change(found)
    first, *others = why(found.pop("plan"), "pair", **found).splitlines()
    assert f"[{rule}" in first and any("[drive-worn" in other for other in others)


def test_cables_of_others_are_no_cause_of_a_service_on_one_host() -> None:
    found = seen()
    cable(found)
    found["plan"]["services"]["pair"]["hosts"] = ["spark-3"]
    found["ranks"] = {"spark-3": [shown(rank(running=4, waiting=0, kv_use=0.5, tokens_per_s=34.0))]}
    assert "[fabric-" not in why(found.pop("plan"), "pair", **found)


@pytest.mark.parametrize(
    "counts", [[], [None, None], [{"prompted": 5.0, "answered": 5.0}], [{"prompted": 9.0, "answered": 9.0}] * 2,
               [{"prompted": 9e9, "answered": 9e9}, {"prompted": 0.0, "answered": 0.0}]],
)  # fmt: skip
def test_without_counts_or_after_a_restart_nothing_is_made_up(counts: Any) -> None:
    found = seen() | {"counts": counts}
    assert "why-as-expected" in why(found.pop("plan"), "pair", **found)


def test_what_nobody_could_read_is_named_and_ends_nothing() -> None:
    found = seen() | {"ranks": {}, "states": {}, "gateways": {"titan": None}, "counts": []}
    text = why(found.pop("plan"), "pair", **found)
    assert "rank 0 on spark-2 is not read" in text and "rank 1 on spark-3 is not read" in text
