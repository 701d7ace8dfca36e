# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""doctor.yml on bare hosts: few round trips, silent on clean ones, each obstacle named, and a file that says the same
and nothing private; in this order."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from fabric.fleet import FabricFleet
from lab.imitations import DRIVER

testinfra_hosts = ["ssh://titan"]
pytestmark = pytest.mark.story

Playbook = Callable[..., "subprocess.CompletedProcess[str]"]
LAB = Path(os.environ["GB10_LAB_DIR"])
BUNDLES = Path(os.environ["MOLECULE_EPHEMERAL_DIRECTORY"]) / "doctor"
HOSTS = ("titan", "spark-2", "spark-3")
HALF = "enP2p1s0f1np1"
CANARY = "canary4f9a"
# What is planted on every host; none of it may be in a bundle.
PRIVATE = (CANARY, "81.2.69.142", "02:77:00:00:00", "02:c7:00")

PLANTED = (
    f"mkdir -p /root/.cache/huggingface && echo hf_{CANARY} > /root/.cache/huggingface/token",
    "mkdir -p /etc/docker && "
    f"""echo '{{"proxies": {{"http-proxy": "http://me:{CANARY}@proxy.lan:3128"}}}}' > /etc/docker/daemon.json""",
    "ip address add 81.2.69.142/32 dev lo",
)

# Programs that stay: one that listens to everybody, and one that holds a lock.
STAYS = "systemd-run --quiet --collect --unit {unit} python3 -c '{words}; import time; time.sleep(3600)'"
LISTEN = 'import socket; s = socket.socket(socket.AF_INET, socket.{kind}); s.bind(("0.0.0.0", {port})){more}'
HOLD = 'import fcntl; f = open("/var/lib/dpkg/lock-frontend", "w"); fcntl.lockf(f, fcntl.LOCK_EX)'
SYNC = "/etc/netplan/99-nvidia-sync-cluster.yaml"
PROFILE = "/etc/NetworkManager/system-connections/compute-fabric.nmconnection"
MARKER = "/etc/nvidia/cx7-hotplug-enabled"
BIOS = "/run/lab/sys/class/dmi/id/bios_version"
# What an update has left in the package lists: nftables brings a program along that flashes the ConnectX-7.
PULLS = """cp /srv/lab-apt/Packages /srv/kept && cat >> /srv/lab-apt/Packages <<'END'

Package: nftables
Version: 99
Architecture: all
Maintainer: nobody
Depends: mlnx-fw-updater
Filename: ./none.deb
Size: 1

Package: mlnx-fw-updater
Version: 25.07
Architecture: all
Maintainer: nobody
Filename: ./none.deb
Size: 1
END
apt-get update --quiet=2"""


@dataclass(frozen=True)
class Seed:
    """One obstacle: how it is put on a host and, by the remedy that is named (a word of it), taken away; as root.

    at: where it is done, if not on the host that it is an obstacle for.
    """

    host: str
    command: str
    severity: str
    rule: str
    remedy: str
    undo: str
    at: str = ""


def listens(host: str, port: int, kind: str, rule: str = "firewall-unknown-listener", remedy: str = "") -> Seed:
    words = LISTEN.format(kind=kind, port=port, more="; s.listen()" if kind == "SOCK_STREAM" else "")
    protocol = "tcp" if kind == "SOCK_STREAM" else "udp"
    remedy = remedy or f"port: {port}, protocol: {protocol}"
    # the unit counts as started before its program listens
    there = f"until ss -Hln --{protocol} 'sport = :{port}' | grep -q .; do sleep 0.2; done"
    begin = f"{STAYS.format(unit=f'on-{port}', words=words)} && {there}"
    return Seed(host, begin, "error", rule, remedy, f"systemctl stop on-{port}")


def firmware(host: str, version: str, severity: str, rule: str, remedy: str) -> Seed:
    files = "/run/lab/sys/class/infiniband/*/fw_ver"
    command = f"cat {files} > /srv/fw_ver; for file in {files}; do echo {version} > $file; done"
    undo = f"for file in {files}; do head -n 1 /srv/fw_ver > $file; done"
    return Seed(host, command, severity, rule, remedy, undo)


def driver(host: str, version: str, severity: str, *rules: tuple[str, str]) -> list[Seed]:
    swap = "sed -i 's/{}/{}/' /usr/bin/nvidia-smi"
    first, *more = rules
    seeds = [Seed(host, swap.format(DRIVER, version), severity, *first, swap.format(version, DRIVER))]
    return seeds + [Seed(host, "true", severity, *rule, "true") for rule in more]


def missing(host: str, name: str) -> Seed:
    return Seed(host, f"rmdir {name}", "error", "preflight-file", "put it there", f"mkdir {name}")


