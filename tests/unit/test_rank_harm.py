# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rank's supervisor survives: a folder that is gone, a full disk, a port that is taken, an engine that hangs.

The same on lab hosts: tests/cluster/test_obstacles.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import (
    container,
    endpoint,
    head,
    host,
    judge,
    local,
    members,
    report,
    serving,
    worker,
)
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import supervise as program
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.report import Ledger, Report
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.service import from_plan
from test_rank import HEAD, SOLO, WRITTEN

# Own files --------------------------------------------------------------------------------------------------------


def _gone(folder: Path) -> None:
    shutil.rmtree(folder)


def _a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.write_text("x")


def _a_folder(folder: Path) -> None:
    for name in ("status.json", "starts.json"):
        (folder / name).unlink()
        (folder / name / "x").mkdir(parents=True)


def _full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(report.os, "fsync", no_room)


@pytest.mark.parametrize(
    ("harm", "is_healed"),
    [(_gone, True), (_a_file, False), (_a_folder, False), ("full", False)],
    ids=["folder gone", "folder is a file", "file is a folder", "no room"],
)
def test_a_report_that_can_not_be_written_ends_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], harm: Any, is_healed: bool
) -> None:
    folder = tmp_path / "run" / "pair"
    reported = Report(HEAD, [], folder.parent, began_ns=1_000_000_000)
    ledger = Ledger(HEAD, reported.note, folder.parent)
    reported.enter("waiting", "first", error="x")
    ledger.begin()
    with pytest.MonkeyPatch.context() as patched:
        if harm == "full":
            _full(folder, patched)
        else:
            harm(folder)
        capsys.readouterr()
        for number in range(3):
            reported.update(error=f"error {number}")
        ledger.launched(5.0)
        output = capsys.readouterr().out
        if is_healed:
            assert output == ""
        else:
            assert output.count(f"{folder / 'status.json'} can't be written") == 1
            assert output.count(f"{folder / 'starts.json'} can't be written") == 1
    if not is_healed:
        if folder.is_dir():
            shutil.rmtree(folder)
        else:
            folder.unlink()
        reported.update(error="last")
        ledger.launched(6.0)
        assert "status.json is written again" in capsys.readouterr().out
    assert json.loads((folder / "status.json").read_text())["error"] == ("error 2" if is_healed else "last")
    assert json.loads((folder / "starts.json").read_text())["epoch"] == 1
    # else site.yml would not see what it has to restart
    assert (folder / "started").stat().st_mtime_ns == 1_000_000_000


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"epoch": "x", "starts": []}',
        b'{"epoch": 1, "starts": 7}',
        b'{"epoch": 1, "starts": [], "restarts": "x"}',
        b'{"epoch": 1, "starts": [], "restarts": []}',
    ],
)
def test_a_damaged_ledger_is_set_aside_and_begun_anew(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pair").mkdir()
    file = tmp_path / "pair" / "starts.json"
    file.write_bytes(content)
    notes: list[str] = []
    ledger = Ledger(HEAD, notes.append, tmp_path)
    assert (ledger.epoch, ledger.starts) == (0, [])
    assert (tmp_path / "pair" / "starts.json.damaged").read_bytes() == content
    assert [str(file) in note and "starts.json.damaged" in note for note in notes] == [True]
    ledger.begin()
    assert Ledger(HEAD, pytest.fail, tmp_path).epoch == 1


def test_a_journal_that_is_gone_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_words: Any, **_options: Any) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("builtins.print", broken)
    Report(HEAD, [], tmp_path).enter("serving", "still")
    assert json.loads((tmp_path / "pair" / "status.json").read_text())["state"] == "serving"


def test_a_supervisor_that_runs_shows_it_to_people_and_to_systemd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands still is seen by its age, and ended by the watchdog."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        reported = Report(HEAD, [], tmp_path)

        async def two_beats() -> None:
            pulse = asyncio.ensure_future(reported.pulse())
            await asyncio.sleep(0)
            shutil.rmtree(tmp_path / "pair")
            await asyncio.sleep(0)
            pulse.cancel()

        monkeypatch.setattr(report, "PULSE_S", 0.0)
        asyncio.run(two_beats())
        assert systemd.recv(100) == systemd.recv(100) == b"WATCHDOG=1"
    assert json.loads((tmp_path / "pair" / "status.json").read_text())["updated_at"] <= report.now_text()
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody listens"))
    reported.enter("serving", "still")


