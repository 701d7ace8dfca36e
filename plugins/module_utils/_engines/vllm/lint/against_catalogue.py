# SPDX-License-Identifier: GPL-3.0-or-later
"""A launch against one release's catalogue: unknown names, refused values, words without effect."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ...._base import worded
from ...._base.findings import Finding, Severity
from ...._base.gb10 import data_file
from ...._base.place import Place, argv
from ...._base.place import env as variable_of
from ..catalogue.releases import Catalogue, Option
from ..catalogue.version import Range, parse_range
from ..text.command import MODULE, Command, Given, Words
from ..text.values import variable_expects
from .option_values import value_findings
from .wording import CatalogueView, cut, history, judged, meant, option_meant


@dataclass(frozen=True)
class Name:
    """One row. names: each with what to write instead. value: only with this value; releases: None for all of them."""

    id: str
    what: str
    names: Mapping[str, str]
    remedy: str
    reason: str
    source: str
    value: str = ""
    releases: Range | None = None
    severity: Severity = "error"

    def finding(self, name: str, place: Place, value: str | None) -> Finding:
        """What is found about one of its names where it is used."""
        return judged(
            rule=self.id,
            severity=self.severity,
            place=place,
            found="given" if value is None else f'"{cut(value)}"',
            expected=self.names[name],
            remedy=self.remedy,
            reason=self.reason,
            source=self.source,
        )


@functools.cache
def misleading() -> tuple[Name, ...]:
    """The table."""
    rows = data_file("vllm_names")
    return tuple(
        Name(**{**row, "releases": parse_range(row["releases"]) if "releases" in row else None}) for row in rows
    )


def name_findings(command: Command, env: Mapping[str, str], version: str | None) -> Iterator[Finding]:
    """Of every misleading name in a command and its environment. version: the release, None where it isn't known."""
    used = [(given.name, argv(cut(given.spelling)), next(iter(given.values), None)) for given in command.given]
    used += [(name, variable_of(cut(name)), value) for name, value in env.items()]
    for row in misleading():
        if row.releases is None or (version is not None and version in row.releases):
            for name, place, value in used:
                if name in row.names and row.value in ("", value):
                    yield row.finding(name, place, value)


# What the catalogue says of a name, and the table of misleading names says better.
_LESS = ("catalogue-unknown-option", "catalogue-unknown-variable", "catalogue-wrong-value")
_KINDS = {"int": "a whole number", "float": "a number", "json": "JSON", "size": "a number"}


def catalogue_findings(
    view: CatalogueView, words: Words, command: Command, env: Mapping[str, str]
) -> Iterator[Finding]:
    """Every catalogue finding of a command and its environment. What is known of a misleading name comes instead."""
    named = list(name_findings(command, env, view.release.version))
    yield from named
    yield from _without(named, _catalogue_findings(view, words, command, env))


def _without(named: Iterable[Finding], findings: Iterable[Finding]) -> Iterator[Finding]:
    """The catalogue's findings, but for those on names that the table of misleading ones speaks of."""
    places = {finding.place for finding in named}
    return (finding for finding in findings if finding.rule not in _LESS or finding.place not in places)


def _catalogue_findings(
    view: CatalogueView, words: Words, command: Command, env: Mapping[str, str]
) -> Iterator[Finding]:
    if words.form != "other" and words.words:
        yield from _no_model(command)
        yield from _module_words(view, command) if words.form == "module" else _model_words(view, words, command)
    yield from _options(view, command)
    for word in command.positional[1:]:
        yield worded.catalogue_error("catalogue-surplus-word", argv(), word=cut(word))
    for name, value in env.items():
        if name.startswith("VLLM_"):
            yield from _variable(view, name, value)


def _no_model(command: Command) -> Iterator[Finding]:
    if command.model is None and not command.has("--config"):
        yield worded.catalogue_error("catalogue-no-model", argv())


def _module_words(view: CatalogueView, command: Command) -> Iterator[Finding]:
    """What is peculiar to `python3 -m vllm.entrypoints.openai.api_server`."""
    if command.positional:
        found, reason = f'"{cut(command.positional[0])}" as a word', "the module parses the word and doesn't use it"
        yield worded.catalogue_error("catalogue-model-word/module-words", argv(), found=found, reason=reason)
    if view.since("0.29.0"):
        yield worded.catalogue_warning("catalogue-deprecated-entry", argv(), found=MODULE, version=view.version)


def _model_words(view: CatalogueView, words: Words, command: Command) -> Iterator[Finding]:
    """Where `vllm serve` wants its model."""
    option = command.text("--model")
    if option is not None and not command.positional:
        warned = view.since("0.11.1")
        reason = "vLLM moves it to the front and warns" if warned else "vLLM raises a ValueError"
        severity = "warning" if warned else view.weight(None)
        yield worded.finding(
            severity, "catalogue-model-option", argv("--model"), reason=reason, kind="catalogue", option=cut(option)
        )
    elsewhere = option is not None or command.has("--config")
    if view.since("0.17.0") and words.words[0].startswith("-") and command.has("--served-model-name") and not elsewhere:
        reason = "with --served-model-name vLLM wants the model as the first word"
        found = cut(words.words[0])
        yield worded.catalogue_error("catalogue-model-word/model-words", argv(), found=found, reason=reason)


