# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel keeps for itself (vm.min_free_kbytes) is no memory of a service."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet

LIBRARY, _ = load_all([SHIPPED_RECIPES])


def planned(kept: str | None, **service: Any) -> dict[str, Any]:
    pair = {"recipe": "minimax-m2.7-nvfp4", "hosts": ["spark-2", "spark-3"], "port": 8000, "trust": ["code"], **service}
    tuned = {"fleet_host": {"host_tuning": {"sysctl": {"vm.min_free_kbytes": kept}}}} if kept else {}
    cables = {"cables": [["spark-2:1", "spark-3:1"]]}
    variables = {"fleet_services": {"chat": pair}, "fleet_fabric": cables, **tuned}
    hosts = {
        host: {"address": f"10.0.0.{at}", "port": 22, "variables": variables}
        for at, host in enumerate(pair["hosts"], 1)
    }
    return plan_fleet({"hosts": hosts, "folder": "."}, LIBRARY)


def line(plan: dict[str, Any], name: str, host: str = "spark-3") -> int:
    return int(plan["hosts"][host]["memory"]["chat"][name]["expected"])


@pytest.mark.parametrize("host", ["spark-2", "spark-3"])
def test_so_much_less_is_left(host: str) -> None:
    """An engine found 6.2 GiB less available, and did not start (tonyd2wild/GLM-5.3-Flash-NVFP4-DFlash2, PR 19)."""
    without, with_it = planned(None), planned("6291456")
    free = [line(plan, "left", host) + line(plan, "kv_pool", host) for plan in (without, with_it)]
    assert free[0] - free[1] == 6 << 30
    assert line(with_it, "kept_free", host) == 6 << 30
    assert line(without, "reserve", host) == line(with_it, "reserve", host)
    assert "kept_free" not in without["hosts"][host]["memory"]["chat"]


def test_a_pool_of_the_rest_is_smaller_by_as_much() -> None:
    """Below the share that two hosts bear, which limits the pool where more is free."""
    rest = {"workload": {"pool": "rest"}}
    pools = [line(planned(kept, **rest), "kv_pool") for kept in ("6291456", "10485760")]
    assert pools[0] - pools[1] == pytest.approx(4 << 30, rel=0.01)


def test_a_small_service_keeps_its_pool() -> None:
    plans = [planned(kept, workload={"max_num_seqs": 1, "max_model_len": 32768}) for kept in (None, "6291456")]
    assert line(plans[0], "kv_pool") == line(plans[1], "kv_pool")
    assert line(plans[0], "left") - line(plans[1], "left") == 6 << 30


def test_the_hosts_lines_still_make_up_its_memory() -> None:
    lines = planned("6291456")["hosts"]["spark-3"]["memory"]["chat"]
    sums = sum(value["expected"] for value in lines.values() if isinstance(value, dict))
    assert sums == pytest.approx(127601452 * 1024, rel=0.001)
