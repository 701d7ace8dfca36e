# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One mistake, one error, in the owner's terms; and a remedy that can be typed makes the error go."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import Finding, did_you_mean
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.schema import Spec, check
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared import HOST
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared_services import SERVICE
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from hypothesis import given
from hypothesis import strategies as st

LIBRARY = load_all([SHIPPED_RECIPES])
NANO, SUPER = "nemotron-3-nano-30b-a3b-nvfp4", "nemotron-3-super-120b-a12b-nvfp4"
VL = "qwen3-vl-235b-a22b-instruct-awq"
PAIR = {"pair": {"recipe": VL, "hosts": ["spark-2", "spark-3"], "port": 8001, "trust": ["code"]}}


def on_titan(recipe: str, port: int = 8000, **workload: int) -> dict[str, Any]:
    return {"recipe": recipe, "hosts": ["titan"], "port": port, "trust": ["code"], "workload": workload}


def planned(services: Mapping[str, Any], library: Any = LIBRARY, **variables: Any) -> dict[str, Any]:
    shared = {"fleet_services": services, **variables}
    names = ("titan", "spark-2", "spark-3")
    hosts = {name: {"address": f"10.0.0.{i}", "port": 22, "variables": shared} for i, name in enumerate(names, 1)}
    return plan_fleet({"hosts": hosts, "folder": "/mine"}, *library)


def errors(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(row["rule"], row["place"]) for row in plan["findings"] if row["severity"] == "error"]


@pytest.mark.parametrize(
    ("services", "variables", "expected"),
    [
        # three recipes that are tight together; and a workload that never fits
        (
            {
                "super": on_titan(SUPER, 8001, max_model_len=32768, max_num_seqs=4)
                | {"flags": {"max-num-batched-tokens": 8448, "speculative-config": None}},
                "nano": on_titan(NANO, 8003, max_model_len=32768, max_num_seqs=8),
                "embed": on_titan("bge-base-en-v1.5", 8004, max_model_len=512, max_num_seqs=8),
            },
            {},
            [],
        ),
        (
            {"a": on_titan(NANO, max_model_len=262144, max_num_seqs=512, pool="least")},
            {},
            [("memory-does-not-fit", "titan")],
        ),
        # A7: one length too long
        (
            {"a": on_titan(NANO, max_model_len=1_000_000, max_num_seqs=1)},
            {},
            [("R112", "fleet_services.a.workload.max_model_len")],
        ),
        (
            {"a": on_titan("qwen3.6-35b-a3b-nvfp4", max_model_len=1_000_000, max_num_seqs=1)},
            {},
            [("R113", "fleet_services.a.workload.max_model_len")],
        ),
        # A2: a refused cable is no missing one
        (
            PAIR,
            {"fleet_fabric": {"cables": [["spark-2:1", "spark-3:7"]]}},
            [("fabric-unknown-port", "fleet_fabric.cables[0]")],
        ),
        (PAIR, {"fleet_fabric": {"cables": "x"}}, [("schema-type", "fleet_fabric.cables")]),
        (PAIR, {"fleet_fabric": {"cables": []}}, [("fabric-group-unconnected", "fleet_services.pair.hosts")]),
    ],
)
def test_a_mistake_is_one_error(services: Any, variables: Any, expected: list[tuple[str, str]]) -> None:
    assert errors(planned(services, **variables)) == expected


@pytest.mark.parametrize(("recipe", "value"), [(NANO, "fp9"), (NANO, "q4_0"), ("qwen3.6-35b-a3b-nvfp4", "fp-8")])
def test_a_value_that_can_not_be_is_one_finding(recipe: str, value: str) -> None:
    typed = on_titan(recipe, max_model_len=32768, max_num_seqs=8)
    plain, wrong = (
        {(row["rule"], row["severity"]) for row in planned({"a": typed | more})["findings"]}
        for more in ({}, {"flags": {"kv-cache-dtype": value}})
    )
    assert wrong - plain == {("catalogue-wrong-value", "error")}


