# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan as a person reads it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import ROOT, SHIPPED_RECIPES
from ansible_collections.gb10.fleet.plugins.module_utils._base.report import table
from ansible_collections.gb10.fleet.plugins.module_utils._base.yaml_text import read_yaml
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.text import as_text
from planned import ranks_of

OF_TESTS = Path(__file__).parents[1] / "data" / "recipes"
LIBRARY, OF_RECIPES = load_all([OF_TESTS, SHIPPED_RECIPES])


def asks_nobody(recipe: str) -> bool:
    """Whether its engine takes requests without a key."""
    return not ENGINES[LIBRARY.recipes[recipe].data["engine"]].spec.key.target


def planned(recipes: dict[str, str], **service: Any) -> dict[str, Any]:
    """Each host with one service of a recipe."""
    services = {
        host: {"recipe": recipe, "hosts": [host], "port": 8000, "trust": ["code"]}
        | {"open": asks_nobody(recipe)}
        | service
        for host, recipe in recipes.items()
    }
    variables = {"fleet_services": services}
    hosts = {host: {"address": f"{host}.lan", "port": None, "variables": variables} for host in recipes}
    return plan_fleet({"hosts": hosts, "folder": "/none"}, LIBRARY, OF_RECIPES)


def test_a_page_is_short_unless_its_reasons_are_wanted() -> None:
    plan = planned({"a": "qwen3.6-35b-a3b-nvfp4", "b": "qwen3.6-35b-a3b-nvfp4"})
    short, of_one, whole = (as_text(plan, ["a", "b"], explain=explain) for explain in ("", "a", None))
    assert "service a: " not in short and "-e explain=NAME" in short and len(short.splitlines()) < 60
    assert "host a" in of_one and "host b" not in of_one and "-e explain=NAME" not in of_one
    assert "service a: " in whole or "service " in whole


def section(text: str, heading: str) -> list[str]:
    lines = text.splitlines()
    start = lines.index(heading) + 1
    return lines[start : next((end for end in range(start, len(lines)) if not lines[end]), len(lines))]


SINGLE = sorted(name for name, recipe in LIBRARY.recipes.items() if 1 in recipe.data["host_counts"])


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("recipe", SINGLE)
def test_nothing_is_wider_than_asked_for(recipe: str, width: int) -> None:
    """But a command's words, and places and links, which can't be broken."""
    text = as_text(planned({"titan": recipe}), ["titan"], width)
    command = section(text, "command on titan (solo)")
    wide = [line for line in text.splitlines() if len(line) > width and line not in command]
    assert [line for line in wide if len(line.split()) > 2 and not line.startswith(("endpoint", "image"))] == []


def test_the_command_can_be_pasted() -> None:
    plan = planned({"titan": "qwen3.6-35b-a3b-nvfp4"})
    pasted = " ".join(line.removesuffix("\\") for line in section(as_text(plan, ["titan"]), "command on titan (solo)"))
    assert shlex.split(pasted) == ranks_of(plan, "titan")[0]["command"]


def test_every_value_names_who_wants_it_and_why() -> None:
    for recipe in SINGLE:
        plan = planned({"titan": recipe}, workload={"max_model_len": 4096}, env={"OMP_NUM_THREADS": "2"})
        assert [
            row["name"] for row in plan["services"]["titan"]["explain"] if not (row["origin"] and row["reason"])
        ] == []


def test_the_budget_is_reported_line_by_line() -> None:
    lines = section(as_text(planned({"titan": "nemotron-3-nano-30b-a3b-nvfp4"}), ["titan"]), "memory on titan (solo)")
    names = ["line", "weights", "runtime", "graphs", "KV pool", "processes", "slack", "reserve", "co-tenants", "left"]
    assert [line.split("  ")[0] for line in lines] == names


def test_what_is_found_at_several_places_is_reported_once() -> None:
    one = as_text(planned({"a": "qwen3.6-35b-a3b-nvfp4"}), ["a"])
    two = planned({"a": "qwen3.6-35b-a3b-nvfp4", "b": "qwen3.6-35b-a3b-nvfp4"})
    text = as_text(two, ["a", "b"])
    assert text.count("rule:     R") == one.count("rule:     R")
    assert text.count("hint     fleet_services.a") == one.count("hint     fleet_services.a")
    assert "\n         fleet_services.b" in text


