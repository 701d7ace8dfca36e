# SPDX-License-Identifier: GPL-3.0-or-later
"""What every long staging job needs: a lock that names its holder, room on the disk, progress, a lease."""

import contextlib
import errno
import fcntl
import getpass
import json
import math
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from .findings import FleetError, host_error
from .layout import STATUS
from .own_files import replace_file
from .sizes import duration, room_for, size

# Kernel locks: one file a kind of job, gone with the machine.
LOCKS = Path(STATUS, "locks")
# A controller that has not looked for so long is gone; its job ends itself, and the next run goes on where it stopped.
LEASE_SECONDS = 90
_AGAIN_SECONDS = 0.2
# What the modules that bring images and models have in common, as Ansible's argument specs have it; documented in
# plugins/doc_fragments/staging.py.
ARGUMENTS = {
    "streams": {"type": "int", "default": 4},
    "present_hosts": {"type": "list", "elements": "str", "default": []},
    "patience": {"type": "int", "default": 120},
    "examine_only": {"type": "bool", "default": False},
    "progress_file": {"type": "path"},
}
# Who only looks whether a lock is held holds it for an instant himself.
_LEAST_TRIES = 5


def refusal(rule: str, place: str, *, found: str, expected: str, remedy: str, reason: str = "") -> FleetError:
    """A host's state that a staging job can't work with."""
    return FleetError(host_error(rule, place, found=found, expected=expected, remedy=remedy, reason=reason))


def require_space(directory: Path, needed: int, what: str) -> None:
    """Refuse before the first byte when ``needed`` bytes and a tenth more do not fit below ``directory``."""
    existing = existing_parent(directory)
    free, wanted = shutil.disk_usage(existing).free, room_for(needed)
    if needed and free < wanted:
        raise refusal(
            "disk-full",
            str(directory),
            found=f"{size(free)} free",
            expected=f"{size(wanted)} for {what}",
            remedy=f"free {size(wanted - free)} there",
        )


def in_the_way(problem: OSError, folder: Path, progress: "Progress") -> FleetError:
    """What the system refused while bytes were received, for a person. folder: where, if the error has none."""
    place = Path(problem.filename or folder)
    found = problem.strerror or str(problem)
    kept = "and run again: what has come is kept"
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        free = size(shutil.disk_usage(existing_parent(place)).free)
        expected = f"room for {size(progress.left)} more" if progress.left else "room"
        return refusal(
            "disk-full", str(place), found=f"{found}, {free} free", expected=expected, remedy=f"free room there, {kept}"
        )
    if problem.errno in (errno.EROFS, errno.EIO):
        remedy = f"`dmesg` and `findmnt` show what became of its disk; mend it, {kept}"
        return refusal("disk-broken", str(place), found=found, expected="a disk that can be written", remedy=remedy)
    return refusal("host-file", str(place), found=found, expected="", remedy=f"see to it on that host, {kept}")


def existing_parent(path: Path) -> Path:
    """The path itself, or its nearest parent that exists."""
    return path if path.exists() else existing_parent(path.parent)


