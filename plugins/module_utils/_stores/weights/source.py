# SPDX-License-Identifier: GPL-3.0-or-later
"""A model's files where an owner has them: a plain folder, a folder that ``hf download`` filled, or an HF cache."""

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ..._base.findings import Finding, FleetError, first_of, host_error
from ..._base.foreign_files import content_of
from ..._base.received import ANYTHING, is_map, matching, one_line, parsed, path_problem
from ..._base.staging import refusal
from .cache import read_main

# The hub's ETag of a file: its sha256, or, of a small one that is not in LFS, git's sum of it as a blob.
_SHA256 = re.compile("[0-9a-f]{64}")
_COMMIT = re.compile("[0-9a-f]{40}")
_HUB_SUM = re.compile("[0-9a-f]{64}|[0-9a-f]{40}")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_UNFINISHED = (".incomplete", ".lock", ".partial")
# What is read as JSON of a file that the model's publisher wrote: several times what the largest models have.
MOST_INDEX = 32 << 20
_MOST_HEADER = 32 << 20
_MOST_NAMED = 20


@dataclass(frozen=True)
class SourceFile:
    """One file. path: below the model's folder, with slashes. hub_sum: what the hub says its sum is, where known:
    sha256, or of 40 digits git's."""

    path: str
    real: Path
    size: int
    mtime_ns: int
    hub_sum: str | None


