# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes judged before anyone places them: each is planned alone on hosts of its own, and the plan's findings count.

So there is one judgement, and a recipe that passes here has no error of its own in a fleet either.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from .._base.findings import Finding, finding_of, ordered
from .._engines.recipes.recipe import Library, Recipe
from .._engines.registry import ENGINES
from .fleet import plan_fleet
from .trust import TRUST

SERVICE = "recipe"


@dataclass(frozen=True)
class Verdict:
    """The findings of one recipe. passed: no error, or known to be bad and declared so."""

    name: str
    file: str
    status: str
    passed: bool
    findings: Sequence[Finding]

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "findings": [finding.as_dict() for finding in self.findings]}


def lint_recipes(library: Library, of_recipes: Iterable[Finding]) -> list[Verdict]:
    """A verdict for every recipe of the library, by name, and one for every file that is no usable recipe.

    of_recipes: what `_engines.recipes.recipe.load_all` found in the files.
    """
    by_file: dict[str, list[Finding]] = {}
    for finding in of_recipes:
        by_file.setdefault(finding.at.thing, []).append(finding)
    verdicts = []
    for name in sorted(library.recipes):
        recipe = library.recipes[name]
        findings = ordered([*by_file.pop(str(recipe.path), []), *_planned(recipe, library)])
        status = recipe.data["status"]["state"]
        passed = status == "known-bad" or not _has_error(findings)
        verdicts.append(Verdict(name, str(recipe.path), status, passed, findings))
    for file in sorted(by_file):
        verdicts.append(Verdict(file, file, "unusable", not _has_error(by_file[file]), ordered(by_file[file])))
    return verdicts


def _planned(recipe: Recipe, library: Library) -> list[Finding]:
    """The findings of a plan with this recipe alone, at their place in the recipe's file."""
    hosts = [f"host-{number}" for number in range(1, min(recipe.data["host_counts"]) + 1)]
    # what a service has to trust it with is its owner's to decide, and who guards the port of an engine without a key
    service: dict[str, Any] = {"recipe": recipe.name, "hosts": hosts, "port": 8000, "trust": [*TRUST]}
    if not ENGINES[recipe.data["engine"]].spec.key.target:
        service["open"] = True
    variables: dict[str, Any] = {"fleet_services": {SERVICE: service}}
    if len(hosts) > 1:
        ports = {f"{host}:1": number for number, host in enumerate(hosts, start=10)}
        variables["fleet_fabric"] = {"switches": {"switch": {"ports": ports}}}
    addressed = {host: {"address": f"192.0.2.{number}", "variables": variables} for number, host in enumerate(hosts, 1)}
    return [_at_home(row, recipe) for row in plan_fleet({"hosts": addressed, "folder": "."}, library)["findings"]]


def _at_home(row: Mapping[str, object], recipe: Recipe) -> Finding:
    finding = finding_of(row)
    if finding.service != SERVICE:
        return finding
    return replace(finding, at=replace(finding.at, service="", recipe=recipe.name, thing=str(recipe.path)))


def _has_error(findings: Iterable[Finding]) -> bool:
    return any(finding.severity == "error" for finding in findings)


def report(verdicts: Sequence[Verdict]) -> str:
    """One line a recipe, its errors below it, and at the end how many passed; warnings are counted only."""
    lines = []
    for verdict in verdicts:
        warnings = sum(finding.severity == "warning" for finding in verdict.findings)
        word = "passed" if verdict.passed else "FAILED"
        lines.append(f"{word}  {verdict.name}  ({verdict.status}, warnings: {warnings})")
        lines += [f"        {finding.sentence()}" for finding in verdict.findings if finding.severity == "error"]
    passed = sum(verdict.passed for verdict in verdicts)
    return "\n".join([*lines, f"{passed} of {len(verdicts)} recipes passed"])
