# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rule has a launch that trips it and one that comes near and doesn't."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES, fact, facts
from ansible_collections.gb10.fleet.plugins.module_utils._base.yaml_text import read_yaml
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.releases import load
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.version import parse_range
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.lint.against_catalogue import Name, misleading
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.lint.judge import lint_map
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.lint.request import read_request
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.rules import RULES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.rules._base import LASTS, words
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.rules.condition import Condition, meets
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.rules.launch import Launch
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.preflight import needs
from rule_cases import CASES, MORE, NANO, PAIR, latent, serve
from rule_facts import asked_in, facts_of, reads, reduced
from rule_needs import FACTS, checked_by
from rule_sources import NOT_CHECKABLE, SAME_AS

ROOT = Path(__file__).resolve().parents[2]
KINDS = {rule.identity: rule.kind for rule in RULES.values()} | {row.id: "catalogue" for row in misleading()}
SEVERITIES = ("error", "warning", "hint")


def found_by(identity: str, launch: dict[str, Any]) -> list[dict[str, Any]]:
    return [finding for finding in lint_map(launch) if finding["rule"] == identity]


def test_every_rule_is_in_the_table() -> None:
    assert set(CASES) == set(KINDS)


def test_every_row_is_a_rule_and_has_its_words() -> None:
    others = {row["id"] for row in read_yaml((ROOT / "data" / "vllm_needs.yml").read_text("utf-8"))}
    assert words().keys() == RULES.keys() - others
    texts = {"expected", "remedy", "reason", "source"}
    for identity, row in words().items():
        own = (
            {"what", "when", "at", "each", "warning", "found", "facts", "cases"}
            if {"when", "cases"} & {*row}
            else set()
        )
        assert (
            texts | {"severity", "area"}
            <= row.keys()
            <= texts | {"severity", "area", "kind", "lasts", "needs", "covers"} | own
        ), identity
        shown = [getattr(RULES[identity], text) for text in texts]
        assert not any(re.search(r"\{[a-z_.]+(:[^{}]*)?\}", text) for text in shown), identity


def test_every_statement_of_the_sources_has_a_place() -> None:
    """Checked, said by another rule, or listed with the reason why not: each in one place."""
    places = [*KINDS, *NOT_CHECKABLE, *SAME_AS]
    twice = {place for place in places if places.count(place) > 1}
    assert not twice, f"{sorted(twice)} are taken, also by {NOT_CHECKABLE.keys() & twice or SAME_AS.keys() & twice}"
    for letter in {place[0] for place in places}:
        numbers = sorted(int(place[1:]) for place in places if place[0] == letter)
        assert numbers == [*range(1, numbers[-1] + 1)], letter
    assert all(other in KINDS or other.startswith("catalogue-") for other in SAME_AS.values())


