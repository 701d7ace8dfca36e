# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes judged before anyone places them: each is planned alone on hosts of its own, and the plan's findings count.

So there is one judgement, and a recipe that passes here has no error of its own in a fleet either.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from .._base.findings import Finding, finding_of, ordered
from .._base.plan import Plan
from .._base.sizes import size
from .._engines.recipes.recipe import Library, Recipe
from .._engines.registry import ENGINES
from .fleet import plan_fleet
from .trust import TRUST

SERVICE = "recipe"
_BAD = "known-bad"


@dataclass(frozen=True)
class Verdict:
    """The findings of one recipe. passed: no error."""

    name: str
    file: str
    status: str
    passed: bool
    findings: Sequence[Finding]

    @property
    def failed(self) -> bool:
        """Whether it has an error that its status does not say."""
        return not self.passed and self.status != _BAD

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
        plan = planned_alone(recipe, library, [{}] * min(recipe.data["host_counts"]))
        found = [_at_home(row, recipe) for row in plan["findings"]]
        findings = ordered([*by_file.pop(str(recipe.path), []), *found])
        status = recipe.data["status"]["state"]
        passed = status != _BAD and not _has_error(findings)
        verdicts.append(Verdict(name, str(recipe.path), status, passed, findings))
    for file in sorted(by_file):
        verdicts.append(Verdict(file, file, "unusable", not _has_error(by_file[file]), ordered(by_file[file])))
    return verdicts


def planned_alone(
    recipe: Recipe, library: Library, settings: Sequence[Mapping[str, object]], context: int | None = None
) -> Plan:
    """A plan with this recipe alone. settings: ``fleet_host`` of each of its hosts. context: the owner's, in tokens."""
    hosts = [f"host-{number}" for number in range(1, len(settings) + 1)]
    # what a service has to trust it with is its owner's to decide, and who guards the port of an engine without a key
    service: dict[str, Any] = {"recipe": recipe.name, "hosts": hosts, "port": 8000, "trust": [*TRUST]}
    if context:
        service["workload"] = {"max_model_len": context}
    if not ENGINES[recipe.data["engine"]].spec.key.target:
        service["open"] = True
    variables: dict[str, Any] = {"fleet_services": {SERVICE: service}}
    if len(hosts) > 1:
        ports = {f"{host}:1": number for number, host in enumerate(hosts, start=10)}
        variables["fleet_fabric"] = {"switches": {"switch": {"ports": ports}}}
    addressed = {
        host: {"address": f"192.0.2.{number}", "variables": {**variables, **({"fleet_host": own} if own else {})}}
        for number, (host, own) in enumerate(zip(hosts, settings, strict=True), 1)
    }
    return plan_fleet({"hosts": addressed, "folder": "."}, library)


def _at_home(row: Mapping[str, object], recipe: Recipe) -> Finding:
    finding = finding_of(row)
    if finding.service != SERVICE:
        return finding
    return replace(finding, at=replace(finding.at, service="", recipe=recipe.name, thing=str(recipe.path)))


def _has_error(findings: Iterable[Finding]) -> bool:
    return any(finding.severity == "error" for finding in findings)


def report(verdicts: Sequence[Verdict]) -> str:
    """The errors of those that failed, and how many passed."""
    lines = []
    for verdict in (one for one in verdicts if one.failed):
        lines.append(f"FAILED  {verdict.name}")
        lines += [f"        {finding.sentence()}" for finding in verdict.findings if finding.severity == "error"]
    bad = sum(verdict.status == _BAD for verdict in verdicts)
    passed = f"{sum(verdict.passed for verdict in verdicts)} of {len(verdicts)} recipes passed"
    return "\n".join([*lines, f"{passed}, {bad} known to be bad" if bad else passed])


def fit_row(name: str, status: str, row: Mapping[str, Any] | None) -> dict[str, str]:
    """For a person who asks which model fits. row: of the plan's table."""
    known = row or {}
    free, fetched, requests = (known.get(key) for key in ("free_bytes", "download_bytes", "requests"))
    return {
        "recipe": name,
        "hosts": str(len(known["hosts"])) if row else "more",
        "fits": {"unknown": "not known", "refused": "not planned"}.get(known.get("fits", ""), known.get("fits", "-")),
        "at once": f"{requests:.1f} x {known['context']:,}" if requests else "-",
        "free": "-" if free is None else size(free) if free >= 0 else f"{size(-free)} short",
        "tok/s": f"{known['decode']:.3g}" if known.get("decode") else "-",
        "download": "-" if fetched is None else size(fetched),
        "status": status,
    }