def test_no_service_is_given_less_than_it_is_expected_to_take() -> None:
    """W1: the neighbours' worst case left one of them a utilization of 0."""
    workloads = {"super": (SUPER, 32768, 4), "nano": (NANO, 32768, 8), "embed": ("bge-base-en-v1.5", 512, 8)}
    services = {
        name: on_titan(recipe, 8001 + number, max_model_len=length, max_num_seqs=requests)
        for number, (name, (recipe, length, requests)) in enumerate(workloads.items())
    }
    plan = planned(services)
    for name in services:
        lines = plan["hosts"]["titan"]["memory"][name]
        [row] = [row for row in plan["services"][name]["explain"] if row["name"] == "gpu-memory-utilization"]
        need = sum(lines[part]["expected"] for part in ("weights", "runtime", "graphs", "kv_pool"))
        assert row["value"] * 127_601_452 * 1024 >= need
        assert "at least" in row["reason"] or "at most" in row["reason"]


def test_a_recipe_with_a_mistake_is_not_called_unknown_too(tmp_path: Path) -> None:
    """A3."""
    text = (SHIPPED_RECIPES / f"{NANO}.yml").read_text("utf-8").replace(f"name: {NANO}", "name: mynano")
    (tmp_path / "mynano.yml").write_text(text.replace("\nflags:", "\nflag:"))
    found = errors(planned({"a": on_titan("mynano")}, load_all([tmp_path, SHIPPED_RECIPES])))
    assert found
    assert {rule for rule, _place in found} == {"schema-unknown-key"}


# Remedies ---------------------------------------------------------------------------------------------------------

FINE: dict[str, Any] = {"recipe": NANO, "hosts": ["titan"], "port": 8003}
MECHANICAL = re.compile(r'write (?:(?P<text>"[^"]*")|(?P<list>\[[^]]*\])|(?P<number>\d+))')


def repaired(value: Any, finding: Finding, root: str) -> Any:
    """The value with what the finding's remedy says to write at its place; None where it says no such thing."""
    match = MECHANICAL.fullmatch(finding.remedy)
    if match is None:
        return None
    place, _, key = finding.place.removeprefix(root).partition(', key "')
    *path, last = list(re.findall(r'[\w/-]+|(?<=\[")[^"]*(?="\])', place)) + ([key.rstrip('"')] if key else [])
    changed = copy.deepcopy(value)
    inner = changed
    for step in path:
        inner = inner[step]
    if key or finding.rule == "schema-unknown-key":
        inner[match["text"].strip('"')] = inner.pop(last)
    elif match["list"]:
        inner[last] = [match["list"].strip("[]")]
    else:
        inner[last] = int(match["number"]) if match["number"] else match["text"].strip('"')
    return changed


@pytest.mark.parametrize(
    ("spec", "written", "remedy"),
    [
        (SERVICE, FINE | {"hosts": "titan"}, "write [titan]"),
        (SERVICE, FINE | {"port": 80033}, "write what is expected"),
        (SERVICE, FINE | {"listen": 7}, "write it in quotes"),
        (SERVICE, FINE | {"flags": {"MAX_num_batched_tokens": 1}}, 'write "max-num-batched-tokens"'),
        (SERVICE, FINE | {"port": "8k"}, "write 8000"),
        (SERVICE, FINE | {"workload": {"max_model_len": 0}}, "write what is expected, or take the line out"),
        (SERVICE, FINE | {"workload": {"max_modell_len": 4096}}, 'write "max_model_len"'),
        (SERVICE, FINE | {"prot": 8003}, 'write "port"'),
        (HOST, {"memory_kb": 127_601_452}, 'write "memory_kib"'),
        # names that only a host knows for certain, nearly one of those that are known
        (HOST, {"host_tuning": {"sysctl": {"vm.swapiness": "1"}}}, 'write "vm.swappiness"'),
        (HOST, {"host_tuning": {"sysctl": {"v.swappiness": "1"}}}, 'write "vm.swappiness"'),
        (HOST, {"host_tuning": {"default_target": "mutli-user.target"}}, 'write "multi-user.target"'),
        (HOST, {"container_engine": {"daemon": {"registry-mirror": []}}}, 'write "registry-mirrors"'),
        (HOST, {"container_engine": {"daemon": {"log_level": "info"}}}, 'write "log-level"'),
    ],
)
def test_what_a_remedy_writes_makes_its_finding_go(spec: Spec, written: dict[str, Any], remedy: str) -> None:
    _, [finding, *_] = check(spec, written, "x")
    assert finding.remedy == remedy
    changed = repaired(written, finding, "x.")
    if changed is not None:
        assert [other for other in check(spec, changed, "x")[1] if other.rule == finding.rule] == []


