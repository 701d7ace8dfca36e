# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The seam: another engine goes through the whole plan, and nothing outside of vLLM's own packages names vLLM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._recipes.recipe import load_all
from planned import ranks_of
from stand_in_engine import Echo

ROOT = Path(__file__).resolve().parents[2]
BOTH = {**ENGINES, "echo": Echo()}
RECIPE: dict[str, Any] = {
    "name": "parrot",
    "summary": "A parrot",
    "engine": "echo",
    "host_counts": [1, 2, 3],
    "model": {"repository": "org/parrot", "revision": "a" * 40, "weights_bytes": 1000},
    "image": {"reference": "echo:1", "digest": f"sha256:{'0' * 64}", "family": "plain", "release": "1.0.0"},
    "flags": {"voice": "{model_path}/voice.bin"},
    "status": {"state": "reported", "by": "us", "hardware": "none"},
    "sources": ["us"],
}
SWITCH = {"switches": {"s": {"ports": {"a:1": 1, "b:1": 2, "c:1": 3}}}}


def plan(tmp_path: Path, service: dict[str, Any], **recipe: Any) -> dict[str, Any]:
    (tmp_path / "parrot.yml").write_text(yaml.safe_dump(RECIPE | recipe))
    library, of_recipes = load_all([tmp_path], BOTH)
    whole = {"recipe": "parrot", "hosts": ["a"], "port": 8000} | service
    variables = {"fleet_services": {"parrot": whole}, "fleet_fabric": SWITCH}
    hosts = {name: {"address": f"{name}.lan", "port": 22, "variables": variables} for name in "abc"}
    return plan_fleet({"hosts": hosts, "folder": str(tmp_path)}, library, of_recipes, engines=BOTH)


def errors(found: dict[str, Any]) -> list[str]:
    return [finding["rule"] for finding in found["findings"] if finding["severity"] == "error"]


def test_another_engine_is_planned_by_its_own_words_alone(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-0123456789abcdef")
    found = plan(tmp_path, {"api_key_file": "key", "workload": {"max_model_len": 4096}, "served_name": "polly"})
    assert errors(found) == []
    (rank,) = ranks_of(found, "parrot")
    words = rank["container"]["arguments"]
    assert words[:4] == ["echo-server", "ctx=4096", "listen=0.0.0.0:8000", words[3]]
    assert f"voice=/hf/hub/models--org--parrot/snapshots/{'a' * 40}/voice.bin" in words
    shared = {"HF_HOME": "/hf", "HF_MODULES_CACHE": "/tmp/hf_modules"}
    assert rank["container"]["env"] == {"ECHO_OFFLINE": "1"} | shared
    assert rank["key"] == {
        "source": str(tmp_path / "key"),
        "path": "/etc/gb10-fleet/secrets/parrot.key",
        "form": "%s\n",
        "made": False,
    }
    assert rank["engine"] == found["services"]["parrot"]["engine"] == "echo"
    assert found["services"]["parrot"]["served_name"] == "polly"
    assert (found["hosts"]["a"]["needs"]["launches"], found["hosts"]["a"]["unread_images"]) == ([], [])
    assert "vllm" not in json.dumps([found["services"], rank]).lower()


def test_its_groups_meet_by_their_addresses(tmp_path: Path) -> None:
    head, worker = ranks_of(plan(tmp_path, {"hosts": ["b", "a"]}), "parrot")
    assert worker["container"]["arguments"][-1].startswith("head=192.168.")
    assert head["container"]["env"]["ECHO_NODE"] == head["supervisor"]["address"]
    assert worker["supervisor"]["peers"] == [head["supervisor"]["address"]]
    assert errors(plan(tmp_path, {"hosts": ["a", "b", "c"]})) == ["echo-hosts"]


@pytest.mark.parametrize(
    ("service", "recipe", "rules"),
    [
        ({"flags": {"listen": "x"}}, {}, ["recipe-planned-flag"]),
        ({"flags": {"ctx": "many"}}, {}, ["schema-type"]),
        ({"flags": {"port": 1}}, {}, []),
        ({"env": {"ECHO_NODE": "x"}}, {}, ["recipe-planned-env"]),
        ({"env": {"VLLM_HOST_IP": "x"}}, {}, []),
        ({"env": {"ECHO_KEY": "x"}}, {}, ["recipe-secret"]),
        ({"image": {"family": "upstream"}}, {}, ["schema-choice"]),
        ({}, {"engine": "ecko"}, []),
    ],
)
def test_what_may_be_written_is_its_own(
    tmp_path: Path, service: dict[str, Any], recipe: dict[str, Any], rules: list[str]
) -> None:
    found = plan(tmp_path, service, **recipe)
    assert [rule for rule in errors(found) if rule != "recipe-engine"] == rules


# Nothing else names vLLM ------------------------------------------------------------------------------------------

# vLLM's own, by nature.
OWN = "_engines/vllm/"
# What names it all the same: file or folder below module_utils, and why.
EXCEPTIONS = {
    "_engines/observed.py": "catalogues of images, which vLLM's are read for",
    "_engines/registry.py": "lists the engines; vllm is the default",
    "_findings.py": "an example in a docstring",
    "_fabric/environment.py": "the source of a variable",
    "_firewall/plan.py": "why ranks listen everywhere",
    "_images": "examples of image references",
    "_layout.py": "what units of earlier releases are called",
    "_memory": "its formula of memory, from its source and its boot logs",
    "_models": "the models that vLLM knows, and its readings of config.json",
    "_recipes/spec.py": "an example of an image",
    "_recipes/foreign.py": "recipes of others, which vLLM serves",
    "_system/subject.py": "images that are known to fail, data/vllm_images.yml",
    "_transfer/staging.py": "an example of a line",
    "_verify": "its boot log and its fingerprint of an answer",
    "_weights/cache.py": "who reads the cache",
}
UTILS = ROOT / "plugins" / "module_utils"


def naming() -> set[str]:
    files = (path for path in UTILS.rglob("*.py") if "vllm" in path.read_text("utf-8").lower())
    names = (str(path.relative_to(UTILS)) for path in files)
    return {name for name in names if not name.startswith(OWN)}


def test_nothing_outside_of_vllms_own_packages_names_it() -> None:
    imported = "module_utils._engines.vllm"
    assert imported not in "".join(path.read_text("utf-8") for path in (UTILS / "_plan").glob("*.py"))
    assert {name for name in naming() if name not in EXCEPTIONS and name.split("/")[0] not in EXCEPTIONS} == set()


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_each_exception_is_needed(name: str) -> None:
    assert any(name in (found, found.split("/")[0]) for found in naming())
