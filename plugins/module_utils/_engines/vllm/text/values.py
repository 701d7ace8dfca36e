# SPDX-License-Identifier: GPL-3.0-or-later
"""Is this value one that the option or variable takes? As vLLM's parser, or its start, decides."""

import json
import re
from collections.abc import Mapping

from ...._base.gb10 import data_table
from ..catalogue.releases import Option, Variable

_SIZE = re.compile(r"-?\d+|\d+(?:\.\d+)?[kmgt]|\d+[KMGT]")
_BARE_SIZE = re.compile(r'("(?:[^"\\]|\\.)*")|\b(\d+(?:\.\d+)?[kKmMgGtT])\b')
_TRUTHS = ("0", "1", "true", "false")


def option_expects(option: Option, text: str) -> str:
    """What the option takes, if `text` isn't one of its values; empty if it is."""
    if option.optional and text in ("", "None"):
        return ""
    value = text.lower().replace("-", "_") if option.folded else text
    if option.choices:
        return "" if value in option.choices else "one of " + ", ".join(option.choices)
    return _WORDS[option.type] if option.type in _WORDS and not _fits(option.type, text) else ""


_WORDS: Mapping[str, str] = data_table("value_words")


def _fits(kind: str, text: str) -> bool:
    match kind:
        case "int":
            return _is(int, text)
        case "float":
            return _is(float, text)
        case "size":
            return _SIZE.fullmatch(text.strip()) is not None
        case "size-auto":
            return text.strip().lower() == "auto" or _SIZE.fullmatch(text.strip()) is not None
        case "json":
            return is_json(text)
        case _:
            return not re.fullmatch(r"(?s)\s*{.*}\s*", text) or is_json(text)


def _is(kind: type[int] | type[float], text: str) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def is_json(text: str) -> bool:
    """Whether vLLM reads it as JSON; from 0.20.0 it writes numbers like 80m out first."""
    try:
        json.loads(_BARE_SIZE.sub(lambda match: match[1] or "0", text))
    except (ValueError, RecursionError):
        return False
    return True


def variable_expects(variable: Variable, text: str) -> str:
    """What the variable takes, if `text` isn't one of its values; empty if it is, or if only vLLM's code knows."""
    if variable.choices:
        value = text.lower() if variable.folded else text
        known = [choice.lower() for choice in variable.choices] if variable.folded else list(variable.choices)
        return "" if value in known or not text else "one of " + ", ".join(variable.choices)
    plain = variable.type.replace(" | None", "")
    if plain in ("int", "float") and text:
        return "" if _fits(plain, text) else _WORDS[plain]
    if plain == "bool" and text:
        return "" if text.strip().lower() in _TRUTHS else "0 or 1"
    return ""
