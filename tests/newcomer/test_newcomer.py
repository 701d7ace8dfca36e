# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A person with nothing but an account: README's four commands, from zero to an answer that is kept. All is counted.

Two things are the lab's: the package is built here with the one recipe that a simulated Spark can run, and is taken
from a folder, since no host of the lab reaches PyPI or GitHub.
"""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from lab.fixtures import Fleet, lab_of
from lab.vllm import images

ROOT = Path(__file__).resolve().parents[2]
QUESTION = re.compile(rb"(?:nowhere\):|\[yes\]|for all:|BECOME password:) ")
# An answer that comes before Ansible reads is lost.
AFTER_S = 1.5
LIMIT_S = 600
LINES, COLUMNS = 25, 118
PACKAGE = ["cli", "data", "docs", "extensions", "galaxy.yml", "inventories", "meta", "playbooks", "plugins", "roles"]
PLATFORMS = ["manylinux2014_x86_64", "manylinux_2_28_x86_64", "manylinux_2_34_x86_64"]
PYTHON = ["--python-version", "3.13", "--implementation", "cp", "--abi", "cp313", "--abi", "abi3", "--abi", "none"]


# Names as shipped, so that there is something to choose of.
TWO_NAMES = r"printf 'Host spark-3f1c spark-a208\n HostName titan\n' > ~/.ssh/config"

# A host that answers for HOST.local and says that it offers SSH.
# Not on the cables: a half would hear its twin there, and take that for another machine of the same name.
ANSWERING = r"""cd /etc/systemd; mkdir -p resolved.conf.d dnssd
printf '[Resolve]\nMulticastDNS=yes\n' > resolved.conf.d/lab.conf
printf '[Service]\nName=%%H\nType=_ssh._tcp\nPort=22\n' > dnssd/ssh.dnssd
for link in enp1s0f0np0 enP2p1s0f0np0 enp1s0f1np1 enP2p1s0f1np1; do resolvectl mdns $link no || :; done
systemctl restart systemd-resolved && resolvectl mdns enP7s7 yes"""


@dataclass(frozen=True)
class Seen:
    """status: of the command. screen: all of it. stretches: what came between two answers, which a person reads."""

    status: int
    screen: str
    stretches: Sequence[str]

    @property
    def longest(self) -> int:
        """Lines of the longest stretch, as a terminal breaks them."""
        return max(sum(1 + max(0, len(line) - 1) // COLUMNS for line in one.splitlines()) for one in self.stretches)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What PyPI and GitHub would give: uv, ansible-core, and this package with the lab's recipe."""
    folder = tmp_path_factory.mktemp("shop")
    tree = tmp_path_factory.mktemp("tree")
    for name in [*PACKAGE, "pyproject.toml", "README.md"]:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)
    recipes = ROOT / "inventories/lab/recipes"
    shutil.copytree(recipes, tree / "recipes", ignore=shutil.ignore_patterns("lab-tiny-*"))
    large = yaml.safe_load((recipes / "lab-tiny.yml").read_text())
    large |= {"name": "lab-large", "memory": {}, "model": {**large["model"], "weights_bytes": 500 << 30}}
    (tree / "recipes/lab-large.yml").write_text(yaml.safe_dump(large))
    pip = [sys.executable, "-m", "pip", "-q"]
    platforms = [word for one in PLATFORMS for word in ("--platform", one)]
    subprocess.run(
        [*pip, "download", "-d", str(folder), "--only-binary=:all:", *PYTHON, *platforms, "ansible-core", "uv"],
        check=True,
        timeout=LIMIT_S,
    )
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder), str(tree)], check=True, timeout=LIMIT_S)
    [wheel] = folder.glob("uv-*.whl")
    subprocess.run(["unzip", "-q", "-j", wheel, "*/scripts/uv", "-d", folder], check=True, timeout=60)
    folder.joinpath("uv").chmod(0o755)
    for path in (folder, *folder.iterdir()):
        path.chmod(path.stat().st_mode | 0o555 if path.is_dir() or path.name == "uv" else 0o644)
    folder.parent.chmod(0o755)
    folder.parent.parent.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def desk(shop: Path) -> Iterator[Fleet]:
    """A laptop, three Sparks for it, and one that is used by itself. The laptop's key is on the three."""
    store = images.default_directory()
    images.ensure_model("tiny", store)
    images.ensure_image(images.VLLM_CPU, store)
    hosts = ["--hosts", "titan,spark-2,spark-3,lone,laptop", "--cable", "spark-2:1=spark-3:1", "--docker"]
    with lab_of(*hosts, "--share", f"{store}:/srv/lab", "--share", f"{shop}:/srv/shop") as fleet:
        let_in(fleet, "titan", "spark-2", "spark-3")
        yield fleet


def let_in(fleet: Fleet, *hosts: str) -> None:
    made = fleet.ssh("laptop", "ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519; cat ~/.ssh/id_ed25519.pub")
    for host in hosts:
        fleet.root(host, f"echo '{made.strip()}' >> /home/nvidia/.ssh/authorized_keys")


