# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds on a host what lies where patterns of ours lead. Follows no link, neither on the way nor there."""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..._base.owned import matches, require_pattern

# More than any part has: what is beyond is found when these are gone.
_MOST = 10_000


def find_owned(patterns: Iterable[str]) -> list[str]:
    """The regular files and links that match, by path. ValueError for a pattern that is too wide."""
    found: set[str] = set()
    for pattern in patterns:
        require_pattern(pattern)
        folder = Path(pattern).parent
        if _is_plain(folder):
            below = _all_below(folder) if pattern.endswith("/**") else _files_of(folder)
            found |= {path for path in below if matches(pattern, path)}
    return sorted(found)[:_MOST]


def _is_plain(folder: Path) -> bool:
    """Whether each folder on the way is one, and no link to elsewhere."""
    try:
        return all(stat.S_ISDIR(part.lstat().st_mode) for part in (folder, *folder.parents))
    except OSError:
        return False


def _files_of(folder: Path) -> Iterator[str]:
    with os.scandir(folder) as entries:
        yield from (entry.path for entry in entries if entry.is_symlink() or entry.is_file(follow_symlinks=False))


def _all_below(folder: Path) -> Iterator[str]:
    for path, _folders, _files in os.walk(folder):  # which enters no link
        yield from _files_of(Path(path))
