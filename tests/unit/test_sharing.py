# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What goes to others: a run in the form of their leaderboards, a recipe in sparkrun's form."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.foreign import import_recipe
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all, parse
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.to_sparkrun import to_sparkrun
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.share import against_recipe, shared

ROOT = Path(__file__).resolve().parents[2]
LIBRARY, _ = load_all([SHIPPED_RECIPES])
# The plan decides these, so an import takes them out again.
DECIDED = ("distributed-executor-backend", "mem-fraction-static")
BENCHMARK = {
    "concurrency": 1, "context_size": 0, "prompt_size": 2048, "response_size": 32, "is_context_prefill_phase": False,
    "url": "http://titan.lan:8000/v1",
}  # fmt: skip


def run(profile: str = "owner") -> dict[str, Any]:
    point = {
        "name": "pp2048 tg32",
        "prompt": 2048,
        "answer": 32,
        "requests": 1,
        "at_once": 1,
        "depth": 0,
        "image": None,
    }
    point |= {"rate": None}
    raw = [
        {
            "round": number,
            "point": point["name"],
            "result": {"benchmarks": [BENCHMARK | {"tg_throughput": {"values": [speed]}, "ttfr": {"values": [300.0]}}]},
        }
        for number, speed in enumerate([1.0, 40.0, 44.0])
    ]
    values = {"first token ms": [300.0, 300.0], "next token ms": [25.0, 22.7272727], "tokens/s": [40.0, 44.0]}
    conditions = {
        "engine": "vllm", "image": "sha256:" + "a" * 64, "kernel": "6.17.0-1026-nvidia", "model": "org/model",
        "driver": "580.95.05", "release": "0.33.0", "hosts": 1,
        "flags": [
            "--api-key-file=/x", "--api-key secret", "--max-num-seqs 4", "--middleware gb10", "--master-addr 10.0.0.1",
            "--otlp-traces-endpoint http://10.0.0.9:6006", '--kv-transfer-config {"host": "titan"}', "--kv-ip fd00::9",
        ],
        "variables": {
            "VLLM_X": "1", "HF_TOKEN": "canary", "MC_MASTER": "titan:50051", "VLLM_HOST_IP6": "fd00:0:0:9",
            "NCCL_SOCKET_IFNAME": "enp1", "MASTER_ADDR": "10.0.0.1",
        },
    }  # fmt: skip
    return {
        "name": "chat-1", "service": "chat", "at": "2026-11-27T16:00:00Z", "profile": profile, "definition": "d",
        "conditions": conditions, "points": [point], "values": {point["name"]: values}, "shown": {}, "raw": raw,
    }  # fmt: skip


MEASURED = [
    {"what": "decode", "value": 60.0, "unit": "tok/s", "conditions": "", "source": "theirs", "requests": 1},
    {"what": "decode", "value": 99.0, "unit": "tok/s", "conditions": "", "source": "pair", "requests": 1, "hosts": 2},
]
PLAN: Any = {
    "services": {
        "chat": {
            "recipe": "mine", "served_name": "org/model", "measured": MEASURED, "hosts": ["titan"],
            "image": {"reference": "vllm/vllm-openai:v0.33.0"},
        }
    },
    "hosts": {"titan": {"gpu": {"clock_max_mhz": 2150}}},
}  # fmt: skip


def test_a_run_is_in_the_form_of_a_leaderboard() -> None:
    found = shared(run(), PLAN)
    (one,) = found["benchmarks"]
    assert one["tg_throughput"] == {"mean": 42.0, "std": 2.0, "values": [40.0, 44.0]}  # the round that warms up is out
    assert (one["prompt_size"], one["response_size"], one["context_size"], one["concurrency"]) == (2048, 32, 0, 1)
    assert found["environment"]["clock_max_mhz"] == 2150 and found["environment"]["kernel"] == "6.17.0-1026-nvidia"
    assert found["environment"]["image"].startswith("sha256:") and found["environment"]["driver"] == "580.95.05"
    json.dumps(found)


