# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lowest layer of both images: a small Debian with Python, built by mmdebstrap."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..base import KEYRING
from . import archive, store
from .process import UnavailableError, run

# The last Debian with Python 3.11, which is what the CPU build of torch is made for.
SUITE = "bookworm"
# vLLM reads the topology with libnuma and lscpu (essential); ip and ps serve whoever looks into a container.
# usr-is-merged, with the hook: the default, usrmerge, would bring all of Perl.
PACKAGES = ("usr-is-merged", "python3-minimal", "libpython3-stdlib", "libstdc++6", "libnuma1", "iproute2", "procps")
_HOOK = "/usr/share/mmdebstrap/hooks/merged-usr"
_UNWANTED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/info/*")
# The machine's, over which Docker lays its own; and what apt left, which is not installed.
_LEFTOVERS = ("etc/hostname", "etc/resolv.conf", "etc/apt", "var/cache/apt", "var/lib/apt")
# Two files of five, which nothing in a container opens, and each host's Docker unpacks anew.
_UNUSED = ("usr/lib/*/gconv", "usr/lib/*/perl-base", "usr/bin/perl*", "var/lib/dpkg/info", "var/cache/debconf")


def layer(directory: Path, work: Path, log: Path) -> archive.Layer:
    """The layer, built if it isn't in `directory`."""
    path = directory / f"debian-{SUITE}.tar"

    def make(part: Path) -> store.Facts:
        with store.step(f"Debian {SUITE} with Python by mmdebstrap"):
            root = work / "debian"
            _mmdebstrap(root, log)
            packed = archive.write_layer(f"Debian {SUITE}", root, part)
            store.remove(root)
        return packed.as_facts()

    wanted = store.inputs(SUITE, *PACKAGES, Path(__file__), Path(archive.__file__))
    return archive.Layer.from_facts(f"Debian {SUITE}", path, store.ensure(path, wanted, make))


def _mmdebstrap(root: Path, log: Path) -> None:
    if not shutil.which("mmdebstrap"):
        raise UnavailableError(
            "mmdebstrap is missing: apt-get install mmdebstrap (on Ubuntu also debian-archive-keyring)"
        )
    run(
        [
            *("mmdebstrap", "--variant=essential", KEYRING, f"--hook-dir={_HOOK}", f"--include={','.join(PACKAGES)}"),
            *('--aptopt=Acquire::Languages "none"', "--dpkgopt=force-unsafe-io"),
            *(f"--dpkgopt=path-exclude={path}" for path in _UNWANTED),
            *("--format=directory", SUITE, root),
        ],
        log,
        {"SOURCE_DATE_EPOCH": str(archive.EPOCH), "LC_ALL": "C.UTF-8"},
    )
    for pattern in (*_LEFTOVERS, *_UNUSED):
        for path in sorted(root.glob(pattern)):
            store.remove(path)
