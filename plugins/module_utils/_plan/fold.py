# SPDX-License-Identifier: GPL-3.0-or-later
"""One mistake, one error: what follows from another finding is left out, and what the plan computed is not blamed.

An owner can change what he wrote. A rule that finds fault with a value that the plan computed from a workload speaks of
the workload; where the memory doesn't suffice at all, that is the finding, and the rest follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

_OPTION = re.compile(r"fleet_services\.(?P<service>[^:]+): argv --(?P<option>\S+)")
_SIZES = {"max-model-len": "max_model_len", "max-num-seqs": "max_num_seqs"}
_LOWER = "lower max_model_len or max_num_seqs of the workload, which it is computed from"
# A rule that says the same as one before it, of the same service and with less: (what stays, what goes).
_SAME = (
    ("memory-pool-small", "R104"),
    ("R113", "R112"),
    ("R113", "kv-length"),
    ("R112", "kv-length"),
    ("kv-align", "kv-late"),
)


def folded(
    rows: Sequence[Row], sized: Mapping[str, Iterable[str]], workloads: Mapping[str, Iterable[str]]
) -> list[Row]:
    """The findings without consequences of others.

    rows: with hosts. sized: the options of each service that its memory was computed for. workloads: the sizes that
    each service's workload declares.
    """
    errors = [row for row in rows if row["severity"] == "error"]
    short = {host for row in errors if row["kind"] == "memory" for host in (row["hosts"] or [row["place"]])}
    fabric_is_wrong = any(row["place"].startswith("fleet_fabric") for row in errors)
    rules = {(row["rule"], service) for row in rows if (service := _service(row["place"]))}
    kept = []
    for row in rows:
        match = _OPTION.fullmatch(row["place"])
        is_sized = match is not None and match["option"] in sized.get(match["service"], ())
        if is_sized and short.intersection(row["hosts"]):
            continue
        if row["rule"] == "fabric-group-unconnected" and fabric_is_wrong:
            continue
        if any(row["rule"] == less and (more, _service(row["place"])) in rules for more, less in _SAME):
            continue
        if row["rule"] == "R104" and "pool" in workloads.get(_service(row["place"]), ()):
            continue  # the owner has decided on pool and concurrency each by itself
        kept.append(_in_the_owners_words(row, match, workloads, is_sized=is_sized))
    return kept


def _service(place: str) -> str:
    found = re.match(r"fleet_services\.([a-z0-9-]+)", place)
    return found.group(1) if found else ""


def _in_the_owners_words(
    row: Row, match: re.Match[str] | None, workloads: Mapping[str, Iterable[str]], *, is_sized: bool
) -> Row:
    """A finding about an option, at the place where the owner wrote what it comes from."""
    if match is None:
        return row
    place = f"fleet_services.{match['service']}.workload"
    if is_sized:
        found = f"--{match['option']} {row['found']}".removesuffix(" ")
        return {**row, "place": place, "found": found, "remedy": _LOWER}
    size = _SIZES.get(match["option"], "")
    if size in workloads.get(match["service"], ()):
        return {**row, "place": f"{place}.{size}"}
    return row