def test_it_names_nothing_of_this_site() -> None:
    text = json.dumps(shared(run(), PLAN))
    for word in ("titan", "canary", "secret", "10.0.0.1", "enp1", "middleware", "http://", "/x", "10.0.0.9", "fd00"):
        assert word not in text
    assert shared(run(), PLAN)["recipe"]["options"] == ["--max-num-seqs 4"]
    private = copy.deepcopy(PLAN)
    private["services"]["chat"]["image"]["reference"] = "10.0.0.5:5000/vllm:1"
    assert "10.0.0.5" not in json.dumps(shared(run(), private))
    path = run()
    path["conditions"]["model"] = f"/models/org--model/snapshots/{'c' * 40}"
    found = shared(path, PLAN)
    assert "/models" not in json.dumps(found)
    assert (found["model"], found["environment"]["revision"]) == ("org/model", "c" * 40)


def test_it_is_compared_with_the_recipe() -> None:
    (line,) = against_recipe(run(), MEASURED)
    assert "30 % below the recipe's 60 (theirs)" in line
    assert list(against_recipe(run(), [])) == []
    (same,) = against_recipe(run(), [{**MEASURED[0], "value": 42.0}])
    assert "as the recipe's 42" in same


def test_the_engines_own_generator_gives_the_same_form() -> None:
    (one,) = shared(run("load"), PLAN)["benchmarks"]
    assert one["tg_throughput"]["values"] == [40.0, 44.0] and one["e2e_ttft"]["mean"] == 300.0


@pytest.mark.parametrize("name", sorted(LIBRARY.recipes))
def test_each_recipe_goes_out_and_comes_back(name: str) -> None:
    data = LIBRARY.recipes[name].data
    written = to_sparkrun(data)
    if written is None:
        assert data["engine"] == "trtllm" or not data["image"].get("reference")
        return
    again, findings = import_recipe(yaml.safe_load(yaml.safe_dump(written)), name)
    assert again is not None, [one.sentence() for one in findings]
    assert again["flags"] == {key: value for key, value in data["flags"].items() if key not in DECIDED}
    assert (again["env"], again["kind"], again["engine"]) == (data["env"], data["kind"], data["engine"])
    assert {*again["host_counts"]} >= {min(data["host_counts"]), max(data["host_counts"])}
    for part in ("repository", "revision"):
        assert again["model"][part] == data["model"][part]
    assert again["image"].get("digest") == data["image"].get("digest")
    assert again["memory"].get("kv_bytes_max", {}).get("value") == data["memory"].get("kv_bytes_max", {}).get("value")


def test_an_own_recipe_is_written_by_the_playbook(tmp_path: Path) -> None:
    given = {
        "recipe_import_file": str(SHIPPED_RECIPES / "qwen3-8b-fp8.yml"),
        "recipe_import_folder": str(tmp_path),
        "recipe_import_form": "sparkrun",
    }
    words = [f"-e{key}={value}" for key, value in given.items()]
    command = ["ansible-playbook", str(ROOT / "playbooks" / "recipe_import.yml"), *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    written = yaml.safe_load((tmp_path / "qwen3-8b-fp8.sparkrun.yaml").read_text("utf-8"))
    assert written["recipe_version"] == "2" and written["command"].startswith("vllm serve {model}")


def test_a_recipe_that_ended_names_one_that_is_there() -> None:
    ended = {name: one.data["status"].get("ended") for name, one in LIBRARY.recipes.items()}
    named = {name: one["successor"] for name, one in ended.items() if one}
    assert named and all(LIBRARY.recipes[other].data["status"].get("ended") is None for other in named.values())
    data, findings = parse({**LIBRARY.recipes["minimax-m2-awq"].data}, Place(recipe="minimax-m2-awq"))
    assert data is not None
    (one,) = [finding for finding in findings if finding.rule == "recipe-ended"]
    assert one.severity == "hint" and "minimax-m2.7-awq" in one.sentence()
