# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files from host to host: parts, resumption, and the way around hosts that do not deliver.

Hosts are folders; a connection asks the peer server's own code, in this process, or as a process of its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.staging import Progress
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.docker import Docker
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers import contents as given
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.contents import AbsentError, Contents, LateError
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer import peer
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.fetch import Transfer, Wish
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.parts import PART
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.peer import (
    Connection,
    Peer,
    PeerAbsentError,
    PeerError,
    PeerLateError,
)
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.places import Places
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.route import GRACE_SECONDS, Route
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.spool import Incoming, filling, is_filling
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.manifest import hash_file

NO_DOCKER = Docker(lambda arguments: (127, "", "there is no program docker"))
SIZE = 8 * PART + 12345


class Host:
    """One host of a fleet: what it has, and what it gave. spoil: what happens to an answer's bytes on their way."""

    def __init__(self, folder: Path, name: str) -> None:
        self.peer = Peer(name, f"address of {name}")
        self.places = Places(folder / name, folder / name / "hf")
        self.contents = Contents(self.places, NO_DOCKER)
        self.given, self.coming = 0, False
        self.corrupt: Callable[[bytes], bytes] = lambda content: content

    def put(self, content: bytes) -> str:
        """Give the host a file of a model; its sha256."""
        blob = self.places.models / "hub" / "models--org--model" / "blobs" / "new"
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        sha256 = hash_file(blob, "new")[0].sha256
        blob.rename(blob.with_name(sha256))
        return sha256

    def ask(self, request: dict[str, Any]) -> bytes:
        try:
            if "recipe" in request:
                return self.contents.recipe(request["recipe"], request["packed"])
            content = self.contents.read(request["read"], request["ranges"])
            self.coming = self.contents.is_getting()
        except AbsentError as error:
            raise PeerAbsentError(str(error)) from None
        except LateError:
            raise PeerLateError from None
        self.given += len(content)
        return self.corrupt(content)

    def close(self) -> None:
        pass


