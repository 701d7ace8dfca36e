# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The peer server as one file that a host can run: a zip application of this collection's own private utilities."""

from __future__ import annotations

import inspect
import io
import sys
import zipfile
from pathlib import PurePosixPath
from types import ModuleType

from ansible_collections.gb10.fleet.plugins.module_utils._peers import server

_UTILITIES = "ansible_collections.gb10.fleet.plugins.module_utils."
# A zip's earliest date: the same sources make the same bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def peer_program() -> bytes:
    """An executable that serves with the utilities that are loaded in this process; they load all that it needs."""
    files = {f"{PurePosixPath(*name.split('.'))}.py": inspect.getsource(module) for name, module in _loaded().items()}
    packages = {str(parent / "__init__.py"): "" for path in files for parent in PurePosixPath(path).parents[:-1]}
    start = f"import sys\nfrom {server.__name__} import main\nmain(sys.argv[1:])\n"
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as program:
        for path, source in sorted({**packages, **files, "__main__.py": start}.items()):
            program.writestr(zipfile.ZipInfo(path, _EPOCH), source)
    return b"#!/usr/bin/env -S python3 -I\n" + archive.getvalue()


def _loaded() -> dict[str, ModuleType]:
    return {name: module for name, module in sorted(sys.modules.items()) if name.startswith(_UTILITIES)}
