# SPDX-License-Identifier: GPL-3.0-or-later
"""``data/known_bad.yml``: versions that are known to fail on GB10, and which of them a host has."""

import functools
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ..._base.gb10 import data_file

Row = Mapping[str, Any]


@functools.cache
def known_bad() -> list[Row]:
    """The table; the head of the file says what its keys are."""
    table: list[Row] = data_file("known_bad")
    return table


def found_bad(versions: Mapping[str, str | None], cmdline: str) -> Iterator[tuple[Row, str]]:
    """The rows that hold for a host, each with the version that it has.

    versions: by the names of the table's ``what``, None where it is unknown. cmdline: the kernel's.
    """
    for row in known_bad():
        have = versions.get(row["what"])
        if (
            have is not None
            and _fits(row, have)
            and row.get("unless_cmdline") not in cmdline.split()
            and all(_holds(versions.get(what), condition) for what, condition in row.get("with", {}).items())
        ):
            yield row, have


def _holds(have: str | None, condition: str | Row) -> bool:
    if have is None:
        return False
    return _fits({"pattern": condition} if isinstance(condition, str) else {"until": None, **condition}, have)


def _fits(row: Row, have: str) -> bool:
    """Whether a version has the pattern of a row, or lies in its range."""
    if "pattern" in row:
        return fnmatchcase(have, row["pattern"])
    version = numbers(have)
    return numbers(str(row.get("from", ""))) <= version and (
        row["until"] is None or version < numbers(str(row["until"]))
    )


def numbers(version: str) -> tuple[int, ...]:
    """``6.17.0-1021-nvidia`` -> (6, 17, 0, 1021): what ranges are compared by."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


def described(row: Row) -> str:
    """What a row expects not to find: ``not 590.*``, ``28.45.4028 or later``."""
    if "pattern" in row:
        return f"not {row['pattern']}"
    return f"{row['until']} or later" if row["until"] else "a version that somebody has shown to be free of it"
