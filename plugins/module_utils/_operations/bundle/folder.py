# SPDX-License-Identifier: GPL-3.0-or-later
"""The folders that a bundle lies in: files are found in them, read, and written so that a half one is none.

Several folders count as one, the newest first: a bundle that holds only what is new is used with those before it.
"""

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ..._base import worded
from ..._base.findings import Finding, FleetError, error, refusal
from ..._base.foreign_files import content_of
from .manifest import FILE, KEY, MOST_BYTES, SIGNATURE, Part, parse, parts_of
from .signature import require_signed

_BLOCK = 1 << 20
_MOST_KEY = 1 << 20
_PARTIAL = ".partial"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_AGAIN = "copy the bundle again, or bring another copy of it; no host was changed"

Counted = Callable[[int], None]


class Bundle:
    """The files that a manifest names, in one folder or more. folders: the newest first, which has the manifest."""

    def __init__(self, folders: Sequence[Path], manifest: Mapping[str, Any]) -> None:
        self.folders, self.manifest = tuple(folders), manifest

    @classmethod
    def of(cls, folders: Sequence[Path], trusted: Path | None) -> "Bundle":
        """The bundle in these folders, whose manifest is signed by the key in ``trusted``, or its own without one.

        Raises FleetError for a folder without a bundle, a manifest that nobody signed, and one that is none.
        """
        first = folders[0]
        content = _document(first / FILE, MOST_BYTES, "a bundle, as gb10.fleet.bundle makes it")
        key, signature = _document(first / KEY, _MOST_KEY), _document(first / SIGNATURE, _MOST_KEY)
        if trusted is not None and trusted.read_bytes() != key:
            raise worded.refusal("bundle-key/of", str(first / KEY), trusted=trusted)
        require_signed(first / FILE, content, signature, key)
        return cls(folders, parse(content, str(first / FILE)))

    def parts(self, path: str) -> list[Part]:
        return parts_of(path, self.manifest["files"][path]["bytes"], self.manifest["part_bytes"])

    def place(self, part: Part) -> Path:
        """Where a part lies that is there."""
        return next(folder / part.path for folder in self.folders if self._has(folder, part))

    @staticmethod
    def _has(folder: Path, part: Part) -> bool:
        path = folder / part.path
        return path.is_file() and not path.is_symlink() and path.stat().st_size == part.size

    def open(self, part: Part) -> BinaryIO | None:
        """The first folder's file that has the part's size; None where no folder has one. Links are not followed."""
        for folder in self.folders:
            try:
                descriptor = os.open(folder / part.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                continue
            stream = os.fdopen(descriptor, "rb", buffering=0)
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_size == part.size:
                return stream
            stream.close()
        return None

    def chunks(self, path: str) -> Iterator[bytes]:
        """The bytes of a file, over its parts. EOFError where one is missing or too short."""
        for part in self.parts(path):
            stream = self.open(part)
            if stream is None:
                raise EOFError(part.path)
            with stream:
                while block := stream.read(_BLOCK):
                    yield block

    def lacking(self, paths: Iterable[str]) -> list[Finding]:
        """The files of which a part is missing or has another size, by looking at the folders alone."""
        found = []
        for path in paths:
            for part in self.parts(path):
                stream = self.open(part)
                if stream is None:
                    found.append(self._missing(part))
                    break
                stream.close()
        return found

    def damaged(self, paths: Iterable[str], counted: Counted = lambda count: None) -> list[Finding]:
        """The files that are missing or are not what the manifest says: every byte is read. counted: gets them."""
        found = []
        for path in paths:
            if problem := self.lacking([path]):
                found += problem
                continue
            wanted, read = self.manifest["files"][path]["sha256"], hashlib.sha256()
            try:
                for block in self.chunks(path):
                    read.update(block)
                    counted(len(block))
            except (OSError, EOFError) as problem:
                found.append(self._broken(path, f"it can't be read ({problem})"))
                continue
            if read.hexdigest() != wanted:
                found.append(self._broken(path, f"sha256 {read.hexdigest()}"))
        return found

    def _missing(self, part: Part) -> Finding:
        where = self.folders[0] / part.path
        sizes = [(folder / part.path).stat().st_size for folder in self.folders if (folder / part.path).is_file()]
        found = f"{sizes[0]} bytes" if sizes else "it is missing"
        return error("bundle-file", str(where), found=found, expected=f"{part.size} bytes", remedy=_AGAIN)

    def _broken(self, path: str, found: str) -> Finding:
        names = " and ".join(str(self.folders[0] / part.path) for part in self.parts(path)[:2])
        expected = f"sha256 {self.manifest['files'][path]['sha256']}, as the manifest says"
        return error("bundle-file", names, found=found, expected=expected, remedy=_AGAIN)


def _document(path: Path, most: int, expected: str = "a part of every bundle") -> bytes:
    try:
        return content_of(path, most)
    except ValueError as problem:
        raise refusal("bundle-file", str(path), found=str(problem), expected=expected, remedy=_AGAIN) from None
    except OSError as problem:
        raise worded.refusal(
            "bundle-file", str(path), found=problem.strerror or str(problem), expected=expected
        ) from None


# Writing ------------------------------------------------------------------------------------------------------------


def earlier(folder: Path, key: bytes | None, show: Callable[[str], None] = lambda words: None) -> Mapping[str, Any]:
    """The manifest that a folder has from before; one without anything where the site's own key did not sign it.

    key: the public one, None for a site that has made no bundle. show: is given the sentence for a person. What lies on
    a medium that was in other hands is nobody's word. Raises FleetError for a bundle that another key signed.
    """
    none: dict[str, Any] = {
        "serial": 0,
        "part_bytes": None,
        "files": {},
        "images": [],
        "models": [],
        "packages": [],
        "wheels": [],
    }
    if not os.path.lexists(folder / FILE):
        return none
    try:
        content, theirs = _document(folder / FILE, MOST_BYTES), _document(folder / KEY, _MOST_KEY)
        if key and theirs == key:
            require_signed(folder / FILE, content, _document(folder / SIGNATURE, _MOST_KEY), key)
            return parse(content, str(folder / FILE))
    except FleetError as problem:
        show(f"{problem}; it counts as none, and all of it is fetched again")
        return none
    raise worded.refusal("bundle-key/earlier", str(folder / KEY), folder=folder / FILE)


def sum_of(path: Path) -> tuple[int, str]:
    """A file's size and sha256."""
    read, size = hashlib.sha256(), 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            read.update(block)
            size += len(block)
    return size, read.hexdigest()


class Target:
    """The folder that a bundle is written to.

    before: the manifest that it has from before. base: the manifest of a bundle whose files this one need not hold.
    part_bytes: the most that a file on the medium may have. files: the manifest's, as they are written.
    """

    def __init__(
        self, folder: Path, before: Mapping[str, Any], base: Mapping[str, Any] | None, part_bytes: int | None
    ) -> None:
        self.folder, self._before, self._part_bytes = folder, before, part_bytes
        self._in_base = base["files"] if base else {}
        self._known: dict[str, bool] = {}
        self.files: dict[str, dict[str, Any]] = {}
        self.new_bytes = 0

    def holds(self, path: str, size: int, sha256: str) -> bool:
        """Whether the file need not be brought: the base has it, or it lies here, which is read once to be sure."""
        entry = {"bytes": size, "sha256": sha256}
        if self._in_base.get(path) == entry:
            return True
        if path not in self._known:
            same = {"part_bytes": self._part_bytes, "files": {path: entry}}
            self._known[path] = not Bundle([self.folder], same).damaged([path])
        return self._known[path]

    def known(self, path: str) -> dict[str, Any] | None:
        """What an earlier bundle says of a file that need not be brought; None for any other."""
        entry: dict[str, Any] | None = self._in_base.get(path) or self._before["files"].get(path)
        return entry if entry and self.holds(path, entry["bytes"], entry["sha256"]) else None

    def name(self, path: str) -> None:
        """Name a file that is held."""
        entry = self.known(path)
        assert entry, path
        self.files[path] = entry

    def put(self, path: str, source: Path) -> None:
        """Name a file, written unless it is held: into a partial one that gets its name when all is on the disk."""
        size, sha256 = sum_of(source)
        self.files[path] = {"bytes": size, "sha256": sha256}
        if self.holds(path, size, sha256):
            return
        with source.open("rb") as stream:
            for part in parts_of(path, size, self._part_bytes):
                self._write(part, stream)
        self._known[path] = True
        self.new_bytes += size

    def write(self, path: str, content: bytes) -> None:
        """The same of a small file."""
        self.files[path] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        write_whole(self.folder, path, content)

    def _write(self, part: Part, stream: BinaryIO) -> None:
        left = part.size
        with _written(self.folder, part.path) as out:
            while left:
                block = stream.read(min(_BLOCK, left))
                if not block:
                    place = str(self.folder / part.path)
                    raise FleetError(error("bundle-file", place, found="it became shorter", expected=f"{left} more"))
                out.write(block)
                left -= len(block)

    def drop_unnamed(self) -> list[str]:
        """Remove the files that the bundle here had before and has no more; their paths."""
        now = {
            part.path for path, file in self.files.items() for part in parts_of(path, file["bytes"], self._part_bytes)
        }
        dropped = []
        for path, file in self._before["files"].items():
            for part in parts_of(path, file["bytes"], self._before["part_bytes"]):
                if part.path not in now and _dropped(self.folder, part.path):
                    dropped.append(part.path)
        return dropped


def write_whole(folder: Path, path: str, content: bytes) -> None:
    """A file below a folder, also on a medium that knows neither modes nor owners."""
    with _written(folder, path) as out:
        out.write(content)


@contextlib.contextmanager
def _written(folder: Path, path: str) -> Iterator[BinaryIO]:
    """A new file, which gets its name when all of it is on the disk. No part of the path below the folder may be a
    link: who had the medium could have made one."""
    folder.mkdir(parents=True, exist_ok=True)
    with _parent(folder, path, make=True) as (parent, name):
        partial = name + _PARTIAL
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial, dir_fd=parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(partial, flags, 0o666, dir_fd=parent), "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        os.replace(partial, name, src_dir_fd=parent, dst_dir_fd=parent)


def _dropped(folder: Path, path: str) -> bool:
    """Whether a regular file was there, and is removed."""
    try:
        with _parent(folder, path) as (parent, name):
            is_file = stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
            if is_file:
                os.unlink(name, dir_fd=parent)
            return is_file
    except (FleetError, FileNotFoundError):
        return False


@contextlib.contextmanager
def _parent(folder: Path, path: str, make: bool = False) -> Iterator[tuple[int, str]]:
    """The folder of a path, opened step by step without following a link, and the path's last part."""
    *steps, name = path.split("/")
    here = os.open(folder, _FOLDER)
    try:
        for number, step in enumerate(steps, 1):
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(step, dir_fd=here)
            try:
                inner = os.open(step, _FOLDER | os.O_NOFOLLOW, dir_fd=here)
            except NotADirectoryError:  # also a link
                raise worded.refusal("bundle-link", str(folder.joinpath(*steps[:number]))) from None
            os.close(here)
            here = inner
        yield here, name
    finally:
        os.close(here)
