# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a second site.yml and a staging cost in this checkout against an earlier one, in turn and in one lab.

    git worktree add /tmp/before 40316cd
    cd tests && PYTHONPATH=../collections ../.venv/bin/python -m bench.cost --before /tmp/before [--rounds 5]

Each checkout has two hosts of its own: the first serves from an archive, the second has image and model from the first.
The second run of site.yml changes nothing on both; a staging brings image and model to the second anew. Controller and
hosts are counted in seconds of processors, the clock's beside them; a round trip is a command over SSH.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lab import cgroups
from lab.fixtures import Fleet
from lab.vllm import images

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "gb10-lab/vllm-stand-in:0.32.0"
_ARCHIVE = "/srv/lab/vllm-stand-in-0.32.0.tar"
_STATE = "/var/lib/gb10-fleet"
_KEY = "bench-0123456789abcdef0123456789abcdef"
_ROUND_TRIP = "SSH: EXEC "


class Checkout:
    """A checkout of the project and its two hosts. folder: for its inventory, and what its Ansible keeps."""

    def __init__(self, name: str, root: Path, fleet: Fleet, folder: Path) -> None:
        self.name, self._root, self._fleet, self._folder = name, root, fleet, folder
        self.hosts = [f"{name}-1", f"{name}-2"]

    def declare(self) -> None:
        """The lab's inventory, with two services of these hosts."""
        lab = self._root / "inventories" / "lab"
        shutil.copytree(lab / "recipes", self._folder / "recipes")
        recipe = self._folder / "recipes" / "lab-tiny.yml"
        recipe.write_text(recipe.read_text().replace("gb10-lab/vllm-cpu:0.32.0", IMAGE))
        (self._folder / "key").touch(mode=0o600)
        (self._folder / "key").write_text(_KEY)
        first, second = self.hosts
        whence: dict[str, Any] = {"source": {"host": first}}
        services = {
            "one": self._service(first, {"source": {"archive": _ARCHIVE}}),
            "two": self._service(second, whence) | {"model": whence},
        }
        reached = {
            "ansible_ssh_common_args": f"-F {self._fleet.ssh_config}",
            "ansible_ssh_timeout": 60,
            "ansible_control_path_dir": str(self._fleet.workspace.ssh_masters),
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_become_password": "nvidia",
        }
        # the lab's hosts share the memory of the machine that they run on
        declared = {"fleet_services": services, "fleet_host": {"memory_kib": 15728640}}
        inventory = {"all": {"hosts": {host: {} for host in self.hosts}, "vars": reached | declared}}
        (self._folder / "hosts.yml").write_text(json.dumps(inventory))

    def _service(self, host: str, image: dict[str, Any]) -> dict[str, Any]:
        return {
            "recipe": "lab-tiny",
            "hosts": [host],
            "port": 8000,
            "served_name": "tiny",
            "api_key_file": "key",
            "workload": {"max_model_len": 2048, "max_num_seqs": 8},
            "image": image,
        }

    def play(self, playbook: str, *options: str) -> dict[str, float]:
        """Seconds by the clock, of the controller's processors and of its hosts'; round trips with -vvv."""
        program = Path(sys.executable).with_name("ansible-playbook")
        words = [str(program), "-i", str(self._folder / "hosts.yml"), f"gb10.fleet.{playbook}", *options]
        own = {"ANSIBLE_HOME": str(self._folder / "home"), "GB10_LAB_DIR": str(self._fleet.directory)}
        before, began = self._of_hosts(), time.monotonic()
        with tempfile.TemporaryFile("w+") as printed:
            process = subprocess.Popen(words, cwd=self._root, env=os.environ | own, stdout=printed, stderr=printed)
            _, status, used = os.wait4(process.pid, 0)
            seconds = time.monotonic() - began
            process.returncode = os.waitstatus_to_exitcode(status)
            printed.seek(0)
            text = printed.read()
        if process.returncode:
            raise RuntimeError(f"{self.name}: {playbook}: {text[-6000:]}")
        found = {"clock": seconds, "controller": used.ru_utime + used.ru_stime, "hosts": self._of_hosts() - before}
        return found | ({"round trips": text.count(_ROUND_TRIP)} if "-vvv" in options else {})

    def _of_hosts(self) -> float:
        return sum(cgroups.processor_seconds(self._fleet.workspace.cgroup / host) for host in self.hosts)

    def empty(self) -> None:
        """Neither image nor model is on the second host."""
        of_ours = " ".join(f"{_STATE}/{name}" for name in ("hf/hub", "models", "images"))
        stop = "systemctl stop gb10-service-two gb10-vllm-two 2> /dev/null"
        self._fleet.root(self.hosts[1], f"{stop}; docker image rm --force {IMAGE} && rm -rf {of_ours}")


def rounds(checkouts: Sequence[Checkout], count: int) -> Iterator[tuple[str, str, dict[str, float]]]:
    """What was measured, of which checkout: once with round trips; then rounds, begun by one and the other in turn."""
    for number in range(count + 1):
        options = () if number else ("-vvv",)
        for one in checkouts[:: -1 if number % 2 else 1]:
            yield "second site.yml", one.name, one.play("site", *options)
    for number in range(count + 1):
        options = () if number else ("-vvv",)
        for one in checkouts[:: -1 if number % 2 else 1]:
            one.empty()
            yield "staging", one.name, one.play("stage", *options)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.cost", description=__doc__.partition("\n")[0])
    parser.add_argument("--before", type=Path, required=True, help="a checkout of the earlier commit")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (default: %(default)s)")
    options = parser.parse_args()
    archives = images.default_directory()
    images.ensure_model("tiny", archives)
    images.ensure_image(images.STAND_IN, archives)
    with tempfile.TemporaryDirectory(prefix="gb10-cost-") as folder:
        fleet = Fleet(Path(folder) / "lab")
        made = [("before", options.before.resolve()), ("now", ROOT)]
        checkouts = [Checkout(name, root, fleet, Path(folder) / name) for name, root in made]
        hosts = ",".join(host for one in checkouts for host in one.hosts)
        fleet.lab("up", "--hosts", hosts, "--share", f"{archives}:/srv/lab")
        try:
            for one in checkouts:
                one.declare()
            with ThreadPoolExecutor() as both:
                [*both.map(lambda one: one.play("site"), checkouts)]
            found: dict[tuple[str, str], list[dict[str, float]]] = {}
            for what, name, figures in rounds(checkouts, options.rounds):
                print(json.dumps({"what": what, "checkout": name, **figures}), flush=True)
                found.setdefault((what, name), []).append(figures)
        finally:
            fleet.lab("down")
    for (what, name), every in found.items():
        print(f"{what}, {name}: {every[0]['round trips']:.0f} round trips; " + "; ".join(_spread(every[1:])))
    return 0


def _spread(every: Sequence[dict[str, float]]) -> Iterator[str]:
    for key in ("clock", "controller", "hosts"):
        values = [one[key] for one in every]
        yield f"{key} {statistics.median(values):.1f} s ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    sys.exit(main())