@contextlib.contextmanager
def held(
    lock: Path,
    what: str,
    patience: float = 0,
    waiting: Callable[[str], None] = lambda words: None,
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[None]:
    """Hold ``lock`` for the duration; the kernel lets go of it when this process ends, however it ends.

    patience: seconds to wait for another holder. waiting: called with whom it is waited for, again and again. Raises
    FleetError with the holder's own words.
    """
    lock.parent.mkdir(0o700, parents=True, exist_ok=True)
    tries = max(_LEAST_TRIES, math.ceil(patience / _AGAIN_SECONDS))
    with _opened(lock, os.O_RDWR | os.O_APPEND | os.O_CREAT) as stream:
        while not take_lock(stream.fileno()):
            stream.seek(0)
            holder = _holder(stream.read())
            if not tries:
                raise refusal(
                    "staging-locked",
                    str(lock),
                    found=f"held by {holder}",
                    expected="one staging job at a time on a host",
                    remedy="wait for it, or end that process if its controller is gone (it ends by itself after "
                    f"{LEASE_SECONDS} s without one)",
                )
            waiting(f"waiting for {holder}")
            tries -= 1
            pause(_AGAIN_SECONDS)
        stream.truncate(0)
        stream.write(json.dumps({"pid": os.getpid(), "user": account(), "what": what, "since": _now()}))
        stream.flush()
        yield
        stream.truncate(0)


def is_held(lock: Path) -> bool:
    """Whether a process holds ``lock`` at this moment."""
    try:
        with _opened(lock, os.O_RDONLY) as stream:
            return not take_lock(stream.fileno())
    except FileNotFoundError:
        return False


def _opened(lock: Path, flags: int) -> IO[str]:
    """A lock's file, which is truncated later: FleetError where somebody else may have put another one there."""
    try:
        descriptor = os.open(lock, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise _no_lock(lock, problem.strerror or "") from None
        raise
    found, folder = os.fstat(descriptor), lock.parent.stat()
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        problems = "no file of one name"
    elif {found.st_uid, folder.st_uid} != {os.geteuid()} or folder.st_mode & stat.S_IWOTH:
        problems = f"a file of user {found.st_uid} in a folder of user {folder.st_uid}"
    else:
        return os.fdopen(descriptor, "r" if flags == os.O_RDONLY else "a+", encoding="utf-8")
    os.close(descriptor)
    raise _no_lock(lock, problems)


def _no_lock(lock: Path, found: str) -> FleetError:
    return refusal(
        "staging-lock",
        str(lock),
        found=found,
        expected="a file of only this user, in a folder that nobody else may write",
        remedy=f"see who put it there, remove {lock.parent} and run again",
    )


def take_lock(file: int | IO[str]) -> bool:
    """Whether it is ours now; False where another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(text: str) -> str:
    """Who holds a lock, in words; text: what it wrote there, nothing if it only looks."""
    try:
        return "process {pid} of {user}: {what}, since {since}".format(**json.loads(text))
    except (ValueError, LookupError, TypeError):
        return "another process"


def account() -> str:
    """Who asked for this process: by name, or by number where the account has no name."""
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (ImportError, KeyError, OSError):
        return str(os.getuid())


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Progress:
    """Counts the bytes of one job and keeps a small file up to date, which the controller reads.

    The controller touches the file at every look; when it stops, the job stops too (FleetError), so that no orphan
    fills a disk or holds a lock. Without a file it only counts. notes: sentences for a person on what was not as it
    should be; they outlast a job.
    """

    def __init__(self, file: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        self._written = 0.0
        self._job: dict[str, Any] = {}
        self.notes: list[str] = []
        self._counting = threading.Lock()

    def note(self, sentence: str) -> None:
        """For a person, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def start(self, what: str, total: int) -> None:
        """Begin a job of ``total`` bytes; the one before it is over."""
        self._job = {"what": what, "done": 0, "total": total, "began": self._clock()}
        self._write()

    def add(self, count: int) -> None:
        """Count some bytes; threads may do so at once."""
        with self._counting:
            self.reach(self._job["done"] + count)

    def counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Pass the chunks on and count them."""
        for chunk in chunks:
            yield chunk
            self.add(len(chunk))

    @property
    def left(self) -> int:
        """Bytes of the job that are still to come, as far as that is known."""
        total, done = self._job.get("total", 0), self._job.get("done", 0)
        return max(0, int(total) - int(done))

    def report(self, words: str) -> None:
        """Report what keeps the bytes from coming; it holds until some come."""
        self._job["message"] = words
        self._write_when_due()

    def reach(self, done: int, total: int | None = None) -> None:
        """Report the bytes that are done; total: if it was not known at the start."""
        self._job["done"] = done
        if total is not None:
            self._job["total"] = total
        self._job.pop("message", None)
        self._write_when_due()

    def _write_when_due(self) -> None:
        done = self._job["done"]
        if self._clock() - self._written >= 1 or done == self._job["total"] > 0:
            self._write()

    def _write(self) -> None:
        self._written = self._clock()
        if self._file is None:
            return
        self._require_controller(self._file)
        looked = self._file.stat().st_mtime if self._file.exists() else time.time()
        seconds = self._written - self._job["began"]
        status = {**self._job, "seconds": seconds, "pid": os.getpid(), "notes": self.notes}
        replace_file(self._file, json.dumps(status).encode())
        os.utime(self._file, (looked, looked))

    @staticmethod
    def _require_controller(file: Path) -> None:
        if file.exists() and time.time() - file.stat().st_mtime > LEASE_SECONDS:
            raise refusal(
                "controller-gone",
                str(file),
                found=f"no controller has looked for {LEASE_SECONDS} s",
                expected="the run that began this job",
                remedy="run the playbook again: it goes on where this stopped",
            )


def progress_line(job: dict[str, Any]) -> str:
    """``image vllm:1, 1.2 GiB of 2.1 GiB, 350.0 MiB/s, 3 s left``, from what ``Progress`` writes."""
    what, done, total, seconds = job["what"], job["done"], job["total"], job["seconds"]
    if total and done >= total:
        return f"{what}, {size(total)} in {duration(seconds)}"
    if not (total or done):
        return f"{what}, {job.get('message') or 'begun'}, {duration(seconds)}"
    parts = [what, f"{size(done)} of {size(total)}" if total else size(done)]
    if "message" in job:
        parts += [job["message"], duration(seconds)]
    elif seconds > 0 and done:
        rate = done / seconds
        parts += [f"{size(rate)}/s", f"{duration((total - done) / rate)} left" if total else duration(seconds)]
    return ", ".join(parts)
