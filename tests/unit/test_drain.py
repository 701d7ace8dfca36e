# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A service that is to stop lets answers under way end first. On lab hosts: molecule/services, tests/cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import (
    admission,
    head,
    judge,
    local,
    members,
    report,
    serving,
    worker,
)
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.judge import End
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.report import Ledger, Report
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.service import from_plan
from hypothesis import given
from hypothesis import strategies as st
from test_rank import HEAD, SOLO, WRITTEN

LIMIT_S = SOLO.limits.drain_s

# When it is over --------------------------------------------------------------------------------------------------

Seen = tuple[int, int | None]  # clients, requests


def drained_after(seen: list[Seen], refuses: bool = True) -> int | None:
    """The number of the look, a second apart, that ends the drain."""
    since = None
    for at, (clients, requests) in enumerate(seen):
        rest = judge.Rest(float(at), clients, requests)
        since = judge.quiet_since(since, rest)
        if judge.is_drained(since, rest, refuses):
            return at
    return None


@pytest.mark.parametrize(
    ("what", "seen", "refuses", "after"),
    [
        ("nobody is there", [(0, None)], True, 0),
        ("nobody is there, but may come", [(0, None)] * 8, False, 5),
        ("an answer ends, and its client goes", [(1, 1), (1, 1), (0, None)], True, 2),
        ("a gateway keeps its connections", [(4, 0)] * 8, True, 5),
        ("a request comes by a kept connection", [(1, 0)] * 4 + [(1, 1)] + [(1, 0)] * 8, True, 10),
        ("a request that is being read", [(1, 0), (1, 0), (1, 2), (0, None)], True, 3),
        ("an engine that says nothing", [(1, None)] * 20, True, None),
        ("an answer that never ends", [(1, 1)] * 400, True, None),
    ],
)
def test_when_no_answer_is_under_way(what: str, seen: list[Seen], refuses: bool, after: int | None) -> None:
    assert drained_after(seen, refuses) == after, what


@given(st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(0, 2)), max_size=30), st.booleans())
def test_nobody_who_waits_is_cut_off(seen: list[Seen], refuses: bool) -> None:
    after = drained_after(seen, refuses)
    if after is not None:
        clients, requests = seen[after]
        assert not clients or requests == 0


# At the port ------------------------------------------------------------------------------------------------------

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0B004D0A:1F40 0C004D0A:A1B2 01 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0B004D0A:1F40 0C004D0A:A1B3 08 00000000:00000000 00:00000000 00000000     0        0 2
   2: 0B004D0A:1F40 0C004D0A:A1B4 06 00000000:00000000 00:00000000 00000000     0        0 3
   3: 00000000:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4
   4: 0B004D0A:A1B5 0C004D0A:1F40 01 00000000:00000000 00:00000000 00000000     0        0 5
