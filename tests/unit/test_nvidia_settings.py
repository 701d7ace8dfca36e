# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVIDIA itself runs on DGX Sparks passes: tests/data/nvidia_settings.yml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.lint.judge import lint_map
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.docker_command import words_of

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
