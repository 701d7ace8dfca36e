# SPDX-License-Identifier: GPL-3.0-or-later
"""The values of options: of the right type, one of the choices, a name that is registered, keys that exist."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from ...._base import worded
from ...._base.findings import Finding, Severity
from ...._base.place import Place, argv
from ..catalogue.releases import Option, choices_of
from ..text.command import Command, Given, as_json
from ..text.values import option_expects
from .wording import CatalogueView, cut, history, judged, meant

_JSON = ("json", "json-or-text")
_SPECULATION = "--speculative-config"
# Free text to the parser, looked up after the model's configuration: a wrong one costs minutes.
_NAMED: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "--attention-backend": ("attention_backend", str.upper),
    "--load-format": ("load_format", str.lower),
    "--quantization": ("quantization", str.lower),
    "--reasoning-parser": ("reasoning_parser", str),
    "--tool-call-parser": ("tool_call_parser", str),
}
_PLUGINS = {"--reasoning-parser": "--reasoning-parser-plugin", "--tool-call-parser": "--tool-parser-plugin"}


def value_findings(view: CatalogueView, given: Given, option: Option, command: Command) -> Iterator[Finding]:
    """What is wrong with the values of one option."""
    place = argv(cut(given.spelling) + (f".{cut(given.path)}" if given.path else ""))
    if given.path and option.type not in _JSON:
        yield worded.catalogue_error("catalogue-unknown-key/path", place, option=option.name)
    elif given.path:
        yield from _keys(view, option, [given.path.split(".")[0].rstrip("+")], place)
    else:
        for value in given.values:
            yield from _value(view, option, value, command, place)
    method = command.json(_SPECULATION).get("method") if option.name == _SPECULATION else None
    known = view.release.registries.get("speculative_method", ())
    if isinstance(method, str) and known and method not in known:
        yield _unknown(view, "speculative_method", method, known, "", place)


def _value(view: CatalogueView, option: Option, value: str, command: Command, place: Place) -> Iterator[Finding]:
    expected = option_expects(option, value)
    if expected:
        yield _wrong(view, option, value, expected, place)
    elif option.type in _JSON:
        parsed = as_json(value)
        yield from _keys(view, option, parsed if isinstance(parsed, dict) else (), place)
    else:
        yield from _name(view, option, value, command, place)


def _wrong(view: CatalogueView, option: Option, value: str, expected: str, place: Place) -> Finding:
    known = view.catalogue.name_range(choices_of(option.name), value)
    found = f'"{cut(value)}"' + (f", known {known.words()}" if known else "")
    remedy = "quote it for the shell as '{...}'" if expected == "JSON" else "correct the value"
    if option.choices:
        remedy = meant(value, option.choices)
    weight, rule, expected = view.weight(known), "catalogue-wrong-value", cut(expected, 400)
    return judged(weight, rule, place, found=found, expected=expected, remedy=remedy, source=view.source)


def _keys(view: CatalogueView, option: Option, keys: Iterable[str], place: Place) -> Iterator[Finding]:
    """Unknown keys of a JSON option: configuration classes refuse them, the older ones drop them silently."""
    known, strict = option.keys, option.strict
    if option.name == _SPECULATION:
        known, strict = view.release.registries.get("speculative_config", ()), True
    reason = "vLLM refuses it" if strict else "vLLM ignores it silently"
    for key in keys if known else ():
        if key not in known:
            severity: Severity = "error" if strict and view.own else "warning"
            yield worded.catalogued(
                severity,
                "catalogue-unknown-key/json",
                place,
                key=cut(key),
                version=view.version,
                remedy=meant(key, known),
                reason=reason,
            )


def _name(view: CatalogueView, option: Option, value: str, command: Command, place: Place) -> Iterator[Finding]:
    """A name of a registry, or one of the values that the parser only suggests."""
    registry, fold = _NAMED.get(option.name, ("", str))
    known = view.release.registries.get(registry, ()) or option.suggested
    class_path = not registry and ("." in value or "/" in value)
    plugin = _PLUGINS.get(option.name, "")
    taken = not known or fold(value) in known or value in ("", "None", "none") or class_path or command.has(plugin)
    if not taken:
        yield _unknown(view, registry or choices_of(option.name), value, known, plugin, place)


def _unknown(
    view: CatalogueView, registry: str, value: str, known: tuple[str, ...], plugin: str, place: Place
) -> Finding:
    elsewhere = view.catalogue.name_range(registry, value)
    remedy = meant(value, known)
    if view.is_later(elsewhere):
        remedy = view.gone(elsewhere)
    elif plugin:
        remedy = f"give its file with {plugin}, or {remedy}"
    found, kind = f'"{cut(value)}": ' + history("name", elsewhere), registry.lstrip("-").replace("_", " ")
    weight, version = view.weight(elsewhere), view.version
    return worded.catalogued(
        weight, "catalogue-unknown-name", place, found=found, name=kind, version=version, remedy=remedy
    )
