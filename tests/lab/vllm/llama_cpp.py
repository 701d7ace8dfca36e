# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""llama.cpp as Debian sid packages it, built for CPUs: the one layer of its image, of packages by their sums alone."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path

from ..base import KEYRING
from ..errors import LabError
from . import archive, store
from .process import UnavailableError, run

VERSION = "0.7.0"
SID = "GB10_LAB_SID"
# rpc-server is among the extra tools; what calls one is a plugin of its own.
_PACKAGES = ("llama.cpp-tools", "llama.cpp-tools-extra", "libggml0-backend-rpc")
# `sha256sum` of each package that these need.
_SUMS = Path(__file__).with_suffix(".txt")
_HOOK = "/usr/share/mmdebstrap/hooks/merged-usr"
_LIBRARIES = "/usr/lib/x86_64-linux-gnu"
LIBRARY_PATH = f"{_LIBRARIES}/llama:{_LIBRARIES}/ggml"
_UNWANTED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
_LEFTOVERS = ("etc/apt", "var/cache/apt", "var/lib/apt", "dev")


def layers(directory: Path, work: Path, log: Path) -> list[archive.Layer]:
    """The layer, built if it isn't in `directory`."""
    name, path = f"llama.cpp {VERSION}", directory / "llama-cpp.tar"

    def make(part: Path) -> store.Facts:
        with store.step(f"{name} of Debian sid by mmdebstrap"):
            root = work / "llama-cpp"
            _unpack(root, log)
            packed = archive.write_layer(name, root, part)
            store.remove(root)
        return packed.as_facts()

    wanted = store.inputs(*_PACKAGES, Path(__file__), _SUMS, Path(archive.__file__))
    return [archive.Layer.from_facts(name, path, store.ensure(path, wanted, make))]


def link_programs(root: Path) -> None:
    """rpc-server on the path, which Debian keeps elsewhere and under its newer name."""
    programs = root / "usr" / "local" / "bin"
    programs.mkdir(parents=True)
    (programs / "rpc-server").symlink_to("/usr/libexec/x86_64-linux-gnu/llama/bin/ggml-rpc-server")


def _unpack(root: Path, log: Path) -> None:
    """Packages unpacked, not installed: no script of theirs runs. What a mirror says of its age counts as little as in
    a dated archive, since the sums decide."""
    if platform.machine() != "x86_64":
        raise UnavailableError(f"llama.cpp {VERSION} is pinned for x86_64, and this machine is {platform.machine()}")
    if not shutil.which("mmdebstrap"):
        raise UnavailableError(
            "mmdebstrap is missing: apt-get install mmdebstrap (on Ubuntu also debian-archive-keyring)"
        )
    many = len(_SUMS.read_text().splitlines())
    check = (
        f'cd "$1"/var/cache/apt/archives && sha256sum --check --strict --quiet "{_SUMS}" '
        f'&& [ "$(ls *.deb | wc -l)" = {many} ]'
    )
    mirror = os.environ.get(SID)
    try:
        run(
            [
                *("mmdebstrap", "--variant=extract", KEYRING, f"--hook-dir={_HOOK}"),
                *(f"--include={','.join(_PACKAGES)}", f"--extract-hook={check}"),
                *('--aptopt=Acquire::Languages "none"', '--aptopt=Acquire::Check-Valid-Until "false"'),
                *(f"--dpkgopt=path-exclude={path}" for path in _UNWANTED),
                *("--format=directory", "unstable", root, *([mirror] if mirror else ())),
            ],
            log,
            {"SOURCE_DATE_EPOCH": str(archive.EPOCH), "LC_ALL": "C.UTF-8"},
        )
    except LabError as problem:
        raise LabError(
            f"{problem}\nIf Debian sid has moved on, {SID} names a mirror that has what {_SUMS.name} lists: a day of "
            "Debian's snapshot archive (deb [check-valid-until=no] URL sid main)"
        ) from None
    for name in _LEFTOVERS:
        store.remove(root / name)
