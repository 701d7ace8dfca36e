# SPDX-License-Identifier: GPL-3.0-or-later
"""What git has, or would take, of files beside the inventory. Asks git alone, and changes nothing."""

import shlex
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..module_utils._base import secret_files, worded
from ..module_utils._base.findings import Finding

_LIMIT_S = 20
_CERTIFICATE, _PRIVATE, _LOOK = b"-----BEGIN CERTIFICATE", b"PRIVATE KEY", 1 << 16


def git(folder: Path, words: Sequence[str], given: str = "") -> str:
    """What git prints; empty where it fails, or there is none. No program that a repository's settings name is run."""
    command = ["git", "-C", str(folder), "-c", "core.fsmonitor=false", *words]
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


def secrets_in_git(files: Iterable[str]) -> Iterator[Finding]:
    """Which of these secrets git keeps, or would with `git add -A`. files: on this machine; one that ansible-vault has
    encrypted, and a certificate, may lie there."""
    secrets = [path for path in map(Path, sorted({*files})) if _is_secret(path)]
    # hundreds of services have their keys in a few folders
    tops = {
        folder: git(folder, ["rev-parse", "--show-toplevel"]).strip() for folder in {path.parent for path in secrets}
    }
    roots: dict[Path, list[str]] = {}
    for path in secrets:
        if top := tops[path.parent]:
            roots.setdefault(Path(top), []).append(path.resolve().relative_to(Path(top).resolve()).as_posix())
    for root, names in roots.items():
        where = shlex.quote(str(root))
        listed = {*git(root, ["ls-files", "-z", "--", *names]).split("\0")}
        ignored = {*git(root, ["check-ignore", "--no-index", "-z", "--stdin"], "\0".join(names)).split("\0")}
        if tracked := [name for name in names if name in listed]:
            shown, words = ", ".join(tracked), shlex.join(tracked)
            yield worded.warning("secret-in-git/tracked", str(root), names=shown, words=words, root=where)
        if offered := [name for name in names if name not in listed | ignored]:
            lines = shlex.join(dict.fromkeys(_pattern(name) for name in offered))
            shown = ", ".join(offered)
            yield worded.warning("secret-in-git/offered", str(root), names=shown, lines=lines, root=where)


def _is_secret(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            text = stream.read(_LOOK)
    except OSError:
        return False
    return not secret_files.is_encrypted(path) and (_CERTIFICATE not in text or _PRIVATE in text)


def _pattern(name: str) -> str:
    """The line of a .gitignore: of a folder for secrets the folder, else the file."""
    folder = name.rpartition("/")[0]
    return f"/{folder}/" if folder.rpartition("/")[2] in ("secrets", "keys") else f"/{name}"
