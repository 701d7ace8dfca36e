# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of `vllm serve`: the release's own options (options.json), and a --config file before them."""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_OPTIONS = Path(__file__).with_name("options.json")
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


class ConfigFileError(Exception):
    """The real one ends with a traceback here, and status 1."""


def parse(words: Sequence[str], release: str) -> argparse.Namespace:
    """What follows `vllm`; ends the process with status 2 where the real parser does."""
    top = argparse.ArgumentParser(prog="vllm")
    top.add_argument("-v", "--version", action="version", version=release)
    serve = top.add_subparsers(dest="command", required=True).add_parser(
        "serve", usage="vllm serve [model_tag] [options]"
    )
    serve.add_argument("model_tag", nargs="?")
    for option in json.loads(_OPTIONS.read_text()):
        _add(serve, option)
    return top.parse_args(_normalised(with_config_file(list(words))))


def _add(parser: argparse.ArgumentParser, option: dict[str, Any]) -> None:
    """One option as the catalogue has it (plugins/module_utils/_engines/vllm/catalogue/releases.py)."""
    destination = option["name"].lstrip("-").replace("-", "_")
    names = [option["name"], *option["aliases"]]
    if option["type"] in ("flag", "switch"):
        parser.add_argument(*names, dest=destination, action="store_true", default=None)
        if option["negations"]:
            parser.add_argument(*option["negations"], dest=destination, action="store_false", default=None)
        return
    parser.add_argument(
        *names,
        dest=destination,
        type=_converter(option["type"], option["optional"]),
        nargs=option["nargs"],
        choices=option["choices"] or None,
        action="append" if option["repeatable"] else "store",
    )


def _converter(kind: str, optional: bool) -> Callable[[str], Any]:
    convert = _CONVERTERS.get(kind, str)

    def converted(text: str) -> Any:
        return None if optional and text == "None" else convert(text)

    converted.__name__ = kind  # argparse says "invalid <name> value"
    return converted


def size(text: str) -> int:
    """1000, 1k (1000), 1K (1024), 1.5m: `human_readable_int` of vllm/engine/arg_utils.py."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kKmMgG]?)", text.strip())
    if not match:
        raise ValueError(text)
    number, unit = match.groups()
    return int(float(number) * _UNITS[unit]) if unit else int(number)


def size_or_auto(text: str) -> int:
    return -1 if text.lower() in ("auto", "-1") else size(text)


_CONVERTERS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "size": size,
    "size-auto": size_or_auto,
    "json": json.loads,
}


def with_config_file(words: list[str]) -> list[str]:
    """`--config FILE` makes way for the file's words, placed so that the command line wins over them."""
    if "--config" not in words:
        return words
    at = words.index("--config")
    if at == len(words) - 1:
        raise ConfigFileError("No config file specified! Please check your command-line arguments.")
    start = 2 if len(words) > 1 and not words[1].startswith("-") else 1
    return [*words[:start], *config_words(Path(words[at + 1])), *words[start:at], *words[at + 2 :]]


def config_words(file: Path) -> list[str]:
    """A flat YAML file as words; the stand-in reads no more of YAML than `key: value`, inline and dashed lists."""
    if file.suffix not in (".yaml", ".yml"):
        raise ConfigFileError(f"Config file must be of a yaml/yml type. {file.suffix.lstrip('.')} supplied")
    words: list[str] = []
    for line in file.read_text().splitlines():
        text = line.strip()
        key, colon, value = text.partition(":")
        if text.startswith("- "):
            words.append(_scalar(text[2:]))
        elif colon:
            words += _words_of(key.strip(), value.strip())
        elif text and not text.startswith("#") and text != "---":
            raise ConfigFileError(f"{file}: the stand-in can't read this line: {text.split()[0]} ...")
    return words


def _words_of(key: str, value: str) -> list[str]:
    if value in ("true", "false"):
        return [f"--{key}" if value == "true" else f"--no-{key}"]
    if value.startswith("[") and value.endswith("]"):
        return [f"--{key}", *(_scalar(item) for item in value[1:-1].split(","))]
    return [f"--{key}", _scalar(value)] if value else [f"--{key}"]


def _scalar(text: str) -> str:
    return text.strip().strip("\"'")


def _normalised(words: list[str]) -> list[str]:
    """vLLM's parser takes --max_model_len for --max-model-len."""
    return [
        name.replace("_", "-") + equals + value if word.startswith("--") else word
        for word in words
        for name, equals, value in [word.partition("=")]
    ]


def api_keys(arguments: argparse.Namespace) -> list[str]:
    """The option wins over the environment (vllm/entrypoints/serve/middleware/register.py)."""
    given = arguments.api_key or [os.environ.get("VLLM_API_KEY")]
    return [key for key in given if key]
