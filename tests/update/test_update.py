# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel comes to four hosts: a replica, a group of two, and the gateway with another replica. One host fails its
proof; a run is cut off. By hand: docs/update.md says what this holds, CONTRIBUTING what it costs.

Real: apt, dpkg, the hosts' restarts, Docker, HAProxy, the supervisors, the requests. Imitated: the kernel (`host/`, a
package of ours with a text for an image), its driver (the lab's), vLLM (the stand-in).
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.fixtures import Fleet, eventually, need_lab
from lab.vllm import images

from .debs import META, publish_kernel, withdraw

ROOT = Path(__file__).resolve().parents[2]
LOAD = ROOT / "molecule" / "rollout" / "load.py"
HOSTS = ("titan", "spark-2", "spark-3", "spark-4")
KERNEL, NEXT, BAD = "6.17.0-1014-nvidia", "6.17.0-1021-nvidia", "7.0.0-1019-nvidia"
RECORD = "/var/lib/gb10-fleet/update/record.json"
KEY, CLIENT = "key-of-the-services-of-this-suite", "key-of-anna-in-this-suite"
CHAT: dict[str, Any] = {
    "recipe": "lab-tiny",
    "port": 8000,
    "served_name": "tiny",
    "workload": {"max_model_len": 2048, "max_num_seqs": 8, "pool": 16512},
    "api_key_file": "secrets/services",
    "image": {
        "reference": "gb10-lab/vllm-stand-in:0.32.0",
        "family": "upstream",
        "release": "0.32.0",
        "source": {"archive": "/srv/lab/vllm-stand-in-0.32.0.tar"},
    },
}
DECLARED: dict[str, Any] = {
    "fleet_recipe_dirs": [str(ROOT / "inventories" / "lab" / "recipes")],
    "fleet_services": {
        "chat-a": {**CHAT, "hosts": ["titan"]},
        "chat-b": {**CHAT, "hosts": ["spark-4"]},
        "pair": {**CHAT, "hosts": ["spark-2", "spark-3"], "served_name": "pair"},
    },
    "fleet_gateway": {
        "hosts": ["titan"],
        "name": "llm.lab",
        "keys_file": "secrets/clients.yml",
        "addresses": ["10.77.0.11"],
    },
}


class Owner:
    """The owner of four hosts, and of the repository that they are updated from."""

    def __init__(self, fleet: Fleet, folder: Path, repository: Path) -> None:
        self.fleet, self.folder, self.repository = fleet, folder, repository
        everybody = folder / "group_vars" / "all"
        everybody.mkdir(parents=True)
        for path in (ROOT / "inventories" / "lab" / "group_vars" / "all").glob("*.yml"):
            (everybody / path.name).write_bytes(path.read_bytes())
        (everybody / "z.yml").write_text(yaml.safe_dump(DECLARED))
        (folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {host: {} for host in HOSTS}}}))
        (folder / "secrets").mkdir()
        for name, text in (("services", f"{KEY}\n"), ("clients.yml", f"anna: {CLIENT}\n")):
            (folder / "secrets" / name).write_text(text)
            (folder / "secrets" / name).chmod(0o600)

    def begin(self, playbook: str, *arguments: str) -> subprocess.Popen[str]:
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        own = {"GB10_LAB_DIR": str(self.fleet.directory), "COLUMNS": "200"}
        return subprocess.Popen(
            [program, "-i", str(self.folder / "hosts.yml"), playbook, *arguments],
            cwd=ROOT,
            env=os.environ | own,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def play(self, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        began = time.monotonic()
        begun = self.begin(playbook, *arguments)
        printed, _ = begun.communicate()
        print(printed)
        print(f"{playbook} {' '.join(arguments)}: {time.monotonic() - began:.0f} s, status {begun.returncode}")
        return subprocess.CompletedProcess(begun.args, begun.returncode, printed, "")

    def update(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.play("playbooks/update.yml", *arguments)

    def kernels(self) -> dict[str, str]:
        """What runs, and the version of the package that brings it."""
        asked = f"cat /run/lab-kernel; dpkg-query --show --showformat='${{Version}}' {META}"
        return {host: " ".join(self.fleet.root(host, asked).split()) for host in HOSTS}

    def boots(self) -> dict[str, str]:
        return {host: self.fleet.root(host, "cat /proc/sys/kernel/random/boot_id").strip() for host in HOSTS}

    def stage(self, host: str) -> str:
        found = self.fleet.root(host, f"cat {RECORD} 2> /dev/null", check=False)
        return str(json.loads(found)["stage"]) if found.strip() else ""

    @contextmanager
    def load(self, model: str) -> Iterator[list[dict[str, Any]]]:
        """Streams through the gateway as long as the block takes, every answer counted."""
        ca = self.folder / "ca.crt"
        ca.write_text(self.fleet.root("titan", "cat /usr/local/share/ca-certificates/gb10-fleet-*.crt"))
        words = [str(ROOT / "tests" / "lab" / "lab"), "-d", str(self.fleet.directory), "net", "--", sys.executable]
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
    need_lab()
    share = images.default_directory()
    images.ensure_model("tiny", share)
    images.ensure_image(images.STAND_IN, share)
    place = tmp_path_factory.mktemp("update")
    repository = place / "repository"
    repository.mkdir()
    place.chmod(0o755)
    version = publish_kernel(repository, KERNEL)
    fleet = Fleet(place / "lab")
    own = f"{Path(__file__).parent / 'host'}:/srv/own"
    shares = [f"{share}:/srv/lab", f"{repository}:/srv/repository", own]
    try:
        words = [word for one in shares for word in ("--share", one)]
        fleet.lab("up", "--hosts", ",".join(HOSTS), "--cable", "spark-2:1=spark-3:1", *words)
        made = Owner(fleet, place / "site", repository)
        for host in HOSTS:
            fleet.root(host, _PREPARED.format(meta=META, version=version))
        assert made.play("site.yml").returncode == 0
        yield made
    finally:
        fleet.lab("down")


_PREPARED = """set -e
install -m 755 /srv/own/lab-kernel /usr/local/sbin/
install -m 644 /srv/own/lab-kernel.service /etc/systemd/system/
install -m 644 /srv/own/lab_kernel.py /usr/lib/python3/dist-packages/
echo 'import lab_kernel' > /usr/lib/python3/dist-packages/lab_kernel.pth
echo 'deb [trusted=yes] file:/srv/repository ./' > /etc/apt/sources.list.d/repository.list
apt-get update --quiet
apt-get install --quiet --assume-yes {meta}={version}
systemctl enable --now --quiet lab-kernel.service
"""


def test_a_kernel_that_fails_on_one_host_stops_there(owner: Owner) -> None:
    fleet = owner.fleet
    was, boots = owner.kernels(), owner.boots()

    # the gate: a kernel that can't register memory is refused for a group, before any change
    publish_kernel(owner.repository, BAD)
    refused = owner.update()
    assert refused.returncode != 0 and "known-bad kernel-7.0.0-1019" in refused.stdout
    assert "nothing was changed" in refused.stdout
    assert (owner.kernels(), owner.boots()) == (was, boots)
    withdraw(owner.repository, BAD)

    # one host fails its proof
    version = publish_kernel(owner.repository, NEXT)
    fleet.root("spark-3", f"echo {shlex.quote(NEXT)} > /etc/lab-breaks")
    with owner.load("tiny") as tiny, owner.load("pair") as pair:
        done = owner.update()
    assert done.returncode != 0
    assert "driver: none runs; expected 580.159.03" in done.stdout
    assert "spark-3 did not prove itself, what can be put back was, and it serves again" in done.stdout
    new = f"{NEXT} {version}"
    # the first one has it; the group is as before, both of its hosts; the gateway's host was not touched
    assert owner.kernels() == {**was, "spark-4": new}
    after = owner.boots()
    assert after["titan"] == boots["titan"]
    assert [owner.stage(host) for host in HOSTS] == ["", "", "", ""]
    served(tiny)
    served(pair)
    automatic = fleet.root("spark-3", f"apt-mark showauto {META} linux-image-{KERNEL}").split()
    assert automatic == [f"linux-image-{KERNEL}"]

    # mended, and cut off in the middle of a group
    fleet.root("spark-3", "rm /etc/lab-breaks")
    cut = owner.begin("playbooks/update.yml")
    while owner.stage("spark-2") != "installed":
        assert cut.poll() is None
        time.sleep(0.2)
    os.killpg(cut.pid, signal.SIGKILL)
    cut.wait()
    assert owner.kernels()["spark-3"] == was["spark-3"]

    resumed = owner.update()
    assert resumed.returncode == 0
    assert "an update was cut off" in resumed.stdout
    assert owner.kernels() == dict.fromkeys(HOSTS, new)
    assert owner.boots()["spark-4"] == after["spark-4"]
    assert [owner.stage(host) for host in HOSTS] == ["", "", "", ""]
    for model in ("tiny", "pair"):
        with owner.load(model) as answers:
            eventually(lambda: len(answers) > 2, f"{model} answers")
        served(answers)

    again = owner.update()
    assert again.returncode == 0 and "nothing is updated" in again.stdout
    recap = again.stdout.partition("PLAY RECAP")[2]
    assert recap.count("changed=0") == len(HOSTS)
