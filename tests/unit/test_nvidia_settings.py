# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVIDIA itself runs on DGX Sparks passes, as a launch and as a plan: tests/data/nvidia_settings.yml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.foreign import import_recipe
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, Recipe, load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.lint.judge import lint_map
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.docker_command import words_of
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.trust import TRUST

ROWS = yaml.safe_load((Path(__file__).parents[1] / "data" / "nvidia_settings.yml").read_text("utf-8"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_it_passes_without_an_error(row: Mapping[str, Any]) -> None:
    hosts, words = row.get("hosts", 1), words_of(row["words"])
    # what a plan adds: how the ranks find each other, and what their network is
    if hosts > 1:
        ray = "ray" in words
        words += ["--tensor-parallel-size", str(hosts)]
        words += [] if ray else ["--nnodes", str(hosts), "--node-rank", "0", "--master-addr", "192.168.100.1"]
        words += [] if ray or "vllm" in words else ["--distributed-executor-backend", "mp"]
    network = {"NCCL_SOCKET_IFNAME": "a", "GLOO_SOCKET_IFNAME": "a", "UCX_NET_DEVICES": "a", "TP_SOCKET_IFNAME": "a"}
    ours = {**network, "VLLM_HOST_IP": "192.168.100.1", "RAY_memory_monitor_refresh_ms": "0"} if hosts > 1 else {}
    launch = {
        "image": row["image"],
        "argv": words,
        "env": {**ours, **row.get("env", {})},
        **({"vllm_version": row["release"]} if "release" in row else {}),
        **({"group": {"hosts": hosts}} if hosts > 1 else {}),
        "place": row["id"],
    }
    errors = {finding["rule"]: finding["found"] for finding in lint_map(launch) if finding["severity"] == "error"}
    assert errors.keys() == row.get("refused", {}).keys(), errors


SHIPPED, _ = load_all([Path(__file__).parents[2] / "recipes"])
# A folder in the container stands for no model of the hub.
OF_THE_HUB = [row for row in ROWS if not row["words"].removeprefix("vllm serve ").startswith("/")]


@pytest.mark.parametrize("row", OF_THE_HUB, ids=lambda row: row["id"])
def test_it_is_planned_without_an_error(row: Mapping[str, Any]) -> None:
    name = re.sub(r"[^a-z0-9.]+", "-", row["id"].lower())
    hosts = [f"host-{number}" for number in range(1, row.get("hosts", 1) + 1)]
    command = row["words"] if "vllm serve" in row["words"] else f"vllm serve {row['words']}"
    recipe, problems = import_recipe(
        {
            "model": command.removeprefix("vllm serve ").split()[0],
            "container": row["image"],
            "command": f"{command} --tensor-parallel-size {len(hosts)}" if len(hosts) > 1 else command,
            "env": row.get("env", {}),
            "min_nodes": len(hosts),
        },
        name,
    )
    assert recipe is not None, [problem.sentence() for problem in problems]
    recipe["image"]["release"] = row.get("release", recipe["image"].get("release"))
    ports = {f"{host}:1": at for at, host in enumerate(hosts, 1)}
    variables = {
        "fleet_services": {"x": {"recipe": name, "hosts": hosts, "port": 8000, "trust": [*TRUST]}},
        "fleet_fabric": {"switches": {"switch": {"ports": ports}}} if len(hosts) > 1 else {},
    }
    addressed = {host: {"address": f"192.0.2.{at}", "variables": variables} for at, host in enumerate(hosts, 1)}
    library = Library({name: Recipe(name, recipe, Path("recipe.yml"))}, SHIPPED.folders)
    plan = plan_fleet({"hosts": addressed, "folder": "."}, library)
    errors = {found["rule"]: found["found"] for found in plan["findings"] if found["severity"] == "error"}
    assert errors.keys() <= row.get("refused", {}).keys(), errors