class Fleet:
    """Hosts by name, made when they are first spoken of."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._hosts: dict[str, Host] = {}

    def __getitem__(self, name: str) -> Host:
        return self._hosts.setdefault(name, Host(self._folder, name))

    def connect(self, peer: Peer) -> Any:
        return self[peer.host]

    def fetch(self, sha256: str, to: str, *sources: str, streams: int = 2) -> tuple[Path, Route]:
        route = Route([self[name].peer for name in sources], "the test's file", pause=lambda seconds: None)
        with Transfer(route, self[to].places.files_in, Progress(), streams, self.connect) as transfer:
            transfer._progress.start("the test's file", 0)
            transfer.begin([Wish(sha256, "model.safetensors")])
            return transfer.finish()[sha256], route


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


@pytest.fixture
def content() -> bytes:
    return os.urandom(SIZE)


def test_a_file_arrives_as_it_is(fleet: Fleet, content: bytes) -> None:
    path, route = fleet.fetch(fleet["a"].put(content), "b", "a")
    assert path.read_bytes() == content
    assert fleet["a"].given == SIZE
    assert route.notes == []


def test_an_empty_and_a_tiny_file_arrive_too(fleet: Fleet) -> None:
    for content in (b"", b"x"):
        assert fleet.fetch(fleet["a"].put(content), "b", "a")[0].read_bytes() == content
    assert fleet["a"].given == 0, "so little is in the recipe"


def test_the_nearest_host_gives_and_the_origin_does_not(fleet: Fleet, content: bytes) -> None:
    sha256 = fleet["a"].put(content)
    fleet["b"].put(content)
    fleet.fetch(sha256, "c", "b", "a")
    assert (fleet["a"].given, fleet["b"].given) == (0, SIZE)


def test_a_host_passes_on_what_is_still_coming_in(
    fleet: Fleet, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """b has half of the file and is fetching the rest."""
    sha256 = fleet["a"].put(content)
    fleet.fetch(sha256, "b", "a")
    half = Incoming(fleet["b"].places.files_in, sha256)
    recipe = half.recipe()
    assert recipe
    half.unmark(range(4, 9))
    assert fleet["b"].contents.recipe(sha256, None) == recipe.pack()
    assert fleet["b"].contents.read(sha256, [(PART, 3 * PART)]) == content[PART : 4 * PART]
    with pytest.raises(AbsentError):
        fleet["b"].contents.read(sha256, [(3 * PART, 2 * PART)])
    monkeypatch.setattr(given, "_PATIENCE_SECONDS", 0)
    assert not fleet["b"].contents.is_getting()
    with filling(fleet["b"].places.files_in), pytest.raises(LateError):
        assert fleet["b"].contents.is_getting()
        fleet["b"].contents.read(sha256, [(3 * PART, 2 * PART)])


def test_who_looks_at_the_same_moment_is_not_taken_for_who_fetches(tmp_path: Path) -> None:
    with filling(tmp_path):
        assert is_filling(tmp_path)
    with (tmp_path / "filling").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert not is_filling(tmp_path)


def test_a_file_that_gets_its_name_while_it_is_asked_for_is_read_there(
    fleet: Fleet, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    sha256 = fleet["a"].put(content)
    fleet.fetch(sha256, "b", "a")
    fleet["b"].put(content)
    wait = given._wait_for

    def named_meanwhile(incoming: Incoming, parts: Iterable[int]) -> bool:
        here = wait(incoming, parts)
        incoming.forget()
        return here

    monkeypatch.setattr(given, "_wait_for", named_meanwhile)
    assert fleet["b"].contents.read(sha256, [(0, SIZE)]) == content


def test_what_was_received_before_is_not_sent_again(fleet: Fleet, content: bytes) -> None:
    sha256 = fleet["a"].put(content)
    fleet.fetch(sha256, "b", "a")
    Incoming(fleet["b"].places.files_in, sha256).unmark([2, 5])
    fleet["a"].given = 0
    assert fleet.fetch(sha256, "b", "a")[0].read_bytes() == content
    assert fleet["a"].given == 2 * PART


def flipped(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def test_a_byte_that_flips_on_the_way_is_fetched_elsewhere_and_named(fleet: Fleet, content: bytes) -> None:
    sha256 = fleet["a"].put(content)
    fleet["b"].put(content)
    fleet["b"].corrupt = flipped
    path, route = fleet.fetch(sha256, "c", "b", "a")
    assert path.read_bytes() == content
    assert route.notes == ["b: it sent damaged bytes of model.safetensors"]


def test_a_damaged_source_is_refused_by_name(fleet: Fleet, content: bytes) -> None:
    sha256 = fleet["a"].put(content)
    fleet["a"].contents.recipe(sha256, None)
    blob = fleet["a"].places.models / "hub" / "models--org--model" / "blobs" / sha256
    blob.write_bytes(flipped(content))
    with pytest.raises(FleetError, match=r"a \(address of a\): it sent damaged bytes of model.safetensors"):
        fleet.fetch(sha256, "b", "a")


def test_a_source_that_was_cut_off_is_refused_by_name(fleet: Fleet, content: bytes) -> None:
    sha256 = fleet["a"].put(content)
    fleet["a"].contents.recipe(sha256, None)
    os.truncate(fleet["a"].places.models / "hub" / "models--org--model" / "blobs" / sha256, SIZE - 1)
    with pytest.raises(FleetError, match=r"a \(address of a\): its file is cut off"):
        fleet.fetch(sha256, "b", "a")


def test_a_damaged_disk_here_is_found_before_the_file_has_its_name(fleet: Fleet, content: bytes) -> None:
    sha256 = fleet["a"].put(content)
    path, _ = fleet.fetch(sha256, "b", "a")
    path.write_bytes(flipped(content))
    with pytest.raises(FleetError, match=r"model.safetensors: 1 damaged parts on this host's disk"):
        fleet.fetch(sha256, "b", "a")
    fleet["a"].given = 0
    assert fleet.fetch(sha256, "b", "a")[0].read_bytes() == content
    assert fleet["a"].given == SIZE % PART


class Broken:
    """A host that falls silent, always or after some answers."""

    coming = False

    def __init__(self, host: Host, answers: int = 0) -> None:
        self._host = host
        self._answers = answers

    def ask(self, request: dict[str, Any]) -> bytes:
        if self._answers == 0:
            raise PeerError("it is silent for 20 s")
        self._answers -= 1
        return self._host.ask(request)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("answers", [0, 1, 3])
def test_a_host_that_dies_is_routed_around_and_named(
    fleet: Fleet, content: bytes, monkeypatch: pytest.MonkeyPatch, answers: int
) -> None:
    sha256 = fleet["a"].put(content)
    fleet["b"].put(content)
    monkeypatch.setattr(
        fleet, "connect", lambda peer: Broken(fleet["b"], answers) if peer.host == "b" else fleet[peer.host]
    )
    path, route = fleet.fetch(sha256, "c", "b", "a", streams=1)
    assert path.read_bytes() == content
    assert route.notes == ["b: it is silent for 20 s"]


def test_when_nobody_is_left_all_are_named(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "connect", lambda peer: Broken(fleet[peer.host]))
    with pytest.raises(
        FleetError, match=r"b \(address of b\): it is silent for 20 s; a \(address of a\): it is silent"
    ):
        fleet.fetch("0" * 64, "c", "b", "a")


def test_a_host_without_the_file_is_passed_over(fleet: Fleet, content: bytes) -> None:
    sha256 = fleet["a"].put(content)
    path, route = fleet.fetch(sha256, "c", "b", "a")
    assert path.read_bytes() == content
    assert route.notes == ["b: it does not have it"]


# The choice of a host


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def deliver(route: Route, clock: Clock, rates: dict[str, float], seconds: float) -> dict[str, float]:
    """Ask along the route for a while; the bytes by host."""
    given = dict.fromkeys(rates, 0.0)
    end = clock.now + seconds
    while clock.now < end:
        peer = route.choose()
        clock.now += 1e6 / rates[peer.host]
        given[peer.host] += 1e6
        route.delivered(peer, 10**6, 1e6 / rates[peer.host])
    return given


def test_the_next_host_is_probed_with_a_percent_of_the_bytes(clock: Clock) -> None:
    route = Route([Peer("b", ""), Peer("a", "")], "x", clock)
    given = deliver(route, clock, {"b": 1e7, "a": 0.9e7}, 100)
    assert 0 < given["a"] < 0.03 * given["b"]
    assert route.notes == []


def test_a_slow_host_is_left_and_named(clock: Clock) -> None:
    route = Route([Peer("b", ""), Peer("a", "")], "x", clock)
    given = deliver(route, clock, {"b": 1e6, "a": 4e6}, 100)
    assert given["b"] < 0.05 * given["a"]
    assert route.notes == ["b is slow (976.6 KiB/s): read from a instead"]


def test_a_busy_chain_is_left_alone(clock: Clock) -> None:
    """One stream more from the host before the first is as fast as one of the first's four: no reason to change."""
    route = Route([Peer("b", ""), Peer("a", "")], "x", clock)
    route.streams = 4
    given = deliver(route, clock, {"b": 1e6, "a": 2e6}, 100)
    assert given["a"] < 0.1 * given["b"]
    assert route.notes == []


