# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pool and concurrency are two decisions: what a service asks at once, and the memory that it gets for it.

Owners measured 256 users on a pool that holds two requests of full length.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES, fact
from ansible_collections.gb10.fleet.plugins.module_utils._base.sizes import GIB, gib, is_bytes, quantity
from ansible_collections.gb10.fleet.plugins.module_utils._engines.memory.budget import plan_host, plan_hosts
from ansible_collections.gb10.fleet.plugins.module_utils._engines.memory.estimate import Calibration, Demand
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from hypothesis import given
from hypothesis import strategies as st

LIBRARY, OF_RECIPES = load_all([Path(__file__).parents[1] / "data" / "recipes", SHIPPED_RECIPES])
TOTAL = fact("hardware", "memory_total_kib") * 1024
FLOOR = gib(fact("memory", "floor_gib"))


def service(name: str, weights: float, least: float, start: float = 0.1, **changes: Any) -> Demand:
    """A service of so many GiB of weights, whose workload needs ``least`` GiB, and ``start`` for one request."""
    return Demand(
        service=name,
        requested=lambda total, share: math.ceil(total * share),
        **{"ranks": 1, "enforce_eager": True, "max_num_seqs": 1, "max_num_batched_tokens": 2048, "vocab_size": 0}
        | {"weights_bytes": gib(weights), "calibration": None, "kv_bytes": gib(least), "kv_start": gib(start)}
        | changes,
    )


def sizes(*demands: Demand) -> dict[str, int | None]:
    """Each service's pool, rounded to GiB."""
    shares = plan_host("titan", TOTAL, demands).shares
    return {name: round((share.kv_cache_memory_bytes or 0) / GIB) for name, share in shares.items()}


REST = {"takes_rest": True}
BLIND = {"weights_bytes": None}


@pytest.mark.parametrize(
    ("demands", "expected"),
    [
        pytest.param([service("a", 20, 10)], {"a": 10}, id="unsaid, and it fits: the least"),
        pytest.param([service("a", 20, 400)], {"a": 81}, id="unsaid, and it does not: up to 0.85 of the memory"),
        pytest.param([service("a", 20, 10, **REST)], {"a": 81}, id="the rest"),
        pytest.param([service("a", 20, 400, kv_cache_memory_bytes=gib(7))], {"a": 7}, id="as declared"),
        pytest.param(
            [service("a", 20, 400, ranks=2, limits=(0.5, 0.5))], {"a": 49}, id="what a recipe is known to bear"
        ),
        pytest.param([service("a", 20, 10), service("b", 20, 10)], {"a": 10, "b": 10}, id="both fit"),
        pytest.param([service("a", 20, 400), service("b", 20, 400)], {"a": 29, "b": 29}, id="neither: shared"),
        pytest.param([service("a", 20, 4), service("b", 20, 400)], {"a": 4, "b": 53}, id="one needs little"),
        pytest.param([service("a", 20, 4), service("b", 20, 4, **REST)], {"a": 4, "b": 53}, id="least beside the rest"),
        pytest.param(
            [service("a", 20, 4, **REST, pool_weight=2), service("b", 20, 4, **REST)],
            {"a": 38, "b": 19},
            id="by declared weight",
        ),
        pytest.param(
            [service("a", 20, 400, 40), service("b", 20, 400)],
            {"a": 40, "b": 17},
            id="one request of full length first",
        ),
        pytest.param([service("a", 20, 400), service("b", 20, 9, **BLIND)], {"a": 81, "b": 0}, id="beside one unsized"),
        pytest.param(
            [service("a", 20, 400), service("b", 20, 9, utilization=0.5)], {"a": 20, "b": 0}, id="beside a utilization"
        ),
    ],
)
def test_who_gets_which_pool(demands: list[Demand], expected: dict[str, int]) -> None:
    assert sizes(*demands) == sizes(*demands[::-1]) == expected


def test_a_service_of_unknown_size_leaves_the_floor() -> None:
    """It gets all that is free; what has to stay free is not, also beside one whose own boot left little open."""
    measured = Calibration(gib(40), gib(42), None, gib(0.1), "a boot")
    for others in ([], [service("a", 40, 10)], [service("a", 40, 10, calibration=measured)]):
        budget = plan_host("titan", TOTAL, [*others, service("b", 20, 9, **BLIND)])
        assert budget.left.expected >= FLOOR


