# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks of hashes by which roles install with pip on hosts of a plan, and the wheels that each pins."""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..._base.managed import shipped
from ..._subjects.phoenix.plan import LOCK

_LOCKED = re.compile(r"^([\w.-]+)==([\w.!+-]+)", re.MULTILINE)
# By the part of a host's slice that names the folder of a virtual environment, ``tool``.
TOOLS: Mapping[str, str] = {"phoenix": LOCK}


def tools_of(host: Mapping[str, Any]) -> list[str]:
    """What a host of the plan installs so."""
    return [name for name in TOOLS if host[name]["tool"]]


def text_of(tool: str) -> str:
    return shipped(TOOLS[tool])


def sum_of(tool: str) -> str:
    """By which a bundle says that it has all wheels of a lock."""
    return hashlib.sha256(text_of(tool).encode()).hexdigest()


def pins(lock: str) -> set[tuple[str, str]]:
    """``(name, version)`` of what it pins, on any system."""
    return {(plain(name), version) for name, version in _LOCKED.findall(lock)}


def wheels_of(tool: str, manifest: Mapping[str, Any]) -> Iterator[str]:
    """The paths of its wheels in a bundle."""
    pinned = pins(text_of(tool))
    yield from (wheel["file"] for wheel in manifest["wheels"] if (plain(wheel["name"]), wheel["version"]) in pinned)


def plain(name: str) -> str:
    """One spelling of a project's name, of which ``huggingface-hub`` and ``huggingface_hub`` are two (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
