# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Layers read from where Docker keeps them; the folders here are laid out as Docker's and containerd's are."""

from __future__ import annotations

import base64
import gzip
import io
import json
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.archive import Layer, digest_of
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.docker import Engine, LocalImage
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.identity import chain_id, identity_from_config
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.layers import (
    FileReader,
    LayerStore,
    gunzipped,
    stream,
)
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.step import LocalStore, parts_of

FILES = {"bin/tool": b"tool" * 5000, "etc/empty": b"", "etc/naïve": b"n" * 700}


def tar_of(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


class Overlay2:
    """Docker's root with the overlay2 driver."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.engine = Engine(root, "overlay2", False)

    def add(self, *layers: dict[str, bytes]) -> LocalImage:
        diff_ids = tuple(digest_of(tar_of(files)) for files in layers)
        for index, files in enumerate(layers):
            self._add_layer(files, diff_ids[: index + 1])
        config = {"os": "linux", "architecture": "arm64", "rootfs": {"diff_ids": diff_ids}}
        blob = json.dumps(config).encode()
        folder = self.root / "image" / "overlay2" / "imagedb" / "content" / "sha256"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / digest_of(blob).removeprefix("sha256:")).write_bytes(blob)
        return LocalImage(digest_of(blob), ("demo:1",), frozenset(), 1, identity_from_config(config))

    def _add_layer(self, files: dict[str, bytes], diff_ids: tuple[str, ...]) -> None:
        chain = chain_id(diff_ids)
        layer = self.root / "image" / "overlay2" / "layerdb" / "sha256" / chain
        layer.mkdir(parents=True, exist_ok=True)
        (layer / "diff").write_text(diff_ids[-1])
        (layer / "cache-id").write_text(f"cache-{chain}")
        unpacked = self.root / "overlay2" / f"cache-{chain}" / "diff"
        for name, content in files.items():
            (unpacked / name).parent.mkdir(parents=True, exist_ok=True)
            (unpacked / name).write_bytes(content)
        with gzip.open(layer / "tar-split.json.gz", "wb") as split:
            for entry in tar_split(tar_of(files)):
                split.write(json.dumps(entry).encode() + b"\n")


def tar_split(tar: bytes) -> list[dict[str, Any]]:
    """What Docker records of a layer's tar: all but the files' contents."""
    entries: list[dict[str, Any]] = []
    start = 0
    with tarfile.open(fileobj=io.BytesIO(tar)) as members:
        for member in members:
            entries.append({"type": 2, "payload": base64.b64encode(tar[start : member.offset_data]).decode()})
            name = member.name
            named = {"name": name} if name.isascii() else {"name_raw": base64.b64encode(name.encode()).decode()}
            entries.append({"type": 1, **named, **({"size": member.size} if member.size else {})})
            start = member.offset_data + member.size
    return [*entries, {"type": 2, "payload": base64.b64encode(tar[start:]).decode()}]


class Containerd:
    """Docker's root with the containerd store; blobs keep the form in which they came."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.engine = Engine(root, "overlayfs", True)
        self.blobs = root / "containerd" / "daemon" / "io.containerd.content.v1.content" / "blobs" / "sha256"
        self.blobs.mkdir(parents=True)

    def put(self, content: bytes) -> str:
        (self.blobs / digest_of(content).removeprefix("sha256:")).write_bytes(content)
        return digest_of(content)

    def remove(self, digest: str) -> None:
        (self.blobs / digest.removeprefix("sha256:")).unlink()

    def add(self, *layers: dict[str, bytes], compressed: bool = True, in_index: bool = False) -> LocalImage:
        tars = [tar_of(files) for files in layers]
        blobs = [gzip.compress(tar, mtime=0) if compressed else tar for tar in tars]
        config = {"os": "linux", "architecture": "arm64", "rootfs": {"diff_ids": [digest_of(tar) for tar in tars]}}
        manifest = {
            "config": {"digest": self.put(json.dumps(config).encode())},
            "layers": [{"digest": self.put(blob), "size": len(blob)} for blob in blobs],
        }
        digest = self.put(json.dumps(manifest).encode())
        if in_index:
            other = "sha256:" + "0" * 64  # of another platform: never pulled
            digest = self.put(json.dumps({"manifests": [{"digest": other}, {"digest": digest}]}).encode())
        return LocalImage(digest, ("demo:1",), frozenset(), 1, identity_from_config(config))


@pytest.fixture
def overlay2(tmp_path: Path) -> Overlay2:
    return Overlay2(tmp_path)


@pytest.fixture
def containerd(tmp_path: Path) -> Containerd:
    return Containerd(tmp_path)


def test_overlay2_gives_a_layer_byte_for_byte(overlay2: Overlay2) -> None:
    image = overlay2.add({"base": b"b" * 3000}, FILES)
    store = LayerStore(overlay2.engine)
    [_, layer] = store.image(image).layers
    reader = store.find(layer.digest)
    assert reader
    tar = tar_of(FILES)
    assert (layer.size, stream(reader).read()) == (len(tar), tar)
    for offset, length in [(0, 10), (500, 600), (511, 2), (len(tar) - 5, 99), (1000, 9000), (len(tar), 5)]:
        assert reader.read(offset, length) == tar[offset : offset + length]


def test_overlay2_lacks_what_it_does_not_have(overlay2: Overlay2) -> None:
    overlay2.add(FILES)
    assert LayerStore(overlay2.engine).find("sha256:" + "0" * 64) is None


@pytest.mark.parametrize("in_index", [False, True])
def test_containerd_gives_a_layer_in_the_form_it_has(containerd: Containerd, in_index: bool) -> None:
    image = containerd.add(FILES, in_index=in_index)
    store = LayerStore(containerd.engine)
    [layer] = store.image(image).layers
    reader = store.find(layer.digest)
    assert reader
    assert (layer.compression, layer.size) == ("gzip", reader.size)
    assert gunzipped(reader).read() == tar_of(FILES)
    assert store.is_complete(image)


def test_an_image_that_only_looks_complete_is_reported(containerd: Containerd) -> None:
    """What a load that left out a layer leaves behind where that layer came compressed from a registry."""
    image = containerd.add({"base": b"b"}, FILES, compressed=False)
    containerd.remove(digest_of(tar_of({"base": b"b"})))
    store = LayerStore(containerd.engine)
    assert not store.is_complete(image)
    with pytest.raises(FleetError, match="content store does not hold it"):
        store.image(image)


def test_an_unknown_driver_is_refused() -> None:
    with pytest.raises(FleetError, match="the storage driver zfs"):
        LayerStore(Engine(Path("/var/lib/docker"), "zfs", False))


# What of an image is missing

BASE, OLD, NEW = {"base": b"b" * 3000}, {"vllm": b"old" * 999}, {"vllm": b"new" * 999}


def offered(*layers: dict[str, bytes]) -> list[Layer]:
    return [Layer(digest_of(tar_of(files)), digest_of(tar_of(files)), len(tar_of(files))) for files in layers]


def test_overlay2_finds_the_layers_below_by_itself(overlay2: Overlay2) -> None:
    here = LocalStore(overlay2.engine, [overlay2.add(BASE, OLD)])
    parts = parts_of(offered(BASE, NEW), here)
    assert parts.left_out == {digest_of(tar_of(BASE))}
    assert [layer.digest for layer in parts.missing] == [digest_of(tar_of(NEW))]


def test_overlay2_can_be_given_its_own_layer_on_top_of_others(overlay2: Overlay2) -> None:
    """A graph driver does not know the layer there, but it need not be fetched."""
    here = LocalStore(overlay2.engine, [overlay2.add(BASE, OLD)])
    parts = parts_of(offered(NEW, OLD), here)
    assert parts.left_out == frozenset()
    assert [layer.digest for layer in parts.missing] == [digest_of(tar_of(NEW))]


def test_containerd_gets_the_form_that_it_has(containerd: Containerd) -> None:
    """The trap: an uncompressed layer that is offered, left out because its compressed form is here."""
    image = containerd.add(BASE, OLD)
    compressed = LayerStore(containerd.engine).image(image).layers[0]
    parts = parts_of(offered(BASE, NEW), LocalStore(containerd.engine, [image]))
    assert parts.layers[0] == compressed
    assert parts.left_out == {compressed.digest}
    assert [layer.digest for layer in parts.missing] == [digest_of(tar_of(NEW))]


def test_containerd_does_not_count_on_what_it_lost(containerd: Containerd) -> None:
    image = containerd.add(BASE, OLD)
    containerd.remove(LayerStore(containerd.engine).image(image).layers[0].digest)
    parts = parts_of(offered(BASE, NEW), LocalStore(containerd.engine, [image]))
    assert (parts.left_out, len(parts.missing)) == (frozenset(), 2)


def test_threads_may_read_a_file_at_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"".join(b"%07d\n" % number for number in range(1000)))
    reader = FileReader(path, path.parent)
    with ThreadPoolExecutor(8) as pool:
        lines = list(pool.map(lambda number: reader.read(8 * (number % 1000), 8), range(20_000)))
    assert all(line == b"%07d\n" % (number % 1000) for number, line in enumerate(lines))
