# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on the first release in which a model, a speculative method or a loader works."""

import re
from collections.abc import Mapping
from typing import TypedDict

from ...._base.findings import Severity
from ...._base.gb10 import data_file
from ._base import Check, Hit, Hits, Row, entered
from .launch import Launch

_PLACES = {
    "method": "argv --speculative-config",
    "drafter": "argv --speculative-config",
    "load_format": "argv --load-format",
}


class _Need(TypedDict, total=False):
    """A row of ``data/vllm_needs.yml``, as the head of the file says."""

    what: str
    when: dict[str, str | list[str | None]]
    unless: dict[str, str]
    needs: str
    since: str
    severity: Severity
    covers: list[str]
    expected: str
    remedy: str
    reason: str
    source: str


def _met(launch: Launch, key: str, wanted: str | list[str | None]) -> str:
    """What of a launch meets a condition, as a sentence has it; empty where nothing does."""
    model = launch.model
    if key == "model":
        names = (model.architecture or "", model.repository)
        return next((name for name in names if re.fullmatch(str(wanted), name, re.IGNORECASE)), "")
    found = {
        "quant_algo": model.quant_algo,
        "family": model.family,
        "method": launch.method,
        "drafter": launch.speculation.get("model"),
        "load_format": launch.text("--load-format"),
        "image": launch.family,
    }[key]
    return str(found) if found in (wanted if isinstance(wanted, list) else [wanted]) else ""


def _cured(launch: Launch, unless: Mapping[str, str]) -> bool:
    """Whether the launch brings what the release lacks; a mount counts as there where mounts aren't known."""
    overridden = launch.command.json("--hf-overrides").get("architectures")
    start = launch.words.script.split("vllm serve")[0]
    return (
        ("mounted" in unless and launch.mounted(unless["mounted"]) is not False)
        or ("installed" in unless and unless["installed"] in start)
        or ("architecture" in unless and overridden == [unless["architecture"]])
    )


def _check(row: _Need) -> Check:
    unless = row.get("unless", {})
    place = next((_PLACES[key] for key in row["when"] if key in _PLACES), "model")

    def check(launch: Launch) -> Hits:
        met = [_met(launch, key, wanted) for key, wanted in row["when"].items()]
        if all(met) and not _cured(launch, unless):
            yield Hit(place, met[0])

    check.__doc__ = f"{row['what'].rstrip('.')} before {row['needs']}."
    return check


def _words(row: _Need) -> Row:
    """The row in the form of ``data/rules.yml``, where `needs` names facts."""
    return {
        "expected": row.get("expected", f"vLLM {row['needs']} or later"),
        "remedy": row["remedy"],
        "reason": row["reason"],
        "source": row["source"],
        "area": "releases",
        "covers": row.get("covers", []),
        "severity": {f"{row.get('since', '')}..<{row['needs']}": row.get("severity", "error")},
        "needs": ["mounts"] if "mounted" in row.get("unless", {}) else [],
    }


for _row in data_file("vllm_needs"):
    entered(_row["id"], _words(_row), {})(_check(_row))