# How it ends ------------------------------------------------------------------------------------------------------


@pytest.fixture
def statuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    ended: list[int] = []
    monkeypatch.setattr(program.os, "_exit", ended.append)
    monkeypatch.setattr(program, "RUN", tmp_path / "run")
    monkeypatch.setattr(report, "RUN", tmp_path / "run")
    monkeypatch.setattr(Report.__init__, "__defaults__", (tmp_path / "run", None))
    monkeypatch.setattr(Ledger.__init__, "__defaults__", (tmp_path / "run",))
    yield ended


def _write_plan(folder: Path, **changes: Any) -> Path:
    solo = {"rendezvous": None, "gids": None, "ranks": 1, "peers": [], "secret_file": None}
    file = folder / "pair.json"
    file.write_text(json.dumps(WRITTEN | solo | changes))
    return file


@pytest.mark.parametrize(
    ("what", "status"),
    [("no plan", 3), ("no secret", 3), ("no key", 3), ("an error of the program", 1), ("an error of a disk", 1)],
)
def test_only_what_the_plan_has_to_mend_is_final(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    statuses: list[int],
    what: str,
    status: int,
) -> None:
    file = _write_plan(tmp_path)
    gone = str(tmp_path / "gone")
    if what == "no plan":
        file.write_text("{")
    elif what == "no secret":
        file = _write_plan(tmp_path, secret_file=gone)
    elif what == "no key":
        file = _write_plan(tmp_path, endpoint={**WRITTEN["endpoint"], "key_file": gone})
    else:

        async def fails(_head: Any) -> int:
            raise OSError(errno.EIO, "Input/output error") if what == "an error of a disk" else RuntimeError("x")

        monkeypatch.setattr(head.Head, "run", fails)
    monkeypatch.setattr(program.sys, "argv", ["gb10_rank", str(file)])
    program.main()
    assert statuses == [status]
    assert status == 1 or "site.yml" in capsys.readouterr().out


# Obstacles before a start -----------------------------------------------------------------------------------------


