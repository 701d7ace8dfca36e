# SPDX-License-Identifier: GPL-3.0-or-later
"""Every option of `vllm serve`, read off the functions that build its parser."""

import ast
import re
from collections.abc import Sequence
from typing import Any

from .reader import ACTIONS, GivenType, Method, Reader
from .releases import Option
from .source import UNKNOWN, Source, Symbol
from .types import Dialect, class_fields, forbids_others

SERVE = "vllm.entrypoints.cli.serve"
_DEPRECATED = re.compile(r"\bis deprecated\b|^[\[(]?deprecated\b", re.IGNORECASE)


def read_options(source: Source) -> list[Option]:
    """All options of `vllm serve`; empty if the package has no such command."""
    serve = source.module(SERVE)
    maker = serve.resolve("make_arg_parser") if serve else None
    arguments = source.module("vllm.engine.arg_utils")
    if maker is None or arguments is None or not isinstance(maker.node, ast.FunctionDef):
        return []
    reader = Reader(Dialect.of(arguments))
    reader.call(Method(maker.node, maker.module), [UNKNOWN], {})
    parser = source.module("vllm.utils.argparse_utils")
    paired = parser is not None and "EnableDisableAction" in parser.bindings
    help_option = Option("--help", ("-h",), type="flag")
    return [help_option, *(_option(names, kwargs, paired) for names, kwargs in reader.registered)]


def _option(names: list[str], kwargs: dict[str, Any], paired: bool) -> Option:
    """The catalogue's entry for one `add_argument`."""
    long = [name for name in names if name.startswith("--")]
    name = long[0] if long else names[0]
    kind = _kind(kwargs)
    config = kwargs.get("config") if kind == "config" else None
    default = kwargs.get("default")
    given = kwargs.get("type")
    return Option(
        name=name,
        aliases=tuple(other for other in names if other != name),
        negations=_negations(long, paired) if kind == "switch" else (),
        type="json" if kind == "config" else kind,
        nargs=kwargs.get("nargs") if kind not in ("switch", "flag") else None,
        choices=_texts(kwargs.get("choices")),
        suggested=_texts(kwargs.get("metavar")),
        optional=given.optional if isinstance(given, GivenType) else bool(kwargs.get("optional")),
        folded=isinstance(given, GivenType) and given.folded,
        repeatable=kwargs.get("action") == "append",
        default=default if isinstance(default, str | int | float | bool) and default != "" else None,
        deprecated=_deprecation(kwargs),
        keys=tuple(sorted(field.name for field in class_fields(config))) if config else (),
        strict=isinstance(config, Symbol) and forbids_others(config),
    )


def _texts(values: object) -> tuple[str, ...]:
    return tuple(sorted({str(value) for value in values if value is not UNKNOWN})) if isinstance(values, list) else ()


def _kind(kwargs: dict[str, object]) -> str:
    action = kwargs.get("action")
    if isinstance(action, str) and ACTIONS.get(action, action) in ("switch", "flag"):
        return ACTIONS.get(action, action)
    given = kwargs.get("type", "str")
    if isinstance(given, GivenType):
        return given.kind
    return given if isinstance(given, str) else str(kwargs["_type"])


def _negations(long: Sequence[str], paired: bool) -> tuple[str, ...]:
    """What switches an option off. paired: from 0.33.0 `--enable-x` has `--disable-x` (EnableDisableAction)."""
    negations = ["--no-" + name[2:] for name in long]
    inverse = {"--enable-": "--disable-", "--disable-": "--enable-"}
    for name in long if paired else ():
        negations += [other + name.removeprefix(prefix) for prefix, other in inverse.items() if name.startswith(prefix)]
    return tuple(negations)


def _deprecation(kwargs: dict[str, object]) -> str:
    """The release's own words on an option that is on its way out; empty if it isn't."""
    text = kwargs.get("help")
    for sentence in text.split(". ") if isinstance(text, str) else ():
        if _DEPRECATED.search(sentence):
            return sentence.strip().rstrip(".")[:160]
    return "deprecated" if kwargs.get("deprecated") is True else ""