def test_the_document_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / "rules.py", "--check"], check=False)
    assert done.returncode == 0, "run: python tools/rules.py"
    rows = re.findall(r"^\| ([A-Z]\d+) \|", (ROOT / "docs" / "reference" / "rules.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(KINDS)


@pytest.mark.parametrize("identity", CASES)
def test_trips(identity: str) -> None:
    findings = found_by(identity, CASES[identity][0])
    assert findings
    assert all(finding["kind"] == KINDS[identity] for finding in findings)


@pytest.mark.parametrize(("identity", "launch"), MORE)
def test_the_other_half_trips(identity: str, launch: dict[str, Any]) -> None:
    assert found_by(identity, launch)


@pytest.mark.parametrize("identity", RULES)
def test_a_rule_names_the_facts_that_it_needs(identity: str) -> None:
    """With these alone it trips, and without any of them it stays silent."""
    rule, launch = RULES[identity], CASES[identity][0]
    names = {need.partition("=")[0] for need in rule.needs}
    assert {name if name in reads(rule.check) else name.split(".")[0] for name in names} <= reads(rule.check)
    assert found_by(identity, reduced(launch, names | {name.split(".")[0] for name in names}))
    for need in rule.needs:
        name, _, value = need.partition("=")
        always = {name} if value else set()
        assert not found_by(identity, reduced(launch, facts_of(launch) - {name}, always)), need


PRODUCT: dict[str, set[str]] = {
    "plan": {name for name, fact in FACTS.items() if fact.by == "plan"},
    "preflight": {name for name, fact in FACTS.items() if fact.by in ("plan", "preflight")},
}


@pytest.mark.parametrize("identity", RULES)
def test_who_checks_a_rule(identity: str) -> None:
    """Its launches, reduced to what the plan and the preflight know."""
    launches = [CASES[identity][0], *(launch for other, launch in MORE if other == identity)]
    always = {name for name, fact in FACTS.items() if fact.always}
    tripped = (
        path
        for path, known in PRODUCT.items()
        for launch in launches
        if found_by(identity, reduced(launch, known, always))
    )
    assert checked_by(RULES[identity].needs) == next(tripped, "vllm_lint")


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
    assert all(covered in RULES or covered.startswith(("catalogue-", "kv-")) for covered in rule.covers)
    assert releases_in(rule.severities) <= set(load().releases)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_knows_when_it_ends(rule: Any) -> None:
    """It has a last release, or says why not; a measurement of one release alone refuses nothing in later ones."""
    endless = [severity for text, severity in rule.severities.items() if text.endswith("..")]
    assert (rule.lasts in LASTS) if endless else not rule.lasts
    assert not (rule.lasts == "measured" and "error" in endless)


def releases_in(ranges: Iterable[str]) -> set[str]:
    return {edge for text in ranges for edge in re.findall(r"\d+(?:\.\d+)+", parse_range(text).text)}


@pytest.mark.parametrize("row", misleading(), ids=lambda row: row.id)
def test_a_misleading_name_is_complete(row: Name) -> None:
    assert all((row.what, row.remedy, row.reason, row.source, *row.names.values()))
    assert row.severity in SEVERITIES
    assert releases_in([row.releases.text] if row.releases else []) <= set(load().releases)


FILES = sorted((ROOT / "plugins" / "module_utils" / "_engines" / "vllm" / "rules").glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_gb10s_figures_are_in_its_data(file: Path) -> None:
    """A threshold that data/gb10.yml has is read from there."""
    tree = ast.parse(file.read_text("utf-8"))
    assert not GB10S & {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}


# What data/gb10.yml has, without vLLM's own defaults.
GB10S = {entry["value"] for entry in facts()["limits"].values() if isinstance(entry["value"], float)} - {0.9, 0.92}
GB10S |= {121, 127601452, fact("host_tuning", "read_ahead_kb"), fact("fabric", "mtu")}
TESTED: set[str | None] = {"not", "is", "like", "has", "above", "below", None}
CONDITIONS = {identity: rule.check for identity, rule in RULES.items() if isinstance(rule.check, Condition)}


def compared_by(test: object) -> Iterator[tuple[str | None, Any]]:
    """The comparisons of a test, innermost too: the word, and what is compared with."""
    if not isinstance(test, dict):
        yield None, test
        return
    for word, wanted in test.items():
        yield word, wanted
        yield from compared_by(wanted) if word in ("not", "is") else ()


@pytest.mark.parametrize("identity", CONDITIONS)
def test_a_condition_is_one_that_the_code_knows(identity: str) -> None:
    """Its words, its names and its figures; a name that no launch has would never hold."""
    condition = CONDITIONS[identity]
    fields = {**{name: {} for name in vars(Launch)}, **Launch.__annotations__}
    for name, test in asked_in(condition):
        assert (
            name.startswith(("--", "env "))
            or name in ("each", "before", "since", "within")
            or name.partition(".")[0] in fields
        ), name
        for word, wanted in compared_by(test):
            assert word in TESTED and not (
                isinstance(wanted, int | float) and wanted is not True and wanted in GB10S
            ), (name, word)
            assert word not in ("above", "below") or not isinstance(wanted, str) or fact(*wanted.split("."))


@pytest.mark.parametrize(
    ("test", "holds"),
    [
        (True, [True]),
        (False, [False]),
        (None, [None]),
        ({"not": True}, [False, None]),
        ({"is": True, "not": {"like": "o.*"}}, [True]),
    ],
)
def test_a_switch_has_three_states(test: object, holds: list[bool | None]) -> None:
    """On, off, and not given are three things."""
    words = {True: "--enforce-eager", False: "--no-enforce-eager", None: ""}
    requests = {state: read_request(serve(f"{NANO} {word}"), load())[0] for state, word in words.items()}
    assert [
        state for state, asked in requests.items() if asked and meets(asked.launch, "--enforce-eager", test)
    ] == holds


def planned(*services: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Services on a cabled pair, planned: what the linter was asked of them, and what it found."""
    names = ("spark-2", "spark-3")
    variables = {
        "fleet_services": {f"s{number}": {"port": 8000 + number, **row} for number, row in enumerate(services)},
        "fleet_fabric": {"pool": "192.168.100.0/22", "cables": [[f"{name}:1" for name in names]]},
    }
    hosts = {name: {"address": name, "variables": variables} for name in names}
    plan = plan_fleet({"hosts": hosts, "folder": "/inventory"}, *SHIPPED)
    launches = [launch for host in plan["hosts"].values() for launch in host["needs"]["launches"]]
    return [launch["request"] for launch in launches], plan["findings"]


SHIPPED = load_all([SHIPPED_RECIPES])
SPECULATION = {"method": "mtp", "num_speculative_tokens": 1}
QWEN36_SOLO = {"recipe": "qwen3.6-35b-a3b-nvfp4", "hosts": ["spark-2"]}
NO_TOOLS = {"tool-call-parser": None, "enable-auto-tool-choice": None}
PURPOSES: list[tuple[str, dict[str, Any]]] = [
    (
        "R041",
        {
            **QWEN36_SOLO,
            "workload": {"tools": True},
            "flags": {"tool-call-parser": None, "enable-auto-tool-choice": None},
        },
    ),
    ("R074", {**QWEN36_SOLO, "workload": {"profile": "concurrent"}, "flags": {"speculative-config": SPECULATION}}),
    ("R075", {**QWEN36_SOLO, "workload": {"profile": "single-user"}, "flags": {"speculative-config": SPECULATION}}),
    ("R096", {**QWEN36_SOLO, "workload": {"profile": "minimal-memory"}}),
    ("R097", {**QWEN36_SOLO, "workload": {"profile": "interactive"}, "flags": {"enforce-eager": True}}),
    ("R105", {**QWEN36_SOLO, "workload": {"profile": "interactive", "max_num_seqs": 16}}),
    ("R116", {"recipe": "gemma-4-31b-it-nvfp4", "hosts": ["spark-2"], "workload": {"reasoning": True}}),
    ("R121", {**QWEN36_SOLO, "workload": {"media_files": True}}),
    ("R122", {**QWEN36_SOLO, "workload": {"video": False}}),
    ("R123", {**QWEN36_SOLO, "workload": {"video": True}}),
]


@pytest.mark.parametrize(("identity", "service"), PURPOSES, ids=[row[0] for row in PURPOSES])
def test_what_a_service_is_for_reaches_its_rule(identity: str, service: dict[str, Any]) -> None:
    """The owner's workload is what makes it speak."""
    sizes = {key: value for key, value in service["workload"].items() if key == "max_num_seqs"}
    for wanted in (True, False):
        _, findings = planned(service if wanted else {**service, "workload": sizes})
        assert (identity in [finding["rule"] for finding in findings]) == wanted


@pytest.mark.parametrize(
    "recipe", [name for name, one in SHIPPED[0].recipes.items() if min(one.data["host_counts"] or [1]) > 1]
)
def test_a_recipe_for_more_hosts_is_not_made_to_fit_on_one(recipe: str) -> None:
    """Where it does not fit, the remedy is the number of hosts on which others run it."""
    findings = planned({"recipe": recipe, "hosts": ["spark-2"]})[1]
    wants = min(SHIPPED[0].recipes[recipe].data["host_counts"])
    large = [one["remedy"] for one in findings if one["rule"] in ("memory-does-not-fit", "memory-utilization-too-low")]
    assert all(f"name {wants} hosts in s0, on which its recipe runs" in remedy for remedy in large)


@pytest.mark.parametrize(("flags", "is_found"), [({}, False), ({"enable-prefix-caching": True}, True)])
def test_what_the_author_of_a_recipe_wrote_in_vain_is_nothing_to_drop(flags: dict[str, Any], is_found: bool) -> None:
    service = {"recipe": "gpt-oss-120b", "hosts": ["titan"], "port": 8000, "flags": flags}
    hosts = {"titan": {"address": "10.0.0.1", "variables": {"fleet_services": {"chat": service}}}}
    found = plan_fleet({"hosts": hosts, "folder": "/inventory"}, *SHIPPED)["findings"]
    assert any(one["rule"] == "R085" for one in found) is is_found


def test_plan_and_preflight_have_the_facts_that_are_claimed_of_them() -> None:
    everything = {"profile": "interactive", "tools": True, "reasoning": True, "video": True, "media_files": True}
    pair = {"recipe": "qwen3.5-122b-a10b-fp8", "hosts": ["spark-2", "spark-3"], "workload": everything}
    requests, _ = planned(
        {**QWEN36_SOLO, "workload": {"max_model_len": 8192, "pool": "rest"}, "model": {"weights_bytes": 22 * 10**9}},
        pair,
    )
    found = {
        f"{part}.{key}" for each in requests for part in ("model", "host", "group", "service") for key in each[part]
    }
    assert found & FACTS.keys() | {"mounts", "container"} == PRODUCT["plan"]
    for each in requests:
        targets = [mount["target"] for mount in each["mounts"]]
        assert {"/root/.cache/vllm", each["env"]["HF_HOME"]} <= set(targets)
        assert not {"memory", "restart", "user"} & each["container"].keys()
        assert each["model"]["cached"] is True and each["service"]["restarts"] is True and each["service"]["recipe"]
    state = {
        "driver": "580",
        "paths": {layout.MODELS: {"filesystem": "ext4"}},
        "memory_bytes": {"total": 2, "available": 1},
        "containers": [],
    }
    read = {f"host.{key}" for key in needs._facts(state, runs=False)}
    assert read == PRODUCT["preflight"] - PRODUCT["plan"]


def test_weights_are_packed_by_their_bits_and_not_by_a_name() -> None:
    assert not found_by("X21", latent({"num_bits": 8, "type": "float"}, "some/Model-INT4-FP8"))
    assert not found_by(
        "X21", latent({"num_bits": 4, "type": "float"}, "some/Model-4bit", format="nvfp4-pack-quantized")
    )


def test_ranks_share_the_weights() -> None:
    """R088: what one host could not hold, each of two holds half of."""
    words, weights = f"{NANO} --gpu-memory-utilization 0.15", {"weights_bytes": 18 * 10**9}
    assert found_by("R088", serve(words, model=weights))
    assert not found_by("R088", serve(f"{words} -tp 2", model=weights, group=PAIR))
    assert not found_by("R088", serve(f"{words} -pp 2", model=weights, group=PAIR))
