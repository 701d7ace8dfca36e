# SPDX-License-Identifier: GPL-3.0-or-later
"""Supervisors lie side by side, each in a folder named by its content.

A release brings another supervisor, and each service takes it at its next start: until then it runs by its own, of
which it starts programs. So a folder stays as long as anything goes by it.
"""

import functools
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from ..._base import layout
from ..._base.gb10 import ROOT
from ..._base.managed import shipped

_ON_HOST = "plugins/module_utils/_on_host"
_NAMED = re.compile(rf"{layout.LIBRARY}/(rank-[0-9a-f]{{12}})\b")
# Before 0.2.0 there was one for all, found by the folder in which it was started.
_FORMER = ("gb10_rank", "gids.py")
_BY_FORMER = re.compile(rf"WorkingDirectory={layout.LIBRARY}\s")


@functools.cache
def program() -> dict[str, str]:
    """The program that owns a rank's container, and what it looks GIDs up with: by path on the host, where it lies."""
    ranks = sorted(path.name for path in (ROOT / _ON_HOST / "rank").glob("*.py"))
    parts = {"gids.py": f"{_ON_HOST}/gids.py", **{f"gb10_rank/{name}": f"{_ON_HOST}/rank/{name}" for name in ranks}}
    content = "".join(f"{name}\0{shipped(source)}\0" for name, source in parts.items())
    folder = f"{layout.LIBRARY}/rank-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    return {f"{folder}/{name}": source for name, source in parts.items()}


@functools.cache
def language() -> str:
    """What stands for the messages of a group's supervisors: ranks that start at different times must agree on it."""
    files = (f"{_ON_HOST}/rank/{name}.py" for name in ("head", "members", "wire", "worker"))
    return hashlib.sha256("\0".join(map(shipped, files)).encode()).hexdigest()


def chosen() -> str:
    """The file by which the next start of a service takes it."""
    folder = min(program()).rpartition("/gb10_rank/")[0]
    return f"{layout.MARK}\nPYTHONPATH={folder}\n"


def unused(there: Iterable[str], texts: Iterable[str], processes: Iterable[tuple[str, str]]) -> list[str]:
    """Of the names in `layout.LIBRARY`, the supervisors that nothing goes by.

    texts: units and `layout.supervisor_file` of services, and what is kept of either. processes: each one's folder and
    its environment.
    """
    kept: set[str] = set()
    for text in texts:
        kept |= {*_NAMED.findall(text), *(_FORMER if _BY_FORMER.search(text) else ())}
    for folder, environment in processes:
        kept |= {*_NAMED.findall(environment), *(_FORMER if folder == layout.LIBRARY else ())}
    return sorted(name for name in there if (name in _FORMER or name.startswith("rank-")) and name not in kept)


def read_unused(brought: Iterable[str]) -> list[Path]:
    """Of this host. brought: the files of this run, which stay where no service uses them yet."""
    units = Path(layout.UNITS).glob(f"{layout.container('')}*.service")
    kept = [Path(layout.way_back("x")).parent.glob("*/*"), Path(layout.SERVICES).glob("*.supervisor"), units]
    texts = [*brought, *(path.read_text("utf-8", "replace") for paths in kept for path in paths if path.is_file())]
    library = Path(layout.LIBRARY)
    there = [path.name for path in library.iterdir()] if library.is_dir() else []
    return [library / name for name in unused(there, texts, _processes())]


def _processes() -> Iterable[tuple[str, str]]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            yield str((process / "cwd").readlink()), (process / "environ").read_text("utf-8", "replace")
        except OSError:  # it has ended, or is the kernel's
            continue