def held_lock(host: str) -> Seed:
    # the unit counts as started before its program has the lock
    taken = "! flock --fcntl --nonblock /var/lib/dpkg/lock-frontend true"
    command = f"{STAYS.format(unit='holder', words=HOLD)} && until {taken}; do sleep 0.2; done"
    return Seed(host, command, "warning", "packages-at-work", "DGX Dashboard", "systemctl stop holder")


def update_waits(host: str) -> Seed:
    file = "/run/reboot-required"
    return Seed(host, f"touch {file}", "warning", "reboot-pending", "systemctl reboot --no-block", f"rm {file}")


OTHER_DOCKERD = "/usr/bin/dockerd --log-driver=local --config-file /etc/mine.json"
RAIL_OF_SYNC = "  ethernets: {enp1s0f1np1: {addresses: [10.100.0.2/24]}}"
KEYFILE = "[connection]\\nid=compute-fabric\\ntype=ethernet\\ninterface-name=enp1s0f1np1\\n"
MODEL, ARCHIVE = "/srv/lab/tiny", "/srv/lab/vllm-cpu-0.32.0.tar"
UNIT = "/etc/systemd/system/docker.service"
SEEDS = [
    update_waits("titan"),
    *driver("titan", "590.44", "warning", ("known-bad driver-590", "driver 580")),
    listens("titan", 8000, "SOCK_STREAM", "preflight-port", "write another port"),
    missing("titan", MODEL),
    missing("titan", ARCHIVE),
    held_lock("titan"),
    Seed("titan", "sed -i s/NOPASSWD:// /etc/sudoers.d/nvidia", "warning", "sudo-password", "visudo",
         "echo 'nvidia ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/nvidia"),
    Seed("titan", f"cp {BIOS} /srv/bios && echo GX10DGX.0102.2025.1111.1531 > {BIOS}", "warning",
         "known-bad bios-pcie-lanes", "fwupdmgr update", f"cat /srv/bios > {BIOS}"),
    Seed("titan", f"printf '[Service]\\nExecStart={OTHER_DOCKERD}\\n' > {UNIT} && systemctl daemon-reload", "error",
         "docker-other-file", "take --config-file out", f"rm {UNIT} && systemctl daemon-reload"),
    Seed("titan", "true", "error", "docker-option-twice", "`log-driver: null`", "true"),
    Seed("spark-2", f"printf '%s\\n' 'network:' '  version: 2' '{RAIL_OF_SYNC}' > {SYNC} && chmod 600 {SYNC}", "error",
         "netplan-foreign", "NVIDIA Sync", f"rm {SYNC}"),
    listens("spark-2", 8000, "SOCK_STREAM", "preflight-port", "write another port"),
    listens("spark-2", 3389, "SOCK_STREAM"),
    listens("spark-2", 2049, "SOCK_DGRAM"),
    listens("spark-2", 111, "SOCK_DGRAM"),
    firmware("spark-2", "28.47.1088", "error", "known-bad nic-firmware-28.47", "NVIDIA's support"),
    *driver("spark-2", "580.126.09", "warning",
            ("known-bad driver-out-of-memory", "workload.pool"),
            ("known-bad driver-connectx-power", "580.142")),
    missing("spark-2", MODEL),
    missing("spark-2", ARCHIVE),
    update_waits("spark-2"),
    Seed("spark-2", "rm -r /var/lib/apt/lists/*_Packages", "warning", "packages-unknown", "sudo apt-get update",
         "apt-get update --quiet=2"),
    # a half that is down is set up by site.yml; what it is an obstacle for is its other end
    # and NetworkManager sets up whatever it manages
    Seed("spark-2", f"nmcli device set {HALF} managed no && ip link set {HALF} down", "error", "fabric-half-dead",
         "the same half of the other end", f"ip link set {HALF} up && nmcli device set {HALF} managed yes", "spark-3"),
    *driver("spark-3", "580.173.02", "error", ("known-bad driver-without-its-firmware", "tolerated")),
    firmware("spark-3", "28.43.1014", "warning", "known-bad nic-firmware-old", "fwupdmgr"),
    Seed("spark-3", f"mkdir -p /etc/nvidia && touch {MARKER}", "warning", "fabric-hotplug", "hotplug: off",
         f"mv {MARKER} /etc/nvidia/cx7-hotplug-disabled"),
    Seed("spark-3", f"printf '{KEYFILE}' > {PROFILE}", "error", "netplan-foreign", "nmcli connection delete",
         f"rm {PROFILE}"),
    Seed("spark-3", PULLS, "error", "packages-pulled-along", "apt-get --simulate install nftables",
         "cp /srv/kept /srv/lab-apt/Packages && apt-get update --quiet=2"),
    listens("spark-3", 3389, "SOCK_STREAM"),
    listens("spark-3", 5900, "SOCK_STREAM"),
    missing("spark-3", MODEL),
    missing("spark-3", ARCHIVE),
    held_lock("spark-3"),
]  # fmt: skip


