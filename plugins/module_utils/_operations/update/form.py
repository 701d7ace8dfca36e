# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host says of its updates: the form of the reading, and of the record of an update that is under way."""

from typing import Any

from ..._base.received import LINE, checked, parsed
from ..._base.schema import Spec
from ..bench.figures import VALUES

# In this order; the last two are of an update that is put back.
STAGES = ("kept", "installing", "installed", "back", "restored")
MOST_RECORD_BYTES = 4 << 20

_MOST_PACKAGES = 20_000
_NAME = r"[a-z0-9][a-z0-9+.-]{0,127}(:[a-z0-9-]{1,32})?"
_VERSION = r"[A-Za-z0-9.+:~_-]{0,200}"
# Debian Policy 5.6.1 and 5.6.12
PACKAGE: Spec = {"type": "str", "required": True, "pattern": _NAME, "expected": "a package's name"}
VERSION: Spec = {"type": "str", "required": True, "pattern": _VERSION, "expected": "a package's version"}
_TEXT: Spec = {"type": "str", "required": True, "max": 4096, "pattern": LINE, "expected": "one line"}
_LINE: Spec = {"type": "str", "max": 300, "pattern": LINE, "expected": "one line"}
_LINES: Spec = {"type": "list", "required": True, "max": 1000, "elements": _LINE}
_PACKAGES: Spec = {"type": "list", "required": True, "max": _MOST_PACKAGES, "elements": PACKAGE}
_FLAG: Spec = {"type": "bool", "required": True}
STEPS: Spec = {
    "type": "list",
    "required": True,
    "max": _MOST_PACKAGES,
    "elements": {
        "type": "map",
        "options": {
            "action": {"type": "str", "required": True, "choices": ["install", "upgrade", "remove"]},
            "package": PACKAGE,
            "have": VERSION,
            "version": VERSION,
        },
    },
}
_MAYBE: Spec = {**_LINE, "nullable": True, "default": None}
SECONDS: Spec = {
    "type": "map",
    "required": True,
    "max": 1000,
    "keys": _LINE,
    "values": {"type": "list", "max": 100, "elements": {"type": "number", "min": 0, "max": 1e6}},
}
FIGURES: Spec = {"type": "map", "default": {}, "max": 1000, "keys": _LINE, "values": VALUES}
RECORD: Spec = {
    "type": "map",
    "options": {
        "stage": {"type": "str", "required": True, "choices": list(STAGES)},
        "boot_id": _TEXT,
        "begun_s": {"type": "number", "required": True, "min": 0, "max": 1e12},
        "steps": STEPS,
        "lost": _PACKAGES,
        "automatic": _PACKAGES,
        "firmware": _FLAG,
        "units": {"type": "list", "required": True, "max": 1000, "elements": _LINE},
        "expected": {"type": "map", "required": True, "options": {"kernel": _MAYBE, "driver": _MAYBE}},
        "known": _LINES,
        "seconds": SECONDS,
        "figures": FIGURES,
    },
}

# What the form of a reading takes from here: hosts have no such file.
SHARED: dict[str, Spec] = {
    **{"text": _TEXT, "line": _LINE, "lines": _LINES, "steps": STEPS, "record": RECORD},
    **{"package": PACKAGE, "packages": _PACKAGES, "version": VERSION, "seconds": SECONDS, "figures": FIGURES},
}


def record_of(content: bytes) -> dict[str, Any]:
    """The record in a file. ValueError with one sentence for one that can't be used."""
    found: dict[str, Any] = checked(RECORD, parsed(content, MOST_RECORD_BYTES, "the record"), "the record")
    return found
