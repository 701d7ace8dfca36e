# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real llama.cpp alone and over two hosts: it answers, its group alone reaches the RPC port, killed it heals."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from lab.fixtures import Fleet, eventually

SCENARIO = Path(__file__).resolve().parents[1]
HEAD, WORKER = "spark-2", "spark-3"
ADDRESSES = {HEAD: "10.77.0.11", WORKER: "10.77.0.12"}
KEY = (SCENARIO / "key.txt").read_text().strip()
RPC_PORT = 22000
BODY = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4})


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return Fleet(Path(os.environ["GB10_LAB_DIR"]))


def ask(fleet: Fleet, port: int, key: str) -> tuple[int, dict[str, Any]]:
    """HTTP status and reply of one request from outside."""
    headers = ["--header", "Content-Type: application/json", "--header", f"Authorization: Bearer {key}"]
    url = f"http://{ADDRESSES[HEAD]}:{port}/v1/chat/completions"
    curl = ["curl", "--silent", "--max-time", "60", "--write-out", "\n%{http_code}", *headers, "--data", BODY, url]
    reply, _, status = fleet.lab("net", "--", *curl, check=False).stdout.rpartition("\n")
    return int(status), json.loads(reply or "{}")


def status(fleet: Fleet, host: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet.root(host, "cat /run/gb10-fleet/pair/status.json"))
    return found


def test_both_services_answer(fleet: Fleet) -> None:
    for port in (8000, 8010):
        code, reply = ask(fleet, port, KEY)
        assert (code, reply["usage"]["completion_tokens"]) == (200, 4), port
        assert reply["choices"][0]["message"]["content"].isascii()
    assert ask(fleet, 8000, "wrong")[0] == 401


def test_the_layers_are_on_the_other_host(fleet: Fleet) -> None:
    log = fleet.root(HEAD, "journalctl --no-pager --output cat --unit gb10-service-pair")
    assert f"RPC0[{status(fleet, HEAD)['ranks_seen'][0]['address']}:{RPC_PORT}] model buffer size" in log
    assert f"****{KEY[-4:]}" not in log
    assert "api_keys: ***" in log


def test_the_rpc_port_is_open_to_the_group_alone(fleet: Fleet) -> None:
    address = status(fleet, HEAD)["ranks_seen"][0]["address"]
    assert fleet.root(WORKER, f"ss -Htln 'sport = {RPC_PORT}'").split()[3] == f"{address}:{RPC_PORT}"
    for target in (address, ADDRESSES[WORKER]):
        reached = fleet.lab("net", "--", "curl", "--max-time", "3", f"telnet://{target}:{RPC_PORT}", check=False)
        assert reached.returncode in (7, 28), f"{target}: {reached.returncode}"  # refused, or nobody answers


def test_the_head_alone_has_the_file_and_nothing_else_of_its_folder(fleet: Fleet) -> None:
    find = "find /var/lib/gb10-fleet/hf/hub -path '*snapshots*' -type l"
    (file,) = fleet.root(HEAD, find).split()
    assert file.endswith("/F16/tiny-F16.gguf")
    assert fleet.root(WORKER, find, check=False) == ""


@pytest.mark.parametrize("rank", [HEAD, WORKER])
def test_a_killed_rank_ends_in_answers_again(fleet: Fleet, rank: str) -> None:
    epoch = status(fleet, HEAD)["epoch"]
    fleet.root(rank, "docker kill gb10-service-pair")
    eventually(lambda: status(fleet, HEAD)["epoch"] > epoch, "a new epoch")
    eventually(lambda: status(fleet, HEAD)["state"] == "serving", "it serves")
    assert ask(fleet, 8000, KEY)[0] == 200
