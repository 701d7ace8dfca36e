# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A prompt of --minutes is read to its end by the real vLLM, a hang is found: alone and beside others, on one host and
on two.

A tiny model is slow by an imitation (slow_steps); all that a supervisor sees is vLLM's own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .bare import HOSTS
from .group import CONTAINER, KEY, KEY_CHECK, KEY_FILE, LISTEN, MANAGEMENT, NAME, PORT, SERVE, UNIT, UTILITIES, Group

pytestmark = pytest.mark.whole
PLUGIN = Path(__file__).with_name("slow_steps")
# A chunk is a block of the KV cache on a CPU.
CHUNK, PROMPT, CONTEXT = 128, 28_000, 32_768
# Of so few steps, each of which takes minutes.
SHORT = 6 * CHUNK
# Ray is of groups: no lab of it for these.
ALONE = pytest.mark.parametrize("real_group", [False], indirect=True, ids=["nnodes"])
HOLD = f"docker exec {CONTAINER} touch /tmp/hold"
# Docs: a hang is found within six minutes; and the time that it takes to end its containers, on a machine under load.
FOUND_S = 360 + 60


@pytest.fixture(scope="module")
def minutes(request: pytest.FixtureRequest) -> float:
    return float(request.config.getoption("--minutes"))


def _slow(group: Group, rank: int, minutes: float, prompt: int = PROMPT, **changes: Any) -> dict[str, Any]:
    """A rank's file whose engine takes that long for a prompt, with the plan's own limits."""
    step_s = 60 * minutes / (prompt / CHUNK)
    variables = {"PYTHONPATH": "/opt/gb10-fleet:/opt/slow", "SLOW_STEP_S": f"{step_s:.3f}"}
    limits = {"startup_limit_s": 600, "canary_s": 30, "stop_s": 30}
    written = group.service(rank, environment=variables, limits=limits, **changes)
    at = written["run"].index(group.image)
    for host in HOSTS:
        for file in (path for path in PLUGIN.rglob("*") if path.is_file() and path.suffix != ".pyc"):
            group.write(host, f"/opt/slow/{file.relative_to(PLUGIN)}", file.read_text("utf-8"))
    written["run"][at:at] = ["--mount", "type=bind,source=/opt/slow,target=/opt/slow,readonly"]
    # Ray's containers run Ray, and vLLM beside it
    serves = "serve" if group.ray else "run"
    if written[serves]:
        words = [str(CONTEXT) if word == "2048" else word for word in written[serves]]
        written[serves] = [*words, "--max-num-batched-tokens", str(CHUNK)]
    return written


def _place(group: Group, files: dict[str, dict[str, Any]]) -> None:
    group.stop()
    for host, written in files.items():
        group.write(host, f"/etc/gb10-fleet/services/{NAME}.json", json.dumps(written))
        group.fleet.root(host, f"systemctl daemon-reload; systemctl start {UNIT}")
    for host, written in files.items():
        if written["rank"] == 0:
            group.until(lambda host=host: group.status(host)["state"] == "serving", f"{host} serves", 900)


@pytest.fixture
def solos(real_group: Group, minutes: float, request: pytest.FixtureRequest) -> Iterator[Group]:
    """One service on each host. Its parameter: the prompt that takes `minutes`."""
    alone = {"ranks": 1, "peers": [], "rendezvous": None, "adapter": None, "secret_file": None}
    written = _slow(real_group, 0, minutes, request.param, **alone)
    at = written["run"].index(real_group.image)
    serve = ["1" if word == "2" else str(CONTEXT) if word == "2048" else word for word in SERVE]
    written["run"] = [*written["run"][: at + 1], *serve, *LISTEN, "--max-num-batched-tokens", str(CHUNK)]
    real_group.write(HOSTS[1], KEY_CHECK, (UTILITIES / "_on_host" / "api_key.py").read_text("utf-8"))
    real_group.write(HOSTS[1], KEY_FILE, f'api-key: "{KEY}"\n', mode="600")
    _place(real_group, dict.fromkeys(HOSTS, written))
    yield real_group


@pytest.fixture
def pair(real_group: Group, minutes: float) -> Iterator[Group]:
    _place(real_group, {host: _slow(real_group, rank, minutes) for rank, host in enumerate(HOSTS)})
    yield real_group


def ask(group: Group, host: str, prompt: int, tokens: int, patience_s: float) -> dict[str, Any]:
    """A completion, or an empty map where none came."""
    asked = {"model": "tiny", "prompt": "x" * prompt, "max_tokens": tokens, "ignore_eos": True, "temperature": 0}
    headers = ["-H", f"Authorization: Bearer {KEY}", "-H", "Content-Type: application/json"]
    url = f"http://{MANAGEMENT[host]}:{PORT}/v1/completions"
    words = ["curl", "-sf", "-m", str(round(patience_s)), *headers, "-d", json.dumps(asked), url]
    reply = group.fleet.lab("net", "--", *words, check=False).stdout
    found: dict[str, Any] = json.loads(reply) if reply else {}
    return found


