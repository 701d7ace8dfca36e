# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which services a run is about, and a limit that would tear one apart."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._plan.choice import (
    choose,
    chosen_hosts,
    judge_run,
    split_by_limit,
)

PLAN: dict[str, Any] = {
    "services": {
        "nano": {"hosts": ["titan"]},
        "pair": {"hosts": ["spark-2", "spark-3"]},
        "solo": {"hosts": ["spark-2"]},
    }
}
SOLO: dict[str, Any] = {"services": {"nano": {"hosts": ["titan"]}}}


@pytest.mark.parametrize(
    ("scope", "service", "services"),
    [
        ("fleet", "", ["nano", "pair", "solo"]),
        ("fleet", "nano", ["nano", "pair", "solo"]),
        ("any", "", ["nano", "pair", "solo"]),
        ("any", "solo", ["solo"]),
        ("groups", "", ["pair"]),
        ("groups", "nano", ["nano"]),
        ("one", "pair", ["pair"]),
    ],
)
def test_what_is_chosen(scope: Any, service: str, services: list[str]) -> None:
    assert choose(PLAN, scope, service) == (services, [])


@pytest.mark.parametrize(
    ("plan", "scope", "service", "words"),
    [
        (PLAN, "one", "", "known are: nano, pair, solo"),
        (PLAN, "one", "piar", 'write "pair"'),
        (PLAN, "any", "piar", 'write "pair"'),
        (SOLO, "groups", "", "name two hosts in a service"),
    ],
)
def test_what_can_not_be_chosen_is_reported_with_its_remedy(plan: Any, scope: Any, service: str, words: str) -> None:
    services, (problem,) = choose(plan, scope, service)
    assert services == []
    assert words in problem.sentence()


@pytest.mark.parametrize(
    ("services", "hosts", "named", "remedies"),
    [
        (["nano", "pair", "solo"], ["spark-2", "spark-3"], "", []),
        (["nano", "pair", "solo"], ["titan"], "", []),
        (["pair"], ["spark-2"], "", ["add them: -l spark-2,spark-3"]),
        (["pair", "solo"], ["spark-3", "titan"], "", ["add them: -l spark-2,spark-3,titan"]),
        (["pair"], ["titan"], "", []),
        (["pair"], ["titan"], "pair", ["add them: -l spark-2,spark-3,titan"]),
    ],
)
def test_a_limit_takes_all_hosts_of_a_service_or_none(
    services: list[str], hosts: list[str], named: str, remedies: list[str]
) -> None:
    assert [problem.remedy for problem in split_by_limit(PLAN, services, hosts, named)] == remedies


def test_a_run_ends_by_the_plans_errors_before_its_own() -> None:
    """A service with an error is not in the plan: it would be called unknown as well."""
    wrong = {"severity": "error", "rule": "schema-type"}
    hint = {"severity": "warning", "rule": "R1"}
    unknown = choose(PLAN, "any", "nobody")[1]
    found = judge_run([wrong, hint], unknown, [], partial=False)
    assert (found.errors, found.of_plan, found.warnings) == ([wrong], 1, [hint])
    found = judge_run([hint], unknown, [], partial=True)
    assert ([row["rule"] for row in found.errors], found.of_plan) == (["service-unknown"], 0)


def test_a_torn_group_ends_a_whole_run_and_is_shown_by_a_partial_one() -> None:
    split = [*split_by_limit(PLAN, ["pair"], ["spark-2"])]
    assert [row["rule"] for row in judge_run([], [], split, partial=False).errors] == ["service-split"]
    found = judge_run([], [], split, partial=True)
    assert found.errors == [] and [row["severity"] for row in found.shown] == ["warning"]


@pytest.mark.parametrize(
    ("scope", "services", "named", "hosts"),
    [
        ("fleet", [], "", ["spark-2", "titan"]),
        ("any", ["nano"], "", ["spark-2", "titan"]),
        ("any", ["nano"], "nano", ["titan"]),
        ("groups", ["pair"], "", ["spark-2"]),
    ],
)
def test_the_hosts_of_a_run_are_those_of_its_services_and_the_gateway(
    scope: Any, services: list[str], named: str, hosts: list[str]
) -> None:
    plan = {**PLAN, "gateway": {"hosts": ["spark-2"]}}
    assert chosen_hosts(plan, services, ["spark-2", "titan"], scope, named) == hosts
