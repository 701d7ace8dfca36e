# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images: identity, archives, and what the store decides; Docker is a fake that keeps images in a dict."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.staging import Progress
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.archive import (
    Layer,
    digest_of,
    load_stream,
    read_archive,
)
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.docker import Docker, Engine, LocalImage
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.identity import (
    common_prefix,
    identity_from_config,
    identity_from_inspect,
    parse_reference,
)
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.records import ImageRecords
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.step import Wanted
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.store import ImageStore
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.contents import AbsentError, Contents
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.places import Places
from ansible_collections.gb10.fleet.plugins.modules.image_prune import compiled_with, name_of


def config_of(*layers: bytes, **inherited: Any) -> dict[str, Any]:
    diff_ids = [digest_of(layer) for layer in layers]
    return {"os": "linux", "architecture": "arm64", "config": inherited, "rootfs": {"diff_ids": diff_ids}}


def write_archive(path: Path, *layers: bytes, tags: list[str] | None = None, **inherited: Any) -> Path:
    """What ``docker save`` writes (Docker 25 and newer), by our own writer; tags: instead of ``demo:1``."""
    config = json.dumps(config_of(*layers, **inherited)).encode()
    content = {digest_of(layer): layer for layer in layers}

    parts = [Layer(digest, digest, len(layer)) for digest, layer in content.items()]
    stream = load_stream(parse_reference("demo:1"), config, parts, lambda x: iter([content[x.digest]]), frozenset())
    path.write_bytes(b"".join(stream))
    return path


@pytest.mark.parametrize(
    ("text", "repository", "tag", "full_name"),
    [
        ("vllm", "vllm", "latest", "docker.io/library/vllm:latest"),
        ("vllm/vllm-openai:v0.23.0", "vllm/vllm-openai", "v0.23.0", "docker.io/vllm/vllm-openai:v0.23.0"),
        ("docker.io/library/busybox:1", "busybox", "1", "docker.io/library/busybox:1"),
        ("host:5000/vllm", "host:5000/vllm", "latest", "host:5000/vllm:latest"),
        ("nvcr.io/nvidia/vllm:26.04", "nvcr.io/nvidia/vllm", "26.04", "nvcr.io/nvidia/vllm:26.04"),
    ],
)
def test_a_reference_splits_at_its_tag(text: str, repository: str, tag: str, full_name: str) -> None:
    reference = parse_reference(text)
    assert (reference.repository, reference.tag, reference.full_name) == (repository, tag, full_name)


def test_identity_is_equal_from_inspect_and_from_the_config_blob() -> None:
    config = config_of(b"base", b"own", Env=["A=1"], Cmd=["serve"])
    inspect = {
        "Id": "whatever the store calls it",
        "Os": "linux",
        "Architecture": "arm64",
        "RootFS": {"Layers": config["rootfs"]["diff_ids"]},
        "Config": {"Env": ["A=1"], "Cmd": ["serve"], "Hostname": "", "Labels": None, "Image": "sha256:1"},
    }
    assert identity_from_inspect(inspect) == identity_from_config(config)


@pytest.mark.parametrize(
    "other",
    [
        config_of(b"own", b"base", Env=["A=1"]),
        config_of(b"base", Env=["A=1"]),
        config_of(b"base", b"own", Env=["A=2"]),
        config_of(b"base", b"own"),
        config_of(b"base", b"own", Env=["A=1"]) | {"architecture": "amd64"},
    ],
)
def test_identity_differs_with_layers_order_config_and_architecture(other: dict[str, Any]) -> None:
    assert identity_from_config(config_of(b"base", b"own", Env=["A=1"])) != identity_from_config(other)


@pytest.mark.parametrize(
    ("others", "expected"),
    [([], 0), ([["x", "b"]], 0), ([["a", "b", "x"], ["a"]], 2), ([["a", "b", "c", "d"]], 3), ([["b", "c"]], 0)],
)
def test_a_graph_driver_takes_over_layers_from_the_bottom_only(others: list[list[str]], expected: int) -> None:
    assert common_prefix(["a", "b", "c"], others) == expected


def test_an_archive_is_read_as_it_was_written(tmp_path: Path) -> None:
    archive = read_archive(
        write_archive(tmp_path / "a.tar", b"base" * 300, b"own", Env=["A=1"]), parse_reference("demo:1")
    )
    assert archive.identity == identity_from_config(config_of(b"base" * 300, b"own", Env=["A=1"]))
    assert [b"".join(archive.chunks(layer)) for layer in archive.layers] == [b"base" * 300, b"own"]
    assert digest_of(archive.config) in archive.digests
    assert len(archive.digests) == 2


