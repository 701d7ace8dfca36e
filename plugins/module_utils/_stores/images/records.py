# SPDX-License-Identifier: GPL-3.0-or-later
"""What this host's images were pinned by, and which were there before them.

Docker does not keep either: ``docker save`` and ``docker load`` lose the registry's digest, and a name its old image.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..._base import own_files
from ..._base.own_files import replace_file
from .docker import LocalImage
from .identity import Reference, parse_reference


@dataclass(frozen=True)
class ImageRecords:
    """One JSON file a reference in ``folder``: ``{reference, images: [{id, identity, digest, diff_ids, since}]}``.

    images: newest first, the first one is what the reference stands for. A file that can't be read counts as none.
    note: see `_base.own_files.read`. clock: seconds since 1970, for ``since``.
    """

    folder: Path
    note: own_files.Note | None = None
    clock: Callable[[], float] = time.time

    def is_pinned(self, image: LocalImage, reference: Reference, digest: str) -> bool:
        """Whether this is the image that the digest names: Docker knows it, or the record does."""
        pins = {(known["digest"], known["identity"]) for known in self._read(reference)}
        return digest in image.digests or (digest, image.identity.digest) in pins

    def newest(self, reference: Reference) -> Mapping[str, Any] | None:
        """What was noted for the image that a reference stands for; None without a note."""
        return next(iter(self._read(reference)), None)

    def write(self, reference: Reference, digest: str | None, image: LocalImage) -> None:
        """Note what a reference stands for from now on."""
        newest = {
            "id": image.id,
            "identity": image.identity.digest,
            "digest": digest,
            "diff_ids": image.identity.diff_ids,
            "since": int(self.clock()),
        }
        before = [known for known in self._read(reference) if known["identity"] != newest["identity"]]
        self._keep(reference, [newest, *before])

    def stale(self, wanted: Iterable[Reference], keep: int) -> list[tuple[Reference, Mapping[str, Any]]]:
        """Images beyond the newest ``keep`` of each repository, not counting those that wanted references stand for."""
        wanted = set(wanted)
        unwanted: dict[str, list[tuple[int, Reference, Mapping[str, Any]]]] = {}
        for reference, images in self._all():
            for image in images[1:] if reference in wanted else images:
                unwanted.setdefault(reference.repository, []).append((image["since"], reference, image))
        return [
            (reference, image)
            for same in unwanted.values()
            for _, reference, image in sorted(same, key=lambda entry: entry[0], reverse=True)[keep:]
        ]

    def forget(self, reference: Reference, image: Mapping[str, object]) -> None:
        self._keep(reference, [known for known in self._read(reference) if known != image])

    def _all(self) -> Iterator[tuple[Reference, list[dict[str, Any]]]]:
        for file in sorted(self.folder.glob("*.json")):
            if record := own_files.read(file, _parse, self.note):
                yield record

    def _read(self, reference: Reference) -> list[dict[str, Any]]:
        record = own_files.read(self._file(reference), _parse, self.note)
        return record[1] if record else []

    def _keep(self, reference: Reference, images: list[dict[str, Any]]) -> None:
        if images:
            record = {"reference": str(reference), "images": images}
            replace_file(self._file(reference), json.dumps(record, indent=1).encode())
        else:
            self._file(reference).unlink(missing_ok=True)

    def _file(self, reference: Reference) -> Path:
        return self.folder / f"{quote(str(reference), safe='')}.json"


def _parse(content: bytes) -> tuple[Reference, list[dict[str, Any]]]:
    record = json.loads(content)
    images = [{name: _OF_AN_IMAGE[name](image[name]) for name in _OF_AN_IMAGE} for image in record["images"]]
    return parse_reference(_text(record["reference"])), images


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


_OF_AN_IMAGE: Mapping[str, Callable[[Any], Any]] = {
    "id": _text,
    "identity": _text,
    "digest": lambda value: None if value is None else _text(value),
    "diff_ids": lambda value: [_text(each) for each in value],
    "since": int,
}
