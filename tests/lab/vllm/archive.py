# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Image layers and archives that `docker load` takes, written without any engine; equal input gives equal bytes.

An archive is both things at once, as `docker save` writes it since Docker 25: an OCI image layout (index.json) and a
docker-archive (manifest.json), so that every Docker, containerd and skopeo finds what it looks for.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Every time stamp in layers and configs (2026-01-01): when something was built must not change what it is.
EPOCH = 1_767_225_600
CREATED = "2026-01-01T00:00:00Z"

_OCI = "application/vnd.oci.image"


@dataclass(frozen=True)
class Layer:
    """An uncompressed layer tar; `digest` is both its DiffID and its blob digest, `name` what its history says."""

    name: str
    path: Path
    digest: str
    size: int

    @classmethod
    def from_facts(cls, name: str, path: Path, facts: Mapping[str, Any]) -> Layer:
        """As it was kept beside the file."""
        return cls(name, path, facts["digest"], facts["bytes"])

    def as_facts(self) -> dict[str, Any]:
        return {"digest": self.digest, "bytes": self.size}


@dataclass(frozen=True)
class Image:
    """What `docker run` needs to know beside the layers (lowest first)."""

    reference: str
    layers: Sequence[Layer]
    entrypoint: Sequence[str]
    environment: Mapping[str, str]
    architecture: str
    working_directory: str = "/"
    labels: Mapping[str, str] = field(default_factory=dict)


def write_layer(name: str, root: Path, target: Path) -> Layer:
    """Pack a directory tree, as the image's `/`, into one layer: sorted, one time stamp, numeric owners, no xattrs.

    Only directories, files and links: device nodes can't be made in a user namespace, which is where lab hosts unpack.
    """
    with tarfile.open(target, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in _tree(root):
            _add(tar, path, path.relative_to(root).as_posix())
    with target.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    return Layer(name, target, f"sha256:{digest}", target.stat().st_size)


def _tree(root: Path) -> Iterator[Path]:
    for directory, names, files in os.walk(root):
        names.sort()
        here = Path(directory)
        yield from sorted(here / name for name in [*names, *files] if _packable(here / name))


def _packable(path: Path) -> bool:
    return path.is_symlink() or path.is_dir() or path.is_file()


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    entry = tar.gettarinfo(path, name)
    entry.mtime = EPOCH
    entry.uname = entry.gname = ""
    if entry.isreg():
        with path.open("rb", buffering=0) as content:
            tar.addfile(entry, content)
    else:
        tar.addfile(entry)


def config(image: Image) -> bytes:
    return _json(
        {
            "architecture": image.architecture,
            "os": "linux",
            "created": CREATED,
            "config": {
                "Entrypoint": list(image.entrypoint),
                "Env": [f"{name}={value}" for name, value in sorted(image.environment.items())],
                "WorkingDir": image.working_directory,
                "Labels": dict(image.labels),
            },
            "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in image.layers]},
            "history": [{"created": CREATED, "created_by": layer.name} for layer in image.layers],
        }
    )


def image_id(image: Image) -> str:
    """What `docker images --no-trunc` shows in Docker's classic store."""
    return _digest(config(image))


def write_archive(image: Image, target: Path) -> None:
    configuration = config(image)
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": _descriptor(f"{_OCI}.config.v1+json", configuration),
            "layers": [
                {"mediaType": f"{_OCI}.layer.v1.tar", "digest": layer.digest, "size": layer.size}
                for layer in image.layers
            ],
        }
    )
    documents = {
        _blob(_digest(configuration)): configuration,
        _blob(_digest(manifest)): manifest,
        "index.json": _json(_index(image, manifest)),
        "manifest.json": _json(
            [
                {
                    "Config": _blob(_digest(configuration)),
                    "RepoTags": [image.reference],
                    "Layers": [_blob(layer.digest) for layer in image.layers],
                }
            ]
        ),
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
    }
    with tarfile.open(target, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, document in documents.items():
            tar.addfile(_entry(name, len(document)), io.BytesIO(document))
        for layer in {layer.digest: layer for layer in image.layers}.values():
            with layer.path.open("rb") as content:
                tar.addfile(_entry(_blob(layer.digest), layer.size), content)


def _index(image: Image, manifest: bytes) -> dict[str, Any]:
    descriptor = _descriptor(f"{_OCI}.manifest.v1+json", manifest)
    descriptor["annotations"] = {
        "io.containerd.image.name": f"docker.io/{image.reference}",
        "org.opencontainers.image.ref.name": image.reference.rpartition(":")[2],
    }
    return {"schemaVersion": 2, "mediaType": f"{_OCI}.index.v1+json", "manifests": [descriptor]}


def _descriptor(media_type: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = size, EPOCH, 0o644
    return entry


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