def test_a_stream_leaves_out_what_the_target_has(tmp_path: Path) -> None:
    archive = read_archive(write_archive(tmp_path / "a.tar", b"base" * 3000, b"own"), parse_reference("demo:1"))
    left_out = frozenset({archive.layers[0].digest})
    stream = load_stream(parse_reference("demo:1"), archive.config, archive.layers, archive.chunks, left_out)
    with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as tar:
        blobs = {name.rpartition("/")[2] for name in tar.getnames() if name.startswith("blobs/")}
        listing = json.load(tar.extractfile("manifest.json") or io.BytesIO())
    assert hashlib.sha256(b"base" * 3000).hexdigest() not in blobs
    assert hashlib.sha256(b"own").hexdigest() in blobs
    assert len(listing[0]["Layers"]) == 2


def write_old_archive(path: Path) -> Path:
    """As Docker before 25 wrote it: a folder a layer, and a link where a layer occurs twice."""
    config = json.dumps(config_of(b"base", b"base")).encode()
    listing = [{"Config": "c.json", "RepoTags": ["demo:1"], "Layers": ["one/layer.tar", "two/layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        for name, content in (
            ("c.json", config),
            ("one/layer.tar", b"base"),
            ("manifest.json", json.dumps(listing).encode()),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("two/layer.tar")
        link.type, link.linkname = tarfile.SYMTYPE, "../one/layer.tar"
        tar.addfile(link)
    return path


def test_an_archive_of_an_older_docker_is_read_too(tmp_path: Path) -> None:
    archive = read_archive(write_old_archive(tmp_path / "old.tar"), parse_reference("demo:1"))
    assert [b"".join(archive.chunks(layer)) for layer in archive.layers] == [b"base", b"base"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "there is no such file"),
        (lambda path: path.write_bytes(b"no archive"), "not a whole image archive"),
        (lambda path: path.write_bytes(gzip.compress(b"archive")), "compressed with gzip"),
        (lambda path: path.mkdir(), "can't be read"),
        (lambda path: cut(write_archive(path, b"x" * 9000), 6000), "not a whole image archive"),
    ],
)
def test_what_is_no_archive_is_refused_with_its_path(tmp_path: Path, make: Any, message: str) -> None:
    path = tmp_path / "a.tar"
    make(path)
    with pytest.raises(FleetError, match=message) as caught:
        read_archive(path, parse_reference("demo:1"))
    assert caught.value.findings[0].place == str(path)


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:-size])


def test_an_archive_of_another_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match="holds demo:1; expected other:1"):
        read_archive(write_archive(tmp_path / "a.tar", b"x"), parse_reference("other:1"))


