# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights: to one host and to many, against ``rsync -a --partial`` a host; what a break costs; what damage does."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from typing import Any

from .figures import Figure
from .fleet import SOURCE, Fleet, finished

REPOSITORY = "bench/model"
REVISION = "b" * 40
_SHARDS, _SHARD_MB = 4, 32
SIZE = _SHARDS * _SHARD_MB << 20
_STORE = "/var/lib/gb10-fleet"
_SNAPSHOT = f"{_STORE}/hf/hub/models--bench--model/snapshots/{REVISION}"
# Breaks are random, but the same in every run.
_RANDOM = random.Random(5)


def prepare(fleet: Fleet) -> None:
    """A model of random bytes at the source, in its store; every host with access to the others."""
    fleet.run(
        SOURCE,
        f"mkdir -p /srv/model && cd /srv/model && echo '{{}}' > config.json && "
        f"for n in $(seq {_SHARDS}); do head -c {_SHARD_MB}M /dev/urandom > shard-$n.bin; done",
    )
    taken_in = {"repository": REPOSITORY, "revision": REVISION, "source": {"kind": "path", "path": "/srv/model"}}
    fleet.stage({SOURCE: {"images": [], "models": [{**taken_in, "peers": []}]}})
    fleet.give_access()


def _plan(fleet: Fleet, count: int) -> dict[str, Any]:
    entry = {"repository": REPOSITORY, "revision": REVISION, "bytes": SIZE}
    return fleet.plan("model", entry, fleet.targets[:count])


def _forget(fleet: Fleet) -> None:
    """The targets as they were before the model came."""
    for host in fleet.targets:
        fleet.run(host, f"rm -rf {_STORE}/hf {_STORE}/models {_STORE}/recipes /srv/copy")


def _is_whole(fleet: Fleet, host: str) -> bool:
    sums = f"cd {_SNAPSHOT} && sha256sum config.json *.bin"
    return fleet.run(host, sums) == fleet.run(SOURCE, sums)


# To one and to many


def fan_out(fleet: Fleet, counts: list[int]) -> Iterator[Figure]:
    one, peers = _ours(fleet, 1), _by_rsync(fleet)
    for count in counts:
        ours, theirs = _ours(fleet, count), peers[count - 1]
        name = f"weights to {count} hosts"
        # what a full queue of a link drops is sent again and counted, of one copy as of many
        sent, sent_by_peers = ours[0] / one[0], theirs[0] / peers[0][0]
        yield Figure(f"{name}: sent by the source", sent, sent_by_peers, "of one copy", "<= 1.03")
        yield Figure(f"{name}: wall time", ours[1] / one[1], theirs[1] / peers[0][1], "of one copy", "<= 1.25")


def _ours(fleet: Fleet, count: int) -> tuple[float, float]:
    """What the source sent, as a share of the size, and seconds."""
    _forget(fleet)
    before = fleet.wire("tx")[SOURCE]
    seconds, _ = fleet.stage(_plan(fleet, count))
    sent = fleet.wire("tx")[SOURCE] - before
    assert all(_is_whole(fleet, host) for host in fleet.targets[:count])
    return sent / SIZE, seconds


def _by_rsync(fleet: Fleet) -> list[tuple[float, float]]:
    """The same after each host, one after the other as the peers do it."""
    _forget(fleet)
    before, began = fleet.wire("tx")[SOURCE], time.monotonic()
    after = []
    for host in fleet.targets:
        shell, _, address = fleet.ssh(host).rpartition(" ")
        fleet.run(SOURCE, f"rsync -a --partial -e '{shell}' /srv/model/ {address}:/srv/copy/")
        after.append(((fleet.wire("tx")[SOURCE] - before) / SIZE, time.monotonic() - began))
    return after


# Breaks. The chain is src, t1 (which passes on), t2.

# The brackets keep the pattern from matching the shell that looks for it.
_KILLS = {
    "source": (SOURCE, "[p]eer-serve"),
    "relay": ("t1", "[p]eer-serve|[m]odel_snapshots"),
    "target": ("t2", "[m]odel_snapshots"),
}


def breaks(fleet: Fleet, count: int) -> Iterator[Figure]:
    _forget(fleet)
    before = fleet.wire("rx")
    seconds, _ = fleet.stage(_plan(fleet, 2))
    clean = _received(fleet, before)
    sent_again, whole = [], 0
    for number in range(count):
        what = (*_KILLS, "controller")[number % 4]
        received, is_whole = _broken(fleet, what, seconds * _RANDOM.uniform(0.3, 0.95))
        sent_again.append(max(received[host] - clean[host] for host in clean) / SIZE)
        whole += is_whole
    yield Figure(f"killed at {count} points: most sent again to a host", max(sent_again), 1.0, "of the size", "<= 0.05")
    yield Figure(f"killed at {count} points: ends verified", whole, None, "runs", f"= {count}")


def _received(fleet: Fleet, before: dict[str, int]) -> dict[str, int]:
    now = fleet.wire("rx")
    return {host: now[host] - before[host] for host in ("t1", "t2")}


def _broken(fleet: Fleet, what: str, after: float) -> tuple[dict[str, int], bool]:
    """Kill something (-9) in the middle, run again: what each host received in both runs, and whether it has all."""
    _forget(fleet)
    before = fleet.wire("rx")
    play = fleet.start(_plan(fleet, 2))
    time.sleep(after)
    if what == "controller":
        os.killpg(play.pid, signal.SIGKILL)
    else:
        host, processes = _KILLS[what]
        fleet.run(host, f"kill -9 $(pgrep -f '{processes}') || true")
    finished(play)
    fleet.stage(_plan(fleet, 2))
    return _received(fleet, before), all(_is_whole(fleet, host) for host in ("t1", "t2"))


# Damage at the source, which keeps a file's time, as a bad disk does

_BLOB = "$(readlink -f " + _SNAPSHOT + "/shard-2.bin)"
_KEEPING_TIME = "t=$(mktemp); touch -r {file} $t; {damage}; touch -r $t {file}"
_DAMAGES = {
    "a flipped byte": "printf X | dd of={file} bs=1 seek=20000000 conv=notrunc",
    "a cut off shard": "truncate -s -1 {file}",
}


def damage(fleet: Fleet) -> Iterator[Figure]:
    found = 0
    for how in _DAMAGES.values():
        fleet.run(SOURCE, f"cp --preserve {_BLOB} /srv/good")
        fleet.run(SOURCE, _KEEPING_TIME.format(file=_BLOB, damage=how.format(file=_BLOB)))
        found += _is_refused(fleet, REVISION, SOURCE, "shard-2.bin")
        fleet.run(SOURCE, f"cp --preserve /srv/good {_BLOB}")
    found += _is_refused(fleet, "c" * 40, SOURCE, "c" * 40)
    yield Figure("flipped byte, cut off shard, wrong revision: found, named, not visible", found, 0, "of 3", "= 3")


def _is_refused(fleet: Fleet, revision: str, *named: str) -> bool:
    _forget(fleet)
    plan = fleet.plan("model", {"repository": REPOSITORY, "revision": revision}, ["t1"])
    output, failed = finished(fleet.start(plan))
    visible = fleet.run("t1", f"ls {_STORE}/hf/hub/models--bench--model/snapshots 2>/dev/null || true")
    return failed and all(word in output for word in named) and not visible.strip()