"""


def test_who_is_connected_is_counted_in_the_containers_network(tmp_path: Path) -> None:
    """Not who listens, who has gone, nor what this host asks another one at the same port."""
    (tmp_path / "42" / "net").mkdir(parents=True)
    (tmp_path / "42" / "net" / "tcp").write_text(TABLE)
    assert admission.clients(42, 8000, tmp_path) == 2
    (tmp_path / "42" / "net" / "tcp6").write_text(TABLE)
    assert (admission.clients(42, 8000, tmp_path), admission.clients(42, 8001, tmp_path)) == (4, 0)
    assert admission.clients(0, 8000, tmp_path) == 0


# What an owner sees -----------------------------------------------------------------------------------------------


class Clock:
    """Looks are a second apart; `seen` has what each finds, the last for ever. stuck: no token is computed."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, seen: list[Seen], refusal: str = "", stuck: bool = False
    ) -> None:
        self.now, self._seen, self._stuck, self.ports = 0.0, seen, stuck, list[int]()
        monkeypatch.setattr(serving.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(serving.asyncio, "sleep", self._sleep)
        monkeypatch.setattr(serving.admission, "clients", lambda _init, _port: self._look()[0])
        monkeypatch.setattr(serving.endpoint, "metrics", lambda *_: self._metrics())
        monkeypatch.setattr(serving.admission, "refuse", lambda port: self.ports.append(port) or refusal)

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _look(self) -> Seen:
        return self._seen[min(int(self.now), len(self._seen) - 1)]

    def _metrics(self) -> judge.Metrics | None:
        requests, tokens = self._look()[1], 0.0 if self._stuck else self.now
        return None if requests is None else judge.Metrics(tokens, tokens, requests, 0, 0)


class Local:
    init = 1

    async def usage(self) -> dict[str, Any]:
        return {"cpu_s": 0.0}


CANARY_S = int(SOLO.limits.canary_s)


@pytest.mark.parametrize(
    ("how", "took_s", "last"),
    [
        ({"seen": [(0, None)]}, 0, "no answer is under way any more, after 0 s"),
        ({"seen": [(1, 1)] * 40 + [(0, None)]}, 40, "no answer is under way any more, after 40 s"),
        ({"seen": [(2, 2)]}, LIMIT_S, f"2 answers are cut off: they did not end within {LIMIT_S:.0f} s"),
        ({"seen": [(0, None)], "refusal": "no nft"}, 5, "no answer is under way any more, after 5 s"),
        # nobody waits long for an engine that hangs
        (
            {"seen": [(3, 3)], "stuck": True},
            CANARY_S,
            f"3 answers are cut off: nothing has been computed for {CANARY_S} s",
        ),
        (
            {"seen": [(3, 3), (3, None)]},
            CANARY_S,
            f"some answers are cut off: nothing has been computed for {CANARY_S} s",
        ),
    ],
)
def test_how_a_drain_is_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    how: dict[str, Any],
    took_s: float,
    last: str,
) -> None:
    clock = Clock(monkeypatch, **how)
    reported = Report(SOLO, [], tmp_path)
    one = serving.Serving(SOLO, reported, "", members.Members(SOLO, reported, b"", _never), Local())  # type: ignore[arg-type]
    asyncio.run(one.drain("the owner stops the service"))
    assert (clock.now, clock.ports) == (took_s, [8000])
    first, *_, end = capsys.readouterr().out.splitlines()
    assert "the owner stops the service; answers under way may go on until 2" in first
    assert how.get("refusal", "") in first and end == f"gb10.fleet: {last}"
    assert reported.state == "draining" and reported.fields["drains_until"] > report.now_text()


def _never(_end: End) -> None:
    raise AssertionError


# In which order ---------------------------------------------------------------------------------------------------


class Scene:
    """A head that serves, or loads, and what it does one after the other."""

    def __init__(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loads: bool = False, limit_s: float = 60
    ) -> None:
        service = replace(SOLO, limits=replace(SOLO.limits, drain_s=limit_s))
        self.done: list[str] = []
        self.drained, self.begun, self.ready = asyncio.Event(), asyncio.Event(), asyncio.Event()
        monkeypatch.setattr(Ledger.__init__, "__defaults__", (tmp_path,))
        self.report = Report(service, [], tmp_path)
        self.head = head.Head(service, self.report, b"", "")
        self.head._local = self  # type: ignore[assignment]
        monkeypatch.setattr(head.Serving, "load", self._wait if loads else _at_once)
        monkeypatch.setattr(head.Serving, "warm_up", _at_once)
        monkeypatch.setattr(head.Serving, "watch", self._wait)
        monkeypatch.setattr(head.Serving, "drain", self._drain)

    async def _wait(self, _serving: Any = None) -> None:
        self.ready.set()
        await asyncio.Event().wait()

    async def _drain(self, reason: str) -> None:
        self.done.append(f"drains: {reason}")
        self.report.enter("draining", reason, drains_until="soon")
        self.begun.set()
        await self.drained.wait()
        self.done.append("drained")

    async def prepare(self) -> None:
        pass

    launch = prepare

    def loaded(self) -> None:
        pass

    async def stop(self) -> None:
        self.done.append("stops")

    async def keep_evidence(self, reason: str) -> Path:
        self.done.append(f"keeps evidence: {reason}")
        return Path("/evidence")

    async def play(self, *acts: Callable[[Scene], object]) -> int:
        running = asyncio.ensure_future(self.head.run())
        await asyncio.wait_for(self.ready.wait(), 5)
        self.head.stop(running.cancel)
        for act in acts:
            await asyncio.wait_for(self.begun.wait(), 5)
            act(self)
        return await asyncio.wait_for(running, 5)


async def _at_once(_serving: Any) -> None:
    pass


OWNER = "drains: the owner stops the service"


