# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A remedy that can be typed makes its finding go: of every rule, in the launch that trips it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.lint.judge import lint_map
from rule_cases import CASES, MORE

_VALUE = r"""(?P<value>'[^']*'|"[^"]*"|(?!on\b|for\b|or\b|and\b|in\b)[^\s,;(]+)"""
_WRITE = re.compile(rf"(?:write|add) (?P<option>--[a-z-]+)(?![a-z-]|, --)(?: {_VALUE})?")
_SET = re.compile(r'set (?P<name>[A-Z][A-Za-z0-9_]+)(?:=(?P<value>\w+)|: "(?P<quoted>[^"]*)")')
_DROP = re.compile(r"drop (?P<option>--[a-z-]+)")
_IT = re.compile(r"(?P<what>drop|write) (?:it|the variable)\b(?! and)")


def without(argv: list[str], option: str) -> list[str]:
    """The words without an option, its opposite and its value."""
    kept: list[str] = []
    names = {option, "--no-" + option.removeprefix("--"), "--" + option.removeprefix("--no-")}
    skip = False
    for at, word in enumerate(argv):
        if skip:
            skip = False
        elif word.partition("=")[0] in names:
            skip = "=" not in word and at + 1 < len(argv) and not argv[at + 1].startswith("-")
        else:
            kept.append(word)
    return kept


def applied(launch: dict[str, Any], finding: dict[str, Any]) -> dict[str, Any] | None:
    """The launch after what its owner types first of the remedy; None where that is nothing to type."""
    remedy = finding["remedy"].partition("; ")[0]
    kind, _, name = finding["place"].partition(" ")
    it = _IT.match(remedy)
    if it and it["what"] == "write":
        match = re.fullmatch(rf"(?P<option>--[a-z-]+)(?: {_VALUE})?", finding["expected"])
    else:
        match = _WRITE.match(remedy)
    dropped = name if it and it["what"] == "drop" else (found := _DROP.match(remedy)) and found["option"]
    if match:
        return launch | {"argv": [*without(launch["argv"], match["option"]), *written(match)]}
    if dropped:
        changed = launch | {"argv": without(launch["argv"], dropped)}
        for part in {kind, "env"} & {"env", "container"} & launch.keys():
            changed[part] = {key: value for key, value in launch[part].items() if key != dropped.removeprefix("--")}
        return changed
    if match := _SET.match(remedy):
        return launch | {"env": {**launch.get("env", {}), match["name"]: match["value"] or match["quoted"]}}
    return None


def written(match: re.Match[str]) -> list[str]:
    return [match["option"], *([match["value"].strip("'\"")] if match["value"] else [])]


TYPED = [
    (rule, number, launch)
    for number, (rule, launch) in enumerate([*((rule, bad) for rule, (bad, _good) in CASES.items()), *MORE])
]


@pytest.mark.parametrize(("rule", "number", "launch"), TYPED)
def test_typing_a_remedy_makes_the_finding_go(rule: str, number: int, launch: dict[str, Any]) -> None:
    for finding in [one for one in lint_map(launch) if one["rule"] == rule]:
        changed = applied(launch, finding)
        if changed is not None:
            assert changed != launch, finding
            again = [one for one in lint_map(changed) if (one["rule"], one["place"]) == (rule, finding["place"])]
            assert again == [], (finding, changed)


def test_many_remedies_can_be_typed() -> None:
    """So that a change of the words does not empty the test above."""
    own = ((launch, one) for rule, _, launch in TYPED for one in lint_map(launch) if one["rule"] == rule)
    assert sum(applied(launch, one) is not None for launch, one in own) >= 50
