# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a host keeps what it has, what comes in and what it noted: for the modules and for the peer server."""

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO


@dataclass(frozen=True)
class Places:
    """folder: notes and image layers on their way. models: ``HF_HOME`` of the services, with files on their way in it,
    so that they can be renamed to where they belong. caches: patterns of users' own Hugging Face caches."""

    folder: Path
    models: Path
    caches: tuple[str, ...] = ()

    @classmethod
    def from_map(cls, value: dict[str, Any]) -> "Places":
        return cls(Path(value["folder"]), Path(value["models"]), tuple(value["caches"]))

    @classmethod
    def from_file(cls, path: Path) -> "Places":
        return cls.from_map(json.loads(path.read_bytes()))

    @property
    def image_records(self) -> Path:
        return self.folder / "images"

    @property
    def model_records(self) -> Path:
        return self.folder / "models"

    @property
    def recipes(self) -> Path:
        """How files are made that others may ask for: ``<sha256>.recipe``."""
        return self.folder / "recipes"

    @property
    def layers_in(self) -> Path:
        return self.folder / "incoming"

    @property
    def unpacked(self) -> Path:
        """Layers that this host keeps compressed, uncompressed for whom a difference to their own is enough."""
        return self.folder / "unpacked"

    @property
    def served(self) -> Path:
        """A lock for each of the hosts' connections that are served at once."""
        return self.folder / "served"

    @property
    def downloads(self) -> Path:
        return self.models / ".staging"

    @property
    def files_in(self) -> Path:
        return self.downloads / "incoming"

    def user_caches(self) -> Iterator[Path]:
        """Users' Hugging Face caches (their ``hub`` folders) that are on this host."""
        for pattern in self.caches:
            yield from sorted(Path("/").glob(pattern.lstrip("/")))


def open_below(path: Path, root: Path) -> BinaryIO:
    """Open a regular file for reading that is no link and lies below ``root``, whatever links lead there.

    root: without links itself. Raises OSError for anything else.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    stream = os.fdopen(descriptor, "rb", buffering=0)
    real = Path(f"/proc/self/fd/{descriptor}").readlink()
    if not stat.S_ISREG(os.fstat(descriptor).st_mode) or not real.is_relative_to(root):
        stream.close()
        raise PermissionError(f"{path} is not a file below {root}")
    return stream
