# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Weights: what an owner's folder holds, how it gets into the cache, and what the store decides."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.staging import Progress
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.places import Places
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights import hub as hub_module
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.access import container_reads
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.cache import Cache, can_link, take_in
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.hub import Hub
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.manifest import Manifest, hash_file
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.prune import Pruner
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.source import read_source, safetensors_size
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.store import (
    DamagedError,
    ModelStore,
    Wanted,
    offered_manifest,
)
from ansible_collections.gb10.fleet.plugins.modules.model_snapshots import lent

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40
STAND_IN = Path(__file__).parents[1] / "stand_ins" / "hf"
INDEX = "model.safetensors.index.json"


def safetensors(size: int = 1000) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + os.urandom(size)


def write_model(folder: Path) -> Path:
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "sub" / "template.jinja").write_text("hello")
    (folder / "model-1.safetensors").write_bytes(safetensors())
    (folder / "model-2.safetensors").write_bytes(safetensors())
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (folder / INDEX).write_text(json.dumps(index))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "mine" / "model")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelStore:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody is asked for sizes
    monkeypatch.setattr(hub_module, "_LOOK_SECONDS", 0.05)
    places = Places(tmp_path, tmp_path / "hf", (f"{tmp_path}/home/*/.cache/huggingface/hub",))
    return ModelStore(places, Hub(str(STAND_IN), places.downloads), Progress())


def from_folder(folder: Path, revision: str | None = None) -> Wanted:
    return Wanted("org/model", revision, "path", folder)


def converge(store: ModelStore, wanted: Wanted) -> tuple[str, Manifest]:
    [step] = store.examine([wanted])
    return step.action, store.apply(step)


def test_a_folder_is_linked_and_found_where_vllm_looks(tmp_path: Path, folder: Path, store: ModelStore) -> None:
    action, manifest = converge(store, from_folder(folder, COMMIT))
    cache = tmp_path / "hf" / "hub" / "models--org--model"
    assert action == "link"
    assert (cache / "refs" / "main").read_text() == COMMIT == manifest.revision
    for path in ("config.json", "sub/template.jinja", "model-1.safetensors"):
        there = cache / "snapshots" / COMMIT / path
        assert there.samefile(folder / path)
        assert there.resolve().is_relative_to(cache)


@pytest.mark.parametrize("revision", [COMMIT, None])
def test_the_second_run_changes_nothing(folder: Path, store: ModelStore, revision: str | None) -> None:
    first, manifest = converge(store, from_folder(folder, revision))
    assert (first, converge(store, from_folder(folder, revision))) == ("link", ("nothing", manifest))


def test_from_another_mount_the_files_are_copied(
    folder: Path, store: ModelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("_stores.weights.store", "_stores.weights.cache"):
        where = f"ansible_collections.gb10.fleet.plugins.module_utils.{module}.can_link"
        monkeypatch.setattr(where, lambda file, folder: False)
    [step] = store.examine([from_folder(folder, COMMIT)])
    assert (step.action, step.moved) == (
        "copy",
        sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()),
    )
    store.apply(step)
    there = tmp_path / "hf" / "hub" / "models--org--model" / "snapshots" / COMMIT / "config.json"
    assert there.read_text() == "{}"
    assert not there.samefile(folder / "config.json")


def test_one_mount_can_link_and_two_can_not(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert can_link(tmp_path / "file", tmp_path / "not" / "yet" / "there")
    assert not can_link(Path("/proc/version"), tmp_path)


def test_a_copy_of_changing_bytes_never_gets_its_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.cache.can_link", lambda file, folder: False
    )
    file, _ = hash_file(folder / "config.json", "config.json")
    (folder / "config.json").write_text("{ }")
    with pytest.raises(FleetError, match="changes while it is read"):
        take_in(folder / "config.json", file, tmp_path / "blobs" / file.sha256)
    assert list((tmp_path / "blobs").iterdir()) == []


def test_without_a_revision_the_content_names_itself(tmp_path: Path, folder: Path, store: ModelStore) -> None:
    _, first = converge(store, from_folder(folder))
    (folder / "config.json").unlink()
    (folder / "config.json").write_text('{"a": 1}')
    action, second = converge(store, from_folder(folder))
    assert action == "link"
    assert first.revision != second.revision
    assert Cache(tmp_path / "hf", "org/model").main() == second.revision