class Script:
    """A head whose rank and members do what a list says, one step an epoch, with a clock that sleeps move.

    Steps: a string: that is in the way before the launch; `docker`: `docker run` can't; `dies`: the container dies;
    `memory`: for want of memory; `owner`: a rank leaves in order.
    """

    def __init__(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[str], restarts: int | None = 0
    ) -> None:
        self.steps, self.now, self.pauses, self.kept, self.shown = steps, 0.0, list[float](), list[str](), list[Any]()
        monkeypatch.setattr(head.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(head.asyncio, "sleep", self._sleep)
        monkeypatch.setattr(Ledger.__init__, "__defaults__", (tmp_path,))
        monkeypatch.setattr(head, "restarts_of", lambda _unit: restarts)
        self.report = Report(SOLO, [], tmp_path)
        self.head = head.Head(SOLO, self.report, b"", "")
        self.head._local = self  # type: ignore[assignment]
        monkeypatch.setattr(head.Serving, "load", lambda _serving: self._serve())

    async def _sleep(self, seconds: float) -> None:
        if seconds:
            self.pauses.append(seconds)
            self.shown.append((self.report.state, self.report.fields["error"], self.report.fields["starts_left"]))
            self.now += seconds
            if not self.steps:
                raise asyncio.CancelledError

    is_gone = False

    async def prepare(self) -> None:
        if self.steps[0] not in ("docker", "dies", "memory", "owner"):
            raise host.NotLaunchedError(self.steps.pop(0))

    async def launch(self) -> None:
        if self.steps[0] == "docker":
            raise host.NotLaunchedError(f"the container ended at once: {self.steps.pop(0)}")

    async def _serve(self) -> None:
        step = self.steps.pop(0)
        died = step in ("dies", "memory")
        self.head._over(judge.End("it died" if died else "rank 1 leaves", died, out_of_memory=step == "memory"))
        await asyncio.Event().wait()

    def loaded(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    async def keep_evidence(self, reason: str) -> Path:
        self.kept.append(reason)
        return Path("/evidence")


PORT = "port 8000 can't be had"


@pytest.mark.parametrize(
    ("steps", "status", "pauses", "starts_left"),  # starts_left: as shown at the last pause
    [
        # G8, S4: an obstacle that lasts uses up no start, and is looked at ever more seldom
        ([PORT] * 8, 0, [5, 10, 20, 40, 60, 60, 60, 60], 3),
        (["docker"] * 4, 0, [5, 10, 20, 40], 3),
        ([PORT, PORT, "dies", PORT, PORT], 0, [5, 10, 5, 5, 10], 2),
        (["owner"] * 4, 0, [5, 5, 5, 5], 3),
        # what was launched counts
        (["dies", "dies", "dies"], 3, [5, 5], 1),
        (["dies", PORT, "dies", "docker", "owner", "dies"], 3, [5, 5, 5, 5, 5], 1),
        # an end for want of memory counts twice, since each may hang the host
        (["memory", "memory"], 3, [5], 1),
        (["dies", "memory"], 3, [5], 2),
        (["memory", "owner"], 0, [5, 5], 1),
    ],
)
def test_what_counts_as_a_start_is_a_container_that_was_launched(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    steps: list[str],
    status: int,
    pauses: list[float],
    starts_left: int,
) -> None:
    script = Script(tmp_path, monkeypatch, [*steps])
    assert asyncio.run(script.head.run()) == status
    assert script.pauses == pauses
    assert script.shown[-1][2] == starts_left
    # evidence is kept of what ran alone: else an obstacle would push out what an owner looks for
    assert script.kept == ["it died" for step in steps if step in ("dies", "memory")]


@pytest.mark.parametrize(
    ("restarts", "status", "left"), [(0, 0, []), (1, 3, ["owner"])], ids=["systemctl restart", "Restart="]
)
def test_a_supervisor_that_was_killed_with_a_full_budget_starts_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: int, status: int, left: list[str]
) -> None:
    """It refused the first `systemctl restart`: a killed one can't clear its ledger as one that is stopped does."""
    before = Ledger(SOLO, pytest.fail, tmp_path)
    before.supervised(0)
    before.starts = [-3.0, -2.0, -1.0]
    before.begin()
    script = Script(tmp_path, monkeypatch, ["owner"], restarts)
    assert (asyncio.run(script.head.run()), script.steps) == (status, left)


def test_what_is_waited_for_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(tmp_path, monkeypatch, [PORT])
    asyncio.run(script.head.run())
    sentence = f"it can't start yet, and tries again after 5 s: rank 0: {PORT}"
    assert script.shown == [("preparing", sentence, 3)]


def test_a_meeting_port_that_is_taken_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        pair = from_plan(WRITTEN | {"rendezvous": {"address": "127.0.0.1", "port": port}})
        reported = Report(pair, [], tmp_path)
        leader = head.Head(pair, reported, b"x", "")
        pauses: list[float] = []

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)
            assert f"port {port} can't be had (Address already in use): `ss -ltnp" in reported.fields["error"]
            assert reported.state == "preparing"
            if len(pauses) == 3:
                other.close()

        monkeypatch.setattr(head.asyncio, "sleep", sleep)
        asyncio.run(leader._listen())
    assert pauses == [5, 10, 20]


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("prepare", "Read-only file system"),
        ("gid_environment", "no such address"),
        ("await_docker", "Docker does not answer"),
    ],
)
def test_whatever_is_in_the_way_of_a_start_is_an_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, words: str
) -> None:
    """Of this program or of the machine: neither ends the supervisor."""
    problem = OSError(errno.EROFS, words) if broken == "prepare" else host.RankError(words)

    def fails(*_words: Any) -> Any:
        raise problem

    for name in ("prepare", "gid_environment", "await_docker"):
        monkeypatch.setattr(local.host, name, fails if name == broken else _nothing_async if "await" in name else list)
    rank = local.LocalRank(SOLO, Report(SOLO, [], tmp_path), lambda _end: None)
    monkeypatch.setattr(local.host, "prepare", fails if broken == "prepare" else lambda _service: None)
    with pytest.raises(host.NotLaunchedError, match=words):
        asyncio.run(rank.prepare())