def test_a_host_is_tight_where_its_worst_case_is_missing() -> None:
    """More than the floor is expected to be left, and nothing is where all takes the most."""
    found: dict[tuple[bool, bool], set[str]] = {}
    for weights in range(20, 60):
        budget = plan_host("titan", TOTAL, [service("a", weights, 2), service("b", weights, 2)])
        state = (budget.left.expected >= FLOOR, budget.left.low >= 0)
        found.setdefault(state, set()).update(
            one.rule for one in budget.findings if one.rule in ("memory-tight", "memory-does-not-fit")
        )
    assert found[True, True] == set()
    assert found[True, False] == {"memory-tight"}
    assert found[False, False] == {"memory-tight", "memory-does-not-fit"}


DEMANDS = st.builds(
    service,
    name=st.sampled_from("abc"),
    weights=st.floats(0.1, 120),
    least=st.floats(2, 400),
    start=st.floats(0.1, 2),
    takes_rest=st.booleans(),
    pool_weight=st.integers(1, 9),
    kv_cache_memory_bytes=st.none() | st.integers(1, 60 * GIB),
)


@given(st.lists(DEMANDS, min_size=1, max_size=3, unique_by=lambda one: one.service))
def test_what_is_shared_out_leaves_the_floor(demands: list[Demand]) -> None:
    """No pool is below one request; where one is more than that, or would be more with the rest, the floor is left."""
    budget = plan_host("titan", TOTAL, demands)
    for demand in demands:
        share = budget.shares[demand.service]
        pool = share.kv_cache_memory_bytes or 0
        if demand.kv_cache_memory_bytes is not None:
            assert pool == demand.kv_cache_memory_bytes
            continue
        assert demand.kv_start is not None
        assert demand.kv_bytes is not None
        assert pool >= demand.kv_start
        assert pool <= demand.kv_bytes or demand.takes_rest
        if pool > demand.kv_start:
            assert budget.left.expected >= FLOOR
        if share.with_rest is not None and share.with_rest > pool:
            assert budget.left.expected - (share.with_rest - pool) >= FLOOR


def test_the_ranks_of_a_group_have_one_pool() -> None:
    group = service("group", 80, 400, ranks=2, **REST)
    totals = {"one": TOTAL, "two": TOTAL}
    alone = plan_hosts(totals, {"one": [group], "two": [group]})
    shared = plan_hosts(totals, {"one": [group], "two": [group, service("b", 40, 400, **REST)]})
    pools = [budget.shares["group"].kv_cache_memory_bytes for budget in (*alone.values(), *shared.values())]
    assert pools[0] == pools[1] > pools[2] == pools[3] > 0  # type: ignore[operator]