@pytest.mark.parametrize(
    ("corrupt", "rule", "message"),
    [
        (lambda f: (f / "model-2.safetensors").unlink(), "model-file", "model-2.safetensors: it is missing"),
        (lambda f: os.truncate(f / "model-1.safetensors", 700), "model-file", "model-1.safetensors: 700 bytes"),
        (lambda f: os.truncate(f / "model-1.safetensors", 5), "model-file", "model-1.safetensors: 5 bytes"),
        (lambda f: (f / INDEX).write_text("{"), "model-file", f"{INDEX}: .*; expected the JSON of an index of shards"),
        (lambda f: (f / INDEX).write_text("[]"), "model-file", f"{INDEX}: .*; expected the JSON of an index of shards"),
        (lambda f: (f / "gone").symlink_to(f / "nowhere"), "model-file", "which is not there"),
        (lambda f: f.rename(f.with_name("moved")), "model-folder", "there is no such folder"),
        (lambda f: [p.unlink() for p in f.rglob("*") if p.is_file()], "model-folder", "it is empty"),
    ],
)
def test_an_incomplete_folder_is_refused_with_the_file(
    tmp_path: Path, folder: Path, store: ModelStore, corrupt: Any, rule: str, message: str
) -> None:
    corrupt(folder)
    with pytest.raises(FleetError, match=message) as caught:
        store.examine([from_folder(folder)])
    assert {finding.rule for finding in caught.value.findings} == {rule}
    assert not (tmp_path / "hf").exists()


def note(folder: Path, name: str, commit: str, etag: str) -> None:
    """What ``hf download --local-dir`` leaves beside the files."""
    path = folder / ".cache" / "huggingface" / "download" / f"{name}.metadata"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{commit}\n{etag}\n1700000000.0\n")


def test_a_folder_of_another_revision_by_its_own_record_is_refused(folder: Path, store: ModelStore) -> None:
    note(folder, "config.json", OTHER, "0" * 40)
    with pytest.raises(FleetError, match=f"revision {OTHER}; expected {COMMIT}"):
        store.examine([from_folder(folder, COMMIT)])
    assert converge(store, from_folder(folder))[1].revision == OTHER


def test_a_folder_of_two_revisions_is_refused(folder: Path, store: ModelStore) -> None:
    note(folder, "config.json", OTHER, "0" * 40)
    note(folder, "model-1.safetensors", COMMIT, "0" * 64)
    with pytest.raises(FleetError, match="several revisions"):
        store.examine([from_folder(folder)])


def test_one_flipped_byte_is_found_by_the_hubs_own_sum(tmp_path: Path, folder: Path, store: ModelStore) -> None:
    shard = folder / "model-1.safetensors"
    note(folder, "model-1.safetensors", COMMIT, hash_file(shard, "")[0].sha256)
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    with pytest.raises(FleetError, match=r"model-1\.safetensors: .* sha256 .*; expected .* says the hub"):
        converge(store, from_folder(folder, COMMIT))
    assert not (tmp_path / "hf" / "hub" / "models--org--model" / "snapshots" / COMMIT).exists()


def test_a_cut_off_file_is_named_by_its_path_in_the_model(tmp_path: Path, folder: Path, store: ModelStore) -> None:
    converge(store, from_folder(folder, COMMIT))
    snapshot = tmp_path / "hf" / "hub" / "models--org--model" / "snapshots" / COMMIT
    os.truncate(snapshot / "sub" / "template.jinja", 2)
    with pytest.raises(FleetError, match=r"sub/template\.jinja: 2 bytes, sha256 .*; expected .* says the hub"):
        converge(store, Wanted("org/model", COMMIT, "hub"))


def test_a_changed_file_in_the_store_is_found_and_repaired(tmp_path: Path, folder: Path, store: ModelStore) -> None:
    _, manifest = converge(store, from_folder(folder, COMMIT))
    shard = tmp_path / "hf" / "hub" / "models--org--model" / "snapshots" / COMMIT / "model-1.safetensors"
    good = shard.read_bytes()
    shard.resolve().unlink()
    [step] = store.examine([from_folder(folder, COMMIT)])
    assert step.found == f"revision {COMMIT}, but changed since it was verified: model-1.safetensors"
    assert store.apply(step) == manifest
    assert shard.read_bytes() == good