@pytest.fixture(scope="module")
def fleet() -> FabricFleet:
    return FabricFleet(LAB)


def doctor(playbook: Playbook, *options: str) -> subprocess.CompletedProcess[str]:
    return playbook("-i", "inventories/lab", "doctor.yml", *options)


def findings(shown: str, host: str) -> dict[tuple[str, str], list[str]]:
    """What doctor's text says of a host: the remedies by (severity, rule)."""
    found: dict[tuple[str, str], list[str]] = {}
    for severity, rule, rest in re.findall(
        rf"^(error|warning): (?:[\w-]+, )*{host}(?:, [\w-]+)*(?:: .*)? \[(.+)\]\n((?:    .*\n)+)", shown, re.MULTILINE
    ):
        found.setdefault((severity, rule), []).append(rest)
    return found


def verdicts(shown: str) -> dict[str, str]:
    words = "ready|will be changed|stops you|could not look"
    return dict(re.findall(rf"^({'|'.join(HOSTS)}) +({words})\b", shown, re.MULTILINE))


def test_clean_machines_are_read_in_few_round_trips_and_nothing_is_found(playbook: Playbook) -> None:
    done = doctor(playbook, "-vvv", "-e", f"doctor_folder={BUNDLES}")
    assert done.returncode == 0, done.stdout[-3000:]
    trips = {host: len(re.findall(rf"^<{host}> SSH: EXEC", done.stdout, re.MULTILINE)) for host in HOSTS}
    print("round trips:", trips)
    assert all(0 < number <= 15 for number in trips.values()), trips
    assert [findings(done.stdout, host) for host in HOSTS] == [{}, {}, {}]
    assert verdicts(done.stdout) == dict.fromkeys(HOSTS, "will be changed")


def test_nothing_was_written_on_a_host(fleet: FabricFleet) -> None:
    for path in ("/etc/gb10-fleet", "/var/lib/gb10-fleet", "/usr/local/lib/gb10-fleet"):
        assert not fleet.ok("titan", f"test -e {path}")


def test_each_obstacle_is_named_with_its_remedy(playbook: Playbook, fleet: FabricFleet) -> None:
    for host in HOSTS:
        for command in PLANTED:
            fleet.root(host, command)
    for seed in SEEDS:
        fleet.root(seed.at or seed.host, seed.command)
    done = doctor(playbook, "-e", f"doctor_folder={BUNDLES}")
    assert done.returncode != 0
    assert verdicts(done.stdout) == dict.fromkeys(HOSTS, "stops you"), done.stdout[-6000:]
    found = {host: findings(done.stdout, host) for host in HOSTS}
    missed = [
        (seed.host, seed.rule, seed.remedy)
        for seed in SEEDS
        if not any(seed.remedy in text for text in found[seed.host].get((seed.severity, seed.rule), []))
    ]
    assert missed == [], done.stdout[-12000:]


@pytest.mark.parametrize("name", HOSTS)
def test_the_file_shows_the_same_without_its_host_and_nothing_private(playbook: Playbook, name: str) -> None:
    file = BUNDLES / f"{name}.json"
    done = doctor(playbook, "-e", f"doctor_from={file}")
    assert done.returncode != 0
    seeded = {(seed.severity, seed.rule) for seed in SEEDS if seed.host == name}
    assert seeded - set(findings(done.stdout, name)) == set(), done.stdout[-6000:]
    text = file.read_text("utf-8")
    assert [re.findall(f".{{,80}}{re.escape(word)}.{{,40}}", text) for word in PRIVATE if word in text] == []


def test_there_are_thirty_of_them() -> None:
    assert len(SEEDS) >= 30


def test_without_the_password_it_names_what_to_type(playbook: Playbook) -> None:
    done = doctor(playbook, "-l", "titan", "-e", f"doctor_folder={BUNDLES}", "-e", "ansible_become_password=")
    assert verdicts(done.stdout) == {"titan": "could not look"}
    assert "-K" in done.stdout


def test_what_the_remedies_did_leaves_nothing(playbook: Playbook, fleet: FabricFleet) -> None:
    for seed in SEEDS:
        fleet.root(seed.at or seed.host, seed.undo)
    done = doctor(playbook, "-e", f"doctor_folder={BUNDLES}")
    assert {host: findings(done.stdout, host) for host in HOSTS} == {host: {} for host in HOSTS}, done.stdout[-6000:]
    assert (done.returncode, verdicts(done.stdout)) == (0, dict.fromkeys(HOSTS, "will be changed"))
