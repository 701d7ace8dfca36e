# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site without internet: three bare hosts, an owner with a medium, and a count of all packets that leave the room."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab.fixtures import Fleet, need_lab

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "unit"))

from . import origin  # noqa: E402 - it imports what the line above finds

HOSTS = {"titan": "10.77.0.11", "spark-2": "10.77.0.12", "spark-3": "10.77.0.13"}
# Nobody's (RFC 5737): where a host that believes in an internet would go.
OUTSIDE = "192.0.2.1"
# Every packet that is for nobody in the room, and every question for a name.
COUNT = """
table inet census {
  counter left { }
  counter asked { }
  chain seen {
    meta l4proto { tcp, udp } th dport 53 counter name asked
    ip daddr != { 10.77.0.0/24, 127.0.0.0/8, 192.168.100.0/22, 224.0.0.0/4, 255.255.255.255, 0.0.0.0 } counter name left
  }
  chain hosts {
    type filter hook prerouting priority 0
    iifname != "lo" jump seen
  }
  chain controller {
    type filter hook output priority 0
    jump seen
  }
}
"""


@dataclass
class Room:
    """The owner's inventory, media, and what is outside. outputs: of all runs."""

    fleet: Fleet
    place: Path
    registry: str
    hub: str
    environment: dict[str, str]
    outputs: list[str] = field(default_factory=list)

    @property
    def site(self) -> Path:
        return self.place / "site"

    def medium(self, name: str) -> Path:
        return self.place / name

    def declare(self, **images: str) -> None:
        """A service a host. images: the references, by host, underscores for dashes."""
        services = {f"on-{host}": _service(host, images[host.replace("-", "_")]) for host in HOSTS}
        declared = {
            "fleet_services": services,
            "fleet_host": {"memory_kib": 15728640},
            "fleet_drift": {"free": {"memory_gib": 0, "disk_gib": 0}},
            "fleet_fabric": {"pool": "192.168.100.0/22", "cables": [["spark-2:1", "spark-3:1"]]},
            "fleet_phoenix": {"host": "titan", "listen": HOSTS["titan"], "secret_file": "phoenix.key"},
        }
        (self.site / "group_vars" / "all" / "fleet.yml").write_text(yaml.safe_dump(declared))

    def make(self, name: str, *more: str) -> subprocess.CompletedProcess[str]:
        """The bundle, by a machine that reaches what there is outside."""
        options = {
            "bundle": self.medium(name),
            "model_store_hf": Path(sys.executable).with_name("hf"),
            "bundle_architecture": "amd64",
            "bundle_python": "3.13",
            "bundle_apt_sources": origin.apt_sources(self.place / "apt.sources"),
        }
        words = [word for key, value in options.items() for word in ("-e", f"{key}={value}")]
        return self._ansible([], "gb10.fleet.bundle", *words, *more)

    def play(self, playbook: str, *more: str) -> subprocess.CompletedProcess[str]:
        """A playbook in the room."""
        return self._ansible(
            [str(ROOT / "tests" / "lab" / "lab"), "-d", str(self.fleet.directory), "net", "--"], playbook, *more
        )

    def _ansible(self, before: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        own = {"GB10_LAB_DIR": str(self.fleet.directory), "HF_ENDPOINT": self.hub, "COLUMNS": "200"}
        done = subprocess.run(
            [*before, program, "-i", str(self.site / "hosts.yml"), *arguments],
            cwd=ROOT,
            env=os.environ | self.environment | own,
            capture_output=True,
            text=True,
            check=False,
        )
        self.outputs.append(done.stdout + done.stderr)
        return done

    def attempts(self) -> dict[str, int]:
        """Packets since the room was closed: that left it, that asked for a name."""
        listed = self.fleet.lab("net", "--", "nft", "list", "counters").stdout
        return {name: int(count) for name, count in re.findall(r"counter (\w+) \{\s+packets (\d+)", listed)}

    def answers(self, address: str) -> bool:
        body = '{"model": "gb10-lab/tiny", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}'
        url = f"http://{address}:8000/v1/chat/completions"
        curl = ["curl", "-sf", "-m", "30", "-H", "Content-Type: application/json", "-d", body, url]
        return self.fleet.lab("net", "--", *curl, check=False).returncode == 0


def _service(host: str, image: str) -> dict[str, Any]:
    return {
        "recipe": "lab-tiny",
        "hosts": [host],
        "port": 8000,
        "open": True,
        "workload": {"max_model_len": 2048, "max_num_seqs": 8},
        "image": {"reference": image, "family": "upstream", "release": "0.32.0", "source": "registry"},
        "model": {"source": "hub", "revision": origin.COMMIT},
    }


def _close(fleet: Fleet) -> None:
    """Every host believes in an internet: a route, a name server, a mirror of Debian. Nothing of it answers."""
    mirror = f"deb http://{OUTSIDE}/debian {origin.SUITE} main"
    for host in HOSTS:
        fleet.root(host, f"rm -rf /srv/lab-apt /etc/apt/sources.list.d/*; echo '{mirror}' > /etc/apt/sources.list")
        fleet.root(host, "ip route replace default via 10.77.0.1")
        fleet.root(host, "rm -f /etc/resolv.conf; echo nameserver 10.77.0.1 > /etc/resolv.conf")
    fleet.lab("net", "--", "ip", "route", "replace", "default", "via", "10.77.0.254")
    with tempfile.NamedTemporaryFile("w", suffix=".nft") as rules:
        rules.write(COUNT)
        rules.flush()
        fleet.lab("net", "--", "nft", "-f", rules.name)


@pytest.fixture(scope="session")
def room() -> Iterator[Room]:
    need_lab()
    if missing := origin.programs():
        pytest.skip(f"this machine lacks {', '.join(missing)}: apt-get install them")
    place = Path(tempfile.mkdtemp(prefix="gb10-bundle-"))
    fleet = Fleet(place / "lab")
    lab = ROOT / "inventories" / "lab"
    shutil.copytree(lab / "group_vars", place / "site" / "group_vars")
    shutil.copytree(lab / "recipes", place / "site" / "recipes")
    connection = place / "site" / "group_vars" / "all" / "connection.yml"
    # this owner keeps his lock beside his inventory
    connection.write_text(re.sub(r"(?m)^fleet_lock_file:.*$", "", connection.read_text()))
    (place / "site" / "phoenix.key").write_text(f"{secrets.token_hex(32)}\n")
    (place / "site" / "phoenix.key").chmod(0o600)
    (place / "site" / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {host: {} for host in HOSTS}}}))
    try:
        with origin.registry(place / "registry") as address, origin.hub() as hub:
            fleet.lab("up", "--hosts", ",".join(HOSTS), "--cable", "spark-2:1=spark-3:1")
            _close(fleet)
            yield Room(fleet, place, address, hub.url, origin.home(place / "home", address))
    finally:
        fleet.lab("down", check=False)
        shutil.rmtree(place, ignore_errors=True)