def test_a_name_that_is_unlike_each_known_one_is_the_hosts() -> None:
    names = {"net.ipv4.tcp_ecn": "1", "kernel.pid_max": "1", "vm.of_a_later_kernel": "1"}
    written = {"host_tuning": {"sysctl": names, "default_target": "mine.target"}}
    assert check(HOST, written, "x")[1] == []


@given(st.sampled_from(sorted(SERVICE["options"])), st.data())
def test_a_slip_of_a_key_is_put_right_by_its_remedy(key: str, data: st.DataObject) -> None:
    """One letter more, less or another: whatever is suggested, it is a key, and what it was is known again."""
    at = data.draw(st.integers(0, len(key) - 1))
    letter = data.draw(st.sampled_from("aeioxyz-_"))
    slip = data.draw(
        st.sampled_from([key[:at] + key[at + 1 :], key[:at] + letter + key[at:], key[:at] + letter + key[at + 1 :]])
    )
    if slip in SERVICE["options"] or not slip:
        return
    written = FINE | {slip: FINE.get(key, {})}
    findings = [one for one in check(SERVICE, written, "x")[1] if one.rule == "schema-unknown-key"]
    for finding in findings:
        changed = repaired(written, finding, "x.")
        assert changed is None or not [
            one for one in check(SERVICE, changed, "x")[1] if one.rule == "schema-unknown-key"
        ]


@pytest.mark.parametrize(
    ("word", "known", "remedy"),
    [
        ("Nemotron Nano", [NANO, SUPER], f'write "{NANO}"'),
        ("QWEN3.6-35B-A3B-NVFP4", ["qwen3.6-35b-a3b-nvfp4"], 'write "qwen3.6-35b-a3b-nvfp4"'),
        ("qwen3-235b-a22b-fp8", ["qwen3.6-35b-a3b-fp8", "qwen3-vl-235b-a22b-awq"], 'write "qwen3-vl-235b-a22b-awq"'),
        ("qwen3-235b-a22b-fp8", ["qwen3.6-35b-a3b-fp8"], "known are: qwen3.6-35b-a3b-fp8"),
        ("llama-70b", ["llama-8b", "llama-70b-fp8"], 'write "llama-70b-fp8"'),
        ("xy", ["nano", "enforce-eager"], "known are: enforce-eager, nano"),
        ("", ["port"], "known are: port"),
    ],
)
def test_a_name_is_found_by_what_was_written_of_it(word: str, known: list[str], remedy: str) -> None:
    assert did_you_mean(word, known) == remedy


@pytest.mark.parametrize(
    ("typed", "remedy", "right"),
    [
        ({"enforce-eagre": True}, 'write "enforce-eager" in flags', {"enforce-eager": True}),
        ({"enable-prefix-cashing": True}, 'write "enable-prefix-caching" in flags', {"enable-prefix-caching": True}),
        (
            {"enable-prefix-cashing": False},
            'write "enable-prefix-caching: false" in flags',
            {"enable-prefix-caching": False},
        ),
    ],
)
def test_an_option_is_suggested_as_flags_have_it(typed: dict[str, Any], remedy: str, right: dict[str, Any]) -> None:
    """With the dashes of a command line the next run refused what was suggested."""
    service = on_titan(NANO, 8003, max_model_len=32768, max_num_seqs=8)

    def remedies(flags: dict[str, Any]) -> list[str]:
        found = planned({"nano": {**service, "flags": flags}})["findings"]
        return [row["remedy"] for row in found if row["rule"] == "catalogue-unknown-option"]

    assert remedies(typed) == [remedy]
    assert remedies(right) == []