def test_a_pool_that_only_a_boot_will_show_is_reported_with_its_bounds() -> None:
    text = as_text(planned({"a": "qwen3.6-35b-a3b-nvfp4"}, flags={"gpu-memory-utilization": 0.6}), ["a"])
    assert "KV pool    about " in text
    assert "exact after the first boot" in text
    assert "predicted" in text or "guide" in text


def test_a_table_is_wrapped_where_it_is_too_wide() -> None:
    rows = [{"name": "x" * 50, "value": "1", "reason": "many words " * 12}]
    lines = table(rows, 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert sum(line.count("x") for line in lines) == 50
    assert table(rows).splitlines()[1].startswith("x" * 50 + "  1")


def test_a_plan_that_was_refused_counts_its_errors_and_reports_nothing_of_cables() -> None:
    titan = {"address": "titan.lan", "variables": {"fleet_services": {}, "fleet_fabric": {"cable": []}}}
    text = as_text(plan_fleet({"hosts": {"titan": titan}, "folder": "/none"}, LIBRARY, OF_RECIPES), ["titan"])
    assert "findings: 1 error, 0 warnings, 0 hints" in text
    assert "nothing planned" not in text


def table_of(text: str) -> list[str]:
    return text.strip().split("\n\n")[0].splitlines()


def test_the_page_begins_with_a_table_of_the_services() -> None:
    """Does it fit, what is free, what is fetched, how long, what to do; then findings, worst first."""
    plan = planned({"a": "qwen3.6-35b-a3b-nvfp4", "b": "bge-base-en-v1.5"})
    text = as_text(plan, ["a", "b"])
    head, first, second = table_of(text)
    assert re.split(r"  +", head) == [
        "service",
        "on",
        "fits?",
        "at once",
        "free",
        "download",
        "first start",
        "what to do",
    ]
    assert re.fullmatch(r"a +a +yes +8\.0 x 262,144 +\d+\.\d GiB +2\d\.\d GiB +\d to \d\d min +nothing", first)
    assert re.fullmatch(r"b +b +yes +- +\d+\.\d GiB +\d+\.\d MiB +up to 30 min +nothing", second)
    assert text.index("findings: ") < text.index("service a: ")
    assert [row["service"] for row in plan["summary"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("service", "row"),
    [
        (
            {"workload": {"max_model_len": 8192, "pool": "500GiB"}},
            r"a +a +no .* GiB short .*1 error.* below; first: .*",
        ),
        (
            {"image": {"reference": "own/image:1"}},
            r"a +a +not planned +- +- +- +- +1 error below; first: write image\..*",
        ),
        ({"flags": {"max-num-seqs": 500}}, r"a +a +tight .*2 warnings below; first: write workload\.pool: rest.*"),
    ],
)
def test_the_table_names_what_is_to_do(service: dict[str, Any], row: str) -> None:
    plan = planned({"a": "qwen3.6-35b-a3b-nvfp4"}, **service)
    assert re.match(row, " ".join(table_of(as_text(plan, ["a"], 400))[1:]))


def test_findings_come_before_the_details_and_a_refusal_last() -> None:
    text = as_text(planned({"a": "nemotron-3-super-120b-a12b-nvfp4"}), ["a"])
    assert text.index("\nwarning ") < text.index("\nhint ") < text.index("\nservice a: ")
    assert re.search(r"findings: 0 errors, .*, above\n$", text)
    workload = {"max_model_len": 8192, "pool": "500GiB"}
    refused = as_text(planned({"a": "nemotron-3-super-120b-a12b-nvfp4"}, workload=workload), ["a"])
    assert refused.index("\nservice a: ") < refused.index("\nwarning ") < refused.index("\nerror ")


def test_a_recipe_shows_who_ran_it_what_to_know_and_what_was_measured() -> None:
    text = " ".join(as_text(planned({"a": "qwen3.6-35b-a3b-nvfp4"}), ["a"]).split())
    assert "recipe qwen3.6-35b-a3b-nvfp4, reported by " in text
    assert "nobody of this project has run it" in text
    assert "were read on vLLM 0.23 without flashinfer" in text
    assert "older decode 102 tok/s (1 request, answer only, MTP 3, vLLM 0.23 nightly; 3 drafts, no acceptance" in text
    other = planned({"a": "qwen3.6-35b-a3b-nvfp4"}, image={"reference": "vllm/vllm-openai:v0.33.0"})
    assert "with another image, vllm/vllm-openai:v0.28.0" in as_text(other, ["a"])


def test_sources_that_are_named_can_be_opened() -> None:
    text = as_text(planned({"a": "qwen3.6-35b-a3b-nvfp4"}), ["a"])
    assert "\nSpark guide: https://" in text
    names = read_yaml((ROOT / "data" / "sources.yml").read_text("utf-8"))
    page = (ROOT / "docs" / "reference" / "sources.md").read_text("utf-8")
    listed = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|", page, re.MULTILINE)
    where = {name: url for name, url in listed if name in names}
    assert where == {name: url or "not published" for name, url in names.items()}


def test_a_model_without_a_kv_cache_is_shown_as_such() -> None:
    """Header, table and a finding said three things."""
    plan = planned({"a": "bge-base-en-v1.5"}, flags={"gpu-memory-utilization": 0.02})
    text = as_text(plan, ["a"])
    assert "KV pool    none: this model keeps nothing of a token" in text
    assert "not known before the first boot" not in text
    assert "memory-utilization-too-low" not in text


@pytest.mark.parametrize(
    ("recipe", "shown"),
    [
        ("gemma-4-12b-coder-mtp-nvfp4", "are one projection, as in its siblings; verify compares the pool"),
        ("qwen3.8-27b-nvfp4-dflash2", "as in Qwen3.6-27B; of the drafter, no layer_types: all layers full"),
        ("qwen3.6-27b-nvfp4", None),  # its published file
    ],
)
def test_what_had_to_be_assumed_of_a_model_is_shown_with_what_settles_it(recipe: str, shown: str | None) -> None:
    plan = planned({"a": recipe})
    text = " ".join(as_text(plan, ["a"]).split())
    assert ("assumed of its config.json" in text) == (shown is not None)
    assert (shown or "") in text


@pytest.mark.parametrize(
    ("service", "shown"),
    [
        ({}, "from 4,288 tokens on"),  # blocks of 2,144, and MTP computes the last one found again
        ({"flags": {"speculative-config": None}}, "from 2,096 tokens on"),
        ({"flags": {"enable-prefix-caching": False}}, None),
        (
            {"image": {"reference": "vllm/vllm-openai:v0.33.0"}, "flags": {"prefix-match-unit": 64}},
            "from 128 tokens on",
        ),
    ],
)
def test_the_smallest_shared_prefix_is_shown(service: dict[str, Any], shown: str | None) -> None:
    """Of 163 tokens none is ever found again, whatever the mode."""
    text = as_text(planned({"a": "qwen3.6-35b-a3b-nvfp4"}, **service), ["a"])
    assert ("prefix     " in text) == (shown is not None)
    assert (shown or "") in text


def test_prefix_caching_that_can_never_hit_is_a_warning() -> None:
    plan = planned({"a": "nemotron-3-super-120b-a12b-nvfp4"}, workload={"max_model_len": 4096})
    assert "kv-prefix-never" in {row["rule"] for row in plan["findings"]}


def test_what_a_recipe_silences_is_a_line_and_no_hint() -> None:
    """It was shown with a remedy that its recipe has reasons against."""
    plan = planned({"titan": SINGLE[0]})
    finding = {"severity": "hint", "rule": "R108", "place": "argv --x", "hosts": [], "found": "on", "remedy": "drop it"}
    text = as_text(plan | {"findings": [finding | {"silenced": "it was measured"}]}, ["titan"])
    assert "findings: 0 errors, 0 warnings, 0 hints, 1 silenced" in text
    assert "silenced R108, argv --x: it was measured" in text
    assert "drop it" not in text
