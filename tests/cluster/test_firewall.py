# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host of a serving group is closed: over a restart of Docker, over a boot, and never to its owner."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.firewall.subject import with_files
from lab.disk import OWNER_PASSWORD

from .bare import HOSTS
from .group import MANAGEMENT, PORT, ROOT, Group

PROGRAM = """
import subprocess, sys
sys.path.insert(0, "/tmp/collections")
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.firewall import host

def run(words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr

host.WINDOW_S = 40
host.load(run, sys.argv[1])
"""
SHUT = """table inet gb10_fleet
delete table inet gb10_fleet
table inet gb10_fleet {
    chain input {
        type filter hook input priority filter; policy accept;
        iifname "enP7s7" tcp dport 22 drop
    }
}
"""

pytestmark = pytest.mark.whole
# Somebody's program, which listens when this ends.
STRAY = "systemd-run --unit stray /usr/bin/python3 -m http.server 45678 --directory /srv;"
STRAY += " until ss -Hltn sport = :45678 | grep -q .; do sleep 0.2; done"


@pytest.fixture(scope="module")
def closed(group: Group) -> Iterator[Group]:
    group.place()
    group.until_serving()
    for host in HOSTS:
        group.fleet.root(host, STRAY)
        group.fleet.root(host, "apt-get install -y nftables > /dev/null")
    play = Path(group.fleet.directory).parent / "close.yml"
    play.write_text(PLAY.replace("UNITS", json.dumps(with_files({"state": "closed"}))))
    converge(group, play)
    yield group


PLAY = textwrap.dedent("""\
    - hosts: spark-2,spark-3
      become: true
      gather_facts: false
      roles:
        - role: gb10.fleet.firewall
          vars:
            of: {spark-2: 192.168.100.2, spark-3: 192.168.100.1}
            firewall_plan: "{{ rules | combine(units) }}"
            units: UNITS
            rules:
              state: closed
              open: "{{ {'spark-2': [{'port': 8000, 'protocol': 'tcp', 'from': [], 'reason': 'the API'}],
                         'spark-3': []}[inventory_hostname] }}"
              neighbours: [{interface: enp1s0f1np1, address: "{{ of[inventory_hostname] }}"}]
    """)


def converge(group: Group, play: Path) -> None:
    hosts = play.with_name("hosts")
    how = f"ansible_ssh_common_args='-F {group.fleet.ssh_config}' ansible_become_password={OWNER_PASSWORD}"
    hosts.write_text("".join(f"{name} {how}\n" for name in HOSTS))
    command = [Path(sys.executable).with_name("ansible-playbook"), "-i", hosts, play]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def answering(group: Group, host: str) -> set[int]:
    """Of all 65535 TCP ports those that answer this machine, which is none of the group."""
    scan = "import socket, sys\nfrom concurrent.futures import ThreadPoolExecutor\n" + textwrap.dedent("""\
        def answers(port):
            with socket.socket() as probe:
                probe.settimeout(0.5)
                return probe.connect_ex((sys.argv[1], port)) == 0

        with ThreadPoolExecutor(512) as pool:
            print(*(port for port, answer in zip(PORTS, pool.map(answers, PORTS)) if answer))
        """).replace("PORTS", "range(1, 65536)")
    done = group.fleet.lab("net", "--", sys.executable, "-c", scan, MANAGEMENT[host])
    return {int(port) for port in done.stdout.split()}


def only_ssh_and_the_api(group: Group) -> None:
    assert [answering(group, host) for host in HOSTS] == [{22, PORT}, {22}]


def test_only_ssh_and_the_api_answer_and_the_group_serves(closed: Group) -> None:
    only_ssh_and_the_api(closed)
    assert closed.answers()


def test_the_group_meets_again_behind_a_firewall(closed: Group) -> None:
    closed.restart()
    assert closed.answers()


def test_docker_restarts(closed: Group) -> None:
    def restart_docker() -> None:
        closed.fleet.root(closed.head, "systemctl restart docker")

    closed.recovers(restart_docker)
    only_ssh_and_the_api(closed)


def test_a_published_port_of_a_container_is_closed_too(closed: Group) -> None:
    image = closed.image
    run = (
        f"docker run --detach --rm --name stray --publish 34567:34567 --entrypoint python3 {image} -m http.server 34567"
    )
    closed.fleet.root(closed.worker, run)
    closed.until(lambda: closed.fleet.ok(closed.worker, "curl -sf http://127.0.0.1:34567/"), "it answers on the host")
    only_ssh_and_the_api(closed)
    closed.fleet.root(closed.worker, "docker rm --force stray")


def test_the_host_boots_closed(closed: Group) -> None:
    for host in HOSTS:
        closed.fleet.lab("power", "cycle", host)
        closed.until(lambda host=host: closed.fleet.ok(host, "systemctl is-active gb10-firewall"), "it is closed")
        closed.fleet.root(host, STRAY)
    closed.until_serving()
    only_ssh_and_the_api(closed)


def test_rules_that_shut_ssh_out_are_taken_back(closed: Group) -> None:
    """Nobody confirms them, since nobody can."""
    host, folder = closed.worker, "plugins/module_utils"
    rooms = [ROOT / folder / room for room in ("_subjects/firewall", "_subjects/fabric", "_base")]
    for source in [source for room in rooms for source in room.glob("*.py")]:
        path = f"/tmp/collections/ansible_collections/gb10/fleet/{source.relative_to(ROOT)}"
        closed.write(host, path, source.read_text("utf-8"))
    closed.write(host, "/tmp/load.py", PROGRAM)
    closed.write(host, "/tmp/shut.nft", SHUT)
    assert 22 in answering(closed, host)
    closed.fleet.root(host, 'python3 /tmp/load.py "$(cat /tmp/shut.nft)"')
    assert 22 not in answering(closed, host)
    closed.until(
        lambda: "22 drop" not in closed.fleet.root(host, "nft list table inet gb10_fleet"), "they are taken back"
    )
    only_ssh_and_the_api(closed)
