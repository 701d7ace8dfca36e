# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel comes to four hosts that serve: a replica, a group of two, and the gateway with another replica. Every
answer is counted.

Real: apt, dpkg, restarts, Docker, HAProxy, the supervisors, the requests. Imitated: the kernel and its driver as in
`test_hosts.py`, and vLLM (the stand-in).
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lab.fixtures import eventually
from lab.imitations import DRIVER
from lab.vllm import images

from .debs import publish_kernel, withdraw
from .owner import BAD, HOSTS, NEXT, ROOT, Owner, owner_of
from .test_flow import DECLARED

# How fast a service answers here is other labs' matter as well; test_flow.py has one that is slower.
UPDATE = ("-e", "least_speed=0.05")
LOAD = ROOT / "extensions" / "molecule" / "rollout" / "load.py"
KEY, CLIENT = "key-of-the-services-of-this-suite", "key-of-anna-in-this-suite"


@contextmanager
def load(owner: Owner, model: str) -> Iterator[list[dict[str, Any]]]:
    """Streams through the gateway as long as the block takes, every answer counted."""
    ca = owner.fleet.directory / "ca.crt"
    ca.write_text(owner.fleet.root("titan", "cat /usr/local/share/ca-certificates/gb10-fleet-*.crt"))
    words = [str(ROOT / "tests" / "lab" / "lab"), "-d", str(owner.fleet.directory), "net", "--", sys.executable]
    words += [str(word) for word in (LOAD, ca, "10.77.0.11", CLIENT, 2, 20, model)]
    answers: list[dict[str, Any]] = []
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        reader = threading.Thread(target=lambda: answers.extend(json.loads(line) for line in process.stdout or ()))
        reader.start()
        try:
            yield answers
        finally:
            process.stdin.close()
            reader.join()


def served(answers: list[dict[str, Any]]) -> None:
    """None was refused, none was cut off."""
    waited = max(one["waited_ms"] for one in answers) / 1000
    print(f"{len(answers)} answers, the longest wait {waited:.0f} s")
    assert [one for one in answers if one["status"] != 200 or not one["whole"]] == []


@pytest.fixture(scope="module")
def owner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owner]:
    share = images.default_directory()
    images.ensure_model("tiny", share)
    images.ensure_image(images.STAND_IN, share)
    with owner_of(Path(tmp_path_factory.mktemp("update")), DECLARED, f"{share}:/srv/lab", docker=True) as made:
        (made.folder / "secrets").mkdir()
        for name, text in (("services", f"{KEY}\n"), ("clients.yml", f"anna: {CLIENT}\n")):
            (made.folder / "secrets" / name).write_text(text)
            (made.folder / "secrets" / name).chmod(0o600)
        assert made.play("site.yml").returncode == 0
        yield made


def test_who_serves_is_moved_or_waited_for(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = owner.fleet
    was, boots = owner.kernels(), owner.boots()

    # the gate: a kernel that can't register memory is refused for a group, before any change
    publish_kernel(owner.repository, BAD)
    refused = owner.update(*UPDATE)
    assert refused.returncode != 0 and "known-bad kernel-7.0.0-1019" in refused.stdout
    assert "nothing was changed" in refused.stdout
    assert (owner.kernels(), owner.boots()) == (was, boots)
    withdraw(owner.repository, BAD)

    # one host fails its proof
    version = publish_kernel(owner.repository, NEXT)
    fleet.root("spark-3", f"echo {shlex.quote(NEXT)} > /etc/lab-breaks")
    with load(owner, "tiny") as tiny, load(owner, "pair") as pair:
        done = owner.update(*UPDATE)
    assert done.returncode != 0
    assert f"driver: none runs; expected {DRIVER}" in done.stdout
    assert "spark-3 did not prove itself, what can be put back was, and its services serve again" in done.stdout
    new = f"{NEXT} {version}"
    # the first one has it; the group is as before, both of its hosts; the gateway's host was not touched
    assert owner.kernels() == {**was, "spark-4": new}
    after = owner.boots()
    assert after["titan"] == boots["titan"]
    assert [owner.stage(host) for host in HOSTS] == ["", "", "", ""]
    served(tiny)
    served(pair)

    # mended, and cut off in the middle of a group
    fleet.root("spark-3", "rm /etc/lab-breaks")
    owner.cut_off("spark-2")
    assert owner.kernels()["spark-3"] == was["spark-3"]

    # what had begun is not measured any more, and who still serves is: before and after
    monkeypatch.setenv("ANSIBLE_DISPLAY_OK_HOSTS", "true")
    resumed = owner.update(*UPDATE, "-e", "bench=true")
    assert resumed.returncode == 0
    assert "an update was cut off" in resumed.stdout
    assert "was not measured" not in resumed.stdout
    again = [task for task in resumed.stdout.split("TASK [") if task.startswith("Measure again")]
    assert any("ok: [titan]" in task for task in again)
    assert owner.kernels() == dict.fromkeys(HOSTS, new)
    assert owner.boots()["spark-4"] == after["spark-4"]
    assert [owner.stage(host) for host in HOSTS] == ["", "", "", ""]
    for model in ("tiny", "pair"):
        with load(owner, model) as answers:
            eventually(lambda: len(answers) > 2, f"{model} answers")
        served(answers)
