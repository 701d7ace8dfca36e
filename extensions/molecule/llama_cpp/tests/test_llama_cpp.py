# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real llama.cpp alone and over two hosts: it answers, drafts, embeds and ranks, it is as planned, its group alone
reaches the RPC port, and whatever is lost, it answers again without anybody. Beside it other engines, as stand-ins with
their real options."""

from __future__ import annotations

import base64
import json
import os
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.llama_cpp import boot_log, buffers, projector
from lab.fixtures import Fleet, eventually, rank_rows

pytestmark = pytest.mark.story
Playbook = Callable[..., "subprocess.CompletedProcess[str]"]
SCENARIO = Path(__file__).resolve().parents[1]
HEAD, WORKER = "spark-2", "spark-3"
ADDRESSES = {HEAD: "10.77.0.11", WORKER: "10.77.0.12"}
KEY = (SCENARIO / "key.txt").read_text().strip()
RPC_PORT = 22000
HOSTS = f"localhost,{HEAD},{WORKER}"
FLEET = ("-i", "inventories/lab", "-e", f"@{SCENARIO / 'vars' / 'fleet.yml'}", "--limit", HOSTS)
HEADER = SCENARIO.parents[2] / "inventories" / "lab" / "recipes" / "configs" / "lab-tiny-gguf.json"
# As vars/fleet.yml declares both.
SETTINGS = buffers.Settings(context=2048, slots=2)


def _png(edge: int) -> bytes:
    """A grey square."""
    rows = edge * (b"\0" + edge * b"\x80")
    parts = {b"IHDR": struct.pack(">IIBBBBB", edge, edge, 8, 0, 0, 0, 0), b"IDAT": zlib.compress(rows), b"IEND": b""}
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts.items()
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


PICTURE = base64.b64encode(_png(28)).decode()
BODY = json.dumps({"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4})
STAND_IN = "This is a stand-in"


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return Fleet(Path(os.environ["GB10_LAB_DIR"]))


def ask(
    fleet: Fleet, port: int, key: str, host: str = HEAD, path: str = "/v1/chat/completions", body: str = BODY
) -> tuple[int, dict[str, Any]]:
    """HTTP status and reply of one request from outside."""
    headers = ["--header", "Content-Type: application/json", "--header", f"Authorization: Bearer {key}"]
    url = f"http://{ADDRESSES[host]}:{port}{path}"
    curl = ["curl", "--silent", "--max-time", "60", "--write-out", "\n%{http_code}", *headers, "--data", body, url]
    reply, _, status = fleet.lab("net", "--", *curl, check=False).stdout.rpartition("\n")
    return int(status), json.loads(reply or "{}")


def answers(fleet: Fleet, port: int) -> None:
    """With what the head's supervisors last noted, among it an engine that the memory guard ended: hosts of a lab share
    this machine's memory with all that runs beside them."""
    code, reply = ask(fleet, port, KEY)
    assert code == 200, f"{reply}\n" + fleet.root(HEAD, "journalctl --no-pager --grep '^gb10.fleet: ' --lines 20")


def status(fleet: Fleet, host: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet.root(host, "cat /run/gb10-fleet/pair/status.json"))
    return found


def test_both_services_answer(fleet: Fleet) -> None:
    for port in (8000, 8010):
        code, reply = ask(fleet, port, KEY)
        assert (code, reply["usage"]["completion_tokens"]) == (200, 4), port
        assert reply["choices"][0]["message"]["content"].isascii()
    assert ask(fleet, 8000, "wrong")[0] == 401


def test_sglang_is_served_over_two_hosts_and_its_key_is_in_no_log(fleet: Fleet) -> None:
    code, reply = ask(fleet, 8020, KEY, WORKER)
    assert (code, reply["choices"][0]["message"]["content"]) == (200, STAND_IN[:4])
    assert ask(fleet, 8020, "wrong", WORKER)[0] == 401
    log = fleet.root(WORKER, "journalctl --no-pager --output cat --unit gb10-service-sglang")
    assert "api_key='***'" in log, "SGLang prints its options"
    assert "max_total_num_tokens=2048" in log
    for host in (HEAD, WORKER):
        seen = fleet.root(host, "docker inspect gb10-service-sglang; ps -eo args; journalctl --no-pager --boot")
        assert KEY not in seen


