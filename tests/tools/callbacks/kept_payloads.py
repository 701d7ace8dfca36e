# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's payloads of modules, and what it compiles of a collection, are kept from one run of the tests to the next.

A run packs each module that it takes to a host with all that it imports, compiles every file of it for that, and keeps
the payload in its own temporary folder. That was more than half of what the tests' playbooks computed (py-spy,
`site.yml -l titan`, November 2026). Here that folder of Ansible's is a link to one that all runs of a gate share.

Each run also compiles anew what it imports of a collection: Ansible's own loader keeps nothing of that, unlike
Python's. Here the code is kept under the digest of its source.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib.util
import marshal
import os
import sys
from pathlib import Path
from types import CodeType
from typing import Any

from ansible import __version__, constants
from ansible.plugins.callback import CallbackBase
from ansible.utils.collection_loader import _collection_finder

DOCUMENTATION = r"""
name: kept_payloads
type: aggregate
short_description: Keep Ansible's payloads of modules and compiled plugins from one run to the next
description:
  - For tests alone. Needs the folder E(GB10_PAYLOADS) of the environment; without it, nothing is kept.
"""


def plugins() -> str:
    """A digest of names, sizes and times of what Ansible may pack of this collection, and of itself."""
    spec = importlib.util.find_spec("ansible_collections.gb10.fleet")
    folders = spec.submodule_search_locations or () if spec else ()
    marks = [f"{__version__} {sys.version}"]
    for folder in folders:
        for path in sorted(Path(folder, "plugins").rglob("*.py")):
            facts = path.stat()
            marks.append(f"{path} {facts.st_size} {facts.st_mtime_ns}")
    return hashlib.sha256("\n".join(marks).encode()).hexdigest()


def keep_code(folder: Path) -> None:
    """From now on Ansible's loader finds here what it or another run has compiled: of the same file and source."""
    loader = _collection_finder._AnsibleCollectionPkgLoaderBase
    compiled = loader.get_code

    def get_code(self: Any, fullname: str) -> CodeType | None:
        if self._compiled_code is None and (source := self.get_source(fullname)) is not None:
            name = f"{sys.version} {self.get_filename(fullname)}".encode()
            kept = folder / hashlib.sha256(name + b"\n" + source).hexdigest()
            try:
                self._compiled_code = marshal.loads(kept.read_bytes())
            except (OSError, EOFError, ValueError, TypeError):
                part = kept.with_suffix(f".{os.getpid()}")
                # A playbook that outlives its gate finds no folder.
                with contextlib.suppress(OSError):
                    part.write_bytes(marshal.dumps(compiled(self, fullname)))
                    part.rename(kept)
        code: CodeType | None = compiled(self, fullname)
        return code

    loader.get_code = get_code


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core carries no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "kept_payloads"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        # What is loaded by now lives until the end: to look for garbage in it took a fifth of `plan.yml`.
        gc.freeze()
        gc.set_threshold(100_000, 20, 20)
        if kept := os.environ.get("GB10_PAYLOADS"):
            folder = Path(kept, plugins())
            folder.mkdir(exist_ok=True)
            code = Path(kept, "code")
            code.mkdir(exist_ok=True)
            keep_code(code)
            # Its own folder is there already where a run packed something before: then it is left to it.
            with contextlib.suppress(FileExistsError):
                Path(constants.DEFAULT_LOCAL_TMP, "ansiballz_cache").symlink_to(folder)
