# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine as a patient, in one lab and in this order: its GPU's clock over a boot and back, status and doctor beside
a GPU that is ill, slow or silent, and burn-ins that pass, fail, are broken off and lose their host.

Imitated are nvidia-smi (what it shows and keeps), the engine, and for multiplications PyTorch: torch_stand_in.py.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faster.conftest import stand_in
from lab.fixtures import Fleet, eventually, owned_lab

ROOT = Path(__file__).resolve().parents[2]
HOST = "titan"
CAPPED = {"clock_max_mhz": 2150, "persistence": False}
BUSY = {"utilization.gpu": "96 %", "clocks.sm": "2411 MHz", "power.draw": "47.91 W", "temperature.gpu": "64"}
SLOW = BUSY | {"clocks.sm": "702 MHz", "power.draw": "20.10 W", "temperature.gpu": "48"}
SPEED = {"VLLM_STAND_IN_PREFILL_SECONDS": "0.2", "VLLM_STAND_IN_DECODE_SECONDS": "0.02"}
# A limit of the probe's commands is 30 s; the playbook around it takes the rest, on a busy machine too.
LIMIT_S = 150
# A minute of work that nobody watches any longer, and 60 s until its own limit.
LEFT_S = 120
# A lab's host shows no GPU of its own accord: there is no driver.
PCI = "/sys/bus/pci/devices/000f:01:00.0"
GPU = f"""\
mkdir -p /run/pci && echo 0x10de > /run/pci/vendor && echo 0x030200 > /run/pci/class
mountpoint -q {PCI} || mount --bind /run/pci {PCI}
printf '#!/bin/sh\\necho nvidia.ko\\n' > /usr/local/sbin/modinfo && chmod 755 /usr/local/sbin/modinfo"""