@dataclass(frozen=True)
class Source:
    """A model's files at one place. revision: what the place itself says it holds, where it does."""

    folder: Path
    revision: str | None
    files: tuple[SourceFile, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def has_weights(self) -> bool:
        """Whether it is more than the configuration or the tokenizer, which many a tool fetches alone."""
        return any(file.path.endswith(_WEIGHTS) for file in self.files)

    def signature(self) -> list[list[str | int]]:
        """What changes when a file does: enough to skip reading all bytes again."""
        return [[file.path, file.size, file.mtime_ns] for file in self.files]


def read_source(folder: Path, revision: str | None, wanted: Sequence[str] | None = None) -> Source:
    """The files of ``folder``, complete as far as their headers show.

    revision: the wanted one. wanted: the only files that count; all without. Raises FleetError: no such folder, another
    revision, a missing or cut off shard.
    """
    if not folder.is_dir():
        raise refusal(
            "model-folder",
            str(folder),
            found="there is no such folder",
            expected="a model's files",
            remedy="see source.path",
        )
    snapshot = _snapshot(folder, revision) if (folder / "snapshots").is_dir() else folder
    files = tuple(sorted(_files(snapshot, wanted), key=lambda file: file.path))
    if absent := sorted({*(wanted or ())} - {file.path for file in files}):
        raise refusal(
            "model-folder",
            str(snapshot),
            found=f"it has no {first_of(absent)}",
            expected="the files that the service names",
            remedy="bring them there; or write the model.file that is there",
        )
    if not files:
        raise refusal(
            "model-folder", str(snapshot), found="it is empty", expected="a model's files", remedy="see source.path"
        )
    _require_whole(snapshot, files)
    known = snapshot.name if snapshot.parent.name == "snapshots" else _downloaded_revision(snapshot)
    if revision and known and known != revision:
        raise refusal(
            "model-revision",
            str(snapshot),
            found=f"revision {known}",
            expected=revision,
            remedy="write that revision in the recipe, or bring the right files",
        )
    return Source(snapshot, known if known and _COMMIT.fullmatch(known) else None, files)


def _snapshot(cache: Path, revision: str | None) -> Path:
    """The snapshot of an HF cache's ``models--ORG--NAME``: the wanted one, the one of ``main``, or the only one."""
    have = sorted(path.name for path in (cache / "snapshots").iterdir() if not path.name.startswith("."))
    wanted = revision or read_main(cache) or (have[0] if len(have) == 1 else None)
    if wanted in have:
        return cache / "snapshots" / wanted
    raise refusal(
        "model-revision",
        str(cache),
        found=f"revisions {', '.join(have) or 'none'}",
        expected=wanted or "one revision, or refs/main",
        remedy="write a revision that is there, or download the wanted one",
    )


def _files(folder: Path, wanted: Sequence[str] | None) -> Iterator[SourceFile]:
    if wanted is not None:
        yield from (_file(folder, folder / name) for name in wanted if os.path.lexists(folder / name))
        return
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in names:
            if not name.startswith(".") and not name.endswith(_UNFINISHED):
                yield _file(folder, Path(parent, name))


def _file(folder: Path, path: Path) -> SourceFile:
    name = path.relative_to(folder).as_posix()
    if problem := path_problem(name):
        raise refusal(
            "model-file",
            str(folder),
            found=f"the path {one_line(name, 80)!a} {problem}",
            expected="names of files that every host can take",
            remedy="rename it there, or take it away",
        )
    real = path.resolve()
    if not real.is_file():
        raise refusal(
            "model-file",
            str(path),
            found=f"a link to {real}, which is not there",
            expected="a file",
            remedy="download it again",
        )
    stat = real.stat()
    blob = real.name if real != path and _HUB_SUM.fullmatch(real.name) else None
    return SourceFile(name, real, stat.st_size, stat.st_mtime_ns, blob or _downloaded_sum(folder, name))


def _download_metadata(folder: Path, name: str) -> list[str]:
    """What ``hf download --local-dir`` notes of a file: commit, etag, time (huggingface_hub, _local_folder.py)."""
    note = folder / ".cache" / "huggingface" / "download" / f"{name}.metadata"
    return note.read_text().split() if note.is_file() else []


def is_noted(folder: Path, name: str) -> bool:
    """Whether ``hf download --local-dir`` brought a file."""
    return bool(_download_metadata(folder, name))


def _downloaded_sum(folder: Path, name: str) -> str | None:
    note = _download_metadata(folder, name)
    # Small files in a folder of his own an owner may edit: a patched config.json is no damage.
    return note[1] if len(note) > 1 and _SHA256.fullmatch(note[1]) else None


def _downloaded_revision(folder: Path) -> str | None:
    notes = folder / ".cache" / "huggingface" / "download"
    names = (path.relative_to(notes).as_posix().removesuffix(".metadata") for path in notes.rglob("*.metadata"))
    commits = sorted({note[0] for name in names if (note := _download_metadata(folder, name))})
    if len(commits) > 1:
        raise refusal(
            "model-revision",
            str(folder),
            found=f"files of several revisions: {', '.join(commits)}",
            expected="files of one",
            remedy="hf download --local-dir with --revision brings them to one",
        )
    return commits[0] if commits else None


def _require_whole(folder: Path, files: Sequence[SourceFile]) -> None:
    names = {file.path for file in files}
    findings = [finding for file in files for finding in _problems(folder, file, names)]
    if findings:
        raise FleetError(*findings)


def _problems(folder: Path, file: SourceFile, names: set[str]) -> Iterator[Finding]:
    if file.path.endswith(".safetensors.index.json"):
        try:
            shards = _shards(file)
        except ValueError as problem:
            yield _broken(folder / file.path, str(problem), "the JSON of an index of shards")
            return
        for shard in sorted(shards - names)[:_MOST_NAMED]:
            yield _broken(folder / shard, "it is missing", f"a shard that {file.path} names")
    if file.path.endswith(".safetensors"):
        expected = safetensors_size(file.real)
        if not expected or expected != file.size:
            yield _broken(folder / file.path, f"{file.size} bytes", f"{expected} bytes, says its header")


def _shards(index: SourceFile) -> set[str]:
    """The files that a checkpoint's index names, below the model's folder. ValueError for what is no index."""
    content = parsed(content_of(index.real, MOST_INDEX), MOST_INDEX, "it")
    tensors = content.get("weight_map", {}) if is_map(content) else None
    if tensors is None or not is_map(tensors):
        raise ValueError("its weight_map is none")
    names = {matching(ANYTHING, name) or "" for _, name in tensors.items()}
    if problem := next((f"{one_line(name, 80)!a}, which {why}" for name in names if (why := path_problem(name))), None):
        raise ValueError(f"it names {problem}")
    return {str(PurePosixPath(index.path).parent / name) for name in names}


def _broken(path: Path, found: str, expected: str) -> Finding:
    return host_error("model-file", str(path), found=found, expected=expected, remedy="copy or download it again")


def safetensors_size(path: Path) -> int:
    """The size that a safetensors file says it has: 8 bytes of length, a JSON header, the tensors.

    A header that can't be read, or is larger than any model's, counts as a file of no bytes. Source: safetensors'
    README, "Format".
    """
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        try:
            header = parsed(stream.read(min(length, _MOST_HEADER + 1)), _MOST_HEADER, "its header")
            found: list[Any] = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
            ends = [int(end) for end in found]
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
            return 0
    return 8 + length + max(ends, default=0)
