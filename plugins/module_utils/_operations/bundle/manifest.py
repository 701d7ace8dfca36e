# SPDX-License-Identifier: GPL-3.0-or-later
"""The manifest of a bundle, ``manifest.json``: its form, and where each thing's bytes lie.

A plain map. ``files`` has every file by its path below the bundle, ``{bytes, sha256}``; all else names paths of it:
``images`` (OCI blobs in ``images/blobs/sha256``, which images share), ``models`` (their files by their sums in
``models``), ``packages`` (the flat repository ``debs``), ``wheels`` with ``tools``, and ``collection``. A file of more
than ``part_bytes`` lies in parts, `parts_of`, on a medium whose names may be FAT's. ``serial``: a later bundle has a
higher one.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, FleetError
from ..._base.forms import forms
from ..._base.received import DIGEST, REVISION, SHA256, SIZE, checked, one_line, parsed, require_paths
from ..._facts.models.stored import STORED
from ..._stores.weights.manifest import File, Manifest

FILE = "manifest.json"
SIGNATURE = "manifest.json.sig"
KEY = "key.gpg"  # the public one, as gpgv and apt take it
LAYOUT, INDEX = "images/oci-layout", "images/index.json"
DEBS, WHEELS, COLLECTION = "debs", "wheels", "collection"
# What holds the list of a repository's packages, and its signature.
PACKAGES, RELEASE = f"{DEBS}/Packages", f"{DEBS}/InRelease"
FORM = 1
MOST_BYTES = 64 << 20
# FAT's largest file is 4 GiB less one byte; nobody needs parts of less than that many bytes.
LEAST_PART = 1 << 20
# What a long name of FAT has not (Microsoft's fatgen103, "Name Limits and Character Sets"); it ends with neither of the
# last two.
_NOT_FATS = re.compile(r'["*:<>?\\|\x00-\x1f]|[. ](?=/|$)')
_MOST_PARTS = 9999
_FOLDERS = ("images", "models", DEBS, WHEELS, COLLECTION)

_SPEC = forms(
    "bundle",
    form={"type": "int", "required": True, "choices": [FORM]},
    part_bytes={"type": "int", "required": True, "nullable": True, "min": LEAST_PART},
    digest=DIGEST,
    sha256=SHA256,
    size=SIZE,
    stored=STORED,
    revision=REVISION,
)["bundle"]


@dataclass(frozen=True)
class Part:
    """A piece of a file as it lies in the bundle. path: below the bundle. offset, size: in the whole file, bytes."""

    path: str
    offset: int
    size: int


def parts_of(path: str, size: int, part_bytes: int | None) -> list[Part]:
    """The pieces of a file, in order: the file itself where it is small enough, else ``PATH.part0001`` and so on."""
    if part_bytes is None or size <= part_bytes:
        return [Part(path, 0, size)]
    return [
        Part(f"{path}.part{number:04}", offset, min(part_bytes, size - offset))
        for number, offset in enumerate(range(0, size, part_bytes), start=1)
    ]


def blob(digest: str) -> str:
    """Where an image's blob lies."""
    return "images/blobs/" + digest.replace(":", "/")


def weight(sha256: str) -> str:
    """Where a file of a model lies."""
    return f"models/{sha256}"


def paths_of_image(image: Mapping[str, Any]) -> list[str]:
    """All blobs of an image: its manifest, what the registry said of it, its configuration and its layers."""
    return [blob(digest) for digest in dict.fromkeys([image["manifest"], *image["documents"], *image["layers"]])]


def paths_of_model(model: Mapping[str, Any]) -> list[str]:
    return [*dict.fromkeys(weight(file["sha256"]) for file in model["files"])]


def paths_of_packages(manifest: Mapping[str, Any]) -> list[str]:
    """The repository of packages, with what says that it is ours; nothing where there is none."""
    debs = [package["file"] for package in manifest["packages"]]
    return [PACKAGES, RELEASE, KEY, *debs] if debs else []


def parse(content: bytes, file: str) -> dict[str, Any]:
    """What a manifest says, all of it checked. file: its name, for messages. Raises FleetError."""
    try:
        manifest: dict[str, Any] = checked(_SPEC, parsed(content, MOST_BYTES, "it"), "it")
        _require_consistent(manifest)
    except ValueError as problem:
        raise FleetError(worded.error("bundle-manifest", file, found=one_line(str(problem)))) from None
    return manifest