@pytest.mark.parametrize("lead", [None, "snapshots/another", "nowhere"])
def test_a_link_main_that_is_gone_or_leads_elsewhere_is_made_anew_without_reading(
    tmp_path: Path, folder: Path, store: ModelStore, monkeypatch: pytest.MonkeyPatch, lead: str | None
) -> None:
    """An engine's options name it where nothing is pinned, and what it leads to decides whether a service is old."""
    wanted = replace(from_folder(folder), is_main=True)
    _, manifest = converge(store, wanted)
    main = tmp_path / "hf" / "hub" / "models--org--model" / "main"
    main.unlink()
    if lead:
        main.symlink_to(lead)
    monkeypatch.setattr(ModelStore, "_hashed", None)
    [step] = store.examine([wanted])
    assert (step.action, step.changes) == ("link", True) and "linked again, no bytes" in step.words()
    assert store.apply(step) == manifest
    assert (main / "config.json").samefile(folder / "config.json")
    assert [each.action for each in store.examine([wanted])] == ["nothing"]


@pytest.fixture
def hub(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in for ``hf`` serves ``folder``."""
    monkeypatch.setenv("HF_STAND_IN", str(folder))
    (folder.parent / "revision").write_text(COMMIT)
    return folder


@pytest.mark.parametrize("revision", [COMMIT, None])
def test_a_download_is_verified_before_it_is_visible(
    tmp_path: Path, hub: Path, store: ModelStore, revision: str | None
) -> None:
    wanted = Wanted("org/model", revision, "hub", size=4000)
    [step] = store.examine([wanted])
    assert (step.action, step.moved) == ("download", 4000)
    assert store.apply(step).revision == COMMIT
    assert [each.action for each in store.examine([wanted])] == ["nothing"]
    assert (tmp_path / "hf" / "hub" / "models--org--model" / "refs" / "main").read_text() == COMMIT
    assert not (tmp_path / "hf" / ".staging" / "hub" / "models--org--model").exists()


def test_a_download_that_fails_shows_the_tools_message(hub: Path, store: ModelStore) -> None:
    with pytest.raises(FleetError, match=f"Revision Not Found for revision '{OTHER}'"):
        converge(store, Wanted("org/model", OTHER, "hub"))


def test_what_somebody_downloaded_into_the_store_is_taken_over(tmp_path: Path, folder: Path, store: ModelStore) -> None:
    cache = Cache(tmp_path / "hf", "org/model")
    files = [hash_file(path, path.relative_to(folder).as_posix())[0] for path in folder.rglob("*") if path.is_file()]
    for file in files:
        take_in(folder / file.path, file, cache.blob(file.sha256))
    cache.publish(Manifest("org/model", COMMIT, tuple(files)))
    assert converge(store, Wanted("org/model", COMMIT, "hub"))[0] == "link"


def test_a_cache_is_a_source_by_its_path(tmp_path: Path, folder: Path, hub: Path, store: ModelStore) -> None:
    elsewhere = tmp_path / "home" / ".cache" / "huggingface"
    theirs = Hub(str(STAND_IN), elsewhere).download("org/model", None, None, Progress())
    action, manifest = converge(store, from_folder(theirs))
    assert (action, manifest.revision) == ("link", COMMIT)


def test_a_cache_with_the_tokenizer_alone_is_no_model(tmp_path: Path, hub: Path, store: ModelStore) -> None:
    """What a tool leaves that only counts tokens."""
    theirs = tmp_path / "home" / "alfred" / ".cache" / "huggingface"
    snapshot = Hub(str(STAND_IN), theirs).download("org/model", None, None, Progress()) / "snapshots" / COMMIT
    for path in snapshot.glob("model*"):
        path.unlink()
    [step] = store.examine([Wanted("org/model", COMMIT, "hub")])
    assert step.action == "download"


def test_what_root_has_is_not_downloaded_again(tmp_path: Path, hub: Path, store: ModelStore) -> None:
    """Root's own cache, played by the account of this test."""
    theirs = tmp_path / "home" / "alfred" / ".cache" / "huggingface"
    Hub(str(STAND_IN), theirs).download("org/model", None, None, Progress())
    assert converge(store, Wanted("org/model", COMMIT, "hub"))[0] == "link"


def _elsewhere(cache: Path, kind: str) -> Path:
    """A file of the model, or its folder of blobs, moved out of the cache, with a link in its place."""
    path = cache / "hub" / "models--org--model" / ("blobs" if kind == "folder" else f"snapshots/{COMMIT}/config.json")
    outside = cache.parent / kind
    (path if kind == "folder" else path.resolve()).rename(outside)
    path.unlink(missing_ok=True)
    path.symlink_to(outside)
    return path


def _of_another(path: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root: files of another account")
    os.chown(path, 65534, 65534)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda cache: _elsewhere(cache, "file"), "lies outside of it"),
        (lambda cache: _elsewhere(cache, "folder"), "lies outside of it"),
        (lambda cache: cache.chmod(0o777), "others than root may write"),
        (lambda cache: (cache / "hub").chmod(0o775), "others than root may write"),
        (lambda cache: (cache / "hub/models--org--model/blobs").chmod(0o777), "others than root may write"),
        (lambda cache: (cache / f"hub/models--org--model/snapshots/{COMMIT}/sub").chmod(0o777), "others than root may"),
        (lambda cache: next((cache / "hub/models--org--model/blobs").iterdir()).chmod(0o666), "others than root may"),
        (lambda cache: _of_another(cache / "hub"), "others than root may write"),
        (lambda cache: _of_another(next((cache / "hub/models--org--model/blobs").iterdir())), "others than root may"),
    ],
)
def test_a_cache_that_others_may_write_is_passed_over(
    tmp_path: Path, hub: Path, store: ModelStore, harm: Callable[[Path], object], words: str
) -> None:
    """By its names alone it would be what the pin says."""
    theirs = tmp_path / "home" / "alfred" / ".cache" / "huggingface"
    Hub(str(STAND_IN), theirs).download("org/model", None, None, Progress())
    harm(theirs)
    [step] = store.examine([Wanted("org/model", COMMIT, "hub")])
    assert step.action == "download"
    [note] = store._progress.notes
    assert "is passed over" in note and words in note


