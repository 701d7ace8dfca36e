# SPDX-License-Identifier: GPL-3.0-or-later
"""How the rank does, for people and tools: journal, status file, `systemctl status`. And what survives a restart.

No report ends a service: a folder that is gone is made anew, and what can't be written is noted once and tried again.
"""

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from . import judge
from .redaction import redacted, spellings
from .service import Service

# In memory: a reboot begins anew, the restart budget too.
RUN = Path("/run/gb10-fleet")
# So often the status file is written anew and systemd is notified: its age shows a supervisor that hangs.
PULSE_S = 10.0
# What an epoch begins with.
UNSERVED: Mapping[str, Any] = {
    "strikes": 0,
    "sick": "",
    "ready_at": None,
    "ready_s": None,
    "warm_up_s": [],
    "tokens_per_s": None,
    "running": None,
    "waiting": None,
    "kv_use": None,
    "drains_until": None,
}


class Report:
    """State and figures of this rank, as docs/explanation/architecture.md has them. A call returns after its write.

    began_ns: the moment of `mark_start`, None for now.
    """

    def __init__(
        self, service: Service, secrets: Sequence[str], folder: Path = RUN, began_ns: int | None = None
    ) -> None:
        self._secrets = [spelling for secret in secrets for spelling in spellings(secret)]
        self._file = folder / service.service / "status.json"
        self._last_sentence = ""
        self._unwritten = ""
        self._began_ns = time.time_ns() if began_ns is None else began_ns
        self.fields: dict[str, Any] = {
            "service": service.service,
            "rank": service.rank,
            "ranks": service.ranks,
            "state": "waiting",
            "epoch": 0,
            "since": now_text(),
            "error": "",
            "last_end": "",
            **UNSERVED,
            "cache_drops": 0,
            "memory_taken": None,
            "creep": "",
            "ranks_seen": [],
            "starts_left": None,
            "evidence": "",
            "updated_at": now_text(),
        }

    @property
    def state(self) -> str:
        return str(self.fields["state"])

    @property
    def unready(self) -> str:
        """Why gateways are to send nobody; empty while the endpoint serves."""
        if self.state != "serving":
            return f"{self.state}: {self.fields['error'] or self._last_sentence}"
        return f"sick: {self.fields['sick']}" if self.fields["sick"] else ""

    def enter(self, state: str, sentence: str, **news: Any) -> None:
        """A new state, logged once: entering the same state with the same sentence again is silent."""
        if state != self.state:
            self.fields["since"] = now_text()
        self.note(sentence)
        _notify_systemd(f"STATUS={state}: {redacted(sentence, self._secrets)}")
        self.update(state=state, **news)

    def note(self, sentence: str) -> None:
        if sentence != self._last_sentence:
            self._last_sentence = sentence
            self.log(f"gb10.fleet: {sentence}")

    def log(self, line: str) -> None:
        """To the journal, which must not hold a key."""
        with contextlib.suppress(OSError):  # a journal that is gone, too, ends no service
            print(redacted(line, self._secrets), flush=True)

    def update(self, **news: Any) -> None:
        changed = {key: value for key, value in news.items() if self.fields[key] != value}
        if changed or not self._file.exists():
            self.fields.update(changed)
            self._write()

    async def pulse(self) -> None:
        """Show every PULSE_S that this process runs, until cancelled."""
        while True:
            self._write()
            _notify_systemd("WATCHDOG=1")
            await asyncio.sleep(PULSE_S)

    def _write(self) -> None:
        self.fields["updated_at"] = now_text()
        text = redacted(json.dumps(self.fields, indent=1), self._secrets) + "\n"
        problem = replace(self._file, text)
        if not problem and not (self._file.parent / _STARTED).exists():
            mark_start(self._file.parent, self._began_ns)
        if problem != self._unwritten:
            self.log(f"gb10.fleet: {problem or f'{self._file} is written again'}")
            self._unwritten = problem

    def conceal(self, text: str) -> str:
        return redacted(text, self._secrets)


def now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def later_text(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds")


def replace(file: Path, text: str) -> str:
    """Write a file as a whole; a sentence when it can't be, else an empty string."""
    part = file.with_name(f".{file.name}.part")
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        with part.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(file)
    except OSError as error:
        return f"{file} can't be written ({error.strerror}): the service goes on, and it is tried again (`df {RUN}`)"
    return ""


_STARTED = "started"


def mark_start(folder: Path, at_ns: int | None = None) -> int:
    """Leave a file of this moment, or of an earlier one; its time in ns. The role `services` restarts what is older
    than a file of it, and leaves a service alone that has no such mark."""
    stamp = folder / _STARTED
    try:
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.touch()
        if at_ns is not None:
            os.utime(stamp, ns=(at_ns, at_ns))
        return stamp.stat().st_mtime_ns
    except OSError:
        return time.time_ns() if at_ns is None else at_ns


def _notify_systemd(line: str) -> None:
    """sd_notify(3); nothing outside a unit, or while systemd does not listen."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd, contextlib.suppress(OSError):
            systemd.setblocking(False)
            systemd.sendto(line.encode(), f"\0{path[1:]}" if path.startswith("@") else path)


class Ledger:
    """The epochs of this boot: the last one's number, and when containers were launched that count against the restart
    budget, in seconds since boot.

    It outlives the supervisor, so that one that is killed does not get a new budget; restarts, which systemd had
    counted when the last supervisor began, tells an owner's start from systemd's.
    """

    def __init__(self, service: Service, note: Callable[[str], None], folder: Path = RUN) -> None:
        self._file, self._note = folder / service.service / "starts.json", note
        self.epoch, self.starts = 0, list[float]()
        self.restarts: int | None = None
        try:
            written = json.loads(self._file.read_text(encoding="utf-8"))
            epoch, starts = int(written["epoch"]), [float(start) for start in written["starts"]]
            restarts = written.get("restarts")
            self.epoch, self.starts, self.restarts = epoch, starts, None if restarts is None else int(restarts)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            aside = self._file.with_name(f"{self._file.name}.damaged")
            with contextlib.suppress(OSError):
                self._file.replace(aside)
            note(f"{self._file} can't be read ({error!r}): it lies in {aside.name}, and the start budget begins anew")

    def supervised(self, restarts: int | None) -> None:
        """By a new supervisor: a start by the owner is a new beginning. restarts: as in `judge.is_owners_start`."""
        if judge.is_owners_start(restarts, self.restarts):
            self.starts = []
        self.restarts = self.restarts if restarts is None else restarts
        self._keep()

    def begin(self) -> int:
        """A new epoch's number."""
        self.epoch += 1
        self._keep()
        return self.epoch

    def launched(self, now: float) -> None:
        self.starts.append(now)
        self._keep()

    def restore_budget(self) -> None:
        """The last launch does not count."""
        self.starts = self.starts[:-1]
        self._keep()

    def clear(self) -> None:
        """The owner stopped the service, or is to look at it: what comes then is a new beginning."""
        self.starts = []
        self._keep()

    def _keep(self) -> None:
        kept = {"epoch": self.epoch, "starts": self.starts, "restarts": self.restarts}
        problem = replace(self._file, json.dumps(kept) + "\n")
        if problem:
            self._note(problem)