def _options(view: CatalogueView, command: Command) -> Iterator[Finding]:
    seen: set[str] = set()
    for given in command.given:
        if given.option is None:
            yield _unknown_option(view, given)
            continue
        yield from _spelling(view, given, given.option)
        yield from value_findings(view, given, given.option, command)
        if given.name in seen and not given.path and not given.option.repeatable:
            yield worded.catalogue_warning("catalogue-duplicate-option", _place(given))
        if not given.path:
            seen.add(given.name)


def _place(given: Given) -> Place:
    return argv(cut(given.spelling))


def _spelling(view: CatalogueView, given: Given, option: Option) -> Iterator[Finding]:
    place = _place(given)
    if given.abbreviated:
        remedy = f'write "{option.name if given.on else option.negations[0]}"'
        yield worded.catalogue_warning("catalogue-abbreviated-option", place, expected=option.name, remedy=remedy)
    if option.deprecated:
        found = option.deprecated
        yield worded.catalogue_warning("catalogue-deprecated-option", place, found=found, version=view.version)
    if given.surplus is not None:
        wanted = f"{option.name} alone" + (f", or {option.negations[0]}" if option.negations else "")
        found = f"={cut(given.surplus)}"
        yield worded.catalogue_error("catalogue-unexpected-value", place, found=found, expected=wanted)
    if given.missing:
        wanted = "one of " + ", ".join(option.choices) if option.choices else _KINDS.get(option.type, "a value")
        yield worded.catalogue_error("catalogue-missing-value", place, expected=wanted)


def _unknown_option(view: CatalogueView, given: Given) -> Finding:
    place = _place(given)
    if given.ambiguous:
        remedy = " or ".join(given.ambiguous)
        return worded.catalogue_error("catalogue-ambiguous-option", place, remedy=remedy)
    positive = view.release.spellings.get("--" + given.spelling.removeprefix("--no-"))
    if positive is not None and given.spelling.startswith("--no-"):
        name = positive[0].name
        return worded.catalogue_error("catalogue-not-negatable", place, expected=name, name=name)
    known = view.catalogue.option_range(given.spelling)
    return worded.catalogued(
        view.weight(known),
        "catalogue-unknown-option/release",
        place,
        found=history("option", known),
        version=view.version,
        remedy=view.gone(known) or _kept(option_meant(given.spelling, view.release.spellings), own=view.own),
        reason="vLLM refuses the whole command" if view.own else "unless this image's own build adds it",
    )


def _variable(view: CatalogueView, name: str, value: str) -> Iterator[Finding]:
    variable = view.release.variables.get(name)
    place = variable_of(cut(name))
    if variable is None:
        known = view.catalogue.variable_range(name)
        found = history("variable", known)
        remedy = view.gone(known) or _meant(name, view.release.variables, own=view.own)
        yield worded.catalogued(
            view.weight(known),
            "catalogue-unknown-variable/release",
            place,
            found=found,
            remedy=remedy,
            version=view.version,
        )
        return
    if variable.deprecated:
        words = variable.deprecated
        yield judged("warning", "catalogue-deprecated-variable", place, found=words, source=view.source)
    if expected := variable_expects(variable, value):
        found, weight = f'"{cut(value)}"', view.weight(None)
        yield worded.catalogued(
            weight, "catalogue-wrong-value/variable", place, found=found, expected=expected, version=view.version
        )


def _meant(name: str, known: Iterable[str], *, own: bool) -> str:
    return _kept(meant(name, known), own=own)


def _kept(remedy: str, *, own: bool) -> str:
    """What to write instead of a name. One that resembles none may be that of a build of others."""
    return remedy if own or remedy != "drop it" else "keep it if this image's build reads it; if not, drop it"


def never_known(
    command: Command, env: Mapping[str, str], catalogue: Catalogue, *, own: bool = True
) -> Iterator[Finding]:
    """What can be judged without knowing the release: names that none of them ever had. own: whether the image is
    vLLM's own; a build of others may have names of its own."""
    named = list(name_findings(command, env, None))
    yield from named
    yield from _without(named, _never_known(command, env, catalogue, "error" if own else "warning"))


def _never_known(
    command: Command, env: Mapping[str, str], catalogue: Catalogue, severity: Severity
) -> Iterator[Finding]:
    for given in command.given:
        if given.option is None and not given.ambiguous and catalogue.option_range(given.spelling) is None:
            found = history("option", None)
            remedy = _kept(option_meant(given.spelling, catalogue.newest.spellings), own=severity == "error")
            reason = "vLLM refuses it" if severity == "error" else "unless this image's own build adds it"
            yield worded.catalogued(
                severity, "catalogue-unknown-option/ever", _place(given), found=found, remedy=remedy, reason=reason
            )
    for name in env:
        if name.startswith("VLLM_") and catalogue.variable_range(name) is None:
            found = history("variable", None)
            remedy = _meant(name, catalogue.newest.variables, own=severity == "error")
            place = variable_of(cut(name))
            yield worded.catalogued(severity, "catalogue-unknown-variable/ever", place, found=found, remedy=remedy)
