# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks hosts what they have: the first answer counts, from the origin of a thing before those that only pass it on."""

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..._base.findings import FleetError
from .peer import Connect, Peer, PeerAbsentError, PeerError, PeerLateError, is_prepared, over_ssh
from .route import GRACE_SECONDS, nobody

_AGAIN_SECONDS = 1
_RETRIES = (1, 2)

Offered = TypeVar("Offered")


@dataclass(frozen=True)
class Sources:
    """The hosts that a thing may be fetched from. peers: nearest first, the origin last. streams: how many at once."""

    peers: Sequence[Peer]
    streams: int
    connect: Connect = over_ssh
    prepared: Callable[[], bool] = is_prepared

    def look(self, what: str, request: dict[str, object], read: Callable[[bytes], Offered]) -> Offered | None:
        """What is offered at this moment; none if that isn't known yet.

        Then somebody is getting it, or this host was not given access to the others yet. Raises FleetError when nobody
        has it. read: makes an offer of an answer; of what it refuses by a ValueError, that host does not have it.
        """
        return self._ask(what, request, read) if self.prepared() else None

    def wait(
        self, what: str, request: dict[str, object], read: Callable[[bytes], Offered], waiting: Callable[[str], None]
    ) -> Offered:
        """What is offered, once somebody has it. waiting: called every second with whom it is waited for.

        Hosts of this run get time to begin getting it. Raises FleetError when nobody has it.
        """
        deadline = time.monotonic() + GRACE_SECONDS
        while True:
            try:
                offer = self._ask(what, request, read)
            except FleetError:
                if not self.in_this_run or time.monotonic() > deadline:
                    raise
            else:
                if offer is not None:
                    return offer
            waiting(f"waiting for {self.peers[-1].host}, which is getting it")
            time.sleep(_AGAIN_SECONDS)

    def _answer(self, peer: Peer, request: dict[str, object]) -> bytes:
        """A peer's answer. sshd turns some away while many log in at once: those try again."""
        for pause in (*_RETRIES, 0):
            with contextlib.closing(self.connect(peer)) as connection:
                try:
                    return connection.ask(request)
                except PeerError:
                    if not pause:
                        raise
            time.sleep(pause)
        raise AssertionError

    @property
    def in_this_run(self) -> bool:
        """Whether one of the hosts may be about to get it."""
        return any(peer.present for peer in self.peers)

    def _ask(self, what: str, request: dict[str, object], read: Callable[[bytes], Offered]) -> Offered | None:
        refusals = []
        for peer in reversed(self.peers):
            try:
                return read(self._answer(peer, request))
            except PeerLateError:
                return None
            except (PeerAbsentError, PeerError) as error:
                refusals.append(f"{peer.host} ({peer.address}): {error}")
            except ValueError as error:
                refusals.append(f"{peer.host} ({peer.address}) offers what can't be taken: {error}")
        raise nobody(what, "; ".join(refusals) or "this host is named as its source, and does not have it")