def test_a_host_that_only_ever_promises_is_left(clock: Clock) -> None:
    route = Route([Peer("b", ""), Peer("a", "")], "x", clock)
    asked = []
    for _ in range(10):
        peer = route.choose()
        asked.append(peer.host)
        clock.now += 5
        if peer.host == "b":
            route.late(peer)
        else:
            route.delivered(peer, 10**6, 5)
    assert asked.count("b") <= 6
    assert asked[-1] == "a"
    assert route.notes == ["b is slow (0 B/s): read from a instead"]


def test_around_a_host_that_is_getting_it_itself_one_of_a_hundred_batches_is_asked(clock: Clock) -> None:
    route = Route([Peer("b", ""), Peer("a", "")], "x", clock)
    asked = []
    for _ in range(350):
        asked.append(route.choose().host)
        clock.now += 1
        route.delivered(Peer(asked[-1], ""), 10**6, 1, coming=asked[-1] == "b")
    assert 2 <= asked.count("a") <= 3
    assert "a" not in asked[:100]


def test_one_fast_batch_alone_is_no_reason_to_change(clock: Clock) -> None:
    route = Route([Peer("b", ""), Peer("a", "")], "x", clock)
    asked = []
    for _ in range(20):
        asked.append(route.choose().host)
        clock.now += 1
        route.delivered(Peer(asked[-1], ""), 10**6 if asked.count("a") != 1 else 4 * 10**6, 1)
    assert asked[5:8] == ["a", "a", "b"]
    assert route.notes == []


