# SPDX-License-Identifier: GPL-3.0-or-later
"""Files on the controller that hold a secret of the owner's: how one is read, and who else may read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .findings import Finding, warning

_VAULT = b"$ANSIBLE_VAULT;"


def read(path: Path, most: int) -> bytes | None:
    """Its content, of a larger file the first ``most`` + 1 bytes; None where ansible-vault has to decrypt it before it
    can be judged. Raises OSError for what can't be read."""
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    return None if content.startswith(_VAULT) else content


def is_encrypted(path: Path) -> bool:
    """As above; False for what can't be read."""
    try:
        return read(path, len(_VAULT)) is None
    except OSError:
        return False


def others_may_read(rule: str, place: str, path: Path) -> Iterator[Finding]:
    """The warning of a file, not encrypted, whose mode lets other accounts of the controller read it."""
    if path.stat().st_mode & 0o077:
        found = f"{path} can be read by other accounts of this machine"
        yield warning(rule, place, found=found, expected="mode 0600", remedy=f"chmod 600 {path}")
