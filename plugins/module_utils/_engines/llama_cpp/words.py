# SPDX-License-Identifier: GPL-3.0-or-later
"""Words of a `llama-server` command line as flags of ours."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..._base.gb10 import default_layer
from ..options import NUMBER, value_of
from . import catalogue


def read_flags(words: Sequence[str]) -> dict[str, Any]:
    """Options by our names for them, with values as numbers where they are; later ones win, as in the program. An
    option that is not catalogued keeps its name, and takes the next word where that is none itself."""
    return dict(_read(words))


def name_of(name: str) -> str:
    """What an option is called here, by one of its long names: as GB10's defaults call it, for one thing under two
    names would be set twice; else its first."""
    option = catalogue.newest().options.get(name)
    if option is None:
        return name
    defaults = default_layer("llama_cpp_flags").values
    return next((name for name in option.names if name in defaults), option.names[0])


def _read(words: Sequence[str]) -> Iterator[tuple[str, Any]]:
    rest = list(words)
    known = catalogue.newest()
    short = {name: option for option in known.options.values() for name in option.short}
    while rest:
        word = rest.pop(0)
        name = word.lstrip("-")
        option = known.options.get(name) if word.startswith("--") else short.get(name)
        if option is None:
            takes = bool(rest) and not (rest[0].startswith("-") and not NUMBER.fullmatch(rest[0]))
            yield name, value_of(rest.pop(0)) if takes else True
        elif name in option.negative:
            yield name_of(option.names[0]), False
        elif option.value and rest:
            yield name_of(option.names[0]), value_of(rest.pop(0))
        else:
            yield name_of(option.names[0]), True
