# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads how a machine's starts ended, and what its kernel complains of: files alone, no program."""

import os
import re
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..._host.probe.parts import Part

_WTMP = (Path("/var/log/wtmp.1"), Path("/var/log/wtmp"))
_KMSG = "/dev/kmsg"
_DAY_S, _DAYS = 86_400, 30
# utmp(5): the length of a record, and where its time is and in which form: glibc has two forms on 64 bits.
_FORMS: Mapping[int, tuple[int, str]] = {400: (344, "<q"), 384: (340, "<i")}
_RUN_LEVEL, _BOOT, _USER = 1, 2, slice(44, 76)
_MOST_RECORDS, _MOST_WORDS = 20_000, 300
# Xids that a program's own fault or end makes: 13, 31, 43, 45 (NVIDIA, "XID Errors").
_KINDS = (
    ("xid", re.compile(r"NVRM: Xid \(.*?\): (?!(?:13|31|43|45),)\d+")),
    ("out-of-memory", re.compile(r"NVRM: .*NV_ERR_NO_MEMORY")),
    ("hardware", re.compile(r"\[Hardware Error\]|EDAC .*\bUE\b|AER: .*Uncorrect|AER: .*(?<!Non-)Fatal")),
    ("disk", re.compile(r"I/O error, dev nvme|nvme.*(?:controller is down|I/O .*timeout)")),
    ("heat", re.compile(r"critical temperature reached|temperature above threshold", re.IGNORECASE)),
)


def read_health() -> dict[str, Any]:
    """``{boots, lines}``: starts of `_DAYS` days as `boots` finds them, None where the host keeps no record; `kinds` of
    the kernel's lines since it started."""
    records = [path.read_bytes() for path in _WTMP if path.exists()]
    return {"boots": boots(records, time.time()) if records else None, "lines": kinds(_kernel_lines())}


def boots(records: Iterable[bytes], now: float) -> list[dict[str, Any]]:
    """``{days_ago, cut_off}`` of each start in wtmp's files, the oldest first; cut_off: another start came with no
    shutdown before it."""
    found: list[dict[str, Any]] = []
    shut = True
    for kind, user, at in (record for content in records for record in _records(content)):
        if kind == _BOOT:
            if found and not shut:
                found[-1]["cut_off"] = True
            found.append({"days_ago": max(0.0, (now - at) / _DAY_S), "cut_off": False})
            shut = False
        elif kind == _RUN_LEVEL and user == b"shutdown":
            shut = True
    return [boot for boot in found if boot["days_ago"] <= _DAYS]


def _records(content: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Of the form in which all records have a kind that there is."""
    for size, (place, form) in _FORMS.items():
        records = [content[at : at + size] for at in range(0, len(content) - size + 1, size)]
        if len(content) % size == 0 and all(record[0] < 10 and record[1] == 0 for record in records):
            for record in records:
                yield record[0], record[_USER].split(b"\0")[0], struct.unpack_from(form, record, place)[0]
            return


def kinds(lines: Iterable[str]) -> dict[str, dict[str, Any]]:
    """``{kind: {count, last}}`` of what a kernel complains of."""
    found: dict[str, dict[str, Any]] = {}
    for line in lines:
        for kind, pattern in _KINDS:
            if pattern.search(line):
                known = found.setdefault(kind, {"count": 0, "last": ""})
                known.update(count=known["count"] + 1, last=line[:_MOST_WORDS])
    return found


def _kernel_lines() -> Iterator[str]:
    """Of the kernel's own ring, without what programs write there: their facility is another."""
    try:
        ring = os.open(_KMSG, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        for _ in range(_MOST_RECORDS):
            try:
                record = os.read(ring, 8192).decode("utf-8", "replace")
            except BrokenPipeError:  # it was overwritten meanwhile
                continue
            except OSError:
                return
            head, _, text = record.partition(";")
            if head.partition(",")[0].isdecimal() and int(head.partition(",")[0]) < 8:
                yield text.partition("\n")[0]
    finally:
        os.close(ring)


READS: Mapping[str, Part] = {"health": lambda _run, _ask: read_health()}