def dump(manifest: Mapping[str, object]) -> bytes:
    """Its text: sorted, a key a line."""
    return (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode()


def _require_consistent(manifest: Mapping[str, Any]) -> None:
    """Each path leads to a place of its own in its folder, each sum is of what its name says."""
    files = manifest["files"]
    pieces = [part.path for path, file in files.items() for part in _pieces(path, file, manifest["part_bytes"])]
    require_paths(pieces, "its files")
    if manifest["part_bytes"]:
        _require_fats(pieces)
    if foreign := [path for path in files if path != KEY and path.split("/")[0] not in _FOLDERS]:
        raise ValueError(f"its files: {one_line(foreign[0], 80)!a} lies in none of its folders")
    for path, sha256, size in _named(manifest):
        file = files.get(path)
        if file is None:
            raise ValueError(f"it names {one_line(path, 80)!a}, which its files lack")
        if sha256 not in (None, file["sha256"]) or size not in (None, file["bytes"]):
            raise ValueError(f"{one_line(path, 80)!a} has another size or sum among its files than its name says")
    for model in manifest["models"]:
        sealed = Manifest(model["repository"], model["revision"], tuple(File(**file) for file in model["files"]))
        Manifest.from_map(json.loads(sealed.to_json()), f"its model {model['repository']}")
        if sealed.seal != model["seal"]:
            raise ValueError(f"its model {model['repository']} has the seal {sealed.seal}, not {model['seal']}")
    for kind, names in (("images", ("reference", "digest")), ("models", ("repository", "revision"))):
        keys = [tuple(entry[name] for name in names) for entry in manifest[kind]]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            raise ValueError(f"its {kind}: {twice[0]} is there twice")


def _require_fats(paths: Sequence[str]) -> None:
    """Names that FAT takes, and tells from each other: it has no two that differ by capitals alone."""
    if bad := next((path for path in paths if _NOT_FATS.search(path)), None):
        raise ValueError(f"its files: FAT takes no {one_line(bad, 80)!a}")
    seen: dict[str, str] = {}
    for path in paths:
        if (other := seen.setdefault(path.casefold(), path)) != path:
            raise ValueError(f"its files: to FAT {one_line(other, 80)!a} is {one_line(path, 80)!a}")


def _pieces(path: str, file: Mapping[str, Any], part_bytes: int | None) -> list[Part]:
    if part_bytes and file["bytes"] > part_bytes * _MOST_PARTS:
        raise ValueError(f"{one_line(path, 80)!a} would have more than {_MOST_PARTS} parts")
    return parts_of(path, file["bytes"], part_bytes)


def _named(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str | None, int | None]]:
    """Every path that something names, with the sum and the size that it must have; None for what the name is not."""
    for image in manifest["images"]:
        if image["digest"] not in image["documents"]:
            raise ValueError(f"its image {image['reference']} has no document {image['digest']}")
        for path in paths_of_image(image):
            yield path, path.rpartition("/")[2], None
    for model in manifest["models"]:
        for file in model["files"]:
            yield weight(file["sha256"]), file["sha256"], file["size"]
    for path in paths_of_packages(manifest):
        yield path, None, None
    for kind, folder in (("packages", DEBS), ("wheels", WHEELS)):
        for entry in manifest[kind]:
            yield _directly_in(folder, entry["file"]), None, None
    yield _directly_in(COLLECTION, manifest["collection"]["file"]), None, None


def _directly_in(folder: str, path: str) -> str:
    if path.rpartition("/")[0] != folder:
        raise ValueError(f"{one_line(path, 80)!a} does not lie in {folder}")
    return path


def index_of(images: Iterable[Mapping[str, Any]], sizes: Mapping[str, int]) -> bytes:
    """The layout's list of images (image-spec 1.1, image-layout.md): with it other programs read the folder, too.

    sizes: bytes of the files by path.
    """
    manifests = [
        {
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": image["manifest"],
            "size": sizes[blob(image["manifest"])],
            "annotations": {"org.opencontainers.image.ref.name": image["reference"]},
        }
        for image in images
    ]
    return json.dumps({"schemaVersion": 2, "manifests": manifests}, sort_keys=True).encode()


def older(manifest: Mapping[str, Any], newest: int, file: str, record: str) -> list[Finding]:
    """What is wrong where this site has been converged from a later bundle. newest: that one's serial, 0 for none.

    file: the manifest. record: the file that says so.
    """
    if manifest["serial"] >= newest:
        return []
    return [worded.error("bundle-older", file, serial=manifest["serial"], newest=newest, record=record)]
