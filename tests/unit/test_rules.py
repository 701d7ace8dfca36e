# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rule has a launch that trips it and one that comes near and doesn't."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._catalogue.releases import load
from ansible_collections.gb10.fleet.plugins.module_utils._catalogue.version import parse_range
from ansible_collections.gb10.fleet.plugins.module_utils._gb10 import fact, facts
from ansible_collections.gb10.fleet.plugins.module_utils._lint.judge import lint_map
from ansible_collections.gb10.fleet.plugins.module_utils._lint.names import Name, misleading
from ansible_collections.gb10.fleet.plugins.module_utils._rules import AREAS, RULES, launch
from ansible_collections.gb10.fleet.plugins.module_utils._rules._unchecked import NOT_CHECKABLE, NUMBERED, SAME_AS
from rule_cases import CASES

ROOT = Path(__file__).resolve().parents[2]
KINDS = {rule.identity: rule.kind for rule in RULES.values()} | {row.id: "catalogue" for row in misleading()}
SEVERITIES = ("error", "warning", "hint")


def found_by(identity: str, launch: dict[str, Any]) -> list[dict[str, Any]]:
    return [finding for finding in lint_map(launch) if finding["rule"] == identity]


def test_every_rule_is_in_the_table() -> None:
    assert set(CASES) == set(KINDS)


def test_every_statement_of_the_sources_has_a_place() -> None:
    """Checked, said by another rule, or listed with the reason why not: each in one place."""
    places = [*KINDS, *NOT_CHECKABLE, *SAME_AS]
    assert sorted(places) == sorted(NUMBERED)
    assert all(other in KINDS or other.startswith("catalogue-") for other in SAME_AS.values())


def test_the_document_is_up_to_date() -> None:
    assert subprocess.run([sys.executable, ROOT / "tools" / "rules.py", "--check"], check=False).returncode == 0


@pytest.mark.parametrize("identity", CASES)
def test_trips(identity: str) -> None:
    findings = found_by(identity, CASES[identity][0])
    assert findings
    assert all(finding["kind"] == KINDS[identity] for finding in findings)


@pytest.mark.parametrize("identity", CASES)
def test_stays_silent(identity: str) -> None:
    assert not found_by(identity, CASES[identity][1])


@pytest.mark.parametrize("identity", CASES)
def test_stays_silent_without_facts(identity: str) -> None:
    """Nothing but an unknown model: what isn't known is not guessed."""
    bare = {"argv": ["vllm", "serve", "/models/own", "--gpu-memory-utilization", "0.5"], "vllm_version": "0.24.0"}
    assert not found_by(identity, bare)


@pytest.mark.parametrize("identity", CASES)
def test_can_be_silenced(identity: str) -> None:
    launch = {**CASES[identity][0], "silence": {identity: "known"}}
    findings = found_by(identity, launch)
    assert findings
    assert {(finding["severity"], finding["silenced"]) for finding in findings} == {("hint", "known")}


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rule_is_complete(rule: Any) -> None:
    assert all((rule.summary, rule.expected, rule.remedy, rule.reason, rule.source))
    assert rule.kind in ("catalogue", "combination", "memory", "host")
    assert set(rule.severities.values()) <= set(SEVERITIES)
    assert all(covered in RULES or covered.startswith("catalogue-") for covered in rule.covers)
    assert releases_in(rule.severities) <= set(load().releases)


def releases_in(ranges: Iterable[str]) -> set[str]:
    edges = [edge for text in ranges for edge in (parse_range(text).first, parse_range(text).last)]
    return {edge.removeprefix("<") for edge in edges if edge}


@pytest.mark.parametrize("row", misleading(), ids=lambda row: row.id)
def test_a_misleading_name_is_complete(row: Name) -> None:
    assert all((row.what, row.remedy, row.reason, row.source, *row.names.values()))
    assert row.severity in SEVERITIES
    assert releases_in([row.releases.text] if row.releases else []) <= set(load().releases)


@pytest.mark.parametrize("area", [*AREAS, launch], ids=lambda area: area.__name__.rsplit(".", 1)[-1])
def test_gb10s_figures_stand_in_its_data(area: Any) -> None:
    """A threshold that data/gb10.yml has is read from there."""
    limits = [entry["value"] for entry in facts()["limits"].values()]
    known = {value for value in limits if isinstance(value, float)} - {0.9, 0.92}  # vLLM's own defaults too
    known |= {121, 127601452, fact("host_tuning", "read_ahead_kb"), fact("fabric", "mtu")}
    tree = ast.parse(inspect.getsource(area))
    assert not known & {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}


def test_areas_are_ordered_by_id() -> None:
    """A reader finds a rule by its number."""
    for area in AREAS:
        ids = [identity for identity in RULES if inspect.getmodule(RULES[identity].check) is area]
        for earlier, later in pairwise(ids):
            if earlier[0] == later[0]:
                assert int(earlier[1:]) < int(later[1:]), area.__name__