def come_and_go(group: Group, host: str, over: Callable[[], bool]) -> None:
    """Clients that give up after a minute and come again, each with another prompt."""
    number = 0
    while not over():
        number += 1
        ask(group, host, 300 + 777 * number % 4000, 8, 60)


def read_whole(group: Group, hosts: tuple[str, ...], minutes: float, beside: str, prompt: int = PROMPT) -> None:
    """On each of the hosts a long prompt; on `beside` others ask meanwhile."""
    epochs = {host: group.status(host)["epoch"] for host in hosts}
    before, began = {host: _ends(group, host) for host in hosts}, time.monotonic()
    with ThreadPoolExecutor(4) as clients:
        prompts: dict[str, Future[dict[str, Any]]] = {
            host: clients.submit(ask, group, host, prompt, 2, 60 * minutes * 3) for host in hosts
        }
        others = clients.submit(come_and_go, group, beside, prompts[beside].done) if beside else None
        for host, answer in prompts.items():
            assert answer.result().get("usage", {}).get("prompt_tokens", 0) >= prompt, group.journal(host)[-3000:]
            print(f"\n{host}: {prompt} tokens read after {time.monotonic() - began:.0f} s")
        if others:
            others.result()
    for host in hosts:
        seen = group.status(host)
        assert (seen["state"], seen["epoch"]) == ("serving", epochs[host])
        assert _ends(group, host) == before[host]


def found_hung(group: Group, heads: tuple[str, ...], held: tuple[str, ...], beside: str) -> dict[str, str]:
    """Why the epochs ended of heads that were asked while the ranks on `held` spin."""
    epochs = {host: group.status(host)["epoch"] for host in heads}
    over = dict.fromkeys(heads, False)
    with ThreadPoolExecutor(8) as clients:
        for host in heads:
            for prompt in (400, 900) if host == beside else (400,):
                clients.submit(ask, group, host, prompt, CONTEXT - 1000, FOUND_S)
        group.until(lambda: all(_runs(group, host) for host in heads), "requests run", 90)
        for host in held:
            group.fleet.root(host, HOLD)
        began = time.monotonic()
        if beside:
            clients.submit(come_and_go, group, beside, lambda: over[beside])
        for host in heads:
            group.until(lambda host=host: _ended(group, host, epochs[host]), f"{host} ends its epoch", FOUND_S)
            over[host] = True
            print(f"\n{host}: the hang was found {time.monotonic() - began:.0f} s after it began")
    return {host: group.status(host)["last_end"] for host in heads}


def _ends(group: Group, host: str) -> int:
    return group.journal(host).count("whatever /health says")


def _runs(group: Group, host: str) -> bool:
    counted = (
        f"curl -s -H 'Authorization: Bearer {KEY}' http://127.0.0.1:{PORT}/metrics | grep ^vllm:num_requests_running"
    )
    return not group.fleet.root(host, counted, check=False).strip().endswith(" 0.0")


def _ended(group: Group, host: str, epoch: int) -> bool:
    seen = group.status(host)
    return bool(seen["state"] == "ending" or seen["epoch"] > epoch)


@ALONE
@pytest.mark.parametrize("solos", [SHORT], indirect=True, ids=["few"])
def test_steps_of_minutes(solos: Group, minutes: float) -> None:
    read_whole(solos, HOSTS, minutes, beside="", prompt=SHORT)


@ALONE
@pytest.mark.parametrize("solos", [PROMPT], indirect=True, ids=["many"])
def test_on_one_host_alone_and_beside_others(solos: Group, minutes: float) -> None:
    read_whole(solos, HOSTS, minutes, beside=HOSTS[1])
    for reason in found_hung(solos, HOSTS, HOSTS, beside=HOSTS[1]).values():
        assert "its processes work, and nothing has been computed for 3" in reason


def test_over_two_hosts(pair: Group, minutes: float) -> None:
    """Here vLLM itself gives up on a step after 300 s, and ends with status 0. Ray's processes stand still where those
    of vLLM's own multi-node spin, so that the judge finds that nothing works, after 98 s instead of 300: each of its
    reasons counts, within FOUND_S."""
    read_whole(pair, HOSTS[:1], minutes, beside="")
    reason = found_hung(pair, HOSTS[:1], HOSTS[1:], beside=HOSTS[0])[HOSTS[0]]
    assert "the endpoint is dead, whatever /health says" in reason or "status 0: as vLLM does" in reason
