# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host is a real system: systemd, SSH, sudo, apt, Docker, reboots."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .disk import OWNER, OWNER_PASSWORD
from .fixtures import COMMAND, Fleet, eventually

BOOT_ID = "cat /proc/sys/kernel/random/boot_id"
# A container image without a registry: the C library's loader and a few programs of the host itself.
IMPORT_IMAGE = "cd / && tar -c bin lib* usr/bin usr/lib* | docker import - lab:test"


def test_systemd_runs_without_a_failed_unit(fleet: Fleet) -> None:
    for host in fleet.running().lab.hosts:
        state = fleet.root(host, "systemctl is-system-running --wait", check=False).strip()
        assert state == "running", fleet.root(host, "systemctl --failed --no-legend")


def test_a_unit_has_its_credentials(fleet: Fleet) -> None:
    """Also without root, in the mount namespace of its own that it gets for that."""
    asked = "-p DynamicUser=yes -p LoadCredential=name:/etc/hostname"
    shown = "'cat $CREDENTIALS_DIRECTORY/name'"
    assert fleet.root("titan", f"systemd-run --quiet --wait --pipe {asked} sh -c {shown}").strip() == "titan"


def test_owner_logs_in_with_checked_keys_and_becomes_root(fleet: Fleet) -> None:
    assert not fleet.ok("titan", f"runuser -u {OWNER} -- sudo --non-interactive true")
    asked = f"id -un; echo {OWNER_PASSWORD} | sudo --stdin --prompt= id -un; hostname"
    assert fleet.ssh("titan", asked).split() == [OWNER, "root", "titan"]
    fleet.workspace.known_hosts.rename(fleet.workspace.known_hosts.with_suffix(".away"))
    try:
        refused = subprocess.run(
            ["ssh", "-F", fleet.ssh_config, "-o", "ControlPath=none", "-o", "BatchMode=yes", "titan", "true"],
            check=False,
            capture_output=True,
            text=True,
        )
    finally:
        fleet.workspace.known_hosts.with_suffix(".away").rename(fleet.workspace.known_hosts)
    assert refused.returncode != 0
    assert "verification failed" in refused.stderr


