# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each key that an owner may write has a description, in the reference, in editors and on the screen."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import data_file
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared import VARIABLES
from ansible_collections.gb10.fleet.plugins.module_utils._plan.described import described, explained, inventory_spec
from drift_fleet import planned
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[2]
# The tool's own file names no package.
_SPEC = importlib.util.spec_from_file_location("keys_tool", ROOT / "tools" / "keys.py")
assert _SPEC is not None
assert _SPEC.loader is not None
keys_tool = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(keys_tool)

KEYS = described()


def test_each_key_has_a_description() -> None:
    bare = [path for path, key in KEYS.items() if not (key.what and key.acts and key.restarts)]
    assert bare == [], "write a row for each into data/keys.yml, then: python tools/keys.py"


def test_each_description_belongs_to_a_key() -> None:
    words: dict[str, Any] = data_file("keys")
    assert [word for word in words if not any(fnmatchcase(path, word) for path in KEYS)] == []


def test_each_variable_of_an_inventory_is_described() -> None:
    assert inventory_spec()["options"].keys() == {*VARIABLES}


def test_reference_and_schema_are_those_of_today() -> None:
    command = [sys.executable, ROOT / "tools" / "keys.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_example_names_the_schema() -> None:
    text = (ROOT / "inventories" / "example" / "group_vars" / "all" / "fleet.yml").read_text("utf-8")
    assert keys_tool.EDITORS in text.splitlines()


def wrong(variables: dict[str, Any]) -> list[str]:
    """Places that an editor underlines."""
    errors = Draft202012Validator(keys_tool.schema()).iter_errors(variables)
    return sorted(error.json_path for error in errors)


@pytest.mark.parametrize("name", ["example", "lab"])
def test_an_editor_accepts_our_inventories(name: str) -> None:
    variables = yaml.safe_load((ROOT / "inventories" / name / "group_vars" / "all" / "fleet.yml").read_text("utf-8"))
    assert "fleet_services" in variables
    assert wrong(variables) == []


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.yml")), ids=lambda path: path.stem)
def test_a_shipped_recipe_has_only_described_keys(path: Path) -> None:
    recipe = yaml.safe_load(path.read_text("utf-8"))
    assert {f"recipe.{key}" for key in recipe} <= {*KEYS}


SERVICE = {"recipe": "x", "hosts": ["titan"], "port": 8000}


@pytest.mark.parametrize(
    ("variables", "places"),
    [
        ({"fleet_gateway": {"hosts": ["a"], "keys_file": "k", "queue": 10001}}, ["$.fleet_gateway"]),
        ({"fleet_gateway": {"hosts": ["a"]}}, ["$.fleet_gateway"]),
        ({"fleet_services": {"chat": {**SERVICE, "prot": 1}}}, ["$.fleet_services"]),
        ({"fleet_services": {"chat": {**SERVICE, "port": "8000"}}}, ["$.fleet_services"]),
        ({"fleet_services": {"chat": {**SERVICE, "port": "{{ base + 1 }}"}}}, []),
        ({"fleet_services": {"chat": {**SERVICE, "drain_s": None}}}, ["$.fleet_services"]),
        ({"fleet_services": {"chat": {**SERVICE, "model": "org/name", "workload": {"pool": "20GiB"}}}}, []),
        ({"fleet_fabric": {"cables": [["a:1", "b:1"], {"ends": ["a:0", "b:0"], "index": 3}], "hotplug": False}}, []),
        ({"fleet_host": {"host_tuning": {"sysctl": {"vm.swappiness": None}}}, "ansible_user": "x"}, []),
    ],
)
def test_an_editor_underlines_mistakes(variables: dict[str, Any], places: list[str]) -> None:
    assert wrong(variables) == places


def test_an_editor_shows_descriptions() -> None:
    gateway = keys_tool.schema()["properties"]["fleet_gateway"]["anyOf"][0]["properties"]
    assert gateway["queue"]["description"] == KEYS["fleet_gateway.queue"].what
    assert gateway["queue"]["default"] == 128


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ("fleet_gateway.queue", ["fleet_gateway.queue"]),
        ("fleet_services.chat.port", ["fleet_services.NAME.port"]),
        ("fleet_services.chat.container.ipc.reason", ["fleet_services.NAME.container.ipc.reason"]),
        ("fleet_fabric.cables[].index", ["fleet_fabric.cables.index"]),
        (" queue ", ["fleet_gateway.queue"]),
        ("max_model_len", ["fleet_services.NAME.workload.max_model_len"]),
        ("firewall.allow.port", ["fleet_host.firewall.allow.port"]),
        ("allow.port", ["fleet_host.firewall.allow.port", "fleet_firewall.allow.port"]),
        ("", [path for path in KEYS if "." not in path]),
    ],
)
def test_a_key_is_explained_by_its_path_or_the_end_of_it(wanted: str, shown: list[str]) -> None:
    text, refusal = explained(wanted)
    assert refusal == ""
    assert [line.partition(":")[0] for line in text.splitlines() if line[:1] not in ("", " ")] == shown


def test_an_explanation_has_every_fact() -> None:
    assert explained("fleet_gateway.queue")[0].splitlines()[1:] == [
        "  value:    a whole number of at least 0 and at most 10000",
        "  default:  128",
        "  acts on:  the gateway's hosts",
        "  restarts: nothing; HAProxy reloads and loses no request",
    ]
    assert "\n  default:  none, and required\n" in explained("fleet_gateway.hosts")[0]


@pytest.mark.parametrize("wanted", ["fleet_gateway.quue", "nonsense", ".", "*", "fleet_services.chat.chat.port"])
def test_an_unknown_key_is_refused(wanted: str) -> None:
    text, refusal = explained(wanted)
    assert text == ""
    assert refusal.startswith(f"key: found '{wanted}'; expected a key of the inventory, a recipe or a build; ")


def read_at_its_start(**settings: Any) -> Any:
    """The parts of a service that its supervisor reads when it starts: a change restarts it."""
    service = {"recipe": "lab-tiny", "hosts": ["titan"], "port": 8000, **settings}
    (rank,) = planned(fleet_services={"tiny": service})["hosts"]["titan"]["services"]
    files = {path: file["content"] for path, file in rank["files"].items()}
    return files, rank["key"], rank["secret"], rank["tls"], rank["merged"], rank["models"]


CHANGES: dict[str, Any] = {
    "port": 8001,
    "listen": "127.0.0.1",
    "served_name": "other",
    "workload": {"max_num_seqs": 2},
    "flags": {"seed": 1},
    "env": {"A": "1"},
    "container": {"pids_limit": {"value": 4096, "reason": "a test"}},
    "open": True,
    "drain_s": 5,
    "on_creep": "restart",
    "silence": {"R001": "a test"},
    "trust": ["code"],
}


@pytest.mark.parametrize("key", CHANGES)
def test_a_key_restarts_its_service_as_described(key: str) -> None:
    changes = read_at_its_start() != read_at_its_start(**{key: CHANGES[key]})
    assert (KEYS[f"fleet_services.NAME.{key}"].restarts == "the service") == changes
