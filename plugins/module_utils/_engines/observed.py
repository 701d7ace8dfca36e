# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts and images have shown: the folder ``.fleet/observed`` beside the inventory, which `verify` writes.

It makes the plan's figures exact and its findings sharper, and decides nothing: with or without it, every command line
is the same, so that no boot makes the next run change something.

``boots/<host>/<key>.json``: a start's record (`_engines.memory.boots.RECORD`). ``catalogues/<image>.json``: ``{version,
catalogue}`` of an image whose vLLM the recipe doesn't name, as `gb10.fleet.vllm_catalogue_info` read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._base.findings import Finding, warning
from .._base.schema import Spec, check
from .memory.boots import RECORD

# Ansible reads no hidden folder as an inventory, whatever its configuration: what hosts say must not become hosts.
FOLDER = ".fleet/observed"
CATALOGUE: Spec = {
    "type": "map",
    "options": {
        "version": {"type": "str", "nullable": True, "default": None},
        "catalogue": {"type": "map", "required": True},
    },
}


_SPECS: Mapping[str, Spec] = {"boot": RECORD, "catalogue": CATALOGUE}
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Observed:
    """boots: by host, then by `_engines.memory.boots.boot_key`. catalogues: by `image_key`. findings: on files of no
    use."""

    boots: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    catalogues: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def image_key(image: Mapping[str, Any]) -> str:
    """A file's name for an image: its digest, or its reference where it isn't pinned."""
    key = str(image["digest"] or image["reference"]).removeprefix("sha256:")
    return "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in key)


def require_observed(kind: str, content: Any) -> None:
    """ValueError for what is no document of that kind (``boot``, ``catalogue``), or too large for one."""
    _checked, problems = check(_SPECS[kind], content, f"the {kind}")
    if problems:
        raise ValueError(problems[0].sentence())
    length = len(json.dumps(content, allow_nan=False))
    if length > _MOST_BYTES:
        raise ValueError(f"the {kind} has {length} bytes; expected at most {_MOST_BYTES}")


def read_observed(folder: Path) -> Observed:
    """Everything below ``folder/.fleet/observed``; a file that can't be used is a finding and is left out."""
    findings: list[Finding] = []
    boots: dict[str, dict[str, Mapping[str, Any]]] = {}
    for path in sorted((folder / FOLDER / "boots").glob("*/*.json")):
        record = _read(path, RECORD, findings)
        if record is not None:
            boots.setdefault(path.parent.name, {})[path.stem] = record
    catalogues = {}
    for path in sorted((folder / FOLDER / "catalogues").glob("*.json")):
        answer = _read(path, CATALOGUE, findings)
        if answer is not None:
            catalogues[path.stem] = answer
    return Observed(boots, catalogues, tuple(findings))


def _read(path: Path, spec: Spec, findings: list[Finding]) -> Mapping[str, Any] | None:
    try:
        data = json.loads(path.read_text("utf-8"), parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as error:
        findings.append(_unusable(path, str(error)))
        return None
    checked, problems = check(spec, data, f"{path}: ")
    if problems:
        findings.append(_unusable(path, problems[0].sentence()))
        return None
    found: Mapping[str, Any] = checked
    return found


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no size")


def _unusable(path: Path, found: str) -> Finding:
    remedy = "remove the file; verify.yml writes it anew"
    return warning("observed-unusable", str(path), found=found, expected="what verify.yml wrote", remedy=remedy)