async def _nothing_async() -> None:
    pass


@pytest.mark.parametrize(
    ("words", "kind", "reported"),
    [
        (["/no/such/docker"], host.NotLaunchedError, "/no/such/docker can't be run"),
        (
            ["sh", "-c", "echo 'no such path: /etc/tiny.yaml.'; echo \"See 'docker run --help'.\"; exit 125"],
            host.NotLaunchedError,
            "status 125: Docker could not run it or went away; the cause is unknown; its last output: no such path",
        ),
        (["sh", "-c", "echo x; exit 1"], host.RankError, "status 1; the cause is unknown; its last output: x"),
    ],
)
def test_a_launch_that_fails(
    monkeypatch: pytest.MonkeyPatch, words: list[str], kind: type[Exception], reported: str
) -> None:
    """Docker's own error, not its hint."""
    monkeypatch.setattr(container, "inspect", lambda _name: {})
    monkeypatch.setattr(container, "_POLL_S", 0.01)

    async def launch() -> None:
        await container.Container("gb10-service-pair", lambda _line: None, {}).launch(words)

    with pytest.raises(host.RankError, match=reported.replace(".", r"\.")) as found:
        asyncio.run(launch())
    assert type(found.value) is kind


def test_only_the_launch_reports_a_container_that_never_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its end comes first, and a start is used up: all three while Docker's chains were gone."""
    monkeypatch.setattr(container, "inspect", lambda _name: {})
    monkeypatch.setattr(container, "_POLL_S", 0.3)
    cannot = from_plan(WRITTEN | {"run": ["sh", "-c", "exit 125"], "gids": None})
    ends: list[str] = []

    async def launch() -> None:
        with pytest.raises(host.NotLaunchedError, match="the container ended at once"):
            await local.LocalRank(cannot, Report(cannot, [], tmp_path), lambda end: ends.append(end.reason)).launch()

    asyncio.run(launch())
    assert ends == []


@pytest.mark.parametrize(
    ("heeds", "kinds"), [(True, ["TERM to the command", "docker stop -t 1"]), (False, ["docker stop -t 1"])]
)
def test_a_command_in_a_container_is_asked_before_the_container_is_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, heeds: bool, kinds: list[str]
) -> None:
    """`docker stop` reaches the first process alone, and an engine killed leaves its GPU memory."""
    journal = tmp_path / "journal"
    trap = f"trap 'echo TERM to the command >> {journal}; exit 0' TERM" if heeds else "trap '' TERM"
    command = tmp_path / "serve"
    command.write_text(f"#!/bin/sh\n{trap}\necho $$ > {tmp_path}/pid\nwhile :; do sleep 0.02; done\n")
    command.chmod(0o755)

    def docker(words: Sequence[str], _timeout_s: float = 0) -> subprocess.CompletedProcess[str]:
        pid = (tmp_path / "pid").read_text().strip()
        if words[1] == "stop":
            with journal.open("a") as lines:
                print(*words[:-1], file=lines)
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        return subprocess.CompletedProcess(words, 0, "", "")

    def commands_of(_init: int, _container: str) -> dict[int, str]:
        return {int((tmp_path / "pid").read_text()): f"/bin/sh {command} a-model"}

    async def removed(_container: container.Container) -> None:
        return

    monkeypatch.setattr(container, "run", docker)
    monkeypatch.setattr(container, "docker_answers", lambda: True)
    monkeypatch.setattr(container, "commands_of", commands_of)
    monkeypatch.setattr(container.Container, "_removed", removed)

    async def stop() -> None:
        ours = container.Container("gb10-service-pair", lambda _line: None, {})
        await ours._attach(["sleep", "60"])
        await ours.execute([str(command), "a-model"])
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.01)
        await ours.stop(1)

    asyncio.run(stop())
    assert journal.read_text().splitlines() == kinds


