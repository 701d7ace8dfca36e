# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""How the rank does, for people and tools: journal, status file, `systemctl status`. And what survives a restart."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .judge import redacted
from .service import Service

# In memory: a reboot begins anew, the restart budget too.
RUN = Path("/run/gb10-fleet")
# What an epoch begins with.
UNSERVED: Mapping[str, Any] = {
    "strikes": 0,
    "ready_at": None,
    "ready_s": None,
    "warm_up_s": [],
    "tokens_per_s": None,
    "running": None,
    "waiting": None,
    "kv_use": None,
}


class Report:
    """State and figures of this rank, as docs/architecture.md has them; every change is on file when a call returns."""

    def __init__(self, service: Service, secrets: Sequence[str], folder: Path = RUN) -> None:
        self._secrets = [secret for secret in secrets if secret]
        self._file = folder / service.name / "status.json"
        self._said = ""
        self.fields: dict[str, Any] = {
            "service": service.name,
            "rank": service.rank,
            "ranks": service.ranks,
            "state": "waiting",
            "epoch": 0,
            "since": now_text(),
            "error": "",
            "last_end": "",
            **UNSERVED,
            "ranks_seen": [],
            "starts_left": None,
            "evidence": "",
        }
        self._file.parent.mkdir(parents=True, exist_ok=True)

    @property
    def state(self) -> str:
        return str(self.fields["state"])

    def enter(self, state: str, sentence: str, **news: Any) -> None:
        """A new state, said in the journal. Entering the same state with the same sentence again says nothing."""
        if state != self.state:
            self.fields["since"] = now_text()
        self.note(sentence)
        _tell_systemd(f"STATUS={state}: {redacted(sentence, self._secrets)}")
        self.update(state=state, **news)

    def note(self, sentence: str) -> None:
        if sentence != self._said:
            self._said = sentence
            self.say(f"gb10.fleet: {sentence}")

    def say(self, line: str) -> None:
        """To the journal, which must not hold a key."""
        print(redacted(line, self._secrets), flush=True)

    def update(self, **news: Any) -> None:
        changed = {key: value for key, value in news.items() if self.fields[key] != value}
        if changed or not self._file.exists():
            self.fields.update(changed)
            replace(self._file, redacted(json.dumps(self.fields, indent=1), self._secrets) + "\n")

    def conceal(self, text: str) -> str:
        return redacted(text, self._secrets)


def now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def replace(file: Path, text: str) -> None:
    part = file.with_name(f".{file.name}.part")
    with part.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(file)


def _tell_systemd(line: str) -> None:
    """sd_notify(3); nothing outside a unit."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
            systemd.sendto(line.encode(), f"\0{path[1:]}" if path.startswith("@") else path)


class Ledger:
    """The epochs of this boot: the last one's number, and when those began that count against the restart budget.

    It outlives the supervisor, so that one that is killed does not get a new budget. Seconds since boot.
    """

    def __init__(self, service: Service, folder: Path = RUN) -> None:
        self._file = folder / service.name / "starts.json"
        try:
            written = json.loads(self._file.read_text(encoding="utf-8"))
            self.epoch, self.starts = int(written["epoch"]), [float(start) for start in written["starts"]]
        except (OSError, ValueError, KeyError, TypeError):
            self.epoch, self.starts = 0, []

    def begin(self, now: float) -> int:
        """A new epoch's number."""
        self.epoch += 1
        self.starts.append(now)
        self._keep()
        return self.epoch

    def forgive(self) -> None:
        """The last epoch ended in order."""
        self.starts = self.starts[:-1]
        self._keep()

    def clear(self) -> None:
        """The owner stopped the service, or is to look at it: what comes then is a new beginning."""
        self.starts = []
        self._keep()

    def _keep(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        replace(self._file, json.dumps({"epoch": self.epoch, "starts": self.starts}) + "\n")
