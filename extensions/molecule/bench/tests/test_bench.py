# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real vLLM is measured and compared; what is not whole is not kept."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.form import BETTER, earlier
from testinfra.host import Host

testinfra_hosts = ["ssh://titan"]

Playbook = Callable[..., "subprocess.CompletedProcess[str]"]
ROOT = Path(__file__).resolve().parents[4]
FLEET = f"@{ROOT}/extensions/molecule/bench/vars/fleet.yml"
KEPT = ROOT / "inventories/lab/.fleet/observed/bench"
UNIT = "gb10-service-tiny.service"
SMALL = ("prompts=256", "answer=16", "rounds=4")


def bench(playbook: Playbook, *extra: str) -> subprocess.CompletedProcess[str]:
    words = [word for one in (FLEET, "service=tiny", *SMALL, *extra) for word in ("-e", one)]
    return playbook("gb10.fleet.bench", "-i", "inventories/lab", "-l", "titan", *words)


def kept() -> set[Path]:
    return {*KEPT.glob("tiny-*")}


def test_it_is_measured_against_itself_and_kept_with_what_it_ran_on(playbook: Playbook, host: Host) -> None:
    before = kept()
    found = bench(playbook, "concurrency=1", "against=tiny")
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("no difference shown") >= len(BETTER)
    runs = [path for path in kept() - before if path.suffix == ".json"]
    assert len(runs) == 2
    image = host.check_output("docker inspect --format '{{.Image}}' gb10-service-tiny")
    for run in runs:
        document = earlier(run.read_bytes(), run.name)
        assert {name: len(values["tokens/s"]) for name, values in document["values"].items()} == {"256 tokens x 1": 4}
        assert document["conditions"]["image"] == image
        assert document["conditions"]["kernel"] == host.check_output("uname -r")
        assert document["raw"][0]["result"]["completed"] == 4
    (page,) = (path for path in kept() - before if path.suffix == ".html")
    assert page.read_text("utf-8").count("<svg") == len(BETTER)
    key = (ROOT / "extensions/molecule/bench/vars/key.txt").read_text("utf-8").strip()
    assert not any(key in text for text in (found.stdout, *(path.read_text("utf-8") for path in kept() - before)))
    # another workload is refused before anything is measured
    kept_now = kept()
    refused = bench(playbook, "concurrency=1", "answer=8", f"against={runs[0].stem}")
    assert refused.returncode != 0
    assert f"the workload of {runs[0].stem}" in refused.stdout
    assert kept() == kept_now


@pytest.mark.whole
def test_requests_at_once_and_after_a_prefix_are_points_of_one_run(playbook: Playbook) -> None:
    before = kept()
    found = bench(playbook, "concurrency=4", "depths=256")
    assert found.returncode == 0, found.stdout + found.stderr
    (run,) = (path for path in kept() - before if path.suffix == ".json")
    document = earlier(run.read_bytes(), run.name)
    assert {name: len(values["tokens/s"]) for name, values in document["values"].items()} == {
        "256 tokens x 1": 4,
        "256 tokens x 4": 4,
        "256 tokens after 256 x 1": 4,
    }
    # the engine counts what it reads, the prefix that all have in common among it
    assert min(document["shown"]["256 tokens after 256 x 1"]["prompt tokens/s"]) > 0
    line = next(line for line in found.stdout.splitlines() if '"decode"' in line)
    assert json.loads(line.removeprefix("- "))["unit"] == "tok/s"


@pytest.mark.whole
def test_images_for_a_model_that_takes_none_end_in_a_sentence(playbook: Playbook) -> None:
    before = kept()
    refused = bench(playbook, "concurrency=1", "images=64x64")
    assert refused.returncode != 0
    assert (
        "tiny can't be measured at 256 tokens, 64x64 x 1: 0 of 4 requests were answered, expected all" in refused.stdout
    )
    assert kept() == before


@pytest.fixture
def tunnel() -> Iterator[int]:
    """A port of this machine that leads to the endpoint: the lab's network is the hosts' own."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    forward = f"127.0.0.1:{port}:127.0.0.1:8000"
    lab = Path(os.environ["GB10_LAB_DIR"])
    # of its own: what goes through Ansible's connection ends with it
    own = ("-o", "ControlPath=none", "-o", "ExitOnForwardFailure=yes", "-o", "ConnectTimeout=60")
    with subprocess.Popen(["ssh", "-F", str(lab / "ssh_config"), *own, "-N", "-L", forward, "titan"]) as begun:
        while not is_open(port):
            assert begun.poll() is None, "ssh ended"
            time.sleep(0.2)
        yield port
        begun.terminate()


def is_open(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 5):
            return True
    except OSError:
        return False


@pytest.mark.whole
def test_the_communitys_benchmark_through_the_endpoint(playbook: Playbook, tunnel: int) -> None:
    """By its certificate and key, which no process of this machine shows meanwhile."""
    before, over, shown = kept(), threading.Event(), list[str]()
    key = (ROOT / "extensions/molecule/bench/vars/key.txt").read_text("utf-8").strip()

    def look() -> None:
        while not over.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    text = path.read_bytes().decode(errors="replace")
                    shown.extend(text.split("\0")[:3] if key in text else ())
            time.sleep(0.2)

    helper = threading.Thread(target=look)
    helper.start()
    found = bench(
        *(playbook, "profile=owner", f"endpoint=https://127.0.0.1:{tunnel}/v1", f"book={ROOT}/docs/how-to/drift.md"),
        # the tiny model's answer has to be long, or all its tokens come in one piece on a busy machine
        *("depths=0,512", "prompts=256", "answer=512"),
    )
    over.set()
    helper.join()
    assert found.returncode == 0, found.stdout + found.stderr
    assert shown == []
    (run,) = (path for path in kept() - before if path.suffix == ".json")
    document = earlier(run.read_bytes(), run.name)
    assert {name: len(values["tokens/s"]) for name, values in document["values"].items()} == {
        "pp256 tg512": 4,
        "pp256 tg512 @ d512": 4,
    }
    assert document["profile"] == "owner"
    assert "tg512 @ d512" in found.stdout
    # nobody serves at this address
    refused = bench(
        playbook, "profile=owner", "endpoint=https://127.0.0.1:9/v1", "depths=0", f"book={ROOT}/docs/how-to/drift.md"
    )
    assert refused.returncode != 0
    assert "tiny can't be measured at pp256 tg16: llama-benchy ended with 1" in refused.stdout
    assert key not in refused.stdout + found.stdout + run.read_text("utf-8")
