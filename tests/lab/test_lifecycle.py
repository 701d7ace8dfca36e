# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Up, down, and everything that can go wrong between: nothing of a lab outlives it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import base
from .fixtures import COMMAND, Fleet, eventually, need_lab
from .leftovers import Traces
from .lifecycle import init_process
from .workspace import Running


def machine_links() -> set[str]:
    """But Docker's, which come and go with what runs beside."""
    names = {link.name for link in Path("/sys/class/net").iterdir()}
    return {name for name in names if not name.startswith(("br-", "docker", "veth"))}


def daemon_of(running: Running) -> int:
    """The child of the keeper: process 1 of the lab."""
    return int(Path(f"/proc/{running.keeper}/task/{running.keeper}/children").read_text().split()[0])


def start(fleet: Fleet, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """`lab` as a terminal starts it: in a process group of its own, to be interrupted as a whole."""
    return subprocess.Popen(
        [COMMAND, "-d", fleet.directory, *arguments],
        env=os.environ | environment,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


@pytest.fixture
def fleet(new_fleet: Callable[[], Fleet]) -> Fleet:
    """Two cabled hosts' worth of a directory; nothing is up yet."""
    return new_fleet()


UP = ("up", "--hosts", "spark-2,spark-3")


def test_down_leaves_nothing(fleet: Fleet) -> None:
    links = machine_links()
    fleet.lab(*UP)
    traces = Traces.of(fleet.workspace, fleet.running())
    assert fleet.ssh("spark-2", "hostname") == "spark-2\n", "this also leaves an ssh master behind"
    assert traces.living(), "the test can see a lab that is up"
    fleet.workspace.images.write_text("{}")
    fleet.lab("down")
    assert traces.all() == []
    assert not fleet.directory.exists()
    assert machine_links() == links


def test_second_up_changes_nothing_and_reports_it(fleet: Fleet) -> None:
    fleet.lab(*UP)
    before = fleet.running()
    assert "is up already" in fleet.lab(*UP).stderr
    assert fleet.running() == before


def test_second_down_reports_that_there_is_no_lab(fleet: Fleet) -> None:
    fleet.directory.rmdir()
    assert "no lab in" in fleet.lab("down").stderr


@pytest.mark.parametrize("victim", ["keeper", "daemon", "both"])
def test_killing_the_lab_ends_all_of_it_and_up_works_again(fleet: Fleet, victim: str) -> None:
    fleet.lab(*UP)
    running = fleet.running()
    traces = Traces.of(fleet.workspace, running)
    fleet.ssh("spark-2", "true")
    victims = {"keeper": [running.keeper], "daemon": [daemon_of(running)]}
    for process in victims.get(victim, [running.keeper, daemon_of(running)]):
        os.kill(process, signal.SIGKILL)
    eventually(lambda: traces.living() == [], "no process, connection or mount is left")
    assert fleet.lab("status", check=False).returncode == 3
    fleet.lab(*UP)
    assert fleet.ssh("spark-3", "hostname") == "spark-3\n"
    fleet.lab("down")
    assert traces.all() == []


def test_down_after_a_kill_leaves_nothing(fleet: Fleet) -> None:
    fleet.lab(*UP)
    traces = Traces.of(fleet.workspace, fleet.running())
    os.kill(fleet.running().keeper, signal.SIGKILL)
    fleet.lab("down")
    assert traces.all() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("moment", ["hosts", "labd.log", "hosts/spark-2/upper/var/log"])
def test_interrupted_up_takes_everything_back(fleet: Fleet, number: signal.Signals, moment: str) -> None:
    """moment: the file whose appearance is waited for. SIGKILL: only what runs; the next `up` does the rest."""
    traces = Traces.of(fleet.workspace)
    up = start(fleet, *UP)
    eventually(lambda: (fleet.directory / moment).exists() or up.poll() is not None, f"{moment} is there")
    os.killpg(up.pid, number)
    _, output = up.communicate()
    if number == signal.SIGKILL:
        eventually(lambda: traces.living() == [], "nothing runs")
    elif up.returncode:
        assert up.returncode == 130
        assert "interrupted" in output
        assert "Traceback" not in output
        assert traces.all() == []
    fleet.lab(*UP)
    fleet.lab("down")
    assert traces.all() == []


def text_of(log: Path) -> str:
    return log.read_text() if log.exists() else ""


# The real mmdebstrap takes half a minute and all of a core to its first byte.
BEGINS_AN_ARCHIVE = """#!/bin/sh
cd "$TMPDIR" && mkdir usr && head --bytes=1000000 /dev/zero > usr/half && tar --create usr | head --bytes=500000
exec sleep 600
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize(("command", "moment"), [("up", "running apt-get update"), ("base", "half an archive")])
def test_interrupted_base_build_leaves_no_half_image(
    fleet: Fleet, tmp_path: Path, number: signal.Signals, command: str, moment: str
) -> None:
    """moment: the real mmdebstrap's own words, when its mounts are there; or what a stand-in has sent is unpacked."""
    cache = tmp_path / "gb10-lab"
    programs = tmp_path / "bin"
    programs.mkdir()
    if moment == "half an archive":
        (programs / "mmdebstrap").write_text(BEGINS_AN_ARCHIVE)
        (programs / "mmdebstrap").chmod(0o755)
    traces = Traces.of(fleet.workspace, None, tmp_path)
    path = f"{programs}:{os.environ['PATH']}"
    build = start(fleet, command, XDG_CACHE_HOME=str(tmp_path), PATH=path)
    eventually(lambda: any(cache.glob("base-*.part/usr/half")) or moment in text_of(cache / "base.log"), moment)
    os.killpg(build.pid, number)
    _, output = build.communicate()
    assert "Traceback" not in output
    eventually(lambda: traces.living() == [], "mmdebstrap and its mounts are gone")
    assert not (cache / f"base-{base.identity()}").exists()
    if number == signal.SIGINT:
        assert build.returncode == 130
        assert {path.name for path in cache.iterdir()} <= {"base.log", "lock"}
        assert not fleet.workspace.state.exists()


def test_labs_run_side_by_side(new_fleet: Callable[[], Fleet]) -> None:
    one, other = new_fleet(), new_fleet()
    one.lab(*UP)
    other.lab(*UP)
    one.root("spark-2", "echo one > /root/name")
    assert not other.ok("spark-2", "test -e /root/name")
    traces = Traces.of(one.workspace, one.running())
    one.lab("down")
    assert traces.all() == []
    assert other.ssh("spark-2", "hostname") == "spark-2\n"


def test_eight_hosts(new_fleet: Callable[[], Fleet]) -> None:
    fleet = new_fleet()
    fleet.lab("up", "-n", "8")
    assert len(fleet.running().lab.hosts) == 8
    for host in fleet.running().lab.hosts:
        assert fleet.ssh(host, "hostname") == f"{host}\n"
        assert init_process(fleet.workspace, host)


def test_hosts_that_cannot_be_built_end_up_with_the_reason(fleet: Fleet, tmp_path: Path) -> None:
    traces = Traces.of(fleet.workspace)
    failed = fleet.lab(*UP, "--share", f"{tmp_path}:/etc/hostname", check=False)
    assert failed.returncode == 1
    assert "spark-2 can't be built" in failed.stderr
    assert traces.all() == []


@pytest.fixture
def foreign_directory(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "hosts").mkdir()
    yield tmp_path
    assert (tmp_path / "hosts").is_dir()


@pytest.mark.parametrize("command", ["up", "down"])
def test_directory_with_something_else_in_it_is_left_alone(foreign_directory: Path, command: str) -> None:
    need_lab()
    refused = Fleet(foreign_directory).lab(command, check=False)
    assert refused.returncode == 1
    assert "not a lab and not empty" in refused.stderr


def test_too_long_a_directory_is_refused(tmp_path: Path) -> None:
    refused = subprocess.run([COMMAND, "-d", tmp_path / ("x" * 90), "up"], check=False, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "choose a shorter one" in refused.stderr


def test_a_command_on_a_host_does_not_keep_it_from_ending(fleet: Fleet) -> None:
    """A shutdown stops all processes of the host before it kills them."""
    fleet.lab("up", "--hosts", "titan")
    command = start(fleet, "exec", "titan", "--", "sleep", "600")
    eventually(lambda: fleet.ok("titan", "pidof sleep"), "it runs")
    fleet.root("titan", "systemctl poweroff --no-wall")
    eventually(lambda: init_process(fleet.workspace, "titan") is None, "the host has shut down")
    assert fleet.lab("power", "off", "titan").stdout == "titan: off\n"
    assert command.wait() == 128 + signal.SIGKILL


def test_an_interrupt_ends_a_command_on_a_host(fleet: Fleet) -> None:
    fleet.lab("up", "--hosts", "titan")
    command = start(fleet, "exec", "titan", "--", "sleep", "600")
    eventually(lambda: fleet.ok("titan", "pidof sleep"), "it runs")
    os.killpg(command.pid, signal.SIGINT)
    assert command.wait() in (-signal.SIGINT, 128 + signal.SIGINT)
    eventually(lambda: not fleet.ok("titan", "pidof sleep"), "nothing of it is left")


def test_who_asks_and_goes_does_not_end_the_lab(fleet: Fleet) -> None:
    fleet.lab("up", "--hosts", "titan")
    daemon = daemon_of(fleet.running())
    os.kill(daemon, signal.SIGSTOP)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(fleet.workspace.control))
        connection.sendall(b"{}\n")
    os.kill(daemon, signal.SIGCONT)
    assert json.loads(fleet.lab("status", "--json").stdout)["up"]
