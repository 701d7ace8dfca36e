# SPDX-License-Identifier: GPL-3.0-or-later
"""A slip of this collection: named as its own, with the place, and never as what a host answered.

An answer is checked at the door (`_subjects.form`); whatever is raised while it is judged is ours. It ends what was
judged, and nothing else.
"""

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from .received import one_line
from .subject import Unknown

REPORT = "please report it: https://github.com/gb10-fleet/gb10.fleet/issues (-vvv shows the traceback)"
_OURS = "/gb10/fleet/plugins/"
T = TypeVar("T")


@dataclass(frozen=True)
class Fault(Unknown):
    """What of a host could not be judged by a slip of ours. slip: which, and where. trace: the traceback, for -vvv."""

    slip: str = ""
    trace: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"host": self.host, "part": self.part, "why": self.why}


def fault_of(problem: BaseException, host: str, part: str) -> Fault:
    """The fault that an exception shows. Its place is the innermost line of this collection."""
    frames = traceback.extract_tb(problem.__traceback__)
    ours = [frame for frame in frames if _OURS in frame.filename]
    where = "an unknown place"
    if ours:
        where = f"plugins/{ours[-1].filename.rpartition(_OURS)[2]}, {ours[-1].name}, line {ours[-1].lineno}"
    error = f"{type(problem).__name__}: {problem}" if str(problem) else type(problem).__name__
    slip = f"{one_line(error, 200)} ({where})"
    trace = "\n".join(one_line(line, 500) for line in "".join(traceback.format_exception(problem)).splitlines())
    return Fault(host, part, f"a fault of this collection, not of the host: {slip}; {REPORT}", slip, trace)


def guarded(host: str, part: str, judge: Callable[[], Iterable[T]]) -> list[T | Fault]:
    """All that ``judge`` finds; a fault of ours in place of it."""
    try:
        return [*judge()]
    except Exception as problem:  # whatever it is: nobody else's judgement depends on it
        return [fault_of(problem, host, part)]
