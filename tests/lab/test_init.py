# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gb10.fleet.init on simulated Sparks: from nothing to an inventory, and a network that others made taken as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from .fixtures import Fleet, lab_of
from .terminal import Session, typed

ROOT = Path(__file__).resolve().parents[2]
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
QUESTION = rb"(?:nowhere\):|\[yes\]|for all:) "
THEIRS = """\
network:
  version: 2
  ethernets:
    enp1s0f1np1: {dhcp4: no, dhcp6: no, link-local: [], mtu: 9000, addresses: [192.168.177.%(n)d/24]}
    enP2p1s0f1np1: {dhcp4: no, dhcp6: no, link-local: [], mtu: 9000, addresses: [192.168.178.%(n)d/24]}
"""


@pytest.fixture(scope="module")
def three() -> Iterator[Fleet]:
    """A lab of its own: what others made stays on its hosts."""
    with lab_of() as fleet:
        yield fleet


def environment(fleet: Fleet, folder: Path) -> dict[str, str]:
    own = {
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
        "ANSIBLE_HOME": str(folder / ".ansible"),
        "ANSIBLE_SSH_COMMON_ARGS": f"-F {fleet.ssh_config}",
    }
    return {**{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}, **own}


def play(fleet: Fleet, folder: Path, *words: str, status: int = 0) -> str:
    """ansible-playbook of an account that nobody has prepared, with no answer to any question."""
    (folder / "password").write_text("nvidia\n")
    done = subprocess.run(
        [PLAYBOOK, *words],
        cwd=folder,
        env=environment(fleet, folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    screen = done.stdout + done.stderr
    assert done.returncode == status, screen
    return screen


def answered(fleet: Fleet, folder: Path, answers: Sequence[bytes], *words: str) -> Session:
    """The same at a terminal, where a person types each answer as its question comes."""
    return typed([str(PLAYBOOK), *words], answers, QUESTION, cwd=folder, environment=environment(fleet, folder))


def declared(folder: Path, name: str = "group_vars/all/fleet.yml") -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load((folder / "mine" / name).read_text())
    return found


def test_a_person_gets_an_inventory_by_one_command_and_one_answer(three: Fleet, tmp_path: Path) -> None:
    words = ("-i", "localhost,", "gb10.fleet.init", "-e", "host=titan")
    session = answered(three, tmp_path, [b"nvidia\r"], *words)
    screen = session.screen
    assert (session.status, session.asked) == (0, 1), screen
    assert "nvidia\r" not in screen and "password" not in (tmp_path / "mine/hosts.yml").read_text()
    assert [*declared(tmp_path, "hosts.yml")["all"]["hosts"]] == ["titan"]  # type: ignore[index]
    assert declared(tmp_path) == {"fleet_services": {}}
    assert "[WARNING]" not in screen
    again = play(three, tmp_path, *words, "--become-password-file", "password")
    assert "nothing, " in again and "changed=0" in again


def test_who_gives_up_or_can_not_answer_leaves_nothing_behind(three: Fleet, tmp_path: Path) -> None:
    words = ("-i", "localhost,", "gb10.fleet.init", "-e", "host=titan")
    session = answered(three, tmp_path, [b"\x03"], *words)
    assert session.status != 0 and "you ended it; no inventory was written" in " ".join(session.screen.split())
    assert "nobody can answer here; write -K" in play(three, tmp_path, *words, status=2)
    (tmp_path / "wrong").write_text("guess\n")
    wrong = play(three, tmp_path, *words, "--become-password-file", "wrong", status=2)
    assert "type it again with -K" in " ".join(wrong.split())
    missing = play(three, tmp_path, "-i", "localhost,", "gb10.fleet.init", "-e", "host=spark-99", status=2)
    assert "none of them can be read" in missing
    assert not (tmp_path / "mine").exists()


def test_a_network_that_others_made_is_taken_as_it_is(three: Fleet, tmp_path: Path) -> None:
    password = ("--become-password-file", "password")
    words = ("-i", "localhost,", "gb10.fleet.init", "-e", "host=spark-2,spark-3", *password)
    play(three, tmp_path, *words)
    assert declared(tmp_path)["fleet_fabric"] == {"cables": [["spark-2:1", "spark-3:1"]]}
    (tmp_path / "mine").rename(tmp_path / "bare")
    for number, host in ((11, "spark-2"), (12, "spark-3")):
        file = "/etc/netplan/50-theirs.yaml"
        three.root(host, f"umask 77; cat > {file} <<'E'\n{THEIRS % {'n': number}}E\nnetplan apply")
    screen = play(three, tmp_path, *words)
    assert "taken as it is: /etc/netplan/50-theirs.yaml" in screen
    addresses = {
        f"spark-{two}:1": [f"192.168.{net}.{number}/24" for net in (177, 178)] for two, number in ((2, 11), (3, 12))
    }
    assert declared(tmp_path)["fleet_fabric"] == {"keeper": "others", "cables": [{"addresses": addresses}]}
    look = "ls -l --time-style=full-iso /etc/netplan; ip -4 -o address; sysctl -a 2>/dev/null | grep arp_ignore"
    before = {host: three.root(host, look) for host in ("spark-2", "spark-3")}
    check = play(
        three, tmp_path, "-i", "mine/hosts.yml", "gb10.fleet.site", "--check", "--diff", "--tags", "fabric", *password
    )
    assert not re.search(r"netplan|40-cx7|arp_ignore", "".join(re.findall(r"^[+-].*$", check, re.MULTILINE))), check
    play(three, tmp_path, "-i", "mine/hosts.yml", "gb10.fleet.site", "--tags", "fabric", *password)
    after = {host: three.root(host, look) for host in before}
    assert after == before
