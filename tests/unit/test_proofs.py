# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What refuses says why and since when, and yields to a newer report."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import error, warning
from ansible_collections.gb10.fleet.plugins.module_utils._base.proofs import proofs, proven
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.lint.against_catalogue import misleading
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.lint.judge import lint_map
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.rules import RULES
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.system import known_bad as table
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.system.known_bad import found_bad, known_bad
from unit.rule_cases import CASES

PROOF = re.compile(r"[\w/]+\.(py:\d+|txt) of \d+\.\d+\.\d+|(measured|stated), .+")
REFUSING = {
    *(identity for identity, rule in RULES.items() if "error" in rule.severities.values()),
    *(row.id for row in misleading() if row.severity == "error"),
}


def test_every_rule_that_refuses_has_a_proof_with_its_month() -> None:
    assert proofs().keys() == REFUSING
    for identity, proof in proofs().items():
        assert re.fullmatch(r"20\d\d-\d\d", proof["since"]), identity
        assert PROOF.fullmatch(proof["proof"]), identity


def test_every_known_bad_row_has_its_months_and_its_end() -> None:
    for row in known_bad():
        assert re.fullmatch(r"20\d\d-\d\d", row["since"]) and "until" in row, row["id"]
        assert "proof" in row or "error" not in (row["severity"], row.get("in_group")), row["id"]


REPORT = {"date": "2026-09-17", "report": "somebody's benchmark"}


@pytest.mark.parametrize(
    ("against", "severity"),
    [
        ([], "error"),
        ([REPORT], "warning"),
        ([{**REPORT, "date": "2026-05"}], "error"),
        ([{**REPORT, "date": "2026-06"}], "error"),
    ],
)
def test_a_newer_report_makes_a_refusal_a_warning(against: list[dict[str, str]], severity: str) -> None:
    proof = {"since": "2026-06", "proof": "measured, x", "against": against}
    found = proven(error("R1", "x", found="y", reason="z"), proof)
    assert (found.severity, found.since) == (severity, "2026-06")
    assert ("somebody's benchmark" in found.reason) == (severity == "warning")
    assert proven(warning("R1", "x", found="y"), proof).severity == "warning"


def test_a_rule_yields_wherever_it_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = CASES["R045"][0]
    (found,) = [row for row in lint_map(launch) if row["rule"] == "R045"]
    assert (found["severity"], found["since"]) == ("error", "2026-11")
    monkeypatch.setitem(proofs()["R045"], "against", [{"date": "2026-12-01", "report": "a boot"}])  # type: ignore[arg-type]
    (found,) = [row for row in lint_map(launch) if row["rule"] == "R045"]
    assert found["severity"] == "warning" and "a boot of 2026-12-01" in found["reason"]


EARLY = {"method": "dflash", "model": "z-lab/Qwen3-8B-DFlash", "num_speculative_tokens": 8}


def severity_of_r014(folder: Path, when: str | None, state: str = "reported", **service: Any) -> str:
    """DFlash on vLLM 0.20.1, which R014 refuses, in a recipe that its owner says to run."""
    recipe = {
        **{
            "name": "mine",
            "summary": "mine",
            "sources": ["me"],
            "model": {"repository": "Qwen/Qwen3-8B", "draft": {"repository": EARLY["model"]}},
        },
        "image": {"reference": "vllm/vllm-openai:v0.20.1", "family": "upstream", "release": "0.20.1"},
        "flags": {"speculative-config": EARLY},
        "status": {"state": state, "by": "me", "when": when, "hardware": "DGX Spark"},
    }
    (folder / "mine.yml").write_text(yaml.safe_dump(recipe))
    services = {"x": {"recipe": "mine", "hosts": ["titan"], "port": 8000, **service}}
    host = {"address": "192.0.2.1", "port": 22, "variables": {"fleet_services": services}}
    found = plan_fleet({"hosts": {"titan": host}, "folder": "."}, load_all([folder])[0])["findings"]
    return "".join({row["severity"] for row in found if row["rule"] == "R014"})


@pytest.mark.parametrize(
    ("when", "more", "severity"),
    [
        ("2026-08-02", {}, "warning"),
        ("2026-08-02", {"workload": {"tools": False}}, "warning"),
        ("2026-08-02", {"workload": {"max_num_seqs": 4}}, "error"),
        ("2026-08-02", {"state": "known-bad"}, "error"),
        ("2026-08-02", {"flags": {"max-num-seqs": 4}}, "error"),
        ("2026-08-02", {"env": {"VLLM_LOGGING_LEVEL": "INFO"}}, "error"),
        ("2026-05", {}, "error"),
        (None, {}, "error"),
    ],
)
def test_a_recipe_that_somebody_saw_run_is_such_a_report(
    tmp_path: Path, when: str | None, more: dict[str, Any], severity: str
) -> None:
    assert severity_of_r014(tmp_path, when, **more) == severity


@pytest.mark.parametrize(
    ("driver", "found"),
    [
        ("580.173.02", True),
        ("580.178.04", True),
        ("595.84", True),
        ("595.91.07", True),
        ("580.159.03", True),
        ("580.82.09", False),
    ],
)
def test_no_later_driver_is_taken_for_free_of_the_freeze(driver: str, found: bool) -> None:
    rows = {row["id"]: row for row, _ in found_bad({"driver": driver}, "")}
    assert ("driver-out-of-memory" in rows) is found
    if found:
        assert "room" in rows["driver-out-of-memory"]["remedy"]
        assert "shown to be free" in table.described(rows["driver-out-of-memory"])