def test_tensorrt_llm_answers_on_its_own_host_alone(fleet: Fleet) -> None:
    body = json.dumps({**json.loads(BODY), "model": "gb10-lab/tiny"})
    curl = f"curl --silent --max-time 60 -H 'Content-Type: application/json' --data '{body}'"
    reply = json.loads(fleet.root(WORKER, f"{curl} http://127.0.0.1:8030/v1/chat/completions"))
    assert (reply["model"], reply["choices"][0]["message"]["content"]) == ("gb10-lab/tiny", STAND_IN[:4])
    assert "for max tokens in paged KV cache (2048)" in fleet.root(WORKER, "journalctl --unit gb10-service-trtllm")
    for port in (8030, 22030, 26030):  # its own, and those of Ray
        url = f"telnet://{ADDRESSES[WORKER]}:{port}"
        assert fleet.lab("net", "--", "curl", "--max-time", "3", url, check=False).returncode in (7, 28), port


def test_the_layers_are_on_the_other_host(fleet: Fleet) -> None:
    log = fleet.root(HEAD, "journalctl --no-pager --output cat --unit gb10-service-pair")
    assert f"RPC0[{status(fleet, HEAD)['ranks_seen'][0]['address']}:{RPC_PORT}] model buffer size" in log
    assert f"****{KEY[-4:]}" not in log
    assert "api_keys: ***" in log


def test_a_model_embeds_and_another_one_ranks(fleet: Fleet) -> None:
    body = json.dumps({"model": "gb10-lab/tiny-gguf", "input": "Hello"})
    code, reply = ask(fleet, 8040, KEY, path="/v1/embeddings", body=body)
    assert (code, len(reply["data"][0]["embedding"])) == (200, 64)
    body = json.dumps({"model": "gb10-lab/tiny-gguf", "query": "Hello", "documents": ["Hello", "Goodbye"]})
    code, reply = ask(fleet, 8050, KEY, path="/v1/rerank", body=body)
    assert (code, sorted(one["index"] for one in reply["results"])) == (200, [0, 1])


def test_a_template_of_its_recipe_is_used(fleet: Fleet) -> None:
    code, reply = ask(fleet, 8010, KEY, path="/apply-template")
    assert (code, reply["prompt"]) == (200, "<user> Hello\n<assistant>")


def test_a_picture_is_tokens_of_the_prompt(fleet: Fleet) -> None:
    """28 pixels a side are four patches of 14."""
    text = {"type": "text", "text": "Hello"}
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}}
    counts = []
    for content in ([text], [text, shown]):
        body = json.dumps({"model": "tiny-solo", "max_tokens": 2, "messages": [{"role": "user", "content": content}]})
        code, reply = ask(fleet, 8010, KEY, body=body)
        assert code == 200, reply
        counts.append(reply["usage"]["prompt_tokens"])
    assert counts[1] - counts[0] >= 4


def test_a_draft_model_drafts(fleet: Fleet) -> None:
    """Of random weights, but the same ones: some of what it drafts is what the model would have written."""
    answers(fleet, 8010)
    drafted = "journalctl --output cat --unit gb10-service-solo | grep --quiet 'draft acceptance = '"
    eventually(lambda: fleet.ok(HEAD, drafted), "the log says how many were taken, once the answer is out")


@pytest.mark.parametrize(("service", "hosts", "models"), [("solo", 1, 2), ("pair", 2, 1)])
def test_the_buffers_that_it_prints_are_the_planned_ones(fleet: Fleet, service: str, hosts: int, models: int) -> None:
    """All hosts' together: without a GPU the head has no device of its own, and gives all layers to the others. models:
    with the one that drafts, which is the same."""
    known = json.loads(HEADER.read_text())
    facts, eye = known["gguf"], known["projector"]
    planned = models * buffers.buffers(facts, SETTINGS, [1.0] * hosts, gpu=False)
    log = fleet.root(HEAD, f"journalctl --no-pager --output cat --unit gb10-service-{service}")
    log = log.rpartition("print_info: build")[2]  # of its last start
    seen = boot_log.buffers(log)
    for kind in ("model", "KV"):
        mib = sum(found for (_, one), found in seen.items() if one == kind)
        of = "cache" if kind == "KV" else kind
        assert mib == pytest.approx(sum(getattr(rank, of) for rank in planned) / (1 << 20), rel=0.01), (kind, seen)
    if service == "solo":
        computed = projector.bytes_of(eye, projector.largest(eye, None))
        for kind, size in {"model": eye["total"], "compute": computed}.items():
            assert boot_log.of_projector(log)[kind] == pytest.approx(size / (1 << 20), abs=0.01), kind


