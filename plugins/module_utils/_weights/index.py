# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What a checkpoint's ``model.safetensors.index.json`` says of its size."""

from __future__ import annotations

import json
from pathlib import Path

NAME = "model.safetensors.index.json"


def indexed_bytes(index: Path) -> int | None:
    """The sum of the tensors' bytes; None without an index, or where it has no figure."""
    try:
        size = json.loads(index.read_text(encoding="utf-8"))["metadata"]["total_size"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return int(size) if isinstance(size, int | float) and 0 < size < 1 << 60 else None
