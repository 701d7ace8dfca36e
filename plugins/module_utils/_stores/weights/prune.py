# SPDX-License-Identifier: GPL-3.0-or-later
"""Removes model revisions that no service wants any more, with the files that no other revision shares."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..._base import layout
from ..._base.own_files import Note, look
from ..._facts.models.stored import files_of
from ..transfer.places import Places
from .cache import Cache
from .manifest import Manifest
from .records import ModelRecords


@dataclass(frozen=True)
class Pruner:
    """The revisions of one host. Only what has a sealed manifest is ever removed: what this collection brought.

    note: see `_base.own_files.read`. services: the folder of the supervisors' files, of whatever inventory: what they
    name stays.
    """

    places: Places
    note: Note | None = None
    services: Path = Path(layout.SERVICES)

    def stale(self, wanted: Mapping[str, set[str | None]], keep: int) -> list[Manifest]:
        """Revisions beyond the newest ``keep`` of each model, not counting wanted ones.

        wanted: by repository; None stands for what ``main`` is.
        """
        records = ModelRecords(self.places, self.note)
        stale: list[Manifest] = []
        served = "".join(look(file, _text)[0] or "" for file in self.services.glob("*.json"))
        for repository in records.repositories():
            revisions = {each or self._cache(repository).main() for each in wanted.get(repository, ())}
            manifests = [record.manifest for record in records.of(repository)]
            stale += [manifest for manifest in manifests if manifest.revision not in revisions][keep:]
        return [manifest for manifest in stale if not self._is_served(manifest, served)]

    def _is_served(self, manifest: Manifest, served: str) -> bool:
        """served: what the supervisors' files say, by commit or by the link that stands for ``main``."""
        cache = self._cache(manifest.repository)
        main = f"{cache.folder.name}/main"
        if cache.main() == manifest.revision and main in served:
            return True
        # files of one repository have the same revisions, and each is served by its own folder
        is_file = files_of(manifest.repository) is not None
        return (f"{cache.folder.name}/snapshots/{manifest.revision}" if is_file else manifest.revision) in served

    def freed(self, manifest: Manifest) -> int:
        """Bytes that removing a revision gives back; none for a file that an owner's folder still holds."""
        return sum(blob.stat().st_size for blob in self._own_blobs(manifest) if blob.stat().st_nlink == 1)

    def remove(self, manifest: Manifest) -> None:
        cache = self._cache(manifest.repository)
        blobs = self._own_blobs(manifest)
        shutil.rmtree(cache.snapshot(manifest.revision), ignore_errors=True)
        for blob in blobs:
            blob.unlink()
        for file in manifest.files:
            (self.places.recipes / f"{file.sha256}.recipe").unlink(missing_ok=True)
        ModelRecords(self.places).forget(manifest)
        if cache.main() == manifest.revision:
            cache.forget_main()

    def _own_blobs(self, manifest: Manifest) -> list[Path]:
        """Files that no other snapshot of the model links to."""
        cache = self._cache(manifest.repository)
        others = [path for path in cache.snapshot("").glob("*") if path.name != manifest.revision]
        shared = {link.resolve() for path in others for link in path.rglob("*") if link.is_symlink()}
        blobs = {cache.blob(file.sha256) for file in manifest.files}
        return sorted(blob for blob in blobs if blob.exists() and blob.resolve() not in shared)

    def _cache(self, repository: str) -> Cache:
        return Cache(self.places.models, repository)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")
