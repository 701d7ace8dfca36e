# SPDX-License-Identifier: GPL-3.0-or-later
"""Which host to ask next: the nearest one that delivers; around one that is slow, silent or gone."""

import math
import threading
import time
from collections.abc import Callable, Sequence

from ..._base.findings import FleetError
from ..._base.sizes import size
from ..._base.staging import refusal
from .peer import Peer

# When the next host is asked for one batch to see whether it is faster, at first; each time it is not, twice as late.
PROBE_SECONDS = 5
# While the first one is itself still getting what it passes on, its own way is what limits, and who reads around it
# takes from the same origin. Then the next host is asked once for so many batches, a hundredth more of the bytes.
# Without that, eight hosts in a chain were probed into 1.06 copies, and into lags that no later host makes up for.
_BATCHES = 100
# How much more one stream from it must bring than all streams from the first one. In a chain that runs as it should,
# one stream more from the host before the first gets a small share of what that one sends, and the first brings all.
_FASTER = 1.2
# How often a host may report to each stream that something is on its way before it counts as bringing nothing.
_LATE = 3
# How long a host in this run may take to begin. A controller that is busy reaches the last one more than a minute after
# the first: when 20 s were given, whoever was reached early went to the origin, which sent eight hosts two copies.
GRACE_SECONDS = 120
# How often all hosts are tried anew after the last one was lost.
_REVIVALS = 3
_REVIVAL_SECONDS = 2
# Share of the newest measurement in a rate.
_WEIGHT = 0.3


class Route:
    """The hosts that may have a file, nearest first, and what is known of them. Threads may use it at once.

    what: what is fetched, for messages. streams: how many are used at once. notes: gets sentences on hosts that were
    not as they should be, for a person.
    """

    def __init__(
        self,
        peers: Sequence[Peer],
        what: str,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        notes: list[str] | None = None,
    ) -> None:
        self.notes: list[str] = [] if notes is None else notes
        self.streams = 1
        self._what = what
        self._clock = clock
        self._pause = pause
        self._lock = threading.Lock()
        self._peers = list(peers)
        self._usable = list(peers)
        self._began = clock()
        self._probes = dict.fromkeys(peers, (self._began + PROBE_SECONDS, PROBE_SECONDS))
        self._rates: dict[Peer, float] = {}
        self._met: set[Peer] = set()  # who has given a batch as the first
        self._coming = False  # the first one was getting it itself, since somebody else was to be probed
        self._batches = 0  # of the first one, since somebody else was probed
        self._faster = False  # the next one was, once
        self._lates = dict.fromkeys(peers, 0)
        self._why: dict[Peer, str] = {}
        self._revivals = 0

    def choose(self) -> Peer:
        """Whom to ask for the next batch. Raises FleetError when nobody is left."""
        with self._lock:
            if not self._usable:
                self._revive()
            first, *others = self._usable
            if not others:
                return first
            due, pause = self._probes[others[0]]
            if self._clock() < due:
                return first
            if self._coming and self._batches < _BATCHES:
                self._coming = False
                self._probes[others[0]] = self._clock() + pause, pause
                return first
            self._batches = 0
            self._probes[others[0]] = self._clock() + 2 * pause, 2 * pause
            return others[0]

    def delivered(self, peer: Peer, count: int, seconds: float, coming: bool = False) -> None:
        """A peer gave a batch over one stream. The next one becomes the first if it is clearly faster, twice in a row.

        coming: that peer was still getting what comes after it.
        """
        with self._lock:
            rate = count / max(seconds, 1e-6)
            self._lates[peer] = 0
            if self._usable[:1] == [peer]:
                self._batches += 1
                self._coming = self._coming or coming
                if peer not in self._met:
                    # most of that time may be the one in which it came to that host
                    self._met.add(peer)
                    return
            known = self._rates.get(peer) or rate
            self._rates[peer] = known + _WEIGHT * (rate - known)
            if peer in self._usable[1:2]:
                first = self._usable[0]
                slow = self._rates.get(first, math.inf)
                is_faster = rate > _FASTER * slow * self.streams
                if is_faster and (self._faster or not slow):
                    self._usable = [*self._usable[1:], first]
                    self._note(f"{first.host} is slow ({size(slow * self.streams)}/s): read from {peer.host} instead")
                    is_faster = False
                elif is_faster:
                    # one batch may have come while nobody else wanted anything: another at once
                    self._coming = False
                    self._probes[peer] = self._clock(), self._probes[peer][1]
                self._faster = is_faster

    def late(self, peer: Peer) -> None:
        """A peer kept a batch waiting in vain. In a chain that is no wonder at first, and a bad sign if it lasts."""
        with self._lock:
            self._lates[peer] += 1
            if self._lates[peer] >= _LATE * self.streams:
                self._rates[peer] = 0.0

    def restart(self) -> None:
        """Forget what was measured: what is asked from now on is of another kind."""
        with self._lock:
            self._rates.clear()
            self._met.clear()
            self._coming, self._batches, self._faster = False, 0, False
            self._lates = dict.fromkeys(self._lates, 0)
            self._probes = dict.fromkeys(self._probes, (self._clock() + PROBE_SECONDS, PROBE_SECONDS))

    def absent(self, peer: Peer, why: str) -> None:
        """A peer does not have a file. One that is in this run gets time to begin."""
        if peer.present and self._clock() - self._began < GRACE_SECONDS:
            self._pause(0.2)
        else:
            self._drop(peer, why, final=True)

    def lost(self, peer: Peer, why: str) -> None:
        """The connection to a peer broke, or it fell silent."""
        self._drop(peer, why, final=False)

    def damaged(self, peer: Peer, place: str) -> None:
        """A peer gave bytes with another sum: it is not asked again."""
        self._drop(peer, f"it sent damaged bytes of {place}", final=True)

    def _drop(self, peer: Peer, why: str, final: bool) -> None:
        with self._lock:
            self._why[peer] = why
            if peer in self._usable:
                self._usable.remove(peer)
                self._note(f"{peer.host}: {why}")
            if final and peer in self._peers:
                self._peers.remove(peer)

    def _revive(self) -> None:
        if not self._peers or self._revivals == _REVIVALS:
            reasons = "; ".join(f"{peer.host} ({peer.address}): {why}" for peer, why in self._why.items())
            raise nobody(self._what, reasons or "no host is named as its source")
        self._revivals += 1
        self._pause(_REVIVAL_SECONDS)
        self._usable = list(self._peers)

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)


def nobody(what: str, reasons: str) -> FleetError:
    """No host could give something."""
    return refusal(
        "transfer-no-source",
        what,
        found=reasons,
        expected="a host that has it",
        remedy="see to those hosts and run again: what has come is kept",
    )
