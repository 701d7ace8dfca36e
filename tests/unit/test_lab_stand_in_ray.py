# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in's Ray: nodes join by the token alone, vLLM waits for them, and ends with the first that is lost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.ray import NODE
from lab.vllm import tiny_model, top_files
from lab.vllm.packages import SITE
from processes import GIVE_UP_SECONDS, eventually, free_port

PROGRAM = "import sys; sys.path.append(sys.argv[1]); from vllm_stand_in.{0} import main; sys.exit(main(sys.argv[2:]))"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start `ray` or `vllm` of the stand-in in the container `where`: each has a folder of its own."""
    top_files.build_stand_in(tmp_path)
    processes = []
    (tmp_path / "token").write_text("the token\n")

    def begin(program: str, where: str, *words: str, token: str = "token") -> subprocess.Popen[str]:
        (tmp_path / where).mkdir(exist_ok=True)
        (tmp_path / "wrong").write_text("another")
        settings = {"RAY_TMPDIR": str(tmp_path / where), "RAY_AUTH_MODE": "token"}
        settings["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] = "0"
        settings["RAY_AUTH_TOKEN_PATH"] = str(tmp_path / token)
        module = {"ray": "ray", "vllm": "command"}[program]
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM.format(module), str(tmp_path / SITE.lstrip("/")), *words],
                env={"PATH": os.environ["PATH"], **settings},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return processes[-1]

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


def begin_head(start: Start) -> tuple[subprocess.Popen[str], str]:
    """A head that runs, and its address."""
    port = free_port()
    first = start("ray", "head", "start", "--head", "--port", str(port), "--node-ip-address", "127.0.0.1", "--block")
    eventually(lambda: nodes(start) == 1)
    return first, f"127.0.0.1:{port}"


@pytest.fixture
def head(start: Start) -> str:
    return begin_head(start)[1]


def nodes(start: Start) -> int:
    """As the supervisor counts them."""
    return len(re.findall(NODE, start("ray", "head", "status").communicate(timeout=GIVE_UP_SECONDS)[0], re.MULTILINE))


def join(start: Start, head: str, **more: str) -> subprocess.Popen[str]:
    words = ("--node-ip-address", "127.0.0.2", "--min-worker-port", "0", "--max-worker-port", "0", "--block")
    return start("ray", "worker", "start", "--address", head, *words, **more)


def test_a_node_joins_and_is_missed(start: Start, head: str) -> None:
    worker = join(start, head)
    eventually(lambda: nodes(start) == 2)
    worker.kill()
    eventually(lambda: nodes(start) == 1)


def test_both_end_where_they_are_asked_to(start: Start) -> None:
    """By a handler: without one a container's first process hears nothing, and Docker kills it after a minute."""
    first, address = begin_head(start)
    worker = join(start, address)
    eventually(lambda: nodes(start) == 2)
    # in the supervisor's order: the worker has nobody left to tell
    for process in (first, worker):
        process.terminate()
        assert process.wait(GIVE_UP_SECONDS) == 1


def test_nobody_is_answered_without_the_token(start: Start, head: str) -> None:
    join(start, head, token="wrong")
    status = start("ray", "head", "status", token="wrong")
    assert "asks for a token" in status.communicate(timeout=GIVE_UP_SECONDS)[0]
    assert nodes(start) == 1


def test_vllm_waits_for_all_nodes_and_ends_with_the_first_that_is_lost(start: Start, head: str, tmp_path: Path) -> None:
    tiny_model.write(tmp_path / "tiny")
    words = ["serve", str(tmp_path / "tiny"), "--port", str(free_port()), "--tensor-parallel-size", "2"]
    server = start("vllm", "head", *words, "--distributed-executor-backend", "ray")
    worker = join(start, head)
    assert server.stdout is not None
    eventually(lambda: "startup complete" in server.stdout.readline())  # type: ignore[union-attr]
    worker.kill()
    assert server.wait(GIVE_UP_SECONDS) == 0
