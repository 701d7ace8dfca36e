# SPDX-License-Identifier: GPL-3.0-or-later
"""The one way by which recipes of others come to this machine. Nothing of a source is run, and none of its files is
checked out: git hands over the objects of one commit, and only small YAML files are read of them."""

import os
import resource
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from ..module_utils._base import worded
from ..module_utils._base.foreign_files import content_of
from ..module_utils._base.place import Place
from ..module_utils._base.received import one_line, path_problem
from ..module_utils._engines.recipes.shelf import VARIABLE, RecipeSource, url_of

# A recipe has some kilobytes; the largest collection of recipes that we know has 300 files and 20 MB with its pictures.
_MOST_FILE, _MOST_FILES, _MOST_SEEN, _MOST_WHOLE = 1 << 18, 1000, 100_000, 64 << 20
_MOST_FETCHED, _MOST_MEMORY, _LIMIT_S = 512 << 20, 4 << 30, 300
# No program that a person's or a repository's settings name is run, nobody is asked, and no password is sent.
# A server sends nobody on to another address, and one that is silent for a minute is left.
_SETTINGS = (
    *("core.hooksPath=/dev/null", "credential.helper=", "gc.auto=0", "maintenance.auto=false"),
    *("http.followRedirects=false", "http.lowSpeedLimit=1", "http.lowSpeedTime=60"),
)
_KEPT = ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH")

_YAML = (".yaml", ".yml")

What = TypeVar("What")
Files = tuple[dict[str, bytes], dict[str, str]]


def files_of(source: RecipeSource, inventory: Path) -> Files:
    """The YAML files of a source by their paths in it, and why others that look like recipes were not read. FleetError
    where the source can't be read. inventory: the folder that a relative path begins in."""
    try:
        if "git" in source:
            return _of_commit(source["git"], "https", source)
        folder = (inventory / Path(source["path"]).expanduser()).absolute()
        if "commit" in source:
            return _of_commit(str(folder), "file", source)
        return _of_folder(folder / source["folder"], folder)
    except (OSError, ValueError) as problem:
        words = getattr(problem, "strerror", None) or str(problem)
        raise worded.refusal(
            "source-unread", Place(variable=VARIABLE), name=source["name"], url=url_of(source), found=one_line(words)
        ) from None


def _of_folder(folder: Path, whole: Path) -> Files:
    if not folder.is_dir() or not folder.resolve().is_relative_to(whole.resolve()):
        raise ValueError(f"{folder} is no folder in it")
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for path in (Path(parent, name) for name in sorted(names) if name.lower().endswith(_YAML)):
            about = path.lstat()
            found.append((path.relative_to(folder).as_posix(), stat.S_ISREG(about.st_mode), about.st_size, path))
        if len(found) > _MOST_SEEN:
            raise ValueError(f"it has more than {_MOST_SEEN} files")
    chosen, refused = _chosen(found)
    return {name: content_of(path, _MOST_FILE) for name, path in chosen.items()}, refused


def _of_commit(url: str, protocol: str, source: RecipeSource) -> Files:
    """By git, in a folder of its own that is removed again."""
    commit = source.get("commit", "")
    with tempfile.TemporaryDirectory(prefix="gb10-recipes-") as place:
        _git(place, protocol, ["init", "--quiet", "--bare", "--template="], _MOST_FETCHED)
        bare = ["--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance"]
        _git(place, protocol, ["fetch", *bare, url, commit], _MOST_FETCHED)
        tree = f"{commit}:{source['folder']}"
        listed = _git(place, protocol, ["ls-tree", "-r", "-l", "-z", "--full-tree", tree], _MOST_WHOLE)
        found = []
        for row in listed.decode(errors="replace").split("\0")[:-1]:
            about, _, name = row.partition("\t")
            mode, _kind, blob, size = about.split()
            if name.lower().endswith(_YAML):
                is_file = mode in ("100644", "100755")
                found.append((name, is_file, int(size) if is_file else 0, blob))
        chosen, refused = _chosen(found)
        given = "".join(f"{blob}\n" for blob in chosen.values()).encode()
        answer = _git(place, protocol, ["cat-file", "--batch"], 2 * _MOST_WHOLE, given)
    files, at = {}, 0
    for name in chosen:  # of each a line that ends in its size, its content, and a line's end
        begin = answer.index(b"\n", at) + 1
        words, at = answer[at:begin].split(), begin
        if words[1:2] != [b"blob"]:
            refused[one_line(name)] = "its commit lists it, and the source lacks its content"
            continue
        at = begin + int(words[2])
        files[name], at = answer[begin:at], at + 1
    return files, refused


def _chosen(found: Iterable[tuple[str, bool, int, What]]) -> tuple[dict[str, What], dict[str, str]]:
    """Which files are read, and why others are not. found: path, whether it is a regular file, size, and by what it is
    read."""
    chosen: dict[str, What] = {}
    refused: dict[str, str] = {}
    whole = 0
    for name, is_file, size, what in found:
        if any(part[:1] == "." and part != ".." for part in name.split("/")):
            continue
        why = f"its path {problem}" if (problem := path_problem(name)) else "" if is_file else "it is no regular file"
        if size > _MOST_FILE:
            why = why or f"it has more than {_MOST_FILE} bytes"
        if len(chosen) >= _MOST_FILES or whole + size > _MOST_WHOLE:
            why = why or f"it comes after {_MOST_FILES} files or {_MOST_WHOLE >> 20} MiB"
        if why:
            refused[one_line(name)] = why
        else:
            chosen[name], whole = what, whole + size
    return chosen, refused


def _git(place: str, protocol: str, words: Sequence[str], most: int, given: bytes = b"") -> bytes:
    """What git prints. ValueError with its last line where it fails, takes too long, or writes more than ``most``."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
    own |= {"HOME": place, "GIT_DIR": place, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
    own |= {
        "GIT_ALLOW_PROTOCOL": protocol,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "GIT_NO_LAZY_FETCH": "1",
    }
    command = ["git", *(word for setting in _SETTINGS for word in ("-c", setting)), *words]

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as spoken:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=spoken,
            env=own,
            start_new_session=True,
            preexec_fn=bound,  # noqa: PLW1509 - the task has a process of its own
        )
        try:
            process.communicate(given, timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise ValueError(f"git did not end within {_LIMIT_S} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        out.seek(0)
        spoken.seek(0)
        if process.returncode == 0:
            return out.read()
        last = spoken.read(1 << 16).decode(errors="replace")
    if process.returncode == -signal.SIGXFSZ or "signal 25" in last:
        raise ValueError(f"it has more than {most >> 20} MiB")
    lines = [line.strip() for line in last.splitlines() if line.strip()]
    words = [line for line in lines if line.startswith("fatal:")] or lines[-1:] or [f"exit status {process.returncode}"]
    raise ValueError(f"git: {words[0]}")