class FakeDocker(Docker):
    """Keeps what it is given. ids: made of the identity, as a graph driver does."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.known: dict[str, LocalImage] = {}
        self.pulled: dict[str, LocalImage] = {}
        self.loaded = 0

    def is_there(self) -> bool:
        return True

    def engine(self) -> Engine:
        return Engine(self.root, "overlay2", False)

    def images(self) -> list[LocalImage]:
        return list(self.known.values())

    def image(self, name: str) -> LocalImage | None:
        return self.known.get(name)

    def tag(self, name: str, reference: Any) -> None:
        image = next(each for each in self.known.values() if name in (each.id, *each.digests) or name in each.tags)
        self.known[str(reference)] = LocalImage(image.id, (str(reference),), image.digests, image.size, image.identity)

    def pull(self, name: str) -> Iterator[dict[str, Any]]:
        self.known[name] = self.pulled[name]
        return iter(
            [
                {"status": "Pulling from demo"},
                {"status": "Pulling fs layer", "id": "a"},
                {"status": "Retrying in 5 seconds", "id": "a"},
            ]
        )

    def load(self, chunks: Iterator[bytes]) -> None:
        content = b"".join(chunks)
        self.loaded += len(content)
        with tarfile.open(fileobj=io.BytesIO(content)) as tar:
            entry = json.load(tar.extractfile("manifest.json") or io.BytesIO())[0]
            config = json.load(tar.extractfile(entry["Config"]) or io.BytesIO())
        tag = entry["RepoTags"][0]
        self.known[tag] = local_image(tag, config)


def local_image(tag: str, config: dict[str, Any], *digests: str) -> LocalImage:
    identity = identity_from_config(config)
    return LocalImage(identity.digest, (tag,), frozenset(digests), 1, identity)


@pytest.fixture
def docker(tmp_path: Path) -> FakeDocker:
    return FakeDocker(tmp_path)


@pytest.fixture
def store(tmp_path: Path, docker: FakeDocker) -> ImageStore:
    return ImageStore(docker, Places(tmp_path, tmp_path / "hf"), Progress())


def from_archive(path: Path, digest: str | None = None) -> Wanted:
    return Wanted(parse_reference("demo:1"), digest, "archive", path)


def test_an_archive_is_loaded_once(tmp_path: Path, store: ImageStore, docker: FakeDocker) -> None:
    wanted = from_archive(write_archive(tmp_path / "a.tar", b"base" * 1000, b"own"))
    [step] = store.examine([wanted])
    assert (step.action, step.moved, docker.loaded) == ("load", 4003, 0)
    store.apply(step)
    assert [each.action for each in store.examine([wanted])] == ["nothing"]


def test_an_upgrade_moves_the_changed_layer_only(tmp_path: Path, store: ImageStore, docker: FakeDocker) -> None:
    docker.known["demo:0"] = local_image("demo:0", config_of(b"base" * 1000, b"old"))
    [step] = store.examine([from_archive(write_archive(tmp_path / "a.tar", b"base" * 1000, b"own"))])
    assert step.moved == 3


def test_an_image_under_another_name_is_only_named(tmp_path: Path, store: ImageStore, docker: FakeDocker) -> None:
    docker.known["other:7"] = local_image("other:7", config_of(b"base"))
    [step] = store.examine([from_archive(write_archive(tmp_path / "a.tar", b"base"))])
    assert (step.action, step.moved) == ("tag", 0)
    assert store.apply(step).tags == ("demo:1",)


def test_another_image_under_the_name_is_replaced(tmp_path: Path, store: ImageStore, docker: FakeDocker) -> None:
    docker.known["demo:1"] = local_image("demo:1", config_of(b"base", Env=["A=old"]))
    [step] = store.examine([from_archive(write_archive(tmp_path / "a.tar", b"base", Env=["A=new"]))])
    assert step.action == "load"


def test_a_pin_that_the_archive_does_not_keep_is_refused(tmp_path: Path, store: ImageStore) -> None:
    archive = write_archive(tmp_path / "a.tar", b"base")
    with pytest.raises(FleetError, match="image-digest"):
        store.examine([from_archive(archive, "sha256:00")])
    kept = sorted(read_archive(archive, parse_reference("demo:1")).digests)
    assert store.examine([from_archive(archive, digest) for digest in kept])


def test_all_obstacles_are_reported_at_once_before_any_change(
    tmp_path: Path, store: ImageStore, docker: FakeDocker
) -> None:
    good = from_archive(write_archive(tmp_path / "a.tar", b"base"))
    with pytest.raises(FleetError) as caught:
        store.examine([good, from_archive(tmp_path / "one"), from_archive(tmp_path / "two")])
    assert [finding.place for finding in caught.value.findings] == [str(tmp_path / "one"), str(tmp_path / "two")]
    assert docker.known == {}


def from_registry(digest: str | None = None) -> Wanted:
    return Wanted(parse_reference("demo:1"), digest, "registry")


def test_a_pinned_image_is_pulled_by_its_digest_and_named(store: ImageStore, docker: FakeDocker) -> None:
    docker.pulled["demo@sha256:aa"] = local_image("demo@sha256:aa", config_of(b"base"), "sha256:aa", "demo@sha256:aa")
    [step] = store.examine([from_registry("sha256:aa")])
    assert (step.action, step.moved) == ("pull", None)
    store.apply(step)
    assert [each.action for each in store.examine([from_registry("sha256:aa")])] == ["nothing"]
    assert [each.action for each in store.examine([from_registry("sha256:bb")])] == ["pull"]


def test_the_record_keeps_the_pin_that_docker_forgot(store: ImageStore, docker: FakeDocker) -> None:
    docker.pulled["demo@sha256:aa"] = local_image("demo@sha256:aa", config_of(b"base"), "sha256:aa", "demo@sha256:aa")
    store.apply(store.examine([from_registry("sha256:aa")])[0])
    docker.known = {"demo:1": local_image("demo:1", config_of(b"base"))}
    assert [each.action for each in store.examine([from_registry("sha256:aa")])] == ["nothing"]
    docker.known = {"demo:1": local_image("demo:1", config_of(b"swapped"))}
    assert [each.action for each in store.examine([from_registry("sha256:aa")])] == ["pull"]


def test_an_image_is_given_under_no_pin_that_it_does_not_have(tmp_path: Path, docker: FakeDocker) -> None:
    """Another host asks by name and digest; here that name is another image."""
    docker.known["demo:1"] = local_image("demo:1", config_of(b"other"), "sha256:" + "bb" * 32)
    contents = Contents(Places(tmp_path, tmp_path / "hf"), docker)
    with pytest.raises(AbsentError, match=r"its demo:1 is sha256:bb.* not known to be sha256:aa"):
        contents.image("demo:1", "sha256:" + "aa" * 32)


def test_without_a_pin_an_image_of_that_name_will_do(store: ImageStore, docker: FakeDocker) -> None:
    docker.known["demo:1"] = local_image("demo:1", config_of(b"base"))
    assert [each.action for each in store.examine([from_registry()])] == ["nothing"]


def test_the_host_that_gives_an_image_has_it_from_nobody(store: ImageStore, docker: FakeDocker) -> None:
    wanted = Wanted(parse_reference("demo:1"), None, "host")
    with pytest.raises(FleetError, match=r"demo:1: not on this host.*load or build it here.*image-source-absent"):
        store.examine([wanted])
    docker.known["demo:1"] = local_image("demo:1", config_of(b"base"))
    assert [each.action for each in store.examine([wanted])] == ["nothing"]


# What came before


def recorded(records: ImageRecords, tag: str, content: bytes, digest: str | None = None) -> None:
    records.write(parse_reference(tag), digest, local_image(tag, config_of(content)))


def names(records: ImageRecords, wanted: list[str], keep: int) -> list[str]:
    stale = records.stale(map(parse_reference, wanted), keep)
    return [str(reference) if records.newest(reference) == image else image["id"] for reference, image in stale]


def test_earlier_images_of_a_repository_are_stale_beyond_the_newest(tmp_path: Path) -> None:
    records = ImageRecords(tmp_path, clock=iter(range(10)).__next__)
    for tag in ("vllm:1", "vllm:2", "vllm:3", "other:1"):
        recorded(records, tag, tag.encode())
    assert names(records, ["vllm:3", "other:1"], keep=1) == ["vllm:1"]
    assert names(records, ["vllm:3", "other:1"], keep=0) == ["vllm:2", "vllm:1"]
    assert names(records, ["vllm:1", "vllm:2", "vllm:3"], keep=0) == ["other:1"]


def test_the_old_image_of_a_moved_name_is_stale_by_its_id(tmp_path: Path) -> None:
    records = ImageRecords(tmp_path, clock=iter(range(10)).__next__)
    recorded(records, "vllm:1", b"old", "sha256:aa")
    recorded(records, "vllm:1", b"new")
    old = local_image("vllm:1", config_of(b"old"))
    assert names(records, ["vllm:1"], keep=0) == [old.id]
    assert records.is_pinned(old, parse_reference("vllm:1"), "sha256:aa")
    [(reference, image)] = records.stale([parse_reference("vllm:1")], keep=0)
    records.forget(reference, image)
    assert names(records, ["vllm:1"], keep=0) == []


@pytest.mark.parametrize(
    ("holder", "tags", "name"),
    [
        ("it", ("demo:1",), "demo:1"),
        ("another", (), "ID"),  # after a rollout that was taken back: the record's newest has no name
        ("none", (), "ID"),
        ("another", ("mine:1",), ""),
    ],
)
def test_an_image_is_removed_by_what_docker_calls_it(
    holder: str, tags: tuple[str, ...], name: str, docker: FakeDocker
) -> None:
    it, other = (local_image("demo:1", config_of(content)) for content in (b"it", b"other"))
    docker.known[it.id] = replace(it, tags=tags)
    docker.known |= {"it": {"demo:1": it}, "another": {"demo:1": other}, "none": {}}[holder]
    assert name_of(docker, parse_reference("demo:1"), it.id) == name.replace("ID", it.id)


@pytest.mark.parametrize(
    ("digest", "is_named", "gone"),
    [
        ("sha256:aa", True, {"pinned", "named"}),
        ("sha256:aa", False, {"pinned"}),
        (None, True, {"named"}),
        (None, False, set()),
    ],
)
def test_what_was_compiled_with_an_image_goes_with_it(
    digest: str | None, is_named: bool, gone: set[str], tmp_path: Path
) -> None:
    """Of all services, and not what the newer image of that name has compiled."""
    pins = {"pinned": "sha256:aa", "named": None, "newer": "sha256:bb"}
    there = {
        tmp_path / service / layout.compiled_key("vllm:1", pin): name
        for service in ("chat", "code")
        for name, pin in pins.items()
    }
    for folder in (*there, tmp_path / "chat" / layout.compiled_key("vllm:2", "sha256:aa")):
        folder.mkdir(parents=True)
    found = [*compiled_with(parse_reference("vllm:1"), digest, is_named=is_named, folder=tmp_path)]
    assert {*found} == {folder for folder, name in there.items() if name in gone}


def test_what_is_not_as_locked_is_not_taken_wherever_it_is(tmp_path: Path, docker: FakeDocker) -> None:
    """Neither an image that is here under the name, nor an archive's, nor one that its host calls the pinned one."""
    store = ImageStore(docker, Places(tmp_path, tmp_path / "hf"), Progress())
    good, evil = (local_image("demo:1", config_of(b"base", Cmd=[name])) for name in ("good", "evil"))
    locked = {"reference": "demo:1", "lock": {"digest": "sha256:aa", "identity": good.identity.digest}}
    docker.known["demo:1"] = evil
    ImageRecords(tmp_path / "images").write(parse_reference("demo:1"), "sha256:aa", evil)
    for digest in (None, "sha256:aa"):
        [step] = store.examine([Wanted.from_plan({**locked, "digest": digest, "source": {"kind": "registry"}})])
        assert (step.action, step.words()) == ("pull", "to be pulled by sha256:aa, size not known before")
    archive = write_archive(tmp_path / "a.tar", b"base", Cmd=["evil"])
    with pytest.raises(FleetError, match="lock-differs"):
        store.examine([Wanted.from_plan({**locked, "source": {"kind": "archive", "path": str(archive)}})])
    docker.known["demo:1"] = good
    [step] = store.examine([Wanted.from_plan({**locked, "digest": "sha256:aa", "source": {"kind": "registry"}})])
    assert (step.action, step.here) == ("nothing", good)
    # the registry gives another one behind the digest: the record isn't written either
    del docker.known["demo:1"]
    named = ("sha256:aa", "demo@sha256:aa")
    docker.pulled["demo@sha256:aa"] = local_image("demo@sha256:aa", config_of(b"base", Cmd=["evil"]), *named)
    wanted = Wanted.from_plan({**locked, "source": {"kind": "registry"}})
    with pytest.raises(FleetError, match="lock-differs"):
        store.apply(store.examine([wanted])[0])


