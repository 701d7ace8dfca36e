# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts and images have shown: the folder ``.fleet/observed`` beside the inventory, which `verify` writes.

It makes the plan's figures exact and its findings sharper, and decides nothing: with or without it, every command line
is the same, so that no boot makes the next run change something.

``boots/<host>/<key>.json``: a start's record (`_engines.memory.boots.RECORD`). ``catalogues/<host>/<image>.json``:
``{version, catalogue}`` of an image whose vLLM the recipe doesn't name, as `gb10.fleet.vllm_catalogue_info` read it
there. ``speeds/<host>/<key>.json``: a service's benchmarks (`data/forms/speed_record.yml`), by the key of its
boots. ``starts/<host>/<key>.json``: its last starts by phase (`kept_starts` of `data/forms/verify.yml`), by that key.
What a host has shown counts for the services whose head it is, and for no other: it may have been taken over.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._base.findings import Finding, warning
from .._base.forms import forms
from .._base.place import Place
from .._base.received import LINE
from .._base.schema import Spec, check
from .memory.boots import RECORD
from .starts import RECORD as STARTS
from .vllm.catalogue.releases import STORED, Catalogue

# Ansible reads no hidden folder as an inventory, whatever its configuration: what hosts say must not become hosts.
FOLDER = ".fleet/observed"
CATALOGUE: Spec = {
    "type": "map",
    "options": {
        "version": {"type": "str", "nullable": True, "default": None, "max": 200, "pattern": LINE},
        "catalogue": {**STORED, "required": True},
    },
}
_SPECS: Mapping[str, Spec] = {
    "boot": RECORD,
    "catalogue": CATALOGUE,
    "speed": forms("speed_record")["record"],
    "start": STARTS,
}
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Observed:
    """boots: by host, then by `_engines.memory.boots.boot_key`. catalogues: by host, then by `image_key`. speeds,
    starts: by host, then by `boot_key`. findings: on files of no use."""

    boots: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    catalogues: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    speeds: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    starts: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)

    def catalogue(self, host: str, image: Mapping[str, object]) -> Mapping[str, Any]:
        """What this host has shown of an image; empty for nothing."""
        return self.catalogues.get(host, {}).get(image_key(image), {})


def image_key(image: Mapping[str, object]) -> str:
    """A file's name for an image: its digest, or its reference where it isn't pinned."""
    key = str(image["digest"] or image["reference"]).removeprefix("sha256:")
    return "".join(letter if letter.isalnum() or letter in "-._" else "-" for letter in key)


def require_observed(kind: str, content: object) -> None:
    """ValueError for what is no document of that kind (``boot``, ``catalogue``, ``speed``), or too large for one."""
    _require(kind, content, Place(thing=f"the {kind}"))
    length = len(json.dumps(content, allow_nan=False))
    if length > _MOST_BYTES:
        raise ValueError(f"the {kind} has {length} bytes; expected at most {_MOST_BYTES}")


def read_observed(folder: Path) -> Observed:
    """Everything below ``folder/.fleet/observed``; a file that can't be used is a finding and is left out."""
    findings: list[Finding] = []
    boots, catalogues, speeds, starts = (_by_host(folder / FOLDER / f"{kind}s", kind, findings) for kind in _SPECS)
    for path in sorted((folder / FOLDER / "catalogues").glob("*.json")):
        findings.append(_unusable(path, "one host's word on an image of all, of an earlier release of the collection"))
    return Observed(boots, catalogues, tuple(findings), speeds, starts)


def _by_host(folder: Path, kind: str, findings: list[Finding]) -> dict[str, dict[str, Mapping[str, Any]]]:
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    known: dict[bytes, Mapping[str, Any]] = {}  # hosts that have the same image show the same
    for path in sorted(folder.glob("*/*.json")):
        try:
            content = path.read_bytes()
            if content not in known:
                known[content] = _require(kind, json.loads(content, parse_constant=_no_number), Place(thing=str(path)))
        except (OSError, ValueError, RecursionError) as error:
            findings.append(_unusable(path, str(error)))
        else:
            found.setdefault(path.parent.name, {})[path.stem] = known[content]
    return found


def _require(kind: str, content: object, place: Place) -> Mapping[str, Any]:
    """The document with its defaults; ValueError for one that no plan can be made with."""
    checked, problems = check(_SPECS[kind], content, place)
    if problems:
        raise ValueError(problems[0].sentence())
    if kind == "catalogue":
        Catalogue(checked["catalogue"]).newest  # noqa: B018 - ValueError for a range that is none
    found: Mapping[str, Any] = checked
    return found


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no size")


def _unusable(path: Path, found: str) -> Finding:
    remedy = "remove the file; verify.yml writes it again"
    return warning("observed-unusable", str(path), found=found, expected="what verify.yml wrote", remedy=remedy)
