# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A burn-in: what a host is asked, what its hour comes to, and the page.

Figures under load are those of data/hosts/gb10-query and of owners' reports; no GPU is here. The load itself runs in
the lab, by its stand-ins of an engine and of nvidia-smi.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.forms import forms
from ansible_collections.gb10.fleet.plugins.module_utils._base.received import checked
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.memory import Memory
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench import burn_in, work
from drift_fleet import planned, state_of
from jinja2 import Environment, StrictUndefined
from shell import ROOT, owners_environment
from unit.test_doctor import GROUP, PLAN, each, put

Change = Callable[[dict[str, Any]], None]
HEALTHY = [96.0, 2411.0, 48.0, 64.0]


def minute(row: Sequence[float] = HEALTHY, **figures: float) -> dict[str, Any]:
    return {
        "by": "img:1",
        "rows": [list(row)] * 60,
        "figures": figures or {"tflops": 92.0, "gb_s": 231.0, "wrong": 0.0},
    }


def shown(
    minutes: list[dict[str, Any]], after: Change = lambda _state: None, plan: Any = PLAN, host: str = "titan"
) -> dict[str, str]:
    before, state = (copy.deepcopy(state_of(plan, host)) for _ in range(2))
    after(state)
    found = burn_in.burn_in_verdict(plan, host, before, state, minutes, 3)
    return dict(zip(found["verdict"].removeprefix("failed, by ").split(", "), found["found"], strict=False))


WARNED = {"xid-gone": {"count": 2, "today": 2, "last": "NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus."}}
ILLS: dict[str, tuple[list[dict[str, Any]], Change, str]] = {
    "in its low-power state (eugr/spark-vllm-docker issue 334)": (
        [minute([96, 702, 20, 48])] * 3,
        lambda _state: None,
        "gpu-slow",
    ),
    "hot (MiaAI-Lab issue 146), in one minute of three": (
        [minute(), minute(), minute([96, 2411, 80, 91])],
        lambda _state: None,
        "gpu-hot",
    ),
    "held back": ([minute([97, 1404, 31, 55])] * 3, lambda _state: None, "gpu-held-back"),
    "gone after the first minute": ([minute()], lambda _state: None, "burn-in-ended"),
    "gone at once": ([], lambda _state: None, "burn-in-ended"),
    "idle": ([minute([3, 208, 4, 41])] * 3, lambda _state: None, "burn-in-idle"),
    "without nvidia-smi": ([{**minute(), "rows": []}] * 3, lambda _state: None, "burn-in-idle"),
    "computes wrongly": (
        [minute(), minute(), minute(tflops=92, gb_s=231, wrong=2)],
        lambda _state: None,
        "burn-in-wrong",
    ),
    "of half the bandwidth": ([minute(tflops=92, gb_s=101, wrong=0)] * 3, lambda _state: None, "burn-in-slow"),
    "of a clock that is held back, by its products (92 TFLOPS at 2.4 GHz)": (
        [minute(tflops=53.8, gb_s=231, wrong=0)] * 3,
        lambda _state: None,
        "burn-in-slow",
    ),
    "of half the speed": ([minute(tflops=31, gb_s=231, wrong=0)] * 3, lambda _state: None, "burn-in-slow"),
    "complained meanwhile": ([minute()] * 3, put("health", "lines", WARNED), "kernel-warns"),
    "of a bad cable": (
        [minute()] * 3,
        put("sensors", "errors", {"rocep1s0f0": {"symbol_error": 900}}),
        "fabric-damaged",
    ),
    "of a hot zone": ([minute()] * 3, put("sensors", "heat_c", {"zone 0": 99.0}), "machine-hot"),
    "of a GPU that no longer answers": ([minute()] * 3, put("gpu", "why", "GPU is lost"), "gpu-silent"),
    "of a disk that ends": ([minute()] * 3, put("drives", "nvme0", "spare", 4), "drive-worn"),
}


@pytest.mark.parametrize("name", ILLS)
def test_an_illness_under_load_is_named_with_what_helps(name: str) -> None:
    minutes, after, rule = ILLS[name]
    assert len(shown(minutes, after)[rule].split("; ")) >= 3  # what was found, what was expected, what helps