@pytest.mark.parametrize("end", ["\\n", ""])
def test_a_line_without_end_takes_little_memory_and_shows_no_part_of_a_key(end: str) -> None:
    """What prints is the image's publisher's program, and the supervisor is root's."""
    lines: list[str] = []
    program = f"import sys; print('first'); sys.stdout.write('key' * (8 << 20) + '{end}'); print('last')"

    async def follow() -> int:
        ours = container.Container("gb10-service-pair", lines.append, {})
        await ours._attach([sys.executable, "-c", program])
        return await ours.ended

    tracemalloc.start()
    try:
        assert asyncio.run(follow()) == 0
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert lines[:2] == ["first", "(a line of more than 65536 bytes)"]
    assert lines[2:] == (["last"] if end else [])


DEAF = "trap '' TERM;"


@pytest.mark.parametrize("heeds", [True, False])
def test_without_dockers_daemon_a_stop_ends_the_container_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, heeds: bool
) -> None:
    """After a crash of dockerd systemd stops this unit before it starts Docker anew: a stop that waited for Docker
    kept both down for 163 s."""
    runs = tmp_path / "runs"
    command = ["sh", "-c", f"{'' if heeds else DEAF} touch {runs}; while :; do sleep 0.02; done"]
    monkeypatch.setattr(container, "docker_answers", lambda: False)
    asked: list[str] = []
    monkeypatch.setattr(container, "run", lambda words, *_: asked.append(words[1]))

    async def stop() -> int:
        ours = container.Container("gb10-service-pair", lambda _line: None, {})
        await ours._attach(command)
        while not runs.exists():
            await asyncio.sleep(0.01)
        [client] = ours._clients
        group = Path(f"/proc/{client.pid}/cgroup").read_text().strip().rpartition("/")[2] or "/"
        ours.inspected = {"State": {"Pid": client.pid}, "Id": group}
        await ours.stop(1)
        return await ours.ended

    assert asyncio.run(stop()) == -(signal.SIGTERM if heeds else signal.SIGKILL)
    assert asked == []


@pytest.mark.parametrize(("insist_s", "status"), [(0.05, 7), (None, -signal.SIGKILL)])
@pytest.mark.parametrize("docker", [True, False])
def test_an_engine_that_waits_on_is_asked_a_second_time_where_it_ends_by_that(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, docker: bool, insist_s: float | None, status: int
) -> None:
    """llama-server whose RPC server is behind a pulled cable went on for all of `stop_s`, and was killed then."""
    runs = tmp_path / "runs"
    command = ["sh", "-c", f"trap 'trap \"exit 7\" TERM' TERM; touch {runs}; while :; do sleep 0.02; done"]
    monkeypatch.setattr(container, "docker_answers", lambda: docker)
    lines: list[str] = []

    async def removed(_container: container.Container) -> None:
        return

    monkeypatch.setattr(container.Container, "_removed", removed)

    async def stop() -> int:
        ours = container.Container("gb10-service-pair", lines.append, {}, insist_s)
        await ours._attach(command)
        while not runs.exists():
            await asyncio.sleep(0.01)
        [client] = ours._clients
        group = Path(f"/proc/{client.pid}/cgroup").read_text().strip().rpartition("/")[2] or "/"
        ours.inspected = {"State": {"Pid": client.pid}, "Id": group}

        def as_docker_stops(words: list[str], _limit_s: float) -> None:
            """The signal, and after so many seconds the kill."""
            os.kill(client.pid, signal.SIGTERM)
            deadline = time.monotonic() + int(words[3])
            while ours._is_alive() and time.monotonic() < deadline:
                time.sleep(0.01)
            if ours._is_alive():
                os.kill(client.pid, signal.SIGKILL)

        monkeypatch.setattr(container, "run", as_docker_stops)
        await ours.stop(1 if insist_s is None else 30)
        return await ours.ended

    assert asyncio.run(stop()) == status
    assert lines == (
        [] if insist_s is None else ["gb10.fleet: it has not ended 0 s after it was asked to: it is asked again"]
    )


def test_a_first_process_is_known_by_its_control_group(tmp_path: Path) -> None:
    """Else whoever got its id would be killed, or all of the host called the container's."""
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "cgroup").write_text("0::/system.slice/docker-0123abcd.scope\n")
    for state, identity, is_it in (("S", "0123abcd", True), ("Z", "0123abcd", False), ("S", "4567", False),
                                   ("S", "", False)):  # fmt: skip
        (tmp_path / "42" / "stat").write_text(f"42 (vllm :) x) {state} 1 42")
        assert host.is_first_process(42, identity, tmp_path) is is_it
    assert not host.is_first_process(0, "0123abcd", tmp_path)
    assert host.commands_of(42, "4567", tmp_path) == {}


