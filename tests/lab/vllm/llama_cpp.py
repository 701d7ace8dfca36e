# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""llama.cpp as Debian packages it, built for CPUs: the one layer of its image."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

from ..base import KEYRING
from . import archive, store
from .process import UnavailableError, run

# No stable Debian has it. It moves: in the image is what it had on the day on which the image was made.
SUITE = "testing"
VERSION = "debian"
# rpc-server is among the extra tools; what calls one is a plugin of its own.
_PACKAGES = ("llama.cpp-tools", "llama.cpp-tools-extra", "libggml0-backend-rpc")
_HOOK = "/usr/share/mmdebstrap/hooks/merged-usr"
_TRIPLE = f"{platform.machine()}-linux-gnu"
LIBRARY_PATH = f"/usr/lib/{_TRIPLE}/llama:/usr/lib/{_TRIPLE}/ggml"
_UNWANTED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
_LEFTOVERS = ("etc/apt", "var/cache/apt", "var/lib/apt", "dev")


def layers(directory: Path, work: Path, log: Path) -> list[archive.Layer]:
    """The layer, built if it isn't in `directory`."""
    name, path = f"llama.cpp of Debian {SUITE}", directory / "llama-cpp.tar"

    def make(part: Path) -> store.Facts:
        with store.step(f"{name} by mmdebstrap"):
            root = work / "llama-cpp"
            _unpack(root, log)
            packed = archive.write_layer(name, root, part)
            store.remove(root)
        return packed.as_facts()

    wanted = store.inputs(SUITE, *_PACKAGES, Path(__file__), Path(archive.__file__))
    return [archive.Layer.from_facts(name, path, store.ensure(path, wanted, make))]


def link_programs(root: Path) -> None:
    """rpc-server on the path, which Debian keeps elsewhere and under its newer name."""
    programs = root / "usr" / "local" / "bin"
    programs.mkdir(parents=True)
    (programs / "rpc-server").symlink_to(f"/usr/libexec/{_TRIPLE}/llama/bin/ggml-rpc-server")


def _unpack(root: Path, log: Path) -> None:
    """Packages unpacked, not installed: no script of theirs runs. Debian's signature counts, and not its age."""
    if not shutil.which("mmdebstrap"):
        raise UnavailableError(
            "mmdebstrap is missing: apt-get install mmdebstrap (on Ubuntu also debian-archive-keyring)"
        )
    run(
        [
            *("mmdebstrap", "--variant=extract", KEYRING, f"--hook-dir={_HOOK}"),
            f"--include={','.join(_PACKAGES)}",
            *('--aptopt=Acquire::Languages "none"', '--aptopt=Acquire::Check-Valid-Until "false"'),
            *(f"--dpkgopt=path-exclude={path}" for path in _UNWANTED),
            *("--format=directory", SUITE, root),
        ],
        log,
        {"SOURCE_DATE_EPOCH": str(archive.EPOCH), "LC_ALL": "C.UTF-8"},
    )
    for name in _LEFTOVERS:
        store.remove(root / name)