@pytest.mark.parametrize(
    "minutes", [[minute()] * 3, [minute([60, 2400, 30, 60], tokens_s=93.0)] * 3, [minute([92, 2150, 33, 60])] * 3]
)
def test_a_healthy_host_passes(minutes: list[dict[str, Any]]) -> None:
    assert shown(minutes).keys() == set()


def test_a_clock_that_is_declared_holds_nothing_back() -> None:
    capped = planned(fleet_host={"memory_kib": 15728640, "gpu": {"clock_max_mhz": 1700}})
    assert shown([minute([97, 1700, 31, 55])] * 3, plan=capped) == {}


def test_what_was_there_before_the_load_is_not_of_the_load() -> None:
    before = copy.deepcopy(state_of(PLAN, "titan"))
    each(put("health", "lines", WARNED), put("sensors", "errors", {"rocep1s0f0": {"symbol_error": 900}}))(before)
    assert burn_in.burn_in_verdict(PLAN, "titan", before, copy.deepcopy(before), [minute()] * 3, 3)["found"] == []


TEMPLATE = Path(__file__).resolve().parents[2] / "playbooks" / "templates" / "burn_in.txt.j2"


def page(found: Mapping[str, Any], **more: str) -> str:
    environment = Environment(trim_blocks=True, undefined=StrictUndefined, autoescape=False)
    values = {"inventory_hostname": "titan", "burn_in_at": "2026-11-27 13:00:00", "burn_in": found, **more}
    return environment.from_string(TEMPLATE.read_text("utf-8")).render(values)


def test_a_host_that_is_gone_has_its_verdict_and_its_page() -> None:
    failed = {"failed": True, "unreachable": True, "msg": "no route\nto \x1b[31mit"}
    found = burn_in.burn_in_verdict(PLAN, "titan", {}, {}, [minute(), failed], 60)
    assert found["verdict"] == "failed, by burn-in-ended" and "minute 2 of 60: no route" in found["found"][0]
    assert "\x1b" not in found["found"][0] and "\n" not in found["found"][0]
    text = page(found)
    assert "Verdict: failed, by burn-in-ended" in text and "partnerdiag" in text and "92.0 tflops" in text
    passed = burn_in.burn_in_verdict(PLAN, "titan", {}, {}, [minute(), {**minute(), "rows": []}], 2)
    text = page(passed, burn_in_fabric="its bandwidth is proved")
    assert "Verdict: passed" in text and "Fabric: its bandwidth" in text and "  1  use 96 96 96 | clock 2411" in text


# The order ----------------------------------------------------------------------------------------------------------


def test_the_host_of_an_endpoint_is_loaded_and_its_peer_reads() -> None:
    head, peer = (burn_in.burn_in_order(GROUP, host, "", "") for host in ("spark-2", "spark-3"))
    assert head["load"]["service"] in head["ranks"] and "{seed}" in " ".join(head["words"])
    assert peer["ranks"].keys() == head["ranks"].keys() and peer["load"] == {}
    assert burn_in.burn_in_order(PLAN, "titan", "mine:1", "")["images"] == ["mine:1"]  # and no other in its place


class Docker:
    """The programs of a host: docker, by what runs and which images are there."""

    def __init__(self, *running: str, images: Sequence[str] = (), out: str = "") -> None:
        self.running, self.images, self.out, self.asked = running, images, out, list[list[str]]()

    def __call__(self, words: Sequence[str], _variables: Mapping[str, str]) -> tuple[int, str, str]:
        self.asked.append([*words])
        if words[1] == "inspect":
            return 0, "true" if words[-1] in self.running else "", ""
        if words[1] == "image":
            return int(words[-1] not in self.images), "", ""
        return (0, self.out, "boom") if words[1] == "run" else (0, "", "")


PRODUCT = json.dumps({"tflops": 91.5, "gb_s": 230.0, "wrong": 0})
ORDER = {
    "seconds": 0.1,
    "ranks": {"chat": "gb10-chat"},
    "load": {},
    "words": [],
    "images": ["img:1", "img:2"],
    "program": "print(1)",
}


