# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads small files of recipes' authors and models' publishers, and of none more than it may have."""

import os
import stat
from pathlib import Path


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def content_of(path: Path, most: int) -> bytes:
    """The whole content of a file of at most ``most`` bytes. ValueError for a larger one, and for a pipe or a device,
    which is not waited for; OSError for what can't be opened."""
    with open(path, "rb", opener=_at_once) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise ValueError("it is no regular file")
        content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most} bytes")
    return content
