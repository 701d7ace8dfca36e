# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host's slice has the keys and values of its type: what mypy knows of it is what a real plan says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.slice import GatewaySlice, Slice
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.service import from_plan
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.registry import SUBJECTS
from tools.golden import INVENTORIES, inventory_of

ROOT = Path(__file__).resolve().parents[2]


def wrong(hint: Any, value: Any, place: str) -> Iterator[str]:
    """Where a value is not of a type."""
    while get_origin(hint) in (NotRequired, Annotated):
        hint = get_args(hint)[0]
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    found = [[*_of_one(kind, value, place)] for kind in kinds]
    yield from min(found, key=len)


def _of_one(hint: Any, value: Any, place: str) -> Iterator[str]:
    origin, words = get_origin(hint), get_args(hint)
    if is_typeddict(hint):
        if not isinstance(value, dict):
            yield f"{place}: {value!r}, expected {hint.__name__}"
        elif value or hint.__total__:
            hints = get_type_hints(hint, include_extras=True)
            must = {key for key, each in hints.items() if get_origin(each) is not NotRequired}
            yield from (f"{place}.{key}: not of the type" for key in sorted(value.keys() - hints.keys()))
            yield from (f"{place}.{key}: missing" for key in sorted(must - value.keys() if hint.__total__ else ()))
            for key in value.keys() & hints.keys():
                yield from wrong(hints[key], value[key], f"{place}.{key}")
    elif origin in (list, Sequence) and isinstance(value, list):
        for at, item in enumerate(value):
            yield from wrong(words[0], item, f"{place}[{at}]")
    elif origin in (dict, Mapping) and isinstance(value, dict):
        for key, item in value.items():
            yield from wrong(words[0], key, f"the key {key} of {place}")
            yield from wrong(words[1], item, f"{place}.{key}")
    elif hint is not Any and not (origin is None and _is(value, hint)):
        yield f"{place}: {value!r}, expected {hint}"


def _is(value: Any, kind: Any) -> bool:
    return isinstance(value, bool) is (kind is bool) and isinstance(value, (int, float) if kind is float else kind)


def with_everything(folder: Path) -> dict[str, Any]:
    """A fleet that declares whatever fills a part of a slice."""
    for name, text in {
        "clients.yml": json.dumps({"chat": "key-of-the-chat-00001", "agent": "key-of-the-agent-0001"}),
        "coder.key": "key-of-the-service-01",
        "phoenix.key": "Key-of-phoenix-of-32-letters-0123",
        "hook": "https://example.org/hook",
        "password": "x",
    }.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    coder: dict[str, Any] = {
        "recipe": "qwen3.6-27b-nvfp4",
        "hosts": ["titan"],
        "port": 8000,
        "workload": {"max_model_len": 65536, "max_num_seqs": 4},
        "api_key_file": "coder.key",
        "tls": "local",
    }
    shared: dict[str, Any] = {
        "fleet_services": {
            "coder": coder,
            "pair": {
                "recipe": "minimax-m2-awq",
                "hosts": ["spark-2", "spark-3"],
                "port": 8001,
                "open": True,
                "trust": ["code"],
            },
        },
        "fleet_fabric": {"pool": "192.168.100.0/22", "cables": [["spark-2:1", "spark-3:1"]]},
        "fleet_gateway": {"hosts": ["titan"], "name": "llm.home", "keys_file": "clients.yml"},
        "fleet_clients": {
            "chat": {"kind": "open-webui", "host": "titan"},
            "agent": {"kind": "hermes", "host": "spark-2", "service": "coder"},
        },
        "fleet_monitoring": {"host": "titan", "alerts": {"webhook_url_file": "hook"}},
        "fleet_phoenix": {"host": "titan", "listen": "10.0.0.1", "secret_file": "phoenix.key"},
        "fleet_firewall": {"allow": [{"port": 9000}]},
        "fleet_host": {
            "container_engine": {"registries": [{"name": "docker.io", "username": "me", "password_file": "password"}]},
            "firewall": {"state": "closed"},
            "versions": {"running": {"driver": "580.*"}, "held": ["docker.io"]},
            "host_tuning": {"swap": None},
        },
    }
    addresses = {"titan": "10.0.0.1", "spark-2": "10.0.0.2", "spark-3": "10.0.0.3"}
    hosts = {name: {"address": address, "port": 22, "variables": shared} for name, address in addresses.items()}
    return {"hosts": hosts, "folder": str(folder)}


def planned(inventory: Mapping[str, Any], *recipes: Path) -> Any:
    library, problems = load_all([*recipes, SHIPPED_RECIPES])
    return plan_fleet(inventory, library, problems)


@cache
def shipped(name: str) -> Any:
    folder = ROOT / name
    return planned(inventory_of(folder), *([folder / "recipes"] if (folder / "recipes").is_dir() else []))


@pytest.mark.parametrize("name", INVENTORIES)
def test_each_slice_is_of_its_type(name: str) -> None:
    plan = shipped(name)
    assert [one for host, part in plan["hosts"].items() for one in wrong(Slice, part, host)] == []


def test_a_slice_with_everything_is_of_its_type(tmp_path: Path) -> None:
    plan = planned(with_everything(tmp_path), ROOT / "inventories" / "lab" / "recipes")
    assert [(one["place"], one["found"]) for one in plan["findings"] if one["severity"] == "error"] == []
    assert [one for host, part in plan["hosts"].items() for one in wrong(Slice, part, host)] == []
    titan = plan["hosts"]["titan"]
    assert {*titan["gateway"]} == {*GatewaySlice.__annotations__}
    assert all(titan[name] for name in ("clients", "monitoring", "phoenix", "needs", "services"))


def test_each_subject_has_a_part() -> None:
    assert {subject.name for subject in SUBJECTS} <= {*Slice.__annotations__}


@pytest.mark.parametrize("name", INVENTORIES[:2])
def test_a_supervisor_reads_what_the_plan_writes(name: str) -> None:
    services = [one for host in shipped(name)["hosts"].values() for one in host["services"]]
    assert services
    for service in services:
        assert asdict(from_plan(service["supervisor"])) == service["supervisor"]
        assert json.loads(service["files"][service["rank_file"]]["content"]) == service["supervisor"]


def test_a_difference_is_seen() -> None:
    slice_ = shipped(INVENTORIES[0])["hosts"]["titan"]
    parts = {key: part for key, part in slice_.items() if key != "tls"}
    tuning = slice_["host_tuning"] | {"read_ahead_kb": "4096", "swop": False}
    found = [*wrong(Slice, {**parts, "host_tuning": tuning, "extra": 1, "gateway": {"address": 3}}, "titan")]
    assert sorted(one.partition(":")[0] for one in found) == [
        "titan.extra",
        "titan.gateway.address",
        "titan.host_tuning.read_ahead_kb",
        "titan.host_tuning.swop",
        "titan.tls",
    ]
