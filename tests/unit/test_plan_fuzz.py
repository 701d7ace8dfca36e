# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever an owner writes, wherever: a plan and findings with place and remedy, never a traceback."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.memory.boots import BootLog, boot_record
from ansible_collections.gb10.fleet.plugins.module_utils._engines.observed import Observed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, load_all
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.text import as_json, as_text
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
LIBRARY, OF_RECIPES = load_all([ROOT / "inventories" / "lab" / "recipes", SHIPPED_RECIPES])
# Every key that an owner may write somewhere in it, so that garbage can land below each.
SITE: dict[str, Any] = {
    "fleet_services": {
        "solo": {
            "recipe": "qwen3.6-35b-a3b-nvfp4",
            "hosts": ["titan"],
            "port": 8000,
            "listen": "127.0.0.1",
            "served_name": "qwen",
            "workload": {"max_model_len": 65536, "max_num_seqs": 4},
            "flags": {
                "gpu-memory-utilization": 0.6,
                "kv-cache-dtype": "fp8",
                "speculative-config": {"method": "ngram"},
            },
            "env": {"OMP_NUM_THREADS": "2"},
            "image": {
                "reference": "vllm/vllm-openai:v0.23.0",
                "release": "0.23.0",
                "digest": None,
                "source": "registry",
            },
            "model": {"weights_bytes": 20_000_000_000, "revision": None, "source": {"path": "/srv/m"}},
            "silence": {"R079": "known"},
        },
        "pair": {
            "recipe": "qwen3-vl-235b-a22b-instruct-awq",
            "hosts": ["spark-2", "spark-3"],
            "port": 8001,
            "flags": {"distributed-executor-backend": "ray", "num-gpu-blocks-override": None},
        },
    },
    "fleet_fabric": {"pool": "192.168.100.0/22", "mtu": 9000, "cables": [["spark-2:1", "spark-3:1"]]},
    "fleet_recipe_dirs": ["recipes"],
    "fleet_host": {
        "memory_kib": 127_601_452,
        "host_tuning": {"sysctl": {"vm.swappiness": "1"}, "read_ahead_kb": 8192, "swap": False},
        "container_engine": {"daemon": {"log-driver": "json-file"}, "registries": []},
        "services": {"solo": {"flags": {"max-num-seqs": 2}, "env": {"A": "b"}}},
        "retention": {"images": 1, "models": 1},
        "firewall": {"state": "closed", "allow": [{"port": 3389, "protocol": "tcp"}], "shut": [5900]},
        "versions": {"running": {"driver": "580.*"}, "tolerated": {"kernel-7.0.0-1019": "measured"}, "held": ["x"]},
    },
    "fleet_firewall": {"allow": [{"port": 9100, "from": ["10.0.0.0/8"]}]},
    "fleet_drift": {
        "free": {"memory_gib": 0.5, "disk_gib": 0.5},
        "expect": {"containers": ["open-webui"], "listeners": [9100], "models": ["org/model"]},
        "accept": [],
    },
    "fleet_name": "mine",
}
NUMBERS = st.sampled_from([-1, 0, 1, 2**31, 2**63, 10**30, -(10**30), 0.0, -0.5, 1.5, float("nan"), float("inf")])
WORDS = st.sampled_from(
    ["", "titan", "solo", "{model_path}", "../x", "a b", "\x00", "0.23.0", "fp8", "auto", "1k", "🦙"]
)
GARBAGE = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything in it."""
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in inner:
        found += places(entry, (*path, key))
    return found


def changed(data: Any, path: tuple[Any, ...], value: Any, key: str | None) -> Any:
    """A copy with another value at a path, or a further key beside it."""
    copied = copy.deepcopy(data)
    holder = copied
    for step in path[:-1]:
        holder = holder[step]
    if key is not None and isinstance(holder, dict):
        holder[key] = value
    else:
        holder[path[-1]] = value
    return copied


def check(plan: dict[str, Any]) -> None:
    """It can be printed, and every error says where and what to do."""
    assert json.loads(as_json(plan))["findings"] == json.loads(json.dumps(plan["findings"]))
    assert as_text(plan, list(plan["hosts"]))
    for finding in plan["findings"]:
        assert finding["place"]
        assert finding["found"]
        assert finding["remedy"] or finding["severity"] == "hint", finding


def planned(variables: dict[str, Any], library: Library = LIBRARY, observed: Observed | None = None) -> dict[str, Any]:
    hosts = {name: {"address": f"{name}.lan", "port": None, "variables": variables} for name in NAMES}
    return plan_fleet({"hosts": hosts, "folder": "/none"}, library, OF_RECIPES, observed or Observed())


NAMES = ("titan", "spark-2", "spark-3")
FEW = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])


# In place of a value of another type; a slip of each key.
WRONG: list[Any] = [7, -1, 1.5, True, "x", "", [], [1], {}, {"a": 1}]
WITHOUT_SERVICES = {**SITE, "fleet_services": {}, "fleet_host": {**SITE["fleet_host"], "services": {}}}


@pytest.mark.parametrize("path", [path for path in places(WITHOUT_SERVICES) if path[0] != "fleet_recipe_dirs"], ids=str)
def test_no_wrong_type_and_no_slip_of_a_key_is_a_traceback(path: tuple[Any, ...]) -> None:
    """Found by typing: a text in the place of fleet_firewall's map was one."""
    for value in WRONG:
        check(planned(changed(WITHOUT_SERVICES, path, value, None)))
    if isinstance(path[-1], str):
        holder = changed(WITHOUT_SERVICES, path, None, None)
        check(planned(changed(holder, path, 1, path[-1] + "x")))