@pytest.mark.parametrize(
    ("owner", "group", "mode", "reads"),
    [
        (0, 0, 0o100600, True),
        (0, 1000, 0o100400, True),
        (0, 0, 0o100044, False),  # the owner's bits count for the owner, also where others have more
        (1000, 0, 0o100640, True),
        (1000, 0, 0o100604, False),
        (1000, 1000, 0o100640, False),
        (1000, 1000, 0o100600, False),
        (1000, 1000, 0o100644, True),
        (0, 0, 0o040700, True),
        (0, 0, 0o040600, False),  # a folder is entered by x
        (1000, 1000, 0o040700, False),
        (1000, 1000, 0o040750, False),
        (1000, 0, 0o040750, True),
        (1000, 1000, 0o040755, True),
        (1000, 1000, 0o040754, False),
    ],
)
def test_what_a_container_reads(owner: int, group: int, mode: int, reads: bool) -> None:
    assert container_reads(owner, group, mode) == reads


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files of another account")
@pytest.mark.parametrize("mode", [0o600, 0o640])
@pytest.mark.parametrize("when", ["before", "after"])
def test_weights_that_a_container_can_not_read_are_refused_and_the_remedy_opens_them(
    tmp_path: Path, folder: Path, store: ModelStore, mode: int, when: str
) -> None:
    """An owner's files are linked as they are; what is here is looked at again by each run."""
    shard = folder / "model-2.safetensors"
    if when == "after":
        converge(store, from_folder(folder))
    os.chown(shard, 65534, 65534)
    shard.chmod(mode)
    with pytest.raises(FleetError) as refused:
        store.examine([from_folder(folder)])
    [finding] = refused.value.findings
    assert finding.rule == "model-unreadable" and f"(user 65534, group 65534, mode {mode:04o})" in finding.found
    subprocess.run(["sh", "-c", finding.remedy.removeprefix("sudo ")], check=True)
    assert (shard.stat().st_uid, shard.stat().st_mode & 0o007) == (65534, 0), "it stays his, and closed to all others"
    assert converge(store, from_folder(folder))[0] == ("nothing" if when == "after" else "link")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: folders of another account")
