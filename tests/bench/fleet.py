# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lab fleet for benchmarks: a source and its targets on one switch, links of one rate, bytes counted on them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers import subject as peers
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.plan import with_peers

ROOT = Path(__file__).resolve().parents[2]
INTERFACE = "enp1s0f0np0"
_OTHER_HALF = "enP2p1s0f0np0"
SOURCE = "src"


class Fleet:
    """Hosts ``src, t1, t2, ...``, each with one link of ``rate`` (words of tc(8)) to a switch."""

    def __init__(self, directory: Path, targets: int, rate: str) -> None:
        self.targets = [f"t{number}" for number in range(1, targets + 1)]
        self.hosts = [SOURCE, *self.targets]
        self._directory = directory
        self._addresses = {host: f"192.168.100.{number}" for number, host in enumerate(self.hosts, 10)}
        self._rate = rate

    def __enter__(self) -> Fleet:
        cables = [word for host in self.hosts for word in ("--cable", f"{host}:0=switch@{self._rate}")]
        self._lab("up", "--hosts", ",".join(self.hosts), *cables)
        for host in self.hosts:
            self.connect(host)
        return self

    def __exit__(self, *_: object) -> None:
        self._lab("down")

    def connect(self, host: str) -> None:
        """Give a host its address on the fabric. The port's other half, on the same switch, must not answer for it."""
        # else it takes the address away when nobody has answered its DHCP request for 45 s
        for interface in (INTERFACE, _OTHER_HALF):
            self.run(host, f"nmcli device set {interface} managed no 2> /dev/null || :")
        self.run(host, f"ip link set {_OTHER_HALF} down; ip link set {INTERFACE} up mtu 9000")
        self.run(host, f"ip address replace {self._addresses[host]}/24 dev {INTERFACE}")

    def _lab(self, *arguments: str, stdin: bytes | None = None) -> str:
        command = [str(ROOT / "tests" / "lab" / "lab"), "-d", str(self._directory), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.decode(errors='replace')[-2000:]}")
        return done.stdout.decode()

    def run(self, host: str, shell: str, stdin: bytes | None = None) -> str:
        """A shell line as root of a host."""
        return self._lab("exec", host, "--", "sh", "-c", shell, stdin=stdin)

    def trust(self) -> None:
        """What the peers' way needs: root of the source may log in to all targets."""
        key = self.run(
            SOURCE, "test -f ~/.ssh/id_ed25519 || ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519; cat ~/.ssh/*.pub"
        )
        for host in self.targets:
            self.run(host, "mkdir -p -m 700 ~/.ssh; cat >> ~/.ssh/authorized_keys", stdin=key.encode())

    def ssh(self, host: str) -> str:
        """The command that reaches a target from the source, over the fabric."""
        return f"ssh -o StrictHostKeyChecking=accept-new {self._addresses[host]}"

    def wire(self, direction: str) -> dict[str, int]:
        """Bytes that each host has sent (``tx``) or received (``rx``) over its link so far, headers and all."""
        file = f"/sys/class/net/{INTERFACE}/statistics/{direction}_bytes"
        return {host: int(self.run(host, f"cat {file}")) for host in self.hosts}

    def plan(self, kind: str, entry: Mapping[str, Any], hosts: Sequence[str]) -> dict[str, dict[str, Any]]:
        """What the planner makes of one image or model that ``hosts`` want from the source, by host."""
        reach = {host: {other: [(address, 22)] for other, address in self._addresses.items()} for host in self.hosts}
        source = {"kind": "host", "host": SOURCE}
        wanted = {host: [{**entry, "source": source}] if host in hosts else [] for host in self.hosts}
        planned, findings = with_peers(wanted, reach)
        assert not findings
        none: dict[str, list[Any]] = {host: [] for host in self.hosts}
        images, models = (planned, none) if kind == "image" else (none, planned)
        return {host: {"images": images[host], "models": models[host]} for host in hosts}

    def start(self, plan: Mapping[str, Any], *options: str) -> subprocess.Popen[str]:
        """Begin to stage a plan, as site.yml does it."""
        variables = Path(tempfile.mkstemp(suffix=".json", dir=self._directory)[1])
        variables.write_text(json.dumps({"plans": plan, "lab_directory": str(self._directory)}))
        inventory = Path(__file__).with_name("inventory.yml")
        command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", str(inventory), "-e", f"@{variables}"]
        return subprocess.Popen(
            [*command, str(Path(__file__).with_name("stage.yml")), "--limit", ",".join(plan), *options],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def give_access(self) -> None:
        """Every host may read from every other, as in a fleet that has staged before."""
        ends = {host: [address] for host, address in self._addresses.items()}
        every = peers.with_files({"reads": ends, "readers": ends}, "bench")
        self.stage({host: {"images": [], "models": [], "access": every} for host in self.hosts})

    def stage(self, plan: Mapping[str, Any], *options: str) -> tuple[float, str]:
        """Stage a plan to its end: seconds, and what Ansible said. RuntimeError if it failed."""
        began = time.monotonic()
        output, failed = finished(self.start(plan, *options))
        if failed:
            raise RuntimeError(output[-4000:])
        return time.monotonic() - began, output


def finished(process: subprocess.Popen[str]) -> tuple[str, bool]:
    """What a play said, and whether it failed."""
    output, _ = process.communicate()
    return output, process.returncode != 0
