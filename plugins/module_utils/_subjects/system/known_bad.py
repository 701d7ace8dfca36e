# SPDX-License-Identifier: GPL-3.0-or-later
"""``data/known_bad.yml`` and ``known_good.yml``: versions that fail on GB10, or serve there, and what a host has."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ..._base.findings import Finding, Severity
from ..._base.gb10 import data_file
from ..._base.place import Place
from ..._base.proofs import proven
from ..._base.reading import State
from ..._base.subject import PreflightContext

Row = Mapping[str, Any]


def known_bad() -> list[Row]:
    """The table; the head of the file says what its keys are."""
    table: list[Row] = data_file("known_bad")
    return table


def known_good() -> list[Mapping[str, str]]:
    """The table; the head of the file says what its keys are."""
    table: list[Mapping[str, str]] = data_file("known_good")
    return table


def reported(state: State) -> str:
    """The month of the newest report of a host's kernel with its driver; empty where nobody has reported the pair."""
    found = versions(state)
    pair = (found["kernel"], found["driver"])
    return max((row["seen"] for row in known_good() if (row["kernel"], row["driver"]) == pair), default="")


def versions(state: State) -> dict[str, str | None]:
    """What runs, by the names of ``fleet_host.versions``; None where there is none or it could not be read."""
    kernel, firmware = state.get("kernel"), state.get("firmware")
    engine, platform = state.get("engine"), state.get("platform")
    return {
        "kernel": kernel.get("release") if kernel else None,
        "driver": state.get("driver"),
        "nic_firmware": firmware.get("nic_firmware") if firmware else None,
        "docker": engine.get("version") if engine else None,
        "docker_store": engine.get("store") if engine else None,
        "bios": platform.get("bios") if platform else None,
        "ota": platform.get("ota") if platform else None,
    }


def bad_versions(look: PreflightContext) -> Iterator[Finding]:
    """What runs against the versions that are known to fail on GB10; one that is tolerated is a hint."""
    yield from (finding for _row, _have, finding in bad_rows(look))


def bad_rows(look: PreflightContext) -> Iterator[tuple[Row, str, Finding]]:
    """`bad_versions`, each with its row and the version."""
    cmdline = look.part("kernel").get("cmdline", "")
    for row, have in found_bad(versions(look.state), cmdline):
        tolerated = look.slice["versions"]["tolerated"].get(row["id"])
        severity: Severity = row.get("in_group", row["severity"]) if look.in_group else row["severity"]
        one = Finding(
            rule=f"known-bad {row['id']}",
            kind="host",
            severity="hint" if tolerated else severity,
            at=Place(thing=f"{row['what']} {have}"),
            found=have + (f", tolerated: {tolerated}" if tolerated else ""),
            expected=described(row),
            remedy=row["remedy"],
            reason=row["effect"],
            source=row["source"],
        )
        yield row, have, proven(one, row)


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