@pytest.mark.parametrize("below", ["", "hub", "hub/models--org--model", "hub/models--org--model/blobs"])
def test_a_folder_of_the_store_that_a_container_can_not_enter(
    tmp_path: Path, folder: Path, store: ModelStore, below: str
) -> None:
    converge(store, from_folder(folder))
    closed = tmp_path / "hf" / below
    os.chown(closed, 65534, 65534)
    closed.chmod(0o700)
    with pytest.raises(FleetError) as refused:
        store.examine([from_folder(folder)])
    [finding] = refused.value.findings
    assert finding.found == f"{closed} (user 65534, group 65534, mode 0700)"
    subprocess.run(["sh", "-c", finding.remedy.removeprefix("sudo ")], check=True)
    assert converge(store, from_folder(folder))[0] == "nothing"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files of another account")
def test_an_accounts_folder_gives_no_file_of_others(tmp_path: Path, folder: Path, store: ModelStore) -> None:
    """Root would read for him what he may not."""
    os.chown(folder, 65534, 65534)
    secret = tmp_path / "shadow"
    secret.write_text("root:x")
    (folder / "tokenizer.json").symlink_to(secret)
    with pytest.raises(FleetError, match=f"a link to {secret}, a file of user 0; expected .* user 65534"):
        store.examine([from_folder(folder)])
    os.chown(secret, 65534, 65534)
    assert converge(store, from_folder(folder))[0] == "link"


def damage(file: Path) -> None:
    """As a restore or an editor does: other bytes, another time."""
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.unlink()
    file.write_bytes(content)


@pytest.mark.parametrize("where", ["the store", "a user's cache", "the last download"])
def test_files_here_that_are_damaged_are_brought_anew(tmp_path: Path, hub: Path, store: ModelStore, where: str) -> None:
    wanted = Wanted("org/model", COMMIT, "hub")
    theirs = tmp_path / "home" / "alfred" / ".cache" / "huggingface"
    place = {"the store": tmp_path / "hf", "a user's cache": theirs, "the last download": tmp_path / "hf" / ".staging"}
    if where == "the store":
        converge(store, wanted)
    else:
        Hub(str(STAND_IN), place[where]).download("org/model", COMMIT, None, Progress())
    file = place[where] / "hub" / "models--org--model" / "snapshots" / COMMIT / "model-2.safetensors"
    damage(file.resolve())
    notes: list[str] = []
    again = ModelStore(store._places, store._hub, progress := Progress(), note=notes.append)
    [step] = again.examine([wanted])
    with pytest.raises(DamagedError) as error:
        again.apply(step)
    manifest = again.apply(again.instead(wanted, error.value))
    assert (tmp_path / "hf" / "hub" / "models--org--model" / "snapshots" / COMMIT / "model-2.safetensors").read_bytes()
    assert {entry.sha256 for entry in manifest.files} >= {hash_file(hub / "model-2.safetensors", "")[0].sha256}
    assert [str(file) in note and note.endswith("it is brought anew") for note in progress.notes] == [True]
    assert file.resolve().exists() == (where != "the last download")  # a user's own is his
    with pytest.raises(DamagedError):  # it is not tried for ever
        again.instead(wanted, error.value)


def test_a_disk_without_room_is_refused_before_the_first_byte(tmp_path: Path, store: ModelStore) -> None:
    with pytest.raises(FleetError, match="disk-full"):
        store.examine([Wanted("org/model", COMMIT, "hub", size=10**15)])
    assert not (tmp_path / "hf").exists()


