# SPDX-License-Identifier: GPL-3.0-or-later
"""``python3 memory_guard.py TERM KILL SCORE``: ends an engine before the host runs out of memory.

Standard library only, Python 3.11: the role `memory_guard` copies this file to each host. TERM, KILL: bytes of
available memory below which an engine is asked to end, and killed. SCORE: the oom_score_adj by which engines are known;
nobody else is ever ended.

Not earlyoom: since 1.8 its limits are parts of what is available or in anonymous pages (its meminfo.c). A GB10's GPU
memory is neither, so that it would act long after the floor (docs/explanation/memory.md: at which figures).
"""

import ctypes
import os
import re
import select
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

# No engine takes memory faster, bytes a second; so long a look may wait, in seconds.
_FASTEST, _LEAST_S, _MOST_S = 6 << 30, 0.1, 1.0
# Who was asked to end, or killed, has so long for it.
_PATIENCE_S = 10.0
_LOCK_ALL = 3  # MCL_CURRENT | MCL_FUTURE
_BLIND = 3  # the status after which its unit does not start it again


class Process(NamedTuple):
    """Of /proc/PID: the kernel's own measure of whom to end, and the name."""

    pid: int
    score: int
    name: str


def available(meminfo: bytes) -> int:
    """Bytes of ``MemAvailable`` in /proc/meminfo."""
    found = re.search(rb"^MemAvailable:\s*(\d+) kB$", meminfo, re.MULTILINE)
    if not found:
        raise ValueError("/proc/meminfo has no MemAvailable")
    return int(found[1]) << 10


def pause_s(left: int, term: int) -> float:
    """How long memory can't fall below the floor."""
    return min(max((left - term) / _FASTEST, _LEAST_S), _MOST_S)


def order(left: int, term: int, kill: int) -> signal.Signals | None:
    """What an engine is sent."""
    if left < kill:
        return signal.SIGKILL
    return signal.SIGTERM if left < term else None


def victim(engines: Iterable[Process], in_vain: Collection[int]) -> Process | None:
    """The one that has most, by the kernel's measure. in_vain: processes that were killed and did not end (they wait
    for a driver, say), so that another has to."""
    return max(engines, key=lambda item: (item.pid not in in_vain, item.score, item.pid), default=None)


def engines(score: int, proc: Path) -> Iterator[Process]:
    """Processes that are an engine's."""
    for folder in proc.iterdir():
        if folder.name.isdecimal() and (found := engine(int(folder.name), score, proc)):
            yield found


def engine(pid: int, score: int, proc: Path) -> Process | None:
    """A process if its oom_score_adj is that of engines, and it has memory: who has ended has none."""
    folder = proc / str(pid)
    try:
        if int((folder / "oom_score_adj").read_text("ascii")) != score:
            return None
        measure = int((folder / "oom_score").read_text("ascii"))
        return Process(pid, measure, (folder / "comm").read_text("utf-8", "replace").strip()) if measure else None
    except (OSError, ValueError):
        return None


class Guard:
    """term, kill: bytes. score: of engines. meminfo, proc: where the kernel tells of the memory, and of processes."""

    def __init__(self, term: int, kill: int, score: int, meminfo: str = "/proc/meminfo", proc: str = "/proc") -> None:
        self._term, self._kill, self._score, self._proc = term, kill, score, Path(proc)
        self._meminfo = os.open(meminfo, os.O_RDONLY)
        self._in_vain: set[int] = set()
        self._is_helpless = False

    def look(self) -> float:
        """Look once, and do what has to be done; the seconds until the next look."""
        left = self._left()
        sent = order(left, self._term, self._kill)
        if sent is None:
            self._in_vain, self._is_helpless = set(), False
            return pause_s(left, self._term)
        found = victim(engines(self._score, self._proc), self._in_vain)
        if found is not None:
            self._end(found, sent, left)
        elif not self._is_helpless:
            self._is_helpless = True
            _log(f"{left >> 20} MiB are available, below the floor of {self._term >> 20}, and no engine runs")
        return _LEAST_S if found else _MOST_S

    def _left(self) -> int:
        # from its beginning, which has the kernel write it anew
        return available(os.pread(self._meminfo, 16384, 0))

    def _end(self, one: Process, sent: signal.Signals, left: int) -> None:
        """It has ended when this returns, or was killed in vain."""
        try:
            process = os.pidfd_open(one.pid)
        except ProcessLookupError:
            return
        try:
            if engine(one.pid, self._score, self._proc) is None:
                return  # its number is another's by now
            self._send(process, sent, one, left)
            ended, began = select.poll(), time.monotonic()
            ended.register(process, select.POLLIN)
            while not ended.poll(_LEAST_S * 1000):
                late = time.monotonic() - began > _PATIENCE_S
                if late and sent == signal.SIGKILL:
                    self._in_vain.add(one.pid)
                    return
                left = self._left()
                if sent == signal.SIGTERM and (late or left < self._kill):
                    sent, began = signal.SIGKILL, time.monotonic()
                    self._send(process, sent, one, left)
        except ProcessLookupError:
            return
        finally:
            os.close(process)

    @staticmethod
    def _send(process: int, sent: signal.Signals, one: Process, left: int) -> None:
        """The supervisor reads this line: `_rank.memory`."""
        _log(f"sending {sent.name} to process {one.pid} {one.name!r}: {left >> 20} MiB are available")
        signal.pidfd_send_signal(process, sent)


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def sees_others(proc: Path) -> bool:
    return os.access(proc / "1" / "oom_score", os.R_OK)


def main(words: list[str]) -> None:
    term, kill, score = (int(word) for word in words)
    if not sees_others(Path("/proc")):
        _log("/proc shows no processes of others, expected a mount without hidepid: no engine would ever be ended")
        sys.exit(_BLIND)
    guard = Guard(term, kill, score)
    guard.look()  # all of it has been read before it is held in memory
    if ctypes.CDLL(None, use_errno=True).mlockall(_LOCK_ALL):
        _log(f"it can't be held in memory: {os.strerror(ctypes.get_errno())}")
    _log(f"an engine is asked to end below {term >> 20} MiB of available memory, and killed below {kill >> 20}")
    while True:
        time.sleep(guard.look())


if __name__ == "__main__":
    main(sys.argv[1:])
