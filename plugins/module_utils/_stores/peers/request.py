# SPDX-License-Identifier: GPL-3.0-or-later
"""What another host may ask for: the only way from its bytes into the server, which runs as root."""

from typing import Any

from ..._base.received import DIGEST, MOST_BYTES, REVISION, SHA256, checked, is_map, parsed
from ..._base.schema import Spec
from ..._facts.models.stored import STORED

LINE_BYTES = 256 << 10
# What one answer may hold: twice what `_stores.transfer.fetch` asks for at once.
ANSWER_BYTES = 32 << 20
_MOST_RANGES = 4096

_NUMBER: Spec = {"type": "int", "min": 0, "max": MOST_BYTES}
_RANGES: Spec = {
    "type": "list",
    "required": True,
    "max": _MOST_RANGES,
    "elements": {"type": "list", "min": 2, "max": 2, "elements": _NUMBER},
}
_REFERENCE: Spec = {
    "type": "str",
    "required": True,
    "pattern": r"[a-z0-9][A-Za-z0-9_./:-]{0,400}",
    "expected": "an image's name, such as registry/image:1.0",
}
# By the key that names what is asked for, all keys of the request.
_SPECS: dict[str, Spec] = {
    "read": {"type": "map", "options": {"read": SHA256, "ranges": _RANGES}},
    "recipe": {"type": "map", "options": {"recipe": SHA256, "packed": {**DIGEST, "nullable": True}}},
    "image": {"type": "map", "options": {"image": _REFERENCE, "digest": {**DIGEST, "nullable": True}}},
    "model": {"type": "map", "options": {"model": STORED, "revision": {**REVISION, "nullable": True}}},
}


def read_request(line: bytes) -> tuple[str, dict[str, Any]]:
    """What one line asks for (a key of ``_SPECS``) and the whole request. ValueError for anything else."""
    request = parsed(line, LINE_BYTES, "the request")
    kinds = [kind for kind in _SPECS if is_map(request) and kind in request]
    if len(kinds) != 1:
        raise ValueError(f"the request: expected a map that asks for one of {', '.join(_SPECS)}")
    found: dict[str, Any] = checked(_SPECS[kinds[0]], request, "the request")
    if sum(length for _, length in found.get("ranges", ())) > ANSWER_BYTES:
        raise ValueError(f"the request: it asks for more than {ANSWER_BYTES} bytes at once")
    return kinds[0], found