def test_the_size_of_a_safetensors_file_is_in_its_header(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(safetensors(5000))
    assert safetensors_size(path) == path.stat().st_size
    path.write_bytes(b"garbage!" * 10)
    assert safetensors_size(path) == 0


def test_a_cache_without_the_wanted_revision_is_refused(tmp_path: Path, folder: Path, hub: Path) -> None:
    theirs = Hub(str(STAND_IN), tmp_path / "theirs").download("org/model", None, None, Progress())
    with pytest.raises(FleetError, match=f"revisions {COMMIT}; expected {OTHER}"):
        read_source(theirs, OTHER)


# Pruning


def test_earlier_revisions_go_with_the_files_that_only_they_had(
    tmp_path: Path, folder: Path, store: ModelStore
) -> None:
    _, old = converge(store, from_folder(folder, COMMIT))
    shutil.copytree(folder, tmp_path / "new")
    (tmp_path / "new" / "config.json").write_text('{"new": 1}')
    newer = Wanted("org/model", OTHER, "path", tmp_path / "new")
    assert store.examine([newer])[0].found == f"absent, beside revision {COMMIT}"
    _, new = converge(store, newer)
    pruner = Pruner(Places(tmp_path, tmp_path / "hf"))
    assert pruner.stale({"org/model": {OTHER}}, keep=1) == []
    assert pruner.stale({"org/model": {OTHER, COMMIT}}, keep=0) == []
    assert pruner.stale({"org/model": {None}}, keep=0) == [old]
    for name, words in (("theirs", COMMIT), ("by its link", "/hf/hub/models--org--model/main")):
        (tmp_path / f"{name}.json").write_text(json.dumps({"run": ["docker", "run", words]}))
        served = Pruner(Places(tmp_path, tmp_path / "hf"), services=tmp_path)
        kept = {old} if name == "theirs" else {new}
        stale = served.stale({}, keep=0)
        assert {*stale} == {old, new} - kept, "another inventory's service on this host needs it"
        (tmp_path / f"{name}.json").unlink()
    pruner.remove(old)
    cache = Cache(tmp_path / "hf", "org/model")
    assert not cache.snapshot(COMMIT).exists()
    assert {path.name for path in (cache.folder / "blobs").iterdir()} == {file.sha256 for file in new.files}
    assert converge(store, Wanted("org/model", OTHER, "path", tmp_path / "new"))[0] == "nothing"
    assert (folder / "config.json").read_text() == "{}", "an owner's folder stays as it is"


def test_a_model_that_nobody_wants_goes(tmp_path: Path, folder: Path, store: ModelStore) -> None:
    _, manifest = converge(store, from_folder(folder, COMMIT))
    pruner = Pruner(Places(tmp_path, tmp_path / "hf"))
    [stale] = pruner.stale({}, keep=0)
    assert (stale, pruner.freed(stale)) == (manifest, 0), "the owner's folder holds the same files"
    pruner.remove(stale)
    assert Cache(tmp_path / "hf", "org/model").main() is None
    assert pruner.stale({}, keep=0) == []


def locked(manifest: Manifest, **more: Any) -> dict[str, Any]:
    lock = {"revision": manifest.revision, "seal": manifest.seal}
    return {"repository": "org/model", "source": {"kind": "hub"}, "lock": lock} | more


def test_a_locked_revision_is_brought_though_main_has_moved(hub: Path, tmp_path: Path, store: ModelStore) -> None:
    _, manifest = converge(store, Wanted("org/model", None, "hub"))
    (hub.parent / "revision").write_text(OTHER)
    (hub / "config.json").write_text('{"new": 1}')
    # this host is up to date, and another one that joins asks for the locked revision
    assert converge(store, Wanted.from_plan(locked(manifest)))[0] == "nothing"
    places = Places(tmp_path / "second", tmp_path / "second" / "hf")
    second = ModelStore(places, Hub(str(STAND_IN), places.downloads), Progress())
    [step] = second.examine([Wanted.from_plan(locked(manifest))])
    assert (step.action, step.wanted.revision) == ("download", COMMIT)
    # relocked, it gets what main is now, and the record of the old one does not hold it back
    [step] = store.examine([Wanted.from_plan(locked(manifest, lock=None, renew=True))])
    assert step.action == "download"


@pytest.mark.parametrize("pin", [None, COMMIT])
@pytest.mark.parametrize("kind", ["hub", "path", "host", "bundle"])
def test_an_owners_folder_never_takes_the_revision_of_the_lock(kind: str, pin: str | None) -> None:
    """The lock's is of what was there before; from anywhere else it is what is asked for."""
    entry = {"repository": "org/model", "revision": pin, "source": {"kind": kind, "path": "/srv/m"}}
    wanted = Wanted.from_plan(entry | {"lock": {"revision": OTHER, "seal": "5" * 64}})
    assert wanted.revision == (pin or (None if kind == "path" else OTHER))
    assert wanted.seal == "5" * 64


@pytest.mark.parametrize("source", ["hub", "path"])
def test_files_with_another_seal_are_never_published(
    hub: Path, folder: Path, tmp_path: Path, store: ModelStore, source: str
) -> None:
    sealed = "5" * 64
    _, manifest = converge(store, from_folder(folder, COMMIT))
    entry = locked(manifest, revision=COMMIT, lock={"revision": COMMIT, "seal": sealed})
    wanted = Wanted.from_plan(entry | {"source": {"kind": source, "path": str(folder) if source == "path" else None}})
    [step] = store.examine([wanted])
    assert step.changes
    assert f"sealed {manifest.seal}, not {sealed} as locked" in step.found
    published = tmp_path / "hf" / "hub" / "models--org--model" / "snapshots" / COMMIT
    before = sorted((path.name, path.stat().st_ino) for path in published.iterdir())
    with pytest.raises(DamagedError, match="lock-differs") as refused:
        store.apply(step)
    if source == "path":
        with pytest.raises(DamagedError):
            store.instead(wanted, refused.value)
    assert sorted((path.name, path.stat().st_ino) for path in published.iterdir()) == before


def test_a_host_that_offers_another_seal_is_passed_over(folder: Path, store: ModelStore) -> None:
    _, manifest = converge(store, from_folder(folder, COMMIT))
    answer = json.dumps({"manifest": dataclasses.asdict(manifest), "seal": manifest.seal}).encode()
    assert offered_manifest(Wanted.from_plan(locked(manifest)), answer) == manifest
    with pytest.raises(ValueError, match="expected org/model"):
        offered_manifest(Wanted.from_plan(locked(manifest, lock={"revision": COMMIT, "seal": "5" * 64})), answer)


def test_the_hubs_token_goes_however_the_job_ends(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("hf_x")
    with pytest.raises(FleetError), lent(token):
        raise FleetError
    assert not token.exists()
    with lent(None):
        pass


def test_a_bundles_model_is_asked_for_until_it_is_brought_and_then_nobody_is(
    tmp_path: Path, folder: Path, store: ModelStore
) -> None:
    _, manifest = converge(store, from_folder(folder, COMMIT))
    shutil.rmtree(tmp_path / "hf")
    shutil.rmtree(tmp_path / "models")
    brought = tmp_path / "bundle" / "models--org--model"
    entry = locked(manifest, revision=None, bytes=7, source={"kind": "bundle", "path": str(brought)})
    [step] = store.examine([Wanted.from_plan(entry)])
    assert (step.action, step.moved) == ("copy", 7)
    with pytest.raises(FleetError, match="-e bundle="):
        store.apply(step)
    (brought / "snapshots").mkdir(parents=True)
    folder.rename(brought / "snapshots" / COMMIT)
    action, found = converge(store, Wanted.from_plan(entry))
    assert (action, found) == ("link", manifest)
    # the second run, which brings nothing there any more
    shutil.rmtree(brought)
    assert converge(store, Wanted.from_plan(entry)) == ("nothing", manifest)


@pytest.mark.parametrize(
    ("odd", "reported"),
    [
        ("id_ed25519", "id_ed25519, which no model has"),
        ("keys/server.key", "keys/server.key, which no model has"),
        ("backup.sql", "backup.sql, which no model has"),
        ("no weights", "there are no weights in it"),
        (".ssh", "lies in .ssh"),
        ("etc", "is the system's"),
        ("link", "is the system's"),
    ],
)
def test_a_folder_that_is_no_models_is_refused(folder: Path, store: ModelStore, odd: str, reported: str) -> None:
    named = folder
    if odd == "no weights":
        for path in folder.glob("model*"):
            path.unlink()
    elif odd == ".ssh":
        named = folder.parent / ".ssh"
        folder.rename(named)
    elif odd == "etc":
        named = folder.parent / "x"
        named.symlink_to("/etc/ssl")
    elif odd == "link":
        (folder / "vocab.txt").symlink_to("/etc/hostname")
    else:
        (folder / odd).parent.mkdir(exist_ok=True)
        (folder / odd).write_text("secret")
    with pytest.raises(FleetError) as refused:
        store.examine([from_folder(named, None)])
    assert reported in str(refused.value) and "secret" not in str(refused.value)


def test_what_models_have_beside_their_weights_is_taken(folder: Path, store: ModelStore) -> None:
    for name in ("LICENSE", "README.md", "USE_POLICY.md", "tokenizer.model", "figures/a.png", "original/params.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    [step] = store.examine([from_folder(folder, None)])
    assert step.changes
