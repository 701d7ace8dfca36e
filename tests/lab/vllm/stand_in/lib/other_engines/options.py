# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the release that is stood in for, as the collection's catalogue has them (`_engines.options`)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def parse(words: Sequence[str], program: str, file: str, positional: str = "") -> argparse.Namespace:
    """file: beside this one, ``{release, options}``. positional: a word without an option. Ends the process with status
    2 where the real parser does."""
    given = json.loads(Path(__file__).with_name(file).read_text())
    parser = argparse.ArgumentParser(prog=program)
    if positional:
        parser.add_argument(positional)
    for option in given["options"]:
        _add(parser, option)
    asked = parser.parse_args(words)
    asked.release = given["release"]
    return asked


def _add(parser: argparse.ArgumentParser, option: dict[str, Any]) -> None:
    names = [f"--{name}" for name in option["names"]]
    if option["switch"]:
        parser.add_argument(*names, action="store_true")
        return
    parser.add_argument(*names, nargs="+" if option["many"] else None, choices=option["choices"] or None)