def typed(fleet: Fleet, host: str, command: str, *answers: str) -> Seen:
    """A command at a terminal of a host, with an answer typed to each question; Ctrl-C to one beyond them."""
    child, terminal = pty.fork()
    if child == 0:
        way = f"stty rows {LINES} cols {COLUMNS}; PATH=$HOME/.local/bin:$PATH; {command}"
        os.execvp("ssh", ["ssh", "-q", "-tt", "-F", str(fleet.ssh_config), host, way])
    screen, marks = b"", [0]
    end = time.monotonic() + LIMIT_S
    try:
        while time.monotonic() < end:
            if not select.select([terminal], [], [], AFTER_S)[0]:
                if len([*QUESTION.finditer(screen)]) >= len(marks):
                    answer = answers[len(marks) - 1] + "\r" if len(marks) <= len(answers) else "\x03"
                    marks.append(len(screen))
                    os.write(terminal, answer.encode())
                continue
            try:
                screen += os.read(terminal, 4096)
            except OSError:
                break
        else:
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        os.close(terminal)
    parts = [screen[begin:stop] for begin, stop in zip(marks, [*marks[1:], len(screen)], strict=True)]
    text = [re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", one.decode("utf-8", "replace")) for one in parts]
    return Seen(status, "".join(text), text)


def commands() -> list[str]:
    """README's lines for one's own machines."""
    chapter = (ROOT / "README.md").read_text().partition("## Your own machines")[2]
    return chapter.partition("```sh\n")[2].partition("```")[0].splitlines()


def install(fleet: Fleet, host: str) -> None:
    """README's first line, by uv, which the lab's shop has in pipx's place."""
    source = "UV_FIND_LINKS=/srv/shop UV_OFFLINE=1 UV_PYTHON=/usr/bin/python3"
    fleet.ssh(host, f"{source} /srv/shop/uv tool install -q --with-executables-from ansible-core /srv/shop/gb10_*.whl")


def checked(seen: Seen, questions: int) -> None:
    assert seen.status == 0, seen.screen
    assert len(seen.stretches) - 1 <= questions, seen.screen
    assert seen.longest <= LINES, seen.screen
    assert "[WARNING]" not in seen.screen and "nvidia\r" not in seen.screen


def test_four_lines_of_readme_lead_to_an_answer_that_is_kept(desk: Fleet) -> None:
    lines = commands()
    assert len(lines) == 4
    _install, first, again, keep = [line.replace("spark-3f1c.local", "titan") for line in lines]
    install(desk, "laptop")
    assert desk.ssh("laptop", "ls").strip() == ""
    tried = typed(desk, "laptop", first, "yes", "nvidia", "yes")
    checked(tried, 3)
    assert "first token after" in tried.screen and "keep it:" in tried.screen and "take it away:" in tried.screen
    [curl] = re.findall(r"ask it: (curl .*?\}\]\}')", " ".join(tried.screen.split("\r\n")))
    assert '"content"' in desk.ssh("laptop", curl)
    checked(typed(desk, "laptop", again), 0)
    kept = typed(desk, "laptop", keep, "nvidia")
    checked(kept, 1)
    declared = yaml.safe_load(desk.ssh("laptop", "cat mine/group_vars/all/fleet.yml"))
    assert declared["fleet_services"]["chat"]["hosts"] == ["titan"]
    started = desk.root("titan", "systemctl show gb10-service-chat --property ExecMainStartTimestamp")
    checked(typed(desk, "laptop", "gb10 up -K", "nvidia"), 1)
    assert desk.root("titan", "systemctl show gb10-service-chat --property ExecMainStartTimestamp") == started


def test_a_try_beside_a_kept_service_goes_alone(desk: Fleet) -> None:
    """By the line that it shows: what is kept by another inventory answers before, meanwhile and after."""
    install(desk, "laptop")
    seen = typed(desk, "laptop", "mkdir -p beside; cd beside; gb10 try titan -e model=lab-tiny", "nvidia", "yes")
    checked(seen, 2)
    assert "it goes on, and keeps its memory" in " ".join(seen.screen.split())
    running = "systemctl list-units --state=active --no-legend --plain 'gb10-service-*' | cut -d' ' -f1"
    started = "systemctl show gb10-service-chat --property ExecMainStartTimestamp"
    assert len(desk.root("titan", running).split()) == 2
    before = desk.root("titan", started)
    [away] = re.findall(r"take it away: +(ansible-playbook .*?-K)", " ".join(seen.screen.split("\r\n")))
    gone = typed(desk, "laptop", f"cd beside; {away}", "nvidia")
    assert gone.status == 0, gone.screen
    assert desk.root("titan", running).split() == ["gb10-service-chat.service"]
    assert desk.root("titan", started) == before
    checked(typed(desk, "laptop", "gb10 ask"), 0)


def test_two_cabled_machines_answer_as_one(desk: Fleet) -> None:
    install(desk, "laptop")
    seen = typed(
        desk, "laptop", "mkdir -p two; cd two; gb10 try spark-2 spark-3 -e model=lab-tiny", "yes", "nvidia", "yes"
    )
    checked(seen, 3)
    assert "cable: spark-2 port 1 and spark-3 port 1" in seen.screen
    assert "first token after" in seen.screen
    away = "gb10 remove -e remove=spark-2,spark-3 -e images=true -e models=true -K"
    assert typed(desk, "laptop", f"cd two; {away}", "nvidia").status == 0
    assert desk.root("spark-2", "ls /etc/gb10-fleet /etc/netplan 2>/dev/null | grep -c 40-cx7 || true").strip() == "0"


def test_the_sudo_password_is_on_no_screen_however_much_is_shown(desk: Fleet) -> None:
    install(desk, "laptop")
    desk.root("titan", "echo nvidia:canary-of-sudo | chpasswd")
    try:
        seen = typed(desk, "laptop", "mkdir -p loud; cd loud; gb10 try titan -vvvv", "canary-of-sudo", "no")
    finally:
        desk.root("titan", "echo nvidia:nvidia | chpasswd")
    assert "you said no" in " ".join(seen.screen.split()), seen.screen
    assert "canary-of-sudo" not in seen.screen


def test_a_spark_tries_on_itself(desk: Fleet) -> None:
    install(desk, "lone")
    seen = typed(desk, "lone", "gb10 try localhost", "nvidia", "yes")
    checked(seen, 2)
    assert "first token after" in seen.screen


def test_machines_are_found_that_nobody_named(shop: Path) -> None:
    """They answer the question that goes to all, by a real program; no host of the lab has a name for them."""
    sparks = ("spark-3f1c", "spark-a208")
    hosts = ["--hosts", ",".join([*sparks, "laptop"]), "--cable", "spark-3f1c:1=spark-a208:1"]
    with lab_of(*hosts, "--share", f"{shop}:/srv/shop") as house:
        let_in(house, *sparks)
        for host in (*sparks, "laptop"):
            house.root(host, ANSWERING)
        install(house, "laptop")
        seen = typed(house, "laptop", "gb10 init", "2 3", "yes", "nvidia")
        checked(seen, 3)
        assert "its own answer" in seen.screen
        declared = yaml.safe_load(house.ssh("laptop", "cat mine/hosts.yml"))["all"]["hosts"]
        assert {name: own["ansible_host"] for name, own in declared.items()} == {one: f"{one}.local" for one in sparks}
        assert "spark-3f1c:1" in house.ssh("laptop", "cat mine/group_vars/all/fleet.yml")


@pytest.mark.parametrize(
    ("command", "answers", "why"),
    [
        ("gb10 try spark-99", (), "spark-99: nobody knows this name"),
        ("gb10 try lone", ("yes",), "it lets nobody called nvidia in by a key of yours"),
        ("gb10 try titan -e user=bob", (), "bob"),
        ("gb10 try titan -e model=lab-tny", ("nvidia",), 'write "lab-tiny"'),
        ("gb10 try titan", ("guess",), "sudo"),
        ("gb10 try titan", (), "you ended it"),
        ("gb10 try titan", ("nvidia",), "you ended it"),
        ("gb10 try titan", ("nvidia", "no"), "you said no"),
        ("gb10 try titan -e model=Qwen/Qwen3-8B", ("nvidia",), "nothing was changed"),
        ("rm ~/.ssh/known_hosts; gb10 try titan", ("no",), "host key"),
        ("gb10 try titan -e model=lab-large", ("nvidia",), "does not fit on titan"),
        ("rm ~/.ssh/known_hosts; gb10 try titan", (), "you ended it"),
        ("rm ~/.ssh/known_hosts; gb10 init titan", (), "you ended it"),
        ("gb10 init titan", (), "you ended it"),
        (f"{TWO_NAMES}; gb10 init; rm ~/.ssh/config; false", (), "you ended it"),
        (f"{TWO_NAMES}; gb10 init; rm ~/.ssh/config; false", ("7 x",), "expected numbers of the list"),
        ("gb10 plan", (), "no inventory is here"),
        ("gb10 fly", (), "gb10 knows no 'fly'"),
    ],
)
def test_what_can_not_be_is_a_sentence_and_leaves_nothing(
    desk: Fleet, command: str, answers: tuple[str, ...], why: str
) -> None:
    install(desk, "laptop")
    desk.ssh("laptop", "ssh-keyscan -t ed25519 titan 2>/dev/null >> ~/.ssh/known_hosts; rm -rf bad; mkdir bad")
    seen = typed(desk, "laptop", f"cd bad; {command}", *answers)
    assert seen.status != 0
    assert why in " ".join(seen.screen.split()), seen.screen
    assert desk.ssh("laptop", "ls -A bad").strip() == ""
    assert "Traceback" not in seen.screen