@pytest.mark.parametrize("first", [True, False])
def test_the_rank_that_ended_first_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool) -> None:
    """Whoever lost it says so at once, and it a moment later."""
    monkeypatch.setattr(head, "_FIRST_S", 0.05)

    async def ends() -> str:
        leader = head.Head(HEAD, Report(HEAD, [], tmp_path), b"", "")
        leader._end = ended = asyncio.get_running_loop().create_future()
        leader._over(judge.End("rank 0: another rank ended first", elsewhere=True))
        assert not ended.done()
        if first:
            leader._over(judge.End("rank 1: memory ran out"))
        reason = str((await ended).reason)
        leader._end = following = asyncio.get_running_loop().create_future()
        await asyncio.sleep(0.1)
        assert not following.done(), "it is of the epoch before"
        return reason

    assert asyncio.run(ends()) == ("rank 1: memory ran out" if first else "rank 0: another rank ended first")


@pytest.mark.parametrize(
    ("is_gone", "named", "reason"),
    [
        # found in the lab, on a busy host: its log was read for so long that three canaries failed meanwhile
        (True, True, "its container ended with status 0: as vLLM does"),
        (True, False, "the endpoint is dead: a canary failed"),
        (False, False, "the endpoint is dead: a canary failed"),
    ],
)
def test_a_container_that_ended_is_no_endpoint_that_is_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_gone: bool, named: bool, reason: str
) -> None:
    monkeypatch.setattr(head, "_NAMED_S", 5 if named else 0.05)

    async def ends() -> str:
        leader = head.Head(SOLO, Report(SOLO, [], tmp_path), b"", "")
        leader._local = SimpleNamespace(is_gone=is_gone)  # type: ignore[assignment]

        async def fails() -> None:
            if named:
                end = judge.End("its container ended with status 0: as vLLM does")
                asyncio.get_running_loop().call_later(0.02, leader._over, end)
            raise host.RankError("the endpoint is dead: a canary failed")

        monkeypatch.setattr(leader, "_flow", fails)
        return (await leader._epoch()).reason

    assert asyncio.run(ends()) == reason


def test_a_kill_is_not_called_want_of_memory() -> None:
    words = judge.describe_exit(137, {"7": "its echo faded"})
    assert words == "137: killed"


def test_a_worker_shows_what_is_in_its_way(tmp_path: Path) -> None:
    rank = worker.Worker(from_plan(WRITTEN | {"rank": 1}), Report(HEAD, [], tmp_path), b"")
    sent: list[Any] = []

    class Channel:
        async def send(self, message: Any) -> None:
            sent.append(message)

    async def fails(_order: str, _message: Any) -> None:
        raise host.NotLaunchedError("3.0 GiB of memory are free")

    async def obey() -> None:
        orders: asyncio.Queue[Any] = asyncio.Queue()
        orders.put_nowait({"do": "prepare", "epoch": 1, "reason": ""})
        rank._do = fails  # type: ignore[method-assign]
        obeying = asyncio.ensure_future(rank._obey(Channel(), orders))  # type: ignore[arg-type]
        while not sent:
            await asyncio.sleep(0)
        obeying.cancel()

    asyncio.run(obey())
    assert sent == [{"did": "prepare", "epoch": 1, "error": "3.0 GiB of memory are free"}]
    assert rank._report.fields["error"] == "3.0 GiB of memory are free"


# An adapter that is gone ------------------------------------------------------------------------------------------

ABSENT = "the adapter is switched off: push the plug in"