@pytest.mark.parametrize("renew", [True, False])
def test_a_tag_is_asked_for_anew_only_where_that_is_wanted(store: ImageStore, docker: FakeDocker, renew: bool) -> None:
    docker.known["demo:1"] = local_image("demo:1", config_of(b"old"))
    entry = {"reference": "demo:1", "lock": None, "renew": renew, "source": {"kind": "registry"}}
    assert [step.action for step in store.examine([Wanted.from_plan(entry)])] == ["pull" if renew else "nothing"]


def test_a_bundles_image_is_asked_for_until_it_is_brought_and_loaded_once(
    tmp_path: Path, store: ImageStore, docker: FakeDocker
) -> None:
    layer, config = gzip.compress(b"own"), json.dumps(config_of(b"own")).encode()
    manifest = json.dumps({"config": {"digest": digest_of(config)}, "layers": [{"digest": digest_of(layer)}]}).encode()
    entry = {
        "reference": "demo:1",
        "digest": None,
        "source": {"kind": "bundle", "path": str(tmp_path / "images"), "manifest": digest_of(manifest)},
        "lock": {"digest": None, "identity": identity_from_config(json.loads(config)).digest},
    }
    [step] = store.examine([Wanted.from_plan(entry)])
    assert (step.action, step.moved) == ("load", None) and "bundle" in step.words()
    with pytest.raises(FleetError, match="-e bundle="):
        store.apply(step)
    for content in (layer, config, manifest):
        blob = tmp_path / "images" / "blobs" / digest_of(content).replace(":", "/")
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
    [step] = store.examine([Wanted.from_plan(entry)])
    assert (step.action, step.moved) == ("load", len(layer))
    store.apply(step)
    shutil.rmtree(tmp_path / "images")
    [step] = store.examine([Wanted.from_plan(entry)])
    assert step.action == "nothing"
    other = entry | {"lock": {"digest": None, "identity": "sha256:" + "0" * 64}}
    [step] = store.examine([Wanted.from_plan(other)])
    assert step.action == "load", "another image of that name will not do"
