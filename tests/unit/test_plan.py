"""The plan as a whole: same in, same out; every mistake a finding; slices that fit their roles."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, load_all
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.text import as_json, as_text, concerning
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
LIBRARY, OF_RECIPES = load_all([ROOT / "inventories" / "lab" / "recipes", SHIPPED_RECIPES])
TINY: dict[str, Any] = {"recipe": "lab-tiny", "hosts": ["titan"], "port": 8000}
HOST: dict[str, Any] = {"memory_kib": 15728640}


def inventory(services: Any, *names: str, **host: Any) -> dict[str, Any]:
    variables = {"fleet_services": services, "fleet_host": HOST | host}
    hosts = {name: {"address": f"{name}.lan", "variables": variables} for name in names or ("titan",)}
    return {"hosts": hosts, "folder": "/inventory"}


def plan(services: Any, *names: str, **host: Any) -> dict[str, Any]:
    return plan_fleet(inventory(services, *names, **host), LIBRARY, OF_RECIPES)


def errors(found: dict[str, Any]) -> list[str]:
    return [finding["rule"] for finding in found["findings"] if finding["severity"] == "error"]


def big_fleet(hosts: int) -> dict[str, Any]:
    names = [f"spark-{number:03}" for number in range(hosts)]
    services = {}
    for name in names:
        services |= {f"{name}-{port}": TINY | {"hosts": [name], "port": port} for port in (8000, 8001)}
    return inventory(services, *names)


def shuffled(value: Any) -> Any:
    """The same data with the keys of every map in another order."""
    if isinstance(value, dict):
        keys = list(value)
        random.Random(7).shuffle(keys)
        return {key: shuffled(value[key]) for key in keys}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


def test_the_order_of_keys_changes_nothing() -> None:
    fleet = big_fleet(60)
    assert as_json(plan_fleet(fleet, LIBRARY, OF_RECIPES)) == as_json(plan_fleet(shuffled(fleet), LIBRARY, OF_RECIPES))


def test_planning_leaves_its_input_alone() -> None:
    fleet = big_fleet(3)
    before = copy.deepcopy(fleet)
    plan_fleet(fleet, LIBRARY, OF_RECIPES)
    assert fleet == before


@pytest.mark.parametrize("site", ["lab", "example"])
def test_our_own_inventories_have_a_plan_without_errors(site: str) -> None:
    folder = ROOT / "inventories" / site
    hosts = yaml.safe_load((folder / "hosts.yml").read_text())["all"]["hosts"]
    variables = yaml.safe_load((folder / "group_vars" / "all" / "fleet.yml").read_text())
    fleet = {"hosts": {name: {"address": name, "variables": variables} for name in hosts}, "folder": str(folder)}
    found = plan_fleet(fleet, LIBRARY, OF_RECIPES)
    assert errors(found) == []
    assert found["services"].keys() == variables["fleet_services"].keys()
    assert json.loads(as_json(found)) == found
    assert as_text(found, list(hosts))


@pytest.mark.parametrize(
    ("services", "rule"),
    [
        ({"tiny": TINY | {"recipe": "lab-tny"}}, "recipe-unknown"),
        ({"tiny": TINY | {"hosts": ["titan", "beast"]}}, "fabric-group-unconnected"),
        ({"tiny": TINY | {"flags": {"port": 1}}}, "recipe-planned-flag"),
        ({"tiny": TINY | {"env": {"VLLM_API_KEY": "secret"}}}, "recipe-secret"),
        ({"tiny": TINY | {"image": {"referense": "x:1"}}}, "schema-unknown-key"),
        ({"tiny": TINY | {"image": {"vllm": "0.24.0"}}}, "recipe-old-key"),
        ({"tiny": TINY | {"model": {"source": "hubb"}}}, "schema-choice"),
        ({"tiny": TINY | {"model": {"source": {"host": "baest"}}}}, "source-host-unknown"),
    ],
)
def test_a_mistake_in_a_service_is_an_error(services: dict[str, Any], rule: str) -> None:
    assert errors(plan(services, "titan", "beast")) == [rule]


@pytest.mark.parametrize(
    ("name", "words", "other"),
    [
        ("glm-5.9-flash", "write model: organisation/name", 'write "'),
        ("my-model", "docs/reference/models.md lists the recipes", "minimax"),
        ("gpt-oss-120", 'write "gpt-oss-120b"', "docs/"),
    ],
)
def test_a_recipe_of_another_model_is_no_remedy(name: str, words: str, other: str) -> None:
    [found] = [
        one for one in plan({"a": TINY | {"recipe": name}}, "titan")["findings"] if one["rule"] == "recipe-unknown"
    ]
    assert words in found["remedy"] and other not in found["remedy"]


def test_an_error_of_one_service_concerns_its_hosts_only() -> None:
    found = plan({"a": TINY | {"recipe": "none"}, "b": TINY | {"hosts": ["beast"]}}, "titan", "beast")
    assert [finding["rule"] for finding in concerning(found, ["beast"]) if finding["severity"] == "error"] == []
    assert "recipe-unknown" in [finding["rule"] for finding in concerning(found, ["titan"])]
    assert list(found["services"]) == ["b"]


def test_host_tuning_takes_the_hosts_own_values() -> None:
    tuned = plan({}, host_tuning={"sysctl": {"vm.swappiness": None, "vm.panic": "1"}, "swap": True})["hosts"]["titan"]
    assert tuned["host_tuning"]["sysctl"].keys() == {"vm.dirty_bytes", "vm.dirty_background_bytes", "vm.panic"}
    assert tuned["host_tuning"]["swap"] is True
    assert tuned["host_tuning"]["default_target"] == "multi-user.target"


def test_a_host_fetches_from_the_one_that_has_it_at_its_port() -> None:
    fleet = inventory({"tiny": TINY | {"model": {"source": {"host": "beast"}}}}, "titan", "beast")
    fleet["hosts"]["beast"]["port"] = 2222
    hosts = plan_fleet(fleet, LIBRARY, OF_RECIPES)["hosts"]
    assert hosts["titan"]["models"][0]["peers"] == [{"host": "beast", "address": "beast.lan", "port": 2222}]
    access = hosts["beast"]["peer_access"]
    assert (access["reads"], access["readers"], access["inventory"]) == ({}, {"titan": []}, "inventory")


def test_earlier_images_and_models_go_once_all_hosts_of_the_services_are_proved() -> None:
    fleet = inventory({"tiny": TINY | {"hosts": ["titan", "beast"]}}, "titan", "beast", retention={"models": 0})
    for host in fleet["hosts"].values():
        host["variables"]["fleet_fabric"] = {"pool": "192.168.100.0/22", "cables": [["titan:0", "beast:0"]]}
    kept = {name: host["retention"] for name, host in plan_fleet(fleet, LIBRARY, OF_RECIPES)["hosts"].items()}
    assert kept["titan"] == {"images": 1, "models": 0, "after": ["beast", "titan"]}
    assert kept["beast"] == kept["titan"]


def test_the_size_that_a_recipes_folder_has_an_index_of_counts(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "lab-tiny.index.json").write_text('{"metadata": {"total_size": 5000000}}')
    library = Library(LIBRARY.recipes, [tmp_path, *LIBRARY.folders])
    for model, size in (({}, 5000000), ({"weights_bytes": 7}, 7), ({"repository": "a/b"}, None)):
        found = plan_fleet(inventory({"tiny": TINY | {"model": model}}), library, OF_RECIPES)
        assert found["hosts"]["titan"]["models"][0]["bytes"] == size


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.sampled_from(["workload", "flags", "env", "image", "model", "listen", "silence"]), anything)
def test_no_value_of_a_service_ends_in_a_traceback(key: str, value: Any) -> None:
    as_json(plan({"tiny": TINY | {key: value}}))


@pytest.mark.parametrize(("address", "shown"), [("10.0.0.1", "10.0.0.1"), ("fd77::11", "[fd77::11]")])
def test_an_endpoint_is_a_url(address: str, shown: str) -> None:
    fleet = inventory({"tiny": TINY})
    fleet["hosts"]["titan"]["address"] = address
    found = plan_fleet(fleet, LIBRARY, OF_RECIPES)
    assert found["services"]["tiny"]["endpoint"] == f"http://{shown}:8000/v1"