def test_the_site_itself_is_planned() -> None:
    plan = planned(SITE)
    assert set(plan["services"]) == {"solo", "pair"}
    check(plan)


@FEW
@given(st.sampled_from(places(SITE)), GARBAGE, st.none() | st.text(max_size=8))
@example(("fleet_host", "host_tuning", "sysctl", "vm.swappiness"), "", None)
def test_garbage_anywhere_in_an_inventory(path: tuple[Any, ...], value: Any, key: str | None) -> None:
    check(planned(changed(SITE, path, value, key)))


CONFIG: dict[str, Any] = json.loads((SHIPPED_RECIPES / "configs" / "qwen3.6-35b-a3b.json").read_text("utf-8"))


class Bent(Library):
    """The shipped recipes with another config.json for every model."""

    def __init__(self, config: Any) -> None:
        super().__init__(LIBRARY.recipes, LIBRARY.folders)
        object.__setattr__(self, "bent", config)

    def config(self, name: str, place: str) -> Any:
        return (self.bent, []) if isinstance(self.bent, dict) else super().config("no-such-config", place)


@FEW
@given(st.sampled_from(places(CONFIG)), GARBAGE)
@example(("vision_config", "deepstack_visual_indexes"), True)
def test_garbage_anywhere_in_a_models_config(path: tuple[Any, ...], value: Any) -> None:
    check(planned(SITE, Bent(changed(CONFIG, path, value, None))))


BOOT = planned(SITE)["services"]["solo"]["boot"]["key"]


@FEW
@given(
    st.dictionaries(
        st.sampled_from(["weights_gib", "available_kv_gib", "graphs_gib", "kv_cache_tokens", "max_model_len"]), NUMBERS
    ),
    NUMBERS,
)
def test_absurd_records_of_a_boot(log: dict[str, Any], requested: Any) -> None:
    record = boot_record(BootLog(weights_gib=1.0, available_kv_gib=1.0), "solo", "2026-11-21", 1)
    assert record is not None
    usable = {name: value for name, value in log.items() if math.isfinite(value)}
    bent = {**record, "log": {**record["log"], **usable}, "requested_bytes": 2**40}
    check(planned(SITE, observed=Observed({"titan": {BOOT: bent}})))


def test_references_that_lead_nowhere_are_reported() -> None:
    wrong = {"recipe": "nemotron-nano", "hosts": ["titann"], "port": 8000}
    plan = planned({"fleet_services": {"a": wrong, "b": wrong | {"hosts": ["titan"]}}})
    found = {finding["place"]: finding["remedy"] for finding in plan["findings"]}
    assert found["fleet_services.a.hosts"] == 'write "titan"'
    assert "fleet_services.b.recipe" in found


def test_hosts_that_fetch_from_each_other_are_reported() -> None:
    services = {
        name: {"recipe": "lab-tiny", "hosts": [host], "port": 8000, "model": {"source": {"host": other}}}
        for name, host, other in (("a", "titan", "spark-2"), ("b", "spark-2", "titan"))
    }
    plan = planned({"fleet_services": services})
    check(plan)
    found = [finding["found"] for finding in plan["findings"] if finding["rule"] == "source-circle"]
    assert found == [
        "fetched in a circle: spark-2 from titan from spark-2",
        "fetched in a circle: titan from spark-2 from titan",
    ]


def test_a_host_that_is_its_own_source_has_it() -> None:
    services = {"a": {"recipe": "lab-tiny", "hosts": ["titan"], "port": 8000, "model": {"source": {"host": "titan"}}}}
    assert "source-circle" not in [finding["rule"] for finding in planned({"fleet_services": services})["findings"]]
