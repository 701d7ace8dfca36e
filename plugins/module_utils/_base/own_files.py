# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads and replaces files that this collection itself keeps: records, seals, histories.

A crash, a full disk or a hand may leave anything in them. Such a file stops nothing: it is set aside under a name of
its own, for whoever wants to know, it is noted once, and its record begins again.
"""

import contextlib
import errno
import os
import shutil
import stat
import struct
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Value = TypeVar("Value")
Note = Callable[[str], None]

ASIDE = ".damaged"
# What parsers of JSON and of our own forms raise for what they don't understand.
_NOT_UNDERSTOOD = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
_DAMAGED = (*_NOT_UNDERSTOOD, struct.error, zlib.error)


def look(path: Path, parse: Callable[[bytes], Value]) -> tuple[Value | None, str]:
    """What a file holds; or None, and why it can't be read: an empty string where there is none. Changes nothing.

    parse: raises any of the usual errors for what is not in its form.
    """
    try:
        return parse(path.read_bytes()), ""
    except (FileNotFoundError, NotADirectoryError):
        return None, ""
    except OSError as error:
        return None, error.strerror or str(error)
    except _DAMAGED as error:
        return None, _in_words(error)


def read(path: Path, parse: Callable[[bytes], Value], note: Note | None) -> Value | None:
    """What a file holds; None where there is none, or none that can be read, which is then set aside.

    note: is given the sentence for a person; None for who may not change anything.
    """
    value, why = look(path, parse)
    if why and note:
        note(f"{path} can't be read ({why}): {set_aside(path)}, and its record begins again")
    return value


def set_aside(path: Path) -> str:
    """Move a damaged file to its name with `ASIDE`, over one that lies there; what became of it, in words."""
    aside = path.with_name(path.name + ASIDE)
    with contextlib.suppress(OSError):
        if aside.is_dir() and not aside.is_symlink():
            shutil.rmtree(aside)
        path.replace(aside)
        return f"it is kept as {aside.name}"
    return "it can't be moved away either"


def clear_of_folders(file: Path) -> None:
    """Set aside a folder in a file's place: Docker makes one where a file is missing that a container mounts."""
    if file.is_dir() and not file.is_symlink():
        set_aside(file)


def holds(path: Path, content: bytes, mode: int) -> bool:
    """Whether it is a file of this process's account, no link, with that content and mode."""
    try:
        status = path.lstat()
        is_ours = (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid())
        is_as_wanted = stat.S_ISREG(status.st_mode) and is_ours and stat.S_IMODE(status.st_mode) == mode
        return is_as_wanted and path.read_bytes() == content
    except OSError:
        return False


def replace_file(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a file so that a reader sees the old or the new one, never a part, whatever ends this process."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # under a name that no other writer has: of two at once, one file comes out whole
        descriptor, partial = tempfile.mkstemp(".partial", f".{path.name}.", path.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                os.fchmod(descriptor, mode)
                stream.write(content)
                stream.flush()
                os.fsync(descriptor)
            Path(partial).replace(path)
        except BaseException:
            Path(partial).unlink(missing_ok=True)
            raise
    except OSError as problem:
        # what a descriptor could not take names no file, and who only passes it on names no remedy
        words = f"{problem.strerror} (make room there, and run again)" if _is_full(problem) else problem.strerror
        raise OSError(problem.errno, words, str(path)) from problem


def _is_full(problem: OSError) -> bool:
    return problem.errno in (errno.ENOSPC, errno.EDQUOT)


def unwritten(problem: OSError, folder: Path | str, expected: str, remedy: str) -> str:
    """Why a file could not be written, in a sentence. folder: where, if the system names no file. expected, remedy:
    where it is not that the disk is full."""
    place = problem.filename or folder
    if _is_full(problem):
        expected, remedy = "room for it", f"make room there (df -h {place}; df -i {place}), and run again"
    found = os.strerror(problem.errno) if problem.errno else str(problem)
    return f"{place}: {found}; expected {expected}; {remedy}"


def _in_words(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it has no {error}"
    return str(error) or type(error).__name__
