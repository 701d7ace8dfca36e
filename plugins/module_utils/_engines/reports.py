# SPDX-License-Identifier: GPL-3.0-or-later
"""What an engine is asked of a launch, and what others saw go wrong with one like it: ``data/reports.yml``."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from .._base.findings import Finding
from .._base.gb10 import data_file
from .._base.place import Place
from .interface import Facts


@cache
def _rows() -> Mapping[str, Mapping[str, Any]]:
    rows: dict[str, Mapping[str, Any]] = data_file("reports")
    return rows


def request_of(facts: Facts) -> dict[str, Any]:
    """What `judge` of an engine is asked. host: what a host alone knows, of which nothing is judged yet."""
    placed = facts.placed
    return {
        "engine": placed.recipe["engine"],
        "flags": {name: decided.value for name, decided in placed.flags.items()},
        "variables": sorted({**placed.recipe["env"], **placed.settings["env"]}),
        "host": {},
        "hosts": len(placed.hosts),
        "image": placed.image["reference"],
        "model": f"{placed.model['repository']} {placed.model['quantization'] or ''}".strip(),
        "sees": None if placed.config is None else "vision_config" in placed.config,
        "release": placed.image["release"],
        "silence": [*placed.silence],
    }


def reported(request: Mapping[str, Any], place: Place) -> Iterator[Finding]:
    """The rows that hold for a request. place: the service's."""
    for rule, row in _rows().items():
        when = row["when"]
        if row["engine"] != request["engine"] or rule in request["silence"] or not _holds(when, request):
            continue
        value = next((request["flags"].get(name) for name in when.get("flags", ())), None)
        yield Finding(
            row.get("severity", "warning"),
            rule,
            place.below(*row.get("at", ())),
            **{text: row[text] for text in ("expected", "remedy", "reason", "source") if text in row},
            found=row["found"].format(**{**request, "value": value}),
            kind="combination",
        )


def _holds(when: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    texts = {key: str(request[key] or "") for key in ("model", "image", "release")}
    return (
        request["hosts"] >= when.get("hosts", 1)
        and not ("sees" in when and request["sees"] is False)
        and when.get("unset") not in request["variables"]
        and all(re.search(when[key], text, re.IGNORECASE) for key, text in texts.items() if key in when)
        and all(_written(pattern, request["flags"].get(name)) for name, pattern in when.get("flags", {}).items())
    )


def _written(pattern: str | None, value: object) -> bool:
    return not value if pattern is None else value is not None and re.search(pattern, str(value)) is not None
