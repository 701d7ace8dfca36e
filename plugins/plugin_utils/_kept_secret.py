# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets that a run makes for the owner, kept on the controller beside the inventory."""

import os
import secrets
from pathlib import Path

from ..module_utils._base.own_files import replace_file

_IGNORE = "# secrets: made by gb10.fleet, for this machine alone\n*\n"


def make_folder(folder: Path, *, mode: int = 0o700, ignore: str = _IGNORE) -> None:
    """A folder for secrets, where there is none, of which git keeps nothing."""
    folder.mkdir(parents=True, exist_ok=True, mode=mode)
    file = folder / ".gitignore"
    if not file.exists():
        replace_file(file, ignore.encode())


def make_changing(folder: Path) -> None:
    """The same for what changes with each check: in git it would never be clean, and two people's would conflict."""
    make_folder(folder, mode=0o777, ignore="# made anew by each check of gb10.fleet\n*\n")


def keep(path: Path, content: bytes) -> bool:
    """Write a file that only its owner reads, whole or not at all; False where one lies there, which stays as it is.

    Its folder gets mode 0700 and a ``.gitignore``. Two runs at a time agree on the first one's.
    """
    make_folder(path.parent)
    if path.exists():
        return False
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            path.hardlink_to(part)
        except FileExistsError:
            return False
    except OSError as problem:
        raise OSError(problem.errno, problem.strerror, str(path)) from problem  # the system may have named no file
    finally:
        part.unlink(missing_ok=True)
    return True