def test_a_connection_reads_no_bashrc(fleet: Fleet, tmp_path: Path) -> None:
    """Whatever shell the user of this machine has."""
    (tmp_path / ".bashrc").write_text("touch ~/was-read\n")
    given = {name: value for name, value in os.environ.items() if name != "SHLVL"}
    environment = given | {"HOME": str(tmp_path), "SHELL": "/bin/bash"}
    command = [str(COMMAND), "-d", str(fleet.directory), "ssh", "titan", "-o", "ControlPath=none", "hostname"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.stdout == "titan\n", done.stderr
    assert not (tmp_path / "was-read").exists()


def test_hosts_differ_in_what_identifies_them(fleet: Fleet) -> None:
    for command in ("cat /etc/machine-id", BOOT_ID, "cat /etc/ssh/ssh_host_ed25519_key.pub", "hostname"):
        answers = [fleet.root(host, command) for host in fleet.running().lab.hosts]
        assert len(set(answers)) == len(answers), command


def test_hosts_know_each_other_on_the_management_network(fleet: Fleet) -> None:
    asked = "ping -c 1 -W 2 spark-2 && ping -c 1 -W 2 spark-3 && ping -c 1 -W 2 10.77.0.1"
    eventually(lambda: fleet.ok("titan", asked), "all answer")


def test_apt_installs_from_the_pool_and_from_nowhere_else(fleet: Fleet) -> None:
    fleet.root("titan", "apt-get update && apt-get install -y -qq zstd")
    assert fleet.ok("titan", "zstd --version")
    assert "No route" in fleet.root("titan", "ip route get 1.1.1.1 2>&1", check=False) or not fleet.ok(
        "titan", "ip route get 1.1.1.1"
    )


def test_reboot_keeps_the_disk_and_forgets_the_rest(fleet: Fleet) -> None:
    before = fleet.root("spark-3", BOOT_ID)
    fleet.root("spark-3", "echo kept > /root/kept; echo gone > /run/gone; ip link add gone0 type bridge; sync")
    fleet.root("spark-3", "systemctl reboot", check=False)
    eventually(lambda: fleet.root("spark-3", BOOT_ID, check=False) not in ("", before), "a new boot")
    eventually(lambda: fleet.ssh("spark-3", "true", check=False) == "", "SSH answers")
    assert fleet.root("spark-3", "cat /root/kept") == "kept\n"
    assert not fleet.ok("spark-3", "test -e /run/gone || ip link show gone0")


def test_uptime_begins_at_the_hosts_own_boot(fleet: Fleet) -> None:
    machine = float(Path("/proc/uptime").read_text().split()[0])
    assert float(fleet.root("spark-3", "cut -d' ' -f1 /proc/uptime")) < machine
    began = time.monotonic()
    fleet.lab("power", "cycle", "spark-3")
    assert float(fleet.root("spark-3", "cut -d' ' -f1 /proc/uptime")) < time.monotonic() - began
    # A host that has only begun to boot takes no orders: a poweroff in that moment is lost, systemd reads no bus yet.
    eventually(lambda: fleet.lab("ssh", "spark-3", "true", check=False).returncode == 0, "SSH answers")


def test_poweroff_from_inside_leaves_the_host_off(fleet: Fleet) -> None:
    fleet.root("spark-3", "systemctl poweroff", check=False)
    eventually(
        lambda: json.loads(fleet.lab("status", "--json").stdout)["hosts"]["spark-3"]["power"] == "off", "spark-3 is off"
    )
    refused = fleet.lab("exec", "spark-3", "--", "true", check=False)
    assert "spark-3 is off: lab power on spark-3" in refused.stderr
    fleet.lab("power", "on", "spark-3")
    eventually(lambda: fleet.lab("ssh", "spark-3", "true", check=False).returncode == 0, "SSH answers")


def test_status_is_for_a_person_and_a_program(fleet: Fleet) -> None:
    assert "spark-2:1=spark-3:1" in fleet.lab("status").stdout
    assert fleet.lab("status", "--json").stdout.startswith("{")


@pytest.fixture(scope="module")
def docker(fleet: Fleet) -> Iterator[str]:
    """A host with Docker from the pool, and an image."""
    fleet.root("titan", "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq docker.io")
    fleet.root("titan", IMPORT_IMAGE)
    yield "titan"
    fleet.root("titan", "docker rm -f $(docker ps -aq)", check=False)


def test_docker_runs_a_container_as_the_fleet_starts_them(fleet: Fleet, docker: str) -> None:
    options = (
        "--network host --ipc host --ulimit memlock=-1 --ulimit stack=67108864 --gpus all --device /dev/infiniband"
    )
    fleet.root(docker, f"docker run --name asked {options} lab:test true")
    assert "-1" in fleet.root(docker, "docker inspect --format '{{json .HostConfig.Ulimits}}' asked")
    assert fleet.root(docker, "docker info --format '{{.Driver}} {{.CgroupVersion}}'").split() == ["overlay2", "2"]


def test_container_comes_back_after_a_reboot(fleet: Fleet, docker: str) -> None:
    fleet.root(docker, "docker run -d --name back --restart unless-stopped lab:test sleep infinity")
    before = fleet.root(docker, BOOT_ID)
    fleet.lab("power", "cycle", docker)
    eventually(lambda: fleet.root(docker, BOOT_ID, check=False) not in ("", before), "a new boot")
    eventually(lambda: "back" in fleet.root(docker, "docker ps --format '{{.Names}}'", check=False), "it runs again")


def test_share_is_read_only_and_its_owner_is_the_hosts_root(new_fleet: Callable[[], Fleet], tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("tensors")
    (tmp_path / "weights").chmod(0o600)
    fleet = new_fleet()
    fleet.lab("up", "-n", "1", "--share", f"{tmp_path}:/srv/models")
    assert fleet.root("titan", "cat /srv/models/weights; stat -c %u /srv/models/weights") == "tensors0\n"
    assert not fleet.ok("titan", "touch /srv/models/new")
    assert not fleet.ok("titan", "mount -o remount,bind,rw /srv/models")