def test_where_nothing_serves_an_image_multiplies_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "gpu_by_specification", lambda: False)
    monkeypatch.setattr(work, "memory_now", lambda: Memory(0, 100 << 30))
    docker = Docker(images=["img:2"], out=f"a warning\n{PRODUCT}\n")
    answer = work.work(docker, ORDER)
    assert answer["by"] == "img:2" and answer["figures"] == {"tflops": 91.5, "gb_s": 230.0, "wrong": 0.0}
    assert checked(forms("burn_in")["minute"], answer, "x") == answer
    run = docker.asked[-1]
    assert {"--rm", "--pull", "never", "--network", "none"} <= {*run}
    assert run[run.index("--entrypoint") + 1] == "timeout"  # ends by itself


@pytest.mark.parametrize(
    ("docker", "free", "words"),
    [
        (Docker(), 100, "run site.yml first, or write -e image=REFERENCE"),
        (Docker(images=["img:1"]), 100, "multiplications in img:1 ended with 0: boom"),
        (Docker(images=["img:1"], out=PRODUCT), 8, "stop what else runs"),
    ],
)
def test_what_can_not_work_is_named(monkeypatch: pytest.MonkeyPatch, docker: Docker, free: int, words: str) -> None:
    monkeypatch.setattr(work, "gpu_by_specification", lambda: False)
    monkeypatch.setattr(work, "memory_now", lambda: Memory(0, free << 30))
    with pytest.raises(ValueError, match=words):
        work.work(docker, ORDER)


def test_a_rank_whose_endpoint_is_elsewhere_only_reads() -> None:
    docker = Docker("gb10-chat")
    assert work.work(docker, ORDER)["by"] == "" and not any(words[1] == "run" for words in docker.asked)


def test_a_service_is_asked_until_the_minute_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def load(_run: Any, _asked: Any, words: list[str]) -> dict[str, Any]:
        asked.append(words)
        work.time.sleep(0.03)
        if len(asked) == 1:
            return {"before": {"busy": 1}}  # others ask, which is load as well
        return {"result": "", "seconds": 2.0, "before": {"answered": 10}, "after": {"answered": 110}}

    monkeypatch.setattr(work, "load", load)
    order = {**ORDER, "load": {"service": "chat"}, "words": ["--seed", "{seed}"]}
    answer = work.work(Docker("gb10-chat"), order)
    assert answer["by"] == "chat" and answer["figures"] == {"tokens_s": 50.0} and len(asked) > 1
    assert asked[0][1].isdecimal()


# A run that is killed ------------------------------------------------------------------------------------------------

MINUTES = """
- hosts: localhost
  gather_facts: false
  connection: local
  tasks:
    - gb10.fleet.burn_in_load:
        order: {seconds: 1, ranks: {chat: chat}, load: {}, words: [], images: [], program: ""}
      loop: "{{ range(4) | list }}"
      loop_control: {break_when: [minutes.rows is not defined]}
      register: minutes
"""


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_minutes_of_a_run_that_was_killed_come_to_an_end(tmp_path: Path, is_killed: bool) -> None:
    """Ansible runs the loop in a worker with a session of its own, which neither a signal to the run's group reaches
    nor the run's end."""
    begun = tmp_path / "begun"
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho x >> {begun}\necho true\n")
    docker.chmod(0o755)
    (tmp_path / "play.yml").write_text(MINUTES)
    own = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "ANSIBLE_HOME": str(tmp_path / "home")}
    python = f"ansible_python_interpreter={sys.executable}"
    program = str(Path(sys.executable).with_name("ansible-playbook"))
    words = [program, "-i", "localhost,", "-e", python, str(tmp_path / "play.yml")]
    with subprocess.Popen(
        words, cwd=ROOT, env=owners_environment() | own, stdout=subprocess.DEVNULL, start_new_session=True
    ) as run:
        until = time.monotonic() + 60
        while not begun.exists():
            assert time.monotonic() < until
            time.sleep(0.1)
        if is_killed:
            os.killpg(run.pid, signal.SIGKILL)
        run.wait(60)
    seen = -1
    while seen != (seen := len(begun.read_text().split())):
        time.sleep(4)
    assert seen == (1 if is_killed else 4)
