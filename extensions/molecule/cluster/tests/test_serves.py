# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both ranks serve one endpoint, with no more rights than they need."""

from __future__ import annotations

import json

import pytest
from cluster.bare import HOSTS
from cluster.pair import CONTAINER, SECRET, Pair


def test_both_ranks_answer_through_the_heads_endpoint(pair: Pair) -> None:
    status, reply = pair.ask(pair.key)
    assert status == 200
    assert "-tp2-" in reply["system_fingerprint"]
    seen = pair.status("spark-2")
    assert [(rank["host"], rank["state"]) for rank in seen["ranks_seen"]] == [("spark-3", "serving")]


def test_without_the_key_nobody_is_answered(pair: Pair) -> None:
    assert pair.ask("wrong")[0] == 401


@pytest.mark.parametrize("rank", HOSTS)
def test_a_rank_has_what_rdma_needs_and_no_more(pair: Pair, rank: str) -> None:
    settings = json.loads(pair.fleet.root(rank, f"docker inspect {CONTAINER}"))[0]["HostConfig"]
    assert settings["Privileged"] is False
    # Docker says it with and without its prefix, by version
    assert [name.removeprefix("CAP_") for name in settings["CapAdd"]] == ["IPC_LOCK"]
    assert [device["PathOnHost"] for device in settings["Devices"]] == ["/dev/infiniband"]
    assert {"Name": "memlock", "Hard": -1, "Soft": -1} in settings["Ulimits"]
    assert (settings["NetworkMode"], settings["IpcMode"]) == ("host", "private")


def test_each_rank_gets_the_gid_that_its_host_has_now(pair: Pair) -> None:
    for host in HOSTS:
        environment = json.loads(pair.fleet.root(host, f"docker inspect {CONTAINER}"))[0]["Config"]["Env"]
        (index,) = [word.partition("=")[2] for word in environment if word.startswith("NCCL_IB_GID_INDEX=")]
        table = "/sys/class/infiniband/rocep1s0f1/ports/1"
        assert pair.fleet.root(host, f"cat {table}/gid_attrs/types/{index}").strip() == "RoCE v2"


def test_the_ranks_share_a_secret_that_only_root_reads(pair: Pair) -> None:
    first, second = pair.secrets()
    assert first == second
    assert len(first) == 64
    for host in HOSTS:
        assert pair.fleet.root(host, f"stat -c %a:%U {SECRET}") == "600:root\n"


def test_it_is_as_declared(pair: Pair) -> None:
    """What Docker, the kernel and vLLM make of a group's hosts is no drift."""
    run = pair.playbook("drift.yml", "--limit", ",".join(HOSTS))
    assert run.returncode == 0, run.stdout[-3000:]