def test_a_host_that_is_slow_itself_is_left_though_it_began_late(clock: Clock) -> None:
    route = Route([Peer("b", ""), Peer("a", "")], "x", clock)
    for number in range(20):
        peer = route.choose()
        clock.now += 1
        route.delivered(peer, 10**6 if peer.host == "b" else 4 * 10**6, 1, coming=number < 4)
    assert route.choose().host == "a"


def test_a_host_of_this_run_gets_time_to_begin(clock: Clock) -> None:
    soon = Peer("b", "", present=True)
    route = Route([soon, Peer("a", "")], "x", clock, pause=lambda seconds: None)
    route.absent(soon, "it does not have it")
    assert route.choose() == soon
    clock.now += GRACE_SECONDS - 1
    route.absent(soon, "it does not have it")
    assert soon in route._usable
    clock.now += 1
    route.absent(soon, "it does not have it")
    assert [peer.host for peer in route._usable] == ["a"]


def test_an_absent_host_of_this_run_is_not_waited_for_for_ever(clock: Clock) -> None:
    """Where nobody else has it, the end is a sentence."""
    soon = Peer("b", "192.0.2.2", present=True)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        clock.now += seconds

    route = Route([soon], "model org/model", clock, pause)
    with pytest.raises(FleetError, match=r"b \(192.0.2.2\): it does not have it"):
        while len(pauses) < 10_000:
            route.absent(route.choose(), "it does not have it")
    assert GRACE_SECONDS - 1 <= sum(pauses) <= GRACE_SECONDS + 1


class Reader:
    """IMITATED: a host of a chain, whose link carries a part a second to all that read from it. Its route is real."""

    def __init__(self, name: str, peers: list[Peer], begins: float, clock: Clock) -> None:
        self.name, self.begins, self.here = name, begins, 0
        self._peers, self._clock, self._idle_until = peers, clock, begins
        self._route: Route | None = None
        self._peer: Peer | None = None
        self._since = self._left = 0.0
        self._coming = False

    def asks(self, have: dict[str, int | None]) -> str:
        """The host that sends to it now; empty while it waits. have: how many parts of it each has; None: not begun."""
        now = self._clock()
        if now < self._idle_until:
            return ""
        self._route = self._route or Route(self._peers, "x", self._clock, pause=self._pause)
        if self._peer is None:
            peer = self._route.choose()
            if have[peer.host] is None:
                self._route.absent(peer, "it does not have it")
                return ""
            self._peer, self._since, self._left = peer, now, self._left + 1.0
        there = have[self._peer.host] or 0
        if there > self.here:
            self._coming = there < PARTS
            return self._peer.host
        if now - self._since > PATIENCE:
            self._route.late(self._peer)
            self._peer, self._left = None, 0.0
        return ""

    def gets(self, share: float) -> None:
        self._left -= share
        if self._left <= 0 and self._route and self._peer:
            self.here += 1
            self._route.delivered(self._peer, PART, self._clock() - self._since, self._coming)
            self._peer = None

    def _pause(self, seconds: float) -> None:
        self._idle_until = self._clock() + seconds


PATIENCE = 5.0  # as a peer server waits for a part
STEP, PARTS = 0.05, 120


@pytest.mark.parametrize(
    "begins",
    [(0, 1, 2, 3, 4, 5, 6, 7), (1.5, 0.3, 0.9, 1.2, 0.1, 1.9, 0.6, 1.4), (60, 50, 5, 70, 0, 40, 30, 20)],
    ids=["one after the other", "at once", "over a minute"],
)
def test_the_origin_sends_about_one_copy_to_eight_hosts(clock: Clock, begins: tuple[float, ...]) -> None:
    """Seen in the lab: two copies, and 1.8 times the time of one; later 1.06, as the origin was probed in vain."""
    names = [f"t{number}" for number in range(1, len(begins) + 1)]
    readers = []
    for place, (name, begin) in enumerate(zip(names, begins, strict=True)):
        before = [Peer(other, "", present=True) for other in reversed(names[:place])]
        readers.append(Reader(name, [*before, Peer("origin", "")], begin, clock))
    sent = 0.0
    while any(reader.here < PARTS for reader in readers):
        clock.now += STEP
        have: dict[str, int | None] = {one.name: one.here if clock() >= one.begins else None for one in readers}
        sending: dict[str, list[Reader]] = {}
        for reader in readers:
            if reader.here < PARTS and (host := reader.asks({**have, "origin": PARTS})):
                sending.setdefault(host, []).append(reader)
        sent += STEP if "origin" in sending else 0
        for those in sending.values():
            for reader in those:
                reader.gets(STEP / len(those))
    assert sent / PARTS < 1.03
    assert clock.now < max(begins) + 1.2 * PARTS