@pytest.mark.parametrize(
    ("written", "number", "in_bytes"),
    [
        (170000, 170_000, False),
        ("170k", 170_000, False),
        ("64K", 65_536, False),
        ("1M", 1_048_576, False),
        ("25.6k", 25_600, False),
        ("20GiB", 20 * GIB, True),
        ("1.5 GiB", 3 * GIB // 2, True),
        ("512MiB", GIB // 2, True),
        ("20GB", None, False),
        ("170000", None, False),
        ("k", None, False),
        ("", None, False),
        ("rest", None, False),
        (True, None, False),
        (0.5, None, False),
        ("9" * 400 + "k", None, False),
    ],
)
def test_a_number_with_a_unit(written: object, number: int | None, in_bytes: bool) -> None:
    """As vLLM's own command line reads them, and bytes by their unit."""
    assert (quantity(written), is_bytes(written)) == (number, in_bytes)


QWEN, VL, CODER = "qwen3.6-35b-a3b-nvfp4", "qwen3-vl-235b-a22b-instruct-awq", "qwen3-coder-next-fp8"


def plan(recipe: str, workload: dict[str, Any], **more: Any) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """``services.s``, and (severity, rule) of what is found about memory."""
    hosts = ["spark-2", "spark-3"] if recipe == VL else ["titan"]
    written = {"recipe": recipe, "hosts": hosts, "port": 8000, "workload": workload, **more}
    variables = {
        "fleet_services": {"s": written},
        "fleet_fabric": {"pool": "192.168.100.0/22", "cables": [["spark-2:1", "spark-3:1"]]},
    }
    if recipe != VL:
        del variables["fleet_fabric"]
    inventory = {name: {"address": f"{name}.lan", "variables": variables} for name in hosts}
    found = plan_fleet({"hosts": inventory, "folder": "/inventory"}, LIBRARY, OF_RECIPES)
    rows = [
        (row["severity"], row["rule"]) for row in found["findings"] if row["kind"] == "memory" or "sch" in row["rule"]
    ]
    return found["services"].get("s", {}), [row for row in rows if row[0] != "hint"]


SMALL = [("warning", "memory-pool-small")]
# By our arithmetic, and by the sentence with which vLLM ends.
BELOW = [("error", "R103"), ("error", "kv-fit")]
TIGHT = [("warning", "R087"), ("warning", "R095"), ("warning", "memory-tight")]
LONG = {"max_model_len": "170k", "max_num_seqs": 4}


@pytest.mark.parametrize(
    ("recipe", "workload", "more", "at_once", "found"),
    [
        pytest.param(QWEN, {"max_model_len": "64K", "max_num_seqs": 4}, {}, (4, 5), [], id="the least, unsaid"),
        pytest.param(
            QWEN, {"max_model_len": "64K", "max_num_seqs": 4, "pool": "rest"}, {}, (50, 90), [], id="the rest"
        ),
        pytest.param(QWEN, {"max_model_len": "64K", "pool": "10GiB"}, {}, (9, 10), [], id="in GiB"),
        pytest.param(
            QWEN, {"max_model_len": "64K", "pool": "655360"}, {}, None, [("error", "schema-choice")], id="text"
        ),
        pytest.param(QWEN, {"max_model_len": "64K", "pool": 655360}, {}, (10, 10.1), [], id="in tokens"),
        pytest.param(QWEN, {"max_model_len": "64K", "pool": "640K"}, {}, (10, 10.1), [], id="in thousands of tokens"),
        pytest.param(QWEN, {"max_model_len": 16384, "max_num_seqs": 200}, {}, (100, 199), SMALL, id="200-users-of-16k"),
        pytest.param(
            QWEN, {"max_model_len": 16384, "max_num_seqs": 200, "pool": "rest"}, {}, (100, 199), [], id="declared so"
        ),
        pytest.param(
            QWEN,
            {"max_model_len": 65536, "max_num_seqs": 200},
            {"flags": {"gpu-memory-utilization": 0.75}},
            (50, 80),
            SMALL,
            id="200-users-of-64k-at-0.75",
        ),
        pytest.param("gemma-4-31b-it-nvfp4", {"max_num_seqs": 16}, {}, (4, 5), SMALL, id="gemma-31b-16-users"),
        pytest.param(
            "gemma-4-31b-at-0.19",
            {"max_num_seqs": 16},
            {},
            (6, 8),
            [("warning", "kv-dtype-unknown"), *SMALL],
            id="gemma-31b-16-users as it was: the cache's type is left to vLLM",
        ),
        pytest.param(VL, {"max_num_seqs": 256}, {}, (1.8, 3), SMALL, id="vl-235b-256-users"),
        pytest.param(CODER, LONG, {}, (4, 4.1), [], id="coder-next-4-of-170000: as its owner ran it"),
        pytest.param(CODER, {**LONG, "pool": "rest"}, {}, (4, 5), [], id="coder-next-4-of-170000, with the rest"),
        pytest.param(
            CODER, {**LONG, "max_num_seqs": 6, "pool": "least"}, {}, (6, 6.1), TIGHT, id="more than a host bears"
        ),
        pytest.param(QWEN, {"pool": "1MiB"}, {}, (0, 0.1), BELOW, id="below one request of full length"),
        pytest.param(
            QWEN,
            {"pool": "1GiB"},
            {"flags": {"kv-cache-memory-bytes": "2GiB"}},
            None,
            [],
            id="in two places (input-declared-twice)",
        ),
    ],
)
def test_what_a_workload_comes_to(
    recipe: str,
    workload: dict[str, Any],
    more: dict[str, Any],
    at_once: tuple[float, float] | None,
    found: list[tuple[str, str]],
) -> None:
    planned, rows = plan(recipe, workload, **more)
    assert rows == found
    if at_once is None:
        assert not planned or planned["kv"]["tokens"] is None
    else:
        assert at_once[0] <= planned["kv"]["max_concurrency"] <= at_once[1]


def test_idle_memory_is_named() -> None:
    """4.2 GiB of pool beside 82.6 GiB that nobody used."""
    least, _ = plan(QWEN, {"max_model_len": "64K", "max_num_seqs": 4})
    rest, _ = plan(QWEN, {"max_model_len": "64K", "max_num_seqs": 4, "pool": "rest"})
    assert least["kv"]["with_rest"] == {key: rest["kv"][key] for key in ("bytes", "max_concurrency")}
    assert rest["kv"]["with_rest"] is None