@pytest.mark.parametrize(
    ("address", "state", "words"),
    [
        ("127.0.0.1", "0", ""),  # it is there
        ("192.0.2.1", "0", ABSENT),
        ("192.0.2.1", "1", "no interface of this host has the address 192.0.2.1"),
        ("192.0.2.1", None, "no interface of this host has the address 192.0.2.1"),
    ],
)
def test_a_rank_without_its_interface_gives_the_reason(
    tmp_path: Path, address: str, state: str | None, words: str
) -> None:
    file = tmp_path / "debug_state"
    if state is not None:
        file.write_text(f"{state}\n")
    adapter = {"address": address, "state_file": str(file), "absent": ABSENT}
    rank = from_plan(WRITTEN | {"adapter": adapter})
    found = host.without_adapter(rank.adapter)
    assert found.startswith(words)
    assert bool(found) is bool(words)


def test_who_waits_reports_when_its_own_adapter_has_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that is switched off takes it along, which comes to light while that peer is waited for."""
    report = Report(HEAD, [], tmp_path)
    group = members.Members(HEAD, report, b"x", lambda _reason, _failed: None)
    found = iter(["", ABSENT])
    errors: list[str] = []

    def without_adapter(_adapter: Any) -> str:
        errors.append(report.fields["error"])
        if len(errors) == 3:
            raise RuntimeError("seen enough")
        return next(found)

    monkeypatch.setattr(host, "without_adapter", without_adapter)
    monkeypatch.setattr(members, "LOOK_S", 0.0)
    with pytest.raises(RuntimeError, match="seen enough"):
        asyncio.run(group.gather())
    assert "is it on, its cable in" in errors[1]
    assert errors[2] == f"waiting for rank 1 (192.168.100.2): {ABSENT}"


@pytest.mark.parametrize(("address", "is_peer"), [("192.168.100.2", True), ("127.0.0.1", False)])
def test_an_address_that_is_no_peers_gets_no_answer(tmp_path: Path, address: str, is_peer: bool) -> None:
    """Not even the head's challenge, whatever it knows."""
    group = members.Members(HEAD, Report(HEAD, [], tmp_path), b"x", lambda _over: None)
    writer = Mock(**{"get_extra_info.side_effect": lambda name: (address, 4000) if name == "peername" else Mock()})
    writer.drain = AsyncMock()

    async def meet() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(b'{"nonce": "00", "who": "{}"}\n')
        reader.feed_eof()
        await group._meet(reader, writer)

    asyncio.run(meet())
    assert writer.write.called is is_peer
    assert writer.transport.abort.called


# An engine that hangs ---------------------------------------------------------------------------------------------


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(serving.time, "monotonic", lambda: self.now)
        self._real_sleep = asyncio.sleep
        monkeypatch.setattr(serving.asyncio, "sleep", self._sleep)
        monkeypatch.setattr(serving, "_within", self._within)

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds

    async def _within(self, _limit_s: float, _late: Any, ask: Callable[..., Any], *words: Any) -> Any:
        """Two questions at once take as long as the longer of them."""
        began = self.now
        found = ask(*words)
        ended, self.now = self.now, began
        await self._real_sleep(0)
        self.now = max(self.now, ended)
        return found


@pytest.mark.parametrize(
    ("metrics_s", "answers", "bound_s"),
    [
        (None, False, 125),  # a paused container: nothing answers (S2: 184 s before)
        (0.0, False, 125),  # the server lives, the engine does not
        (29.0, False, 215),  # as badly as it can be
    ],
)
def test_an_engine_that_hangs_is_found_within_the_bound_of_the_docs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metrics_s: float | None, answers: bool, bound_s: float
) -> None:
    """metrics_s: how long /metrics takes while it hangs; None: for ever."""
    clock = Clock(monkeypatch)
    idle = judge.Metrics(tokens=1, answered=1, running=0, waiting=0, kv_use=0)
    looks = 0

    def metrics(_access: endpoint.Access, _names: Any, timeout_s: float) -> judge.Metrics | None:
        nonlocal looks
        looks += 1
        if looks == 1:  # just before it hangs
            return idle
        clock.now += timeout_s if metrics_s is None else metrics_s
        return None if metrics_s is None else idle

    def ask(_access: endpoint.Access, _request: Any, timeout_s: float) -> endpoint.Answer:
        clock.now += timeout_s
        return endpoint.Answer(answers, "timed out")

    class Local:
        async def usage(self) -> dict[str, Any]:
            return {"cpu_s": 0.0}

    monkeypatch.setattr(serving.endpoint, "metrics", metrics)
    monkeypatch.setattr(serving.endpoint, "ask", ask)
    reported = Report(SOLO, [], tmp_path)
    watched = serving.Serving(SOLO, reported, "", members.Members(SOLO, reported, b"", _never), Local())  # type: ignore[arg-type]
    with pytest.raises(host.RankError, match="the endpoint is dead"):
        asyncio.run(watched.watch())
    assert clock.now - 1000 <= bound_s


