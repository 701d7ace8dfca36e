# SPDX-License-Identifier: GPL-3.0-or-later
"""Files on the controller that hold a secret of the owner's: how one is read, and who else may read it."""

import os
from collections.abc import Generator, Iterator
from pathlib import Path

from .findings import Finding, error, warning
from .place import Place

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


def others_may_read(rule: str, place: Place, path: Path) -> Iterator[Finding]:
    """The warning of a file, not encrypted, whose mode lets other accounts of the controller read it."""
    if path.stat().st_mode & 0o077:
        found = f"{path} can be read by other accounts of this machine"
        yield warning(rule, place, found=found, expected="mode 0600", remedy=f"chmod 600 {path}")


# A refused plan keeps a part whose secret is missing: a new controller learns from it what hosts keep.
_NAMES = ("key-file", "gateway-keys", "client-secret", "monitoring-file", "phoenix-secret")


def drops(problem: Finding) -> bool:
    """Whether a part with this problem is left out of the plan."""
    missing = problem.found.startswith("no file ") and problem.rule.removeprefix("input-") in _NAMES
    return problem.severity == "error" and not missing


def named(
    rule: str, place: Place, path: Path, *, expected: str, remedy: str, most: int = 4096
) -> Generator[Finding, None, str | None]:
    """What is wrong with a file that the owner names, whatever is in it; returns its text.

    None where there is none to be judged: of a file that is missing, or that ansible-vault has to decrypt first.
    """
    text, found = None, f"{path} is no file" if os.path.lexists(path) else f"no file {path}"
    if path.is_file():
        try:
            content = read(path, most)
        except OSError as problem:
            found = f"{path} can't be read: {problem.strerror}"
        else:
            found = f"{path} has more than {most} bytes" if len(content or b"") > most else ""
            text = None if content is None or found else content.decode("utf-8", "replace")
    if found:
        yield error(rule, place, found=found, expected=expected, remedy=remedy)
    elif text is not None:
        yield from others_may_read(rule, place, path)
    return text
