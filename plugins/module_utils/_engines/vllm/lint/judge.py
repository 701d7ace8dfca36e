# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks a launch before it starts: names and values against the catalogue of its vLLM, combinations against the rules.

A rule or a check that lacks a fact stays silent. A build between two releases is checked against both: what both find
stays as it is, what one finds becomes a warning.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from ...._base import worded
from ...._base.findings import Finding, ordered, uncovered
from ...._base.place import Place
from ...._base.proofs import proofs, proven
from ..catalogue.releases import Catalogue, Release, load
from ..rules import RULES, rules_for
from ..rules.launch import Launch
from ..text.command import Words, read_command
from .against_catalogue import catalogue_findings, misleading, never_known
from .request import Request, read_request
from .wording import CatalogueView

# What a report of the same launch can contradict; what a host has is not in it.
_OF_LAUNCH = ("combination", "catalogue")
_WEIGHT = ("error", "warning", "hint")


@dataclass(frozen=True)
class LintFinding(Finding):
    """A finding of the linter. silenced: the owner's reason; its severity is hint then."""

    silenced: str = ""


# What a build of others may have, and a release has not.
_UNKNOWN = ("catalogue-unknown-option", "catalogue-unknown-variable")


def lint_map(written: object, catalogue: Catalogue | None = None) -> list[dict[str, Any]]:
    """A map as `lint.request.INPUT` describes it in, findings as maps out. Never raises."""
    return [finding.as_dict() for finding in lint_launch(written, catalogue)]


def lint_launch(written: object, catalogue: Catalogue | None = None) -> list[LintFinding]:
    """Every finding about a launch that a map describes, and about the map itself, ordered."""
    known = catalogue or load()
    request, problems = read_request(written, known)
    if request is None:
        return ordered(_marked(problem, {}) for problem in problems)
    marked = [_marked(_placed(problem, request.place), request.silence) for problem in problems]
    return ordered([*marked, *lint(request, known)])


def lint(request: Request, catalogue: Catalogue) -> list[LintFinding]:
    """Every finding about a launch, ordered. The silenced ones are among them, marked."""
    views = [list(_findings(request, release, catalogue)) for release in request.releases or (None,)]
    merged = [*uncovered(_merged(views, request.releases)), *_unused(request.silence)]
    dated = [proven(one, proofs().get(one.rule), request.reported if one.kind in _OF_LAUNCH else "") for one in merged]
    return ordered(_marked(_placed(finding, request.place), request.silence) for finding in dated)


def _findings(request: Request, release: Release | None, catalogue: Catalogue) -> Iterator[Finding]:
    """What one release's catalogue and the rules for it find."""
    launch = request.launch
    command = read_command(launch.words.words, release or catalogue.newest, catalogue.any_options)
    launch = launch.read_with(release, command)
    if release is None:
        named = never_known(command, launch.env, catalogue, own=request.own)
    else:
        view = CatalogueView(catalogue, release, request.own)
        named = catalogue_findings(view, _entered(launch), command, launch.env)
    own_names = launch.image.names if launch.image else ()
    yield from (one for one in named if one.rule not in _UNKNOWN or one.at.option.lstrip("-") not in own_names)
    for rule, severity in rules_for(release.version if release else None):
        yield from rule.findings(launch, severity)


def _entered(launch: Launch) -> Words:
    """The words as the image's entrypoint takes them: upstream's was the server module before 0.11.1."""
    if launch.family == "upstream" and launch.words.form == "bare" and launch.before("0.11.1"):
        return replace(launch.words, form="module")
    return launch.words


def _merged(views: Sequence[Sequence[Finding]], releases: Sequence[Release]) -> list[Finding]:
    """Of two releases' findings: the common ones, the milder form of each; the others as warnings at most."""
    if len(views) == 1:
        return list(views[0])
    between = " and ".join(release.version for release in releases)
    keyed = [{(finding.rule, finding.place, finding.found): finding for finding in view} for view in views]
    merged = []
    for index, view in enumerate(keyed):
        for key, finding in view.items():
            others = [other.get(key) for position, other in enumerate(keyed) if position != index]
            if None not in others:
                both = [finding, *(other for other in others if other is not None)]
                merged.append(max(both, key=lambda item: _WEIGHT.index(item.severity)))
            else:
                note = f"so with vLLM {releases[index].version}; this build lies between {between}"
                mild = "warning" if finding.severity == "error" else finding.severity
                merged.append(replace(finding, severity=mild, reason="; ".join(filter(None, (finding.reason, note)))))
    return merged


def _placed(finding: Finding, place: str) -> Finding:
    return replace(finding, at=finding.at.within(Place(thing=place))) if place else finding


def _marked(finding: Finding, silence: Mapping[str, str]) -> LintFinding:
    reason = silence.get(finding.rule, "")
    values = {field.name: getattr(finding, field.name) for field in fields(Finding)}
    return LintFinding(**(values | {"severity": "hint" if reason else finding.severity, "silenced": reason}))


def _unused(silence: Mapping[str, str]) -> Iterator[Finding]:
    """Silenced ids that no rule has: a misspelling leaves the finding loud."""
    for identity in silence:
        known = identity in RULES or identity in {row.id for row in misleading()}
        if not known and not identity.startswith(("catalogue-", "schema-", "lint-")):
            yield worded.catalogue_warning("lint-silence", f"silence.{identity[:80]}")
