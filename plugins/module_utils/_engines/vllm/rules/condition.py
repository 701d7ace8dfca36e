# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that need no code: their rows of ``data/rules.yml`` say when they hold, as the head of that file explains."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, TypedDict, cast

from ...._base.findings import Severity
from ...._base.gb10 import data_file, fact, facts
from ...._base.place import Place, argv, env
from ._base import Case, Check, Hit, Hits, Row, entered, show, words
from .launch import Launch

_PLACES = {
    "method": "argv --speculative-config",
    "drafter": "argv --speculative-config",
    "load_format": "argv --load-format",
}


class _Need(TypedDict, total=False):
    """A row of ``data/vllm_needs.yml``, as the head of the file says."""

    what: str
    when: dict[str, str | list[str | None]]
    unless: dict[str, str]
    needs: str
    since: str
    severity: Severity
    covers: list[str]
    expected: str
    remedy: str
    reason: str
    source: str


def _met(launch: Launch, key: str, wanted: str | list[str | None]) -> str:
    """What of a launch meets a condition, as a sentence has it; empty where nothing does."""
    model = launch.model
    if key == "model":
        names = (model.architecture or "", model.repository)
        return next((name for name in names if re.fullmatch(str(wanted), name, re.IGNORECASE)), "")
    found = {
        "quant_algo": model.quant_algo,
        "family": model.family,
        "method": launch.method,
        "drafter": launch.speculation.get("model"),
        "load_format": launch.text("--load-format"),
        "image": launch.family,
    }[key]
    return str(found) if found in (wanted if isinstance(wanted, list) else [wanted]) else ""


def _cured(launch: Launch, unless: Mapping[str, str]) -> bool:
    """Whether the launch brings what the release lacks; a mount counts as there where mounts aren't known."""
    overridden = launch.command.json("--hf-overrides").get("architectures")
    start = launch.words.script.split("vllm serve")[0]
    return (
        ("mounted" in unless and launch.mounted(unless["mounted"]) is not False)
        or ("installed" in unless and unless["installed"] in start)
        or ("architecture" in unless and overridden == [unless["architecture"]])
    )


def _check(row: _Need) -> Check:
    unless = row.get("unless", {})
    place = next((_PLACES[key] for key in row["when"] if key in _PLACES), "model")

    def check(launch: Launch) -> Hits:
        met = [_met(launch, key, wanted) for key, wanted in row["when"].items()]
        if all(met) and not _cured(launch, unless):
            yield Hit(place, met[0])

    check.__doc__ = f"{row['what'].rstrip('.')} before {row['needs']}."
    return check


def _words(row: _Need) -> Row:
    """The row in the form of ``data/rules.yml``, where `needs` names facts."""
    return {
        "expected": row.get("expected", f"vLLM {row['needs']} or later"),
        "remedy": row["remedy"],
        "reason": row["reason"],
        "source": row["source"],
        "area": "releases",
        "covers": row.get("covers", []),
        "severity": {f"{row.get('since', '')}..<{row['needs']}": row.get("severity", "error")},
        "needs": ["mounts"] if "mounted" in row.get("unless", {}) else [],
    }


for _row in data_file("vllm_needs"):
    entered(_row["id"], _words(_row), {})(_check(_row))


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