def test_lost_hosts_are_tried_again_a_few_times(clock: Clock) -> None:
    only = Peer("a", "")
    route = Route([only], "x", clock, pause=lambda seconds: None)
    for _ in range(3):
        route.lost(route.choose(), "the connection broke")
    assert route.choose() == only
    route.lost(only, "the connection broke")
    with pytest.raises(FleetError, match="the connection broke"):
        route.choose()


# As processes


SERVER = (
    "from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.server import main; "
    "import sys; main(sys.argv[1:])"
)
TARGET = """
import sys
from pathlib import Path
from unit.test_transfer import served_by
from ansible_collections.gb10.fleet.plugins.module_utils._base.staging import Progress
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.fetch import Transfer, Wish
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.peer import Peer
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.route import Route
configuration, folder, sha256 = sys.argv[1:]
progress = Progress()
route = Route([Peer("a", "")], "x")
with Transfer(route, Path(folder), progress, 2, served_by(Path(configuration))) as transfer:
    progress.start("x", 0)
    transfer.begin([Wish(sha256, "x")])
    print("missing", transfer.missing_bytes(), flush=True)
    transfer.finish()
    print("done", flush=True)
"""


def served_by(configuration: Path) -> Callable[[Peer], Connection]:
    """A real peer server in a process of its own, where SSH would start it on another host."""
    return lambda peer: Connection([sys.executable, "-c", SERVER, str(configuration)])


@pytest.fixture
def served(fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The configuration of a's server; its processes find the collection."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    places = fleet["a"].places
    path = tmp_path / "places.json"
    path.write_text(json.dumps({"folder": str(places.folder), "models": str(places.models), "caches": []}))
    yield path


def test_a_server_answers_and_reports_what_it_lacks(fleet: Fleet, served: Path, content: bytes) -> None:
    sha256 = fleet["a"].put(content)
    connection = served_by(served)(Peer("a", ""))
    try:
        assert connection.ask({"recipe": sha256, "packed": None}) == fleet["a"].contents.recipe(sha256, None)
        assert connection.ask({"read": sha256, "ranges": [[1, 5], [10, 2]]}) == content[1:6] + content[10:12]
        with pytest.raises(PeerAbsentError, match="it does not have it"):
            connection.ask({"read": "0" * 64, "ranges": [[0, 1]]})
        with pytest.raises(PeerAbsentError, match="its org/none, revision of main, is absent"):
            connection.ask({"model": "org/none", "revision": None})
    finally:
        connection.close()


def test_a_connection_that_breaks_gives_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(["sh", "-c", "read request; echo 'Permission denied (publickey).' >&2"])
    with pytest.raises(PeerError, match="Permission denied"):
        connection.ask({"read": ""})
    connection.close()


def test_a_host_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "SILENCE_SECONDS", 0.1)
    connection = Connection(["sleep", "60"])
    with pytest.raises(PeerError, match="it is silent"):
        connection.ask({"read": ""})
    connection.close()


@pytest.mark.parametrize("parts", [1, 4, 7])
def test_a_killed_target_goes_on_where_it_was(
    fleet: Fleet, served: Path, tmp_path: Path, content: bytes, parts: int
) -> None:
    """Killed (-9) as soon as some parts have come: at most the requests that were under way are sent again."""
    sha256 = fleet["a"].put(content)
    command = [sys.executable, "-c", TARGET, str(served), str(tmp_path / "in"), sha256]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as target:
        incoming = Incoming(tmp_path / "in", sha256)
        while not incoming.recipe() or sum(incoming.marks()) < parts:
            assert target.poll() is None or sum(incoming.marks()) == 9
            time.sleep(0.001)
        target.send_signal(signal.SIGKILL)
    received = incoming.marks()
    again = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(again[1]) == sum(min(PART, SIZE - i * PART) for i, mark in enumerate(received) if not mark)
    assert again[2] == "done"
    assert incoming.data.read_bytes() == content
