# SPDX-License-Identifier: GPL-3.0-or-later
"""The starts of a service by phase, read in the journal of its unit: which second went where."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..._host.probe.parts import Run

# A journal keeps weeks; what is older was read before. An engine that serves prints a line every ten seconds.
_SINCE, _MOST_LINES, MOST = "-7d", 4000, 20
_LONGEST_S = 86_400.0
# What ends a phase stands at the beginning; a publisher's code may print lines that take long to search.
_LONGEST_LINE = 500
_LINE = re.compile(r"(\d{1,12}\.\d{1,6}) \S+ [^:]+: (.*)")

Row = Mapping[str, Any]


def starts(lines: Iterable[tuple[float, str]], rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Each start that came to its end, first to last: {began, seconds, caches, phases: seconds by phase}. lines: when
    in seconds, and what was printed. rows: of data/starts.yml. One that failed on the way is no start."""
    patterns = [(re.compile(row["line"]), row) for row in rows]
    start: dict[str, Any] | None = None
    before = 0.0
    for at, text in lines:
        match, row = next(((found, row) for pattern, row in patterns if (found := pattern.search(text))), (None, None))
        if match is None or row is None:
            continue
        if row.get("begins"):
            start, before = {"began": at, "caches": None, "phases": {}}, at
        elif row.get("fails"):
            start = None
        elif start is not None:
            _spend(start, row, match, max(0.0, at - before))
            before = max(before, at)
            if row.get("ends"):
                if before - start["began"] < _LONGEST_S:
                    yield _finished(start, before)
                start = None


def _spend(start: dict[str, Any], row: Row, match: re.Match[str], took: float) -> None:
    """The seconds since the line before, which the engine may divide by what it prints."""
    printed = match[1] if match.re.groups else None
    own = took if printed is None else min(took, float(printed))
    phases = start["phases"]
    ended = row["of"] if row.get("after", row["of"]) in (row["of"], *phases) else row["after"]
    for phase, seconds in ((ended, own), (row.get("before", "other"), took - own)):
        phases[phase] = phases.get(phase, 0.0) + seconds
    if start["caches"] != "cold":
        start["caches"] = row.get("caches", start["caches"])


def _finished(start: Mapping[str, Any], ended: float) -> dict[str, Any]:
    phases = {phase: round(seconds, 1) for phase, seconds in start["phases"].items() if seconds >= 0.05}
    began = datetime.fromtimestamp(start["began"], UTC).isoformat(timespec="seconds")
    return {**start, "began": began, "seconds": round(ended - start["began"], 1), "phases": phases}


def journal_lines(text: str) -> Iterator[tuple[float, str]]:
    """Of `journalctl --output short-unix`."""
    for line in text.splitlines():
        if match := _LINE.match(line):
            yield float(match[1]), match[2][:_LONGEST_LINE]


def read_starts(run: Run, unit: str, rows: Sequence[Row], kept: str) -> list[dict[str, Any]]:
    """The last starts of a unit: what its host has kept, and what its journal tells since."""
    pattern = "|".join(f"(?:{row['line']})" for row in rows)
    words = ["journalctl", "--no-pager", "--all", "--output", "short-unix", "--unit", unit, "--since", _SINCE]
    _code, out, _err = run([*words, "--lines", str(_MOST_LINES), "--case-sensitive=yes", "--grep", pattern])
    # with --grep and --lines, journalctl writes the newest first
    lines = [*journal_lines(out)]
    lines.reverse()
    lines.sort(key=lambda line: line[0])
    found = {start["began"]: start for start in (*read_kept(kept), *starts(lines, rows))}
    return [found[began] for began in sorted(found)][-MOST:]


def read_kept(path: str) -> list[dict[str, Any]]:
    """What a host has kept; none of what can't be read."""
    try:
        return [start for start in json.loads(Path(path).read_text("utf-8"))["starts"] if _is_start(start)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _is_start(found: object) -> bool:
    """A start as `starts` makes them: an edited file must not stop what reads it."""
    return (
        isinstance(found, dict)
        and {*found} == {"began", "caches", "seconds", "phases"}
        and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", found["began"]) is not None
        and found["caches"] in (None, "warm", "cold")
        and all(0 <= seconds <= _LONGEST_S for seconds in (found["seconds"], *found["phases"].values()))
    )
