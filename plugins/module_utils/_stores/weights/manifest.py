# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model revision consists of, to the byte: a manifest with sha256 sums, sealed by its own sum."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..._base.received import REVISION, SHA256, SIZE, checked, require_paths
from ..._base.schema import Spec
from ..._facts.models.stored import STORED, files_of
from ..transfer.parts import Recipe, cut_evenly, recipe_of

_MOST_FILES = 20_000
_FILE: Spec = {"type": "map", "options": {"path": {"type": "str", "required": True}, "size": SIZE, "sha256": SHA256}}
_SPEC: Spec = {
    "type": "map",
    "options": {
        "repository": STORED,
        "revision": REVISION,
        "files": {"type": "list", "required": True, "max": _MOST_FILES, "elements": _FILE},
    },
}


@dataclass(frozen=True)
class File:
    """One file of a revision. path: below the snapshot, with slashes. sha256: hex."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """All files of one revision of a model, ordered by path. repository: its name in the store, `_facts.models.stored`.
    revision: the hub's commit, or one made of the content."""

    repository: str
    revision: str
    files: tuple[File, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def seal(self) -> str:
        """sha256 over the manifest's canonical JSON: two hosts with the same seal hold the same bytes."""
        return hashlib.sha256(self.to_json()).hexdigest()

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_map(cls, value: Any, what: str = "the manifest") -> "Manifest":
        """Of another host or from the disk; ValueError for what is none. what: its name in that sentence."""
        checked(_SPEC, value, what)
        paths = [file["path"] for file in value["files"]]
        require_paths(paths, what)
        if files_of(value["repository"]) not in (None, paths):
            raise ValueError(f"{what}: it has other files than {value['repository']}")
        return cls(value["repository"], value["revision"], tuple(File(**file) for file in value["files"]))


def revision_of_content(files: tuple[File, ...]) -> str:
    """A revision for files that have none: 40 hex digits, as the hub's commits have, made of their content."""
    text = json.dumps([[file.path, file.sha256] for file in files])
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def git_sum(path: Path) -> str:
    """What git calls a file's content (gitformat-pack(5), "blob"). The hub says it of small files; its word for it."""
    with path.open("rb") as stream:
        found = hashlib.sha1(b"blob %d\0" % os.fstat(stream.fileno()).st_size, usedforsecurity=False)
        while block := stream.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def hash_file(path: Path, name: str, counted: Callable[[int], None] = lambda count: None) -> tuple[File, Recipe]:
    """Read a file once for its sum and its recipe. counted: gets the bytes as they are read."""

    def read(length: int) -> bytes:
        content = stream.read(length)
        counted(len(content))
        return content

    with path.open("rb") as stream:
        recipe = recipe_of(cut_evenly(read))
    return File(name, recipe.size, recipe.sha256), recipe
