# SPDX-License-Identifier: GPL-3.0-or-later
"""Files on their way in: complete up to the last part that is marked, whatever ended the process that fetched them.

The host that fetches a file passes its parts on while it does so. Marks are one byte a part, written after the part.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..._base.own_files import replace_file
from ..._base.staging import refusal
from .parts import PART, Part, Recipe, unpack


@contextlib.contextmanager
def filling(folder: Path) -> Iterator[None]:
    """Answer who asks this host that its files in ``folder`` are being fetched, until this ends or the process does."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "filling").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_filling(folder: Path) -> bool:
    """Whether files in ``folder`` are being fetched at this moment."""
    try:
        with (folder / "filling").open("rb") as lock:
            # Shared, so that who looks at the same moment is not taken for who fetches.
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


class Incoming:
    """One file on its way into ``folder``; its name there is its sha256 (hex)."""

    def __init__(self, folder: Path, sha256: str) -> None:
        self.folder = folder
        self._sha256 = sha256
        self.data = folder / f"{sha256}.data"
        self._marks = folder / f"{sha256}.marks"
        self._recipe = folder / f"{sha256}.recipe"

    def packed_recipe(self) -> bytes | None:
        """How the file is made (``Recipe.pack``), if its fetch has begun here."""
        try:
            return self._recipe.read_bytes()
        except OSError:
            return None

    def recipe(self) -> Recipe | None:
        """The same as data; None as well where what an earlier fetch left can't be gone on with."""
        try:
            recipe = unpack(self._recipe.read_bytes())
            sizes = self.data.stat().st_size, self._marks.stat().st_size
        except (OSError, ValueError):
            return None
        whole = recipe.sha256 == self._sha256 and sizes == (recipe.size, len(recipe.parts))
        return recipe if whole else None

    def begin(self, recipe: Recipe) -> None:
        """Make room, or go on with what an earlier fetch left. Literals are in place at once."""
        if self.recipe() is None:
            self.forget()
            self.folder.mkdir(parents=True, exist_ok=True)
            with self.data.open("wb") as data, self._marks.open("wb") as marks:
                data.truncate(recipe.size)
                marks.truncate(len(recipe.parts))
            replace_file(self._recipe, recipe.pack())
        marks_now = self.marks()
        self.write((i, p, p.literal) for i, p in enumerate(recipe.parts) if p.literal and not marks_now[i])

    def marks(self) -> bytes:
        """One byte a part, 1 where the part is here."""
        return self._marks.read_bytes()

    def missing_bytes(self, size: int) -> int:
        """What is still to come, of a file of ``size`` bytes whose fetch may not have begun."""
        recipe = self.recipe()
        if recipe is None:
            return size
        return sum(part.length for part, mark in zip(recipe.parts, self.marks(), strict=True) if not mark)

    def write(self, parts: Iterable[tuple[int, Part, bytes]]) -> None:
        """Put checked parts (number, part, bytes) in place; threads may do so at once."""
        with self.data.open("r+b", buffering=0) as data, self._marks.open("r+b", buffering=0) as marks:
            for index, part, content in parts:
                try:
                    _write_all(data.fileno(), content, part.offset)
                    os.pwrite(marks.fileno(), b"\1", index)
                except OSError as error:
                    # what a file number is refused does not name the file
                    raise OSError(error.errno, error.strerror, str(self.data)) from None

    def verified(self, place: str) -> Path:
        """The complete file, proved by its sum. Otherwise has the wrong parts, or all, fetched again, and refuses.

        place: how a person knows the file.
        """
        recipe = self.recipe()
        assert recipe
        if _sum_of(self.data) == recipe.sha256:
            with self.data.open("rb") as data:
                os.fsync(data.fileno())
            return self.data
        wrong = list(self._wrong(recipe))
        if wrong:
            self.unmark(wrong)
        else:
            self.forget()
        raise refusal(
            "transfer-damaged",
            place,
            found=f"{len(wrong)} damaged parts on this host's disk"
            if wrong
            else "another sum than it was offered with",
            expected=f"sha256 {recipe.sha256}",
            remedy="run again: damaged files are fetched again; if it repeats, look at the disk (dmesg)",
        )

    def _wrong(self, recipe: Recipe) -> Iterator[int]:
        with self.data.open("rb") as data:
            for index, part in enumerate(recipe.parts):
                content = data.read(part.length)
                if content != part.literal and hashlib.sha256(content).digest() != part.sha256:
                    yield index

    def unmark(self, indexes: Iterable[int]) -> None:
        """Have parts fetched again."""
        with self._marks.open("r+b", buffering=0) as marks:
            for index in indexes:
                os.pwrite(marks.fileno(), b"\0", index)

    def forget(self) -> None:
        """Remove everything of the file that is still here."""
        for path in (self._recipe, self._marks, self.data):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _write_all(descriptor: int, content: bytes, offset: int) -> None:
    rest = memoryview(content)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


def _sum_of(path: Path) -> str:
    whole = hashlib.sha256()
    with path.open("rb") as stream:
        while content := stream.read(PART):
            whole.update(content)
    return whole.hexdigest()