@pytest.mark.parametrize(
    ("acts", "done"),
    [
        ([lambda scene: scene.drained.set()], [OWNER, "drained", "stops"]),
        # who asks again does not want to wait
        ([lambda scene: scene.head.stop(lambda: pytest.fail("canceled twice"))], [OWNER, "stops"]),
        # no answer can end any more
        ([lambda scene: scene.head._over(End("rank 0: its container ended"))], [OWNER, "stops"]),
        ([lambda scene: scene.head._over(End("rank 1 is lost"))], [OWNER, "stops"]),
        # a rank that is to stop as well changes nothing
        (
            [
                lambda scene: scene.head._over(End("rank 1 is to leave", failed=False, drains=True)),
                lambda scene: scene.drained.set(),
            ],
            [OWNER, "drained", "stops"],
        ),
    ],
)
def test_the_container_ends_after_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acts: list[Callable[[Scene], object]], done: list[str]
) -> None:
    async def play() -> None:
        scene = Scene(tmp_path, monkeypatch)
        assert await scene.play(*acts) == 0
        assert scene.done == done
        assert (scene.report.state, scene.report.fields["drains_until"]) == ("waiting", None)

    asyncio.run(play())


@pytest.mark.parametrize("how", [{"loads": True}, {"limit_s": 0}])
def test_nothing_is_waited_for_where_nobody_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: dict[str, Any]
) -> None:
    async def play() -> None:
        scene = Scene(tmp_path, monkeypatch, **how)
        await scene.play()
        assert scene.done == ["stops"]

    asyncio.run(play())


def test_a_rank_that_is_to_leave_lets_the_answers_of_its_group_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        scene = Scene(tmp_path, monkeypatch)
        running = asyncio.ensure_future(scene.head.run())
        await asyncio.wait_for(scene.ready.wait(), 5)
        scene.head._over(End("rank 1 is to leave: its owner stops it", failed=False, drains=True))
        await scene.begun.wait()
        scene.drained.set()
        while "stops" not in scene.done:
            await asyncio.sleep(0)
        running.cancel()
        await running
        assert scene.done[:3] == ["drains: rank 1 is to leave: its owner stops it", "drained", "stops"]

    asyncio.run(play())


# A worker ---------------------------------------------------------------------------------------------------------


class Channel:
    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def send(self, message: Any) -> None:
        self.sent.append(message)


@pytest.mark.parametrize(
    ("state", "stops", "asks", "canceled"),
    [
        ("serving", 1, [{"asks": "its owner stops it"}], 0),
        ("serving", 2, [{"asks": "its owner stops it"}], 1),
        ("serving", 3, [{"asks": "its owner stops it"}], 1),
        ("starting", 1, [], 1),
        ("waiting", 2, [], 1),
    ],
)
def test_a_worker_asks_its_head_first(tmp_path: Path, state: str, stops: int, asks: list[Any], canceled: int) -> None:
    cancels: list[int] = []

    async def stop() -> None:
        rank = worker.Worker(from_plan(WRITTEN | {"rank": 1}), Report(HEAD, [], tmp_path), b"")
        rank._channel = channel = Channel()  # type: ignore[assignment]
        rank._report.enter(state, "x")
        for _ in range(stops):
            rank.stop(lambda: cancels.append(1))
            await asyncio.sleep(0)
        assert channel.sent == asks
        assert len(cancels) == canceled

    asyncio.run(stop())


def test_a_worker_ends_once_its_head_has_stopped_it(tmp_path: Path) -> None:
    async def stop() -> None:
        rank = worker.Worker(from_plan(WRITTEN | {"rank": 1}), Report(HEAD, [], tmp_path), b"")
        rank._channel = Channel()  # type: ignore[assignment]
        rank._report.enter("serving", "x")
        over = asyncio.Event()
        rank.stop(over.set)
        await asyncio.sleep(0)
        assert rank._report.state == "draining" and not over.is_set()
        await rank._do("stop", {"epoch": 1, "reason": ""})
        await asyncio.wait_for(over.wait(), 5)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(local.admission, "admit", lambda _port: None)
        asyncio.run(stop())


def test_what_a_drain_has_shut_is_opened_with_the_end_and_before_a_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what a supervisor left that was killed in its drain."""
    opened: list[int] = []
    monkeypatch.setattr(local.admission, "admit", opened.append)
    monkeypatch.setattr(local.host, "await_docker", lambda: _at_once(None))
    monkeypatch.setattr(local.host, "prepare", lambda _service: None)
    rank = local.LocalRank(replace(SOLO, gids=None), Report(SOLO, [], tmp_path), lambda _end: None)
    asyncio.run(rank.prepare())
    asyncio.run(rank.stop())
    assert opened == [8000, 8000]


def test_an_endpoint_has_a_port() -> None:
    assert SOLO.endpoint is not None and SOLO.endpoint.port == 8000
    with pytest.raises(ValueError, match="has no port"):
        replace(SOLO.endpoint, url="http://127.0.0.1")