class Owner:
    """Of titan, with an inventory of its own. gpu: what is declared of its GPU."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self.fleet, self.folder, self.gpu = fleet, folder, dict[str, Any]()
        lab = ROOT / "inventories" / "lab"
        shutil.copytree(lab, folder / "inventory", ignore=shutil.ignore_patterns(".fleet"))
        (folder / "inventory" / "hosts.yml").write_text(json.dumps({"all": {"hosts": {HOST: None}}}), "utf-8")
        self.pages = folder / "inventory" / ".fleet" / "observed" / "burn_in"

    def begin(self, playbook: str, *extra: str) -> subprocess.Popen[str]:
        declared = {
            "fleet_fabric": None,
            "fleet_host": {"memory_kib": 18 << 20, "gpu": self.gpu},
            "fleet_services": {"chat": stand_in(HOST, 8000, SPEED)},
        }
        given = [f"-e{one}" for one in (json.dumps(declared), *extra)]
        return self.fleet.playbook(self.folder / "home", "-i", str(self.folder / "inventory"), playbook, *given)

    def play(self, playbook: str, *extra: str, code: int | None = 0) -> str:
        begun = self.begin(playbook, *extra)
        try:
            output, _ = begun.communicate(timeout=900)
        except subprocess.TimeoutExpired:
            begun.kill()
            raise
        assert code is None or begun.returncode == code, output[-8000:]
        return output

    def root(self, command: str) -> str:
        return self.fleet.root(HOST, command).strip()

    def shows(self, figures: dict[str, str]) -> None:
        self.root(f"echo '{json.dumps(figures)}' > /etc/lab-gpu.json")

    def ill(self, word: str) -> None:
        self.root(f"echo {word} > /etc/lab-gpu" if word else "rm -f /etc/lab-gpu")

    def has_gpu(self) -> None:
        self.root(GPU)

    def keeps(self) -> tuple[str, str]:
        """The highest clock and persistence, as nvidia-smi has them."""
        kept = json.loads(self.root("cat /run/lab-gpu.json 2>/dev/null || echo {}"))
        return str(kept.get("clock")), self.root("nvidia-smi --query-gpu=persistence_mode --format=csv,noheader")

    def left(self) -> str:
        """All that a burn-in could leave: containers, images, files, processes."""
        docker = "docker ps -a --format '{{.Names}}' | sort; docker images -q | sort"
        places = "/tmp /var/tmp /run/gb10* /etc/gb10-fleet /var/lib/gb10-fleet"
        files = f"find {places} -newer /srv/before 2>/dev/null | grep -i burn"
        processes = "pgrep -af 'loop=1|gb10_burn_in|burn-in' | grep -v pgrep | cut -d' ' -f2-"
        return self.root(f"{docker}; {files}; {processes}; true")


@pytest.fixture(scope="module")
def owner() -> Iterator[Owner]:
    with owned_lab("--hosts", HOST) as (fleet, own):
        yield Owner(fleet, own)


# The clock ----------------------------------------------------------------------------------------------------------


def test_a_declared_clock_is_kept_and_a_second_run_changes_nothing(owner: Owner) -> None:
    before = owner.keeps()
    assert before == ("None", "Enabled")
    owner.gpu = CAPPED
    owner.play("site.yml")
    assert owner.keeps() == ("0,2150", "Disabled")
    recap = owner.play("site.yml").partition("PLAY RECAP")[2]
    assert re.search(rf"{HOST} .*changed=0 .*failed=0", recap), recap


def test_it_is_set_after_a_boot(owner: Owner) -> None:
    owner.fleet.lab("power", "cycle", HOST)
    eventually(lambda: owner.fleet.ok(HOST, "systemctl is-active --quiet gb10-gpu.service"), "its unit has started")
    assert owner.keeps() == ("0,2150", "Disabled")


def test_what_others_set_is_found(owner: Owner) -> None:
    eventually(lambda: "chat" in owner.root("docker ps --format '{{.Names}}'"), "its service runs again")
    owner.root("nvidia-smi --persistence-mode=1")
    owner.has_gpu()
    assert "persistence of the GPU" in owner.play("drift.yml", code=None)
    owner.root(f"umount {PCI}")  # site.yml would install what containers need for it
    owner.root("systemctl restart gb10-gpu.service")  # as the remedy names it
    owner.root("systemctl stop gb10-gpu.service")
    assert owner.keeps() == ("None", "Enabled")
    assert "unit gb10-gpu.service" in owner.play("drift.yml", code=None)
    owner.play("site.yml")
    assert owner.keeps() == ("0,2150", "Disabled")


def test_a_part_that_is_no_longer_declared_comes_back_alone(owner: Owner) -> None:
    owner.gpu = {"persistence": False}
    owner.play("site.yml")
    assert owner.keeps() == ("None", "Disabled")
    owner.gpu = {}
    owner.play("site.yml")
    assert owner.keeps() == ("None", "Enabled")
    assert owner.root("ls /run/gb10-gpu /etc/systemd/system/gb10-gpu.service 2>/dev/null; true") == ""


# What it shows ------------------------------------------------------------------------------------------------------


def test_status_has_a_row_of_the_machine(owner: Owner) -> None:
    owner.has_gpu()
    owner.shows(BUSY)
    (row,) = [line.split() for line in owner.play("status.yml").splitlines() if re.match(rf"{HOST} +answers", line)]
    assert row[1:6] == ["answers", "96", "2411", "48", "64"]
    owner.shows(SLOW)
    shown = owner.play("status.yml", code=None)
    assert "702" in shown and "AC power" in shown


@pytest.mark.parametrize(
    ("word", "rule"),
    [
        ("mismatch", "gpu-libraries"),
        ("lost", "gpu-silent"),
        ("hang", "gpu-silent"),
        ("stays", "gpu-silent"),
        ("late", "gpu-silent"),
        ("", "gpu-silent"),
    ],
)
def test_a_gpu_that_does_not_answer_is_named_within_its_limit(owner: Owner, word: str, rule: str) -> None:
    """All other facts are there but the driver's, which a lab's host has by the same tool. Without a word it is
    missing."""
    owner.has_gpu()
    owner.ill(word)
    owner.root("mv /usr/bin/nvidia-smi /usr/bin/nvidia-smi.away" if not word else "true")
    try:
        began = time.monotonic()
        shown = owner.play("doctor.yml", code=None)
        took = time.monotonic() - began
    finally:
        owner.root("mv /usr/bin/nvidia-smi.away /usr/bin/nvidia-smi" if not word else "true")
        owner.ill("")
    print(f"{word or 'missing'}: {took:.0f} s")
    assert rule in shown and took < LIMIT_S
    (row,) = [
        line for line in shown.splitlines() if re.match(rf"{HOST} +\S+ +\S+ +{re.escape(os.uname().release)}", line)
    ]
    assert "GiB" in row
    unread = re.findall(r"(\w+) \[doctor-unread\]", shown)
    assert unread == (["driver"] if word in ("hang", "stays", "late") else [])


@pytest.mark.parametrize("playbook", ["status.yml", "drift.yml", "site.yml"])
def test_no_run_waits_for_a_gpu_that_hangs(owner: Owner, playbook: str) -> None:
    """site.yml ends before its first change."""
    owner.has_gpu()
    owner.ill("hang")
    try:
        began = time.monotonic()
        shown = owner.play(playbook, code=None)
        took = time.monotonic() - began
    finally:
        owner.ill("")
    print(f"{playbook}: {took:.0f} s")
    assert "did not end within" in shown and took < LIMIT_S
    assert "changed=0" in shown.partition("PLAY RECAP")[2] or playbook == "status.yml"


LOOP = "while :; do curl -sf localhost:8000/health || docker restart vllm; sleep 600; done"
WATCH = f"""\
echo '{LOOP}' > /usr/local/sbin/w
printf '[Service]\\nExecStart=/bin/sh /usr/local/sbin/w\\n[Install]\\nWantedBy=default.target\\n' > /srv/watch
mv /srv/watch /etc/systemd/system/vllm-watch.service
systemctl enable --now vllm-watch.service"""


def test_a_watchdog_of_somebody_is_named_and_gone_by_its_remedy(owner: Owner) -> None:
    owner.root(WATCH)
    shown = " ".join(owner.play("doctor.yml", code=None).split())
    assert "watchdog-foreign" in shown and "docker restart vllm" in shown
    (remedy,) = {*re.findall(r"sudo (systemctl disable --now vllm-watch\.service)", shown)}
    owner.root(remedy)
    assert "watchdog-foreign" not in owner.play("doctor.yml", code=None)


# Under load ---------------------------------------------------------------------------------------------------------


def burned(owner: Owner, *extra: str, code: int = 0) -> tuple[str, str]:
    """What the playbook prints, and its page; nothing is left."""
    owner.root("touch /srv/before")
    before, pages = owner.left(), {*owner.pages.glob("*")}
    shown = owner.play("gb10.fleet.burn_in", *extra, code=None)
    (page,) = {*owner.pages.glob("*")} - pages
    assert ("did not pass" in shown) == bool(code), shown[-6000:]
    assert owner.left() == before
    return shown, page.read_text("utf-8")


def test_a_host_that_serves_is_loaded_by_its_engine(owner: Owner) -> None:
    owner.shows(BUSY)
    shown, page = burned(owner, "minutes=2")
    assert "Verdict: passed" in page and "2 minutes by chat" in page and "tokens_s" in page
    assert re.search(r"^ +2  use 96 96 96 \| clock 2411 2411 2411", page, re.MULTILINE), page
    assert f"{HOST}: passed" in " ".join(shown.split())


def test_a_host_in_its_low_power_state_fails(owner: Owner) -> None:
    owner.shows(SLOW)
    _shown, page = burned(owner, "minutes=1", code=2)
    assert "failed, by gpu-slow" in page and "AC power" in page


# Two images of an owner, without building: a container of the stand-in takes the file up.
MAKE = """\
docker create --name made {more} gb10-lab/vllm-stand-in:0.32.0 true && \
docker cp /srv/torch.py made:/usr/lib/python3.11/torch.py && docker commit made {name} && docker rm made"""


def test_where_nothing_serves_an_image_multiplies(owner: Owner) -> None:
    owner.shows(BUSY)
    owner.play("gb10.fleet.stop", "service=chat")
    text = (Path(__file__).parent / "torch_stand_in.py").read_text("utf-8")
    owner.fleet.root(HOST, f"cat > /srv/torch.py <<'END'\n{text}END")
    for name, more in (("lab/torch:1", ""), ("lab/torch:wrong", "--env GB10_TORCH_WRONG=90")):
        owner.root(MAKE.format(name=name, more=more))
    _shown, page = burned(owner, "minutes=1", "image=lab/torch:1")
    assert "1 minutes by lab/torch:1" in page and "Verdict: passed" in page and "tflops" in page
    _shown, page = burned(owner, "minutes=1", "image=lab/torch:wrong", code=2)
    assert "failed, by burn-in-wrong" in page


def test_one_that_is_broken_off_leaves_nothing(owner: Owner) -> None:
    owner.root("touch /srv/before")
    before, pages = owner.left(), {*owner.pages.glob("*")}
    begun = owner.begin("gb10.fleet.burn_in", "minutes=5", "image=lab/torch:1")
    eventually(lambda: "gb10-burn-in" in owner.root("docker ps --format '{{.Names}}'"), "it multiplies")
    os.killpg(begun.pid, signal.SIGKILL)
    begun.communicate()
    until = time.monotonic() + LEFT_S
    while owner.left() != before:
        assert time.monotonic() < until, owner.left()
        time.sleep(1)
    assert {*owner.pages.glob("*")} == pages
    _shown, page = burned(owner, "minutes=1", "image=lab/torch:1")
    assert "Verdict: passed" in page


def test_a_host_that_switches_off_under_load_has_its_verdict(owner: Owner) -> None:
    pages = {*owner.pages.glob("*")}
    begun = owner.begin("gb10.fleet.burn_in", "minutes=5", "image=lab/torch:1")
    eventually(lambda: "gb10-burn-in" in owner.root("docker ps --format '{{.Names}}'"), "it multiplies")
    owner.fleet.lab("power", "off", HOST)
    shown, _ = begun.communicate(timeout=600)
    (page,) = {*owner.pages.glob("*")} - pages
    assert (
        begun.returncode and "burn-in-ended" in page.read_text("utf-8") and "partnerdiag" in page.read_text("utf-8")
    ), shown
    owner.fleet.lab("power", "on", HOST)
    eventually(lambda: owner.fleet.ok(HOST, "docker info"), "it is up again")
    assert "gb10-burn-in" not in owner.root("docker ps --format '{{.Names}}'")


# The end ------------------------------------------------------------------------------------------------------------


def test_a_removed_host_has_its_clock_and_persistence_back(owner: Owner) -> None:
    owner.gpu = CAPPED
    owner.play("site.yml")
    assert owner.keeps() == ("0,2150", "Disabled")
    owner.play("gb10.fleet.remove", f"remove={HOST}")
    assert owner.keeps() == ("None", "Enabled")
