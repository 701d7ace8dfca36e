# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that need no code: their rows of ``data/rules.yml`` say when they hold, as the head of that file explains."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from ...._base.gb10 import fact, facts
from ...._base.place import Place, argv, env
from ._base import Case, Hit, Hits, entered, show, words
from .launch import Launch


def value(launch: Launch, name: str, test: object = "") -> Any:
    """What a launch has under a name of a condition. test: of an option a truth or None asks whether it is on."""
    if name.startswith("--"):
        option, _, key = name.partition(" ")
        if key:
            return _below(launch.command.json(option), key)
        return launch.switch(option) if test is None or isinstance(test, bool) else launch.text(option)
    return launch.env.get(name[4:]) if name.startswith("env ") else _below(launch, name)


def _below(found: object, path: str) -> Any:
    """The value at dotted keys; None where one is missing. Of a container's option the last one counts."""
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else getattr(found, key, None)
    return found[-1] if found and isinstance(found, list | tuple) else found


def holds(launch: Launch, when: Mapping[str, Any]) -> bool:
    """Whether all tests of a condition hold."""
    return all(meets(launch, name, test) for name, test in when.items())


def meets(launch: Launch, name: str, test: Any) -> bool:
    """Whether a test of a condition holds."""
    if name in ("any", "none"):
        return any(holds(launch, each) for each in test) is (name == "any")
    if name in ("before", "since", "within"):
        return bool(getattr(launch, name)(test))
    found = value(launch, name, test)
    if isinstance(test, Mapping):
        return all(_compared(launch, name, found, word, wanted) for word, wanted in test.items())
    if test is True:
        return bool(found)
    return found in test if isinstance(test, list) else found is test or (found == test and test is not False)


def _compared(launch: Launch, name: str, found: Any, word: str, wanted: Any) -> bool:
    match word:
        case "not":
            return not meets(launch, name, wanted)
        case "is":
            return meets(launch, name, wanted)
        case "like":
            return re.fullmatch(wanted, str(found or ""), re.IGNORECASE) is not None
        case "has":
            return wanted in (found or "")
    number = launch.number(name) if name.startswith("--") else found
    limit = fact(*wanted.split(".")) if isinstance(wanted, str) else wanted
    return number is not None and bool(number > limit if word == "above" else number < limit)


_NAMED = re.compile(r"\{([^{}!:]+)(!r)?(?::([^{} ][^{}]*))?\}")
_TEXTS = ("expected", "remedy", "reason", "source")
_PLAIN = {"model": "model.repository", "image": "image.reference"}


def _filled(launch: Launch, named: re.Match[str]) -> str:
    """``{name}`` is what the launch has under the name, ``{name!r}`` the same as a sentence shows it."""
    found = value(launch, named[1])
    return show(found) if named[2] else format(found, named[3] or "")


@dataclass(frozen=True, eq=False)
class Condition:
    """The predicate of a row. cases: of when, tests by name, all of which have to hold, for each of the options."""

    cases: Sequence[Case]

    def __call__(self, launch: Launch) -> Hits:
        for case in self.cases:
            for at in case.get("each") or [case["at"]]:
                if holds(launch, {at if name == "each" else name: test for name, test in case["when"].items()}):
                    yield _hit(launch, case, at)


def _hit(launch: Launch, case: Case, at: str) -> Hit:
    texts = {name: _NAMED.sub(partial(_filled, launch), str(case.get(name, ""))) for name in _TEXTS}
    found = _NAMED.sub(partial(_filled, launch), case.get("found", shown_at(at)))
    is_warning = "warning" in case and holds(launch, case["warning"])
    return Hit(_place(at), found, "warning" if is_warning else case.get("severity"), **texts)


def _place(at: str) -> Place | str:
    if at.startswith("--") or at == "argv":
        return argv(at.removeprefix("argv"))
    return env(at[4:]) if at.startswith("env ") else at


def shown_at(at: str) -> str:
    """What is shown of a place where the row says nothing else."""
    return f"{{{_PLAIN[at]}}}" if at in _PLAIN else f"{{{at}!r}}"


for _identity, _row in words().items():
    if "when" in _row or "cases" in _row:
        _figures = {
            name: SimpleNamespace(**{key: fact(name, key) for key in facts()[name]}) for name in _row.get("facts", ())
        }
        _own = {key: value for key, value in _row.items() if key in ("when", "at", "each", "found", "warning")}
        entered(_identity, _row, _figures)(Condition(_row.get("cases") or [cast(Case, _own)]))
