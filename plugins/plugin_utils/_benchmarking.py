# SPDX-License-Identifier: GPL-3.0-or-later
"""What actions that measure a service have in common: its host is asked, and what is not whole does not count."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._engines.registry import ENGINES
from ..module_utils._operations.bench.form import ANSWER, NotWholeError, measured
from ..module_utils._operations.bench.sweep import Point
from ._asking import Asking, NoAnswerError, as_read
from ._screen import show

_MODULE = "gb10.fleet.bench_load"
# What an action that measures answers in check mode.
UNMEASURED = {"changed": False, "skipped": True, "msg": "check mode: nothing was measured"}


def not_whole(service: str, point: Point | None, why: Exception) -> AnsibleActionFail:
    """Ends a benchmark with the reason. point: what was measured; None where it had not begun."""
    at = f" at {point.name}" if point else ""
    words = f"{service} can't be measured{at}: {why}; nothing of this benchmark was kept"
    return AnsibleActionFail(words, result={"unread": True})


def show_figures(service: str, point: Point, figures: Mapping[str, float]) -> None:
    show(f"{service}: {point.name}: {', '.join(f'{value:.4g} {name}' for name, value in figures.items())}")


@contextlib.contextmanager
def whole() -> Iterator[None]:
    """NotWholeError as it is, and NoAnswerError for whatever else can't be used."""
    try:
        with as_read():
            yield
    except NoAnswerError as why:
        if isinstance(why.__cause__, NotWholeError):
            raise why.__cause__ from None
        raise


class Measuring(Asking):
    def look(self, load: Mapping[str, object], variables: dict[str, object]) -> dict[str, Any]:
        """`form.ANSWER` without a run: what is there, and who asks. NoAnswerError where it can't be told."""
        answer: dict[str, Any] = self.ask(_MODULE, {"load": dict(load)}, variables, ANSWER)
        return answer

    def measure(self, load: Mapping[str, Any], point: Point, variables: dict[str, object]) -> dict[str, Any]:
        """``{seen, figures, shown, raw}`` of one run. load: with its words filled in. NoAnswerError where it could not
        be done; NotWholeError, of others who ask BusyError, where it does not count."""
        keys = ENGINES[load["engine"]].spec.load_keys
        arguments = {"load": dict(load), "point": asdict(point)}

        def used(answer: dict[str, Any]) -> dict[str, Any]:
            return {"seen": answer["seen"], **measured(point, answer, keys)}

        with whole():
            found: dict[str, Any] = self.ask(_MODULE, arguments, variables, ANSWER, used)
        return found