def test_it_is_as_declared_and_status_names_both(playbook: Playbook) -> None:
    drift = playbook("drift.yml", *FLEET)
    assert drift.returncode == 0, drift.stdout[-3000:]
    shown = playbook("status.yml", *FLEET).stdout
    assert rank_rows(shown, "pair", "solo", "sglang", "trtllm") == [
        ["pair", "0", HEAD, "serving"],
        ["pair", "1", WORKER, "serving"],
        ["sglang", "0", WORKER, "serving"],
        ["sglang", "1", HEAD, "serving"],
        ["solo", "0", HEAD, "serving"],
        ["trtllm", "0", WORKER, "serving"],
        ["trtllm", "1", HEAD, "serving"],
    ], shown


def test_the_rpc_port_is_open_to_the_group_alone(fleet: Fleet) -> None:
    address = status(fleet, HEAD)["ranks_seen"][0]["address"]
    assert fleet.root(WORKER, f"ss -Htln 'sport = {RPC_PORT}'").split()[3] == f"{address}:{RPC_PORT}"
    for target in (address, ADDRESSES[WORKER]):
        reached = fleet.lab("net", "--", "curl", "--max-time", "3", f"telnet://{target}:{RPC_PORT}", check=False)
        assert reached.returncode in (7, 28), f"{target}: {reached.returncode}"  # refused, or nobody answers


def test_the_head_alone_has_the_file_and_nothing_else_of_its_folder(fleet: Fleet) -> None:
    find = "find /var/lib/gb10-fleet/hf/hub -path '*tiny-gguf*snapshots*' -type l"
    file, projector = sorted(fleet.root(HEAD, find).split(), key=lambda path: path.rpartition("/")[2], reverse=True)
    assert file.endswith("/F16/tiny-F16.gguf")
    assert projector.endswith("/mmproj-tiny-F32.gguf")
    assert fleet.root(WORKER, find, check=False) == ""


def heals(fleet: Fleet, harm: Callable[[], object], later: bool = True) -> None:
    """later: whether the head goes on counting its epochs."""
    epoch = status(fleet, HEAD)["epoch"] if later else 0
    harm()
    eventually(lambda: is_serving(fleet, epoch), "it serves")
    answers(fleet, 8000)


def is_serving(fleet: Fleet, epoch: int) -> bool:
    """In a later epoch; a host that boots is not."""
    seen = json.loads(fleet.root(HEAD, "cat /run/gb10-fleet/pair/status.json", check=False) or "{}")
    return bool(seen and seen["epoch"] > epoch and seen["state"] == "serving")


@pytest.mark.parametrize("rank", [HEAD, WORKER])
def test_a_killed_rank_ends_in_answers_again(fleet: Fleet, rank: str) -> None:
    heals(fleet, lambda: fleet.root(rank, "docker kill gb10-service-pair"))


def test_a_pulled_cable_ends_in_answers_again(fleet: Fleet) -> None:
    """After an owner's restart, for harms more than three in half an hour end it."""

    def pull() -> None:
        fleet.lab("cable", "pull", f"{HEAD}:1")
        try:
            eventually(lambda: status(fleet, HEAD)["state"] == "waiting", "the head waits")
            eventually(lambda: status(fleet, WORKER)["state"] == "waiting", "the worker waits")
            answers(fleet, 8010)
        finally:  # a failure here is not to be that of the rows after it, too
            fleet.lab("cable", "plug", f"{HEAD}:1")

    for action in ("stop", "start"):  # both are stopped first: what serves then was started now
        for host in (HEAD, WORKER):
            fleet.root(host, f"systemctl {action} gb10-service-pair")
    eventually(lambda: is_serving(fleet, 0), "it serves")
    heals(fleet, pull)


@pytest.mark.parametrize("rank", [WORKER, HEAD])
def test_a_host_without_power_ends_in_answers_again(fleet: Fleet, rank: str) -> None:
    heals(fleet, lambda: fleet.lab("power", "cycle", rank), later=rank != HEAD)
    if rank == HEAD:
        eventually(lambda: ask(fleet, 8010, KEY)[0] == 200, "the other service answers")
