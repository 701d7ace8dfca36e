# SPDX-License-Identifier: GPL-3.0-or-later
"""The sealed manifests of the model revisions on this host, and how their files were when they were verified."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..._base import own_files
from ..._base.own_files import replace_file
from ..._base.received import REVISION, checked
from ..._facts.models.stored import STORED
from ..transfer.places import Places
from .cache import Cache, repository_folder
from .manifest import Manifest
from .source import Source


@dataclass(frozen=True)
class Record:
    """One revision. verified: size and time of each file then. source: the signature of the folder it came from."""

    manifest: Manifest
    verified: Mapping[str, Any]
    source: Any


@dataclass(frozen=True)
class ModelRecords:
    """One JSON file a revision: ``{manifest, seal, verified, source}``.

    One that can't be read, or whose seal is broken, counts as none. note: see `_base.own_files.read`.
    """

    places: Places
    note: own_files.Note | None = None

    def seal(self, manifest: Manifest, source: Source | None) -> None:
        """Note that a published revision is what its manifest says."""
        snapshot = Cache(self.places.models, manifest.repository).snapshot(manifest.revision)
        record = {
            "manifest": asdict(manifest),
            "seal": manifest.seal,
            "verified": {file.path: _stat(snapshot / file.path) for file in manifest.files},
            "source": source.signature() if source else None,
        }
        replace_file(self._file(manifest.repository, manifest.revision), json.dumps(record).encode())

    def of(self, repository: str, revision: str | None = None) -> list[Record]:
        """The records of one revision, or of all, the newest first."""
        files = self._folder(repository).glob(f"{revision or '*'}.json")
        newest_first = sorted(files, key=lambda file: file.lstat().st_mtime_ns, reverse=True)
        records = (own_files.read(file, _parse, self.note) for file in newest_first)
        return [record for record in records if record and record.manifest.repository == repository]

    def broken(self, repository: str, revision: str) -> str:
        """Why the record of a revision can't be trusted, or an empty string."""
        return own_files.look(self._file(repository, revision), _parse)[1]

    def revisions(self, repository: str) -> list[str]:
        """The revisions of a model with a record."""
        return sorted(file.stem for file in self._folder(repository).glob("*.json"))

    def repositories(self) -> list[str]:
        """All models with a record."""
        files = sorted(self.places.model_records.glob("models--*/*.json"))
        records = (own_files.read(file, _parse, self.note) for file in files)
        return sorted({record.manifest.repository for record in records if record})

    def changed_files(self, record: Record) -> list[str]:
        """Files of a published revision whose size or time is not what it was when they were verified."""
        manifest = record.manifest
        snapshot = Cache(self.places.models, manifest.repository).snapshot(manifest.revision)
        return [path for path, stat in record.verified.items() if _stat(snapshot / path) != stat]

    def forget(self, manifest: Manifest) -> None:
        self._file(manifest.repository, manifest.revision).unlink()

    def _file(self, repository: str, revision: str) -> Path:
        """A revision that is no commit names no file, whoever it comes from."""
        checked(REVISION, revision, "the revision")
        return self._folder(repository) / f"{revision}.json"

    def _folder(self, repository: str) -> Path:
        checked(STORED, repository, "the model")
        return self.places.model_records / repository_folder(repository)


def _parse(content: bytes) -> Record:
    value = json.loads(content)
    manifest = Manifest.from_map(value["manifest"])
    if manifest.seal != value["seal"]:
        raise ValueError("its seal is broken")
    if {*value["verified"]} != {file.path for file in manifest.files}:
        raise ValueError("it does not show how each file was when it was verified")
    return Record(manifest, dict(value["verified"]), value["source"])


def _stat(path: Path) -> list[int] | None:
    """Size and time of the file that a snapshot's link leads to; none when it leads nowhere."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return [stat.st_size, stat.st_mtime_ns]