# Its key ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "statuses", "problem"),
    [
        ("s3cret", [401], None),
        ("s3cret", [0, 503, 429, 401], None),  # busy: asked again
        ("s3cret", [200], "asks nobody for its API key: a request without it gave HTTP 200"),
        ("s3cret", [404], "gave HTTP 404, expected 401"),
        ("", [], None),  # open: true
    ],
)
def test_an_endpoint_is_ready_only_where_it_refuses_who_has_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, statuses: list[int], problem: str | None
) -> None:
    """A recipe's file over the image can take the check out, and the plan sees only its name."""

    class Local:
        complaint, init = "", 1

        async def usage(self) -> dict[str, Any]:
            return {"lines": len(left)}

    async def no_stranger(_self: Any) -> None:
        return None

    left = [*statuses]
    Clock(monkeypatch)
    monkeypatch.setattr(serving.endpoint, "is_healthy", lambda *_words: True)
    monkeypatch.setattr(serving.endpoint, "ask", lambda *_words: endpoint.Answer(True))
    monkeypatch.setattr(serving.endpoint, "status_without_key", lambda *_words: left.pop(0))
    monkeypatch.setattr(serving.Serving, "_stranger", no_stranger)
    reported = Report(SOLO, [], tmp_path)
    starts = serving.Serving(SOLO, reported, key, members.Members(SOLO, reported, b"", _never), Local())  # type: ignore[arg-type]
    if problem is None:
        asyncio.run(starts.load())
        assert reported.fields["state"] == "warming"
    else:
        with pytest.raises(host.RankError, match=problem):
            asyncio.run(starts.load())
    assert left == []


def _never(_reason: str, _failed: bool) -> None:
    raise AssertionError


def test_a_question_that_trickles_is_given_up() -> None:
    """A socket's own time-out begins anew with each byte."""
    event = threading.Event()

    async def ask() -> str:
        try:
            return await serving._within(-1.0, "late", lambda: str(event.wait(60)))
        finally:
            event.set()

    assert asyncio.run(ask()) == "late"


@pytest.mark.parametrize(
    ("warm", "again", "problem"),
    [
        (endpoint.Answer(True), endpoint.Answer(False), None),
        (endpoint.Answer(False, "HTTP 400: no tools", final=True), endpoint.Answer(False), None),
        # a template that fails with tools, a projector that is not there: the model serves all else
        (endpoint.Answer(False, "HTTP 500: no mmproj"), endpoint.Answer(True), None),
        (
            endpoint.Answer(False, "HTTP 500: engine dead"),
            endpoint.Answer(False),
            "not answered: HTTP 500: engine dead",
        ),
        (endpoint.Answer(False, "no answer", busy=True), endpoint.Answer(False), "not answered: no answer"),
    ],
)
def test_a_warm_up_that_fails_ends_no_start_of_an_engine_that_still_answers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, warm: Any, again: Any, problem: str | None
) -> None:
    asked: list[Any] = []

    class Local:
        init = 1

    async def answer(_self: Any, request: Any, _timeout_s: float) -> Any:
        asked.append(request)
        return again if request == SOLO.probes.proof else warm

    monkeypatch.setattr(serving.Serving, "_ask", answer)
    service = replace(SOLO, warm_up=[replace(SOLO.probes.proof, body={"text": "warm"})])
    reported = Report(service, [], tmp_path)
    starts = serving.Serving(service, reported, "", members.Members(service, reported, b"", _never), Local())  # type: ignore[arg-type]
    if problem is None:
        asyncio.run(starts.warm_up())
        assert reported.fields["state"] == "serving"
        assert len(asked) == 1 + (not warm.ok and not warm.final)
    else:
        with pytest.raises(host.RankError, match=problem):
            asyncio.run(starts.warm_up())
