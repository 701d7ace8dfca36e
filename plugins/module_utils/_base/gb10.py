# SPDX-License-Identifier: GPL-3.0-or-later
"""``data/gb10.yml``: what holds for every GB10 machine, each entry ``{value, reason, source}``."""

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import layout
from .layers import Layer
from .yaml_text import read_yaml

ROOT = Path(__file__).resolve().parents[3]
SHIPPED_RECIPES = ROOT / "recipes"


@functools.cache
def data_file(name: str) -> Any:
    """What ``data/NAME.yml`` says, read once: nobody changes it."""
    return read_yaml((ROOT / "data" / f"{name}.yml").read_text("utf-8"))


def facts() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """The whole file: ``{section: {key: {value, reason, source}}}``."""
    found: dict[str, dict[str, dict[str, Any]]] = data_file("gb10")
    return found


def fact(section: str, key: str) -> Any:
    """One value."""
    return facts()[section][key]["value"]


def alert_rules() -> Mapping[str, Any]:
    """``data/alerts.yml``: when Prometheus calls."""
    data: dict[str, Any] = data_file("alerts")
    return data


def topologies() -> Mapping[str, Any]:
    """``data/topologies.yml``: what NCCL needs for hosts that no switch joins."""
    data: dict[str, Any] = data_file("topologies")
    return data


def _sources() -> Mapping[str, str | None]:
    """Where each source can be opened, by its name in our texts; None where it is not published."""
    where: dict[str, str | None] = data_file("sources")
    return where


def cited_in(text: str) -> dict[str, str]:
    """The sources that a text names, in the order of the alphabet, and where a reader can open each."""
    where = _sources()
    in_it = (name for name in sorted(where) if name in text)  # most are not, which a pattern finds out slowly
    named = [name for name in in_it if re.search(rf"(?<![\w/.]){re.escape(name)}", text)]
    return {name: where[name] or "not published" for name in named}


def data_table(name: str) -> Any:
    """What ``data/tables.yml`` has under a name; its lists as tuples."""
    return _frozen(data_file("tables")[name])


def _frozen(value: object) -> object:
    if isinstance(value, dict):
        return {key: _frozen(part) for key, part in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@functools.cache
def _text(name: str) -> str:
    return (ROOT / "data" / "texts" / name).read_text("utf-8")


def filled(name: str, /, **words: object) -> str:
    """A file of ``data/texts`` with a word for each ``{name}``, below the comment that says whose it is."""
    return f"{layout.MARK}\n{text_of(name, **words)}"


def text_of(name: str, /, **words: object) -> str:
    """The same without that comment."""
    return _text(name).format(**words)


def default_layer(section: str) -> Layer:
    """The lowest layer of ``flags`` or ``env``."""
    entries = facts()[section]
    return Layer(
        "default",
        {key: entry["value"] for key, entry in entries.items()},
        {key: entry["reason"] for key, entry in entries.items()},
    )
