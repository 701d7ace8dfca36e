# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every file that we keep on a host or the controller, damaged in every way: nothing stops, its record begins again.

The supervisors' own files: test_rank_harm.py.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base import own_files
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.staging import Progress, held, in_the_way
from ansible_collections.gb10.fleet.plugins.module_utils._engines.observed import read_observed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes import kept_models
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue import image as catalogue
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.checkpoint import checkpoint_of
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.files import read_json
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.parts import printable
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift import history
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.identity import parse_reference
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.records import ImageRecords
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.answers import FILE, Answers
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.parts import recipe_of
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.places import Places
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.spool import Incoming
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.cache import Cache
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.manifest import File, Manifest
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.records import ModelRecords
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.firewall import host as firewall

REFERENCE = parse_reference("vllm/vllm-openai:v0.23.0")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PARTS = [(b"x" * 2000, True), (b"y" * 2000, True)]
RECIPE = recipe_of(PARTS)
HARMS: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[: len(content) // 2],
    "longer": lambda content: content + b"12345",
    "emptied": lambda _content: b"",
    "a list": lambda _content: b"[]",
    "null": lambda _content: b"null",
    "a map of other types": lambda _content: json.dumps(
        dict.fromkeys(
            ("reference", "images", "manifest", "seal", "verified", "version", "catalogue", "since", "nights", "read"),
            7,
        )
    ).encode(),
    "not UTF-8": lambda content: b"\xff\xfe" + content,
    "deep": lambda _content: b"[" * 200_000,
}


@dataclass
class Kept:
    """One kind of file. begins_anew: uses it as a run does, and says whether it is as if it had never been there."""

    file: Path
    begins_anew: Callable[[], bool]
    is_set_aside: bool
    notes: list[str] = field(default_factory=list)


def image_record(folder: Path) -> Kept:
    notes: list[str] = []
    records = ImageRecords(folder, notes.append)
    known = {"id": "sha256:1", "identity": "2", "digest": None, "diff_ids": ["3"], "since": 4}
    records._keep(REFERENCE, [known])
    assert records.newest(REFERENCE) == known
    return Kept(
        records._file(REFERENCE),
        lambda: [*records.stale([], 0)] == [] and records.newest(REFERENCE) is None,
        True,
        notes,
    )


def model_record(folder: Path) -> Kept:
    notes: list[str] = []
    records = ModelRecords(Places(folder, folder / "hf"), notes.append)
    manifest = Manifest("org/model", COMMIT, (File("config.json", 2, "a" * 64),))
    records.seal(manifest, None)
    assert records.repositories() == ["org/model"]
    return Kept(
        records._file("org/model", COMMIT),
        lambda: records.repositories() == [] and records.of("org/model", COMMIT) == [],
        True,
        notes,
    )


def _spool(folder: Path, which: str) -> Kept:
    incoming = Incoming(folder, RECIPE.sha256)
    incoming.begin(RECIPE)
    incoming.write((index, part, PARTS[index][0]) for index, part in enumerate(RECIPE.parts))
    assert incoming.missing_bytes(RECIPE.size) == 0

    def fetched_again() -> bool:
        incoming.missing_bytes(RECIPE.size)
        incoming.begin(RECIPE)
        incoming.write((index, part, PARTS[index][0]) for index, part in enumerate(RECIPE.parts))
        return incoming.verified("x").read_bytes() == b"x" * 2000 + b"y" * 2000

    return Kept(folder / f"{RECIPE.sha256}.{which}", fetched_again, False)


def main_reference(folder: Path) -> Kept:
    cache = Cache(folder, "org/model")
    cache.publish(Manifest("org/model", COMMIT, (File("config.json", 2, "a" * 64),)))
    return Kept(cache.folder / "refs" / "main", lambda: cache.main() != COMMIT, False)


def rules(folder: Path) -> Kept:
    file = folder / "firewall.nft"
    file.write_text("table inet gb10_fleet {}\n")
    return Kept(file, lambda: firewall.current(file) != "table inet gb10_fleet {}\n", False)


def observed(folder: Path) -> Kept:
    """Read by the plan, which writes nothing; `verify` replaces it."""
    file = folder / ".fleet" / "observed" / "catalogues" / "titan" / "image.json"
    file.parent.mkdir(parents=True)
    names = {"releases": ["1.0.0"], "options": [], "variables": [], "registries": {}}
    file.write_text(json.dumps({"version": "1", "catalogue": names}))
    assert "image" in read_observed(folder).catalogues["titan"]

    def is_left_out() -> bool:
        found = read_observed(folder)
        return found.catalogues == {} and [str(file) in one.place for one in found.findings] == [True]

    return Kept(file, is_left_out, False)


def image_catalogue(folder: Path) -> Kept:
    file = folder / "catalogue.json"
    names = {"releases": ["1.0.0"], "options": [], "variables": [], "registries": {}}
    file.write_text(json.dumps({"version": "1", "catalogue": names}))
    assert own_files.look(file, catalogue._parse)[0]
    return Kept(file, lambda: own_files.look(file, catalogue._parse)[0] is None, False)


def kept_model(folder: Path) -> Kept:
    notes: list[str] = []
    config = json.dumps({"model_type": "llama", "num_hidden_layers": 2}).encode()
    found = checkpoint_of(
        "org/model", COMMIT, {"config.json": len(config), "model.safetensors": 9}, {"config.json": config}, "a test"
    )
    kept_models.keep(folder, found)
    assert kept_models.read_kept(folder) == {"org/model": found}
    file = kept_models.file_of(folder, "org/model")
    return Kept(file, lambda: kept_models.read_kept(folder, notes.append) == {}, True, notes)


def drift_history(folder: Path) -> Kept:
    notes: list[str] = []
    file = folder / "history.json"
    night = {"at": "2026-11-21T03:00:00Z", "verdict": "clean", "hosts": {}}
    known = {"since": {"titan: x: y": "2026-11-21"}, "nights": [night], "read": {"titan": {"a": 1}}, "last_success": 1}
    file.write_text(json.dumps(known))
    assert own_files.read(file, history.parse, notes.append) == known
    return Kept(file, lambda: own_files.read(file, history.parse, notes.append) is None, True, notes)


def peers_answers(folder: Path) -> Kept:
    """Docker's answers for other hosts: without any that can be read, Docker is asked anew."""
    answers = Answers(folder)
    file = folder / FILE
    file.write_text(json.dumps({"version": [0, "28", ""], "info": [0, {}, ""], "images": [0, [], ""]}))
    assert answers._read()
    return Kept(file, lambda: answers._read() is None, False)


KINDS: dict[str, Callable[[Path], Kept]] = {
    "image record": image_record,
    "model record": model_record,
    "parts: recipe": lambda folder: _spool(folder, "recipe"),
    "parts: marks": lambda folder: _spool(folder, "marks"),
    "parts: data": lambda folder: _spool(folder, "data"),
    "refs/main": main_reference,
    "firewall.nft": rules,
    "observed": observed,
    "catalogue of an image": image_catalogue,
    "kept model": kept_model,
    "drift's history": drift_history,
    "answers for peers": peers_answers,
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_of_ours_stops_nothing(tmp_path: Path, kind: str, harm: str) -> None:
    kept = KINDS[kind](tmp_path)
    content = kept.file.read_bytes()
    harmed = HARMS[harm](content)
    kept.file.write_bytes(harmed)
    assert kept.begins_anew()
    aside = kept.file.with_name(kept.file.name + own_files.ASIDE)
    if kept.is_set_aside:
        assert aside.read_bytes() == harmed
        assert [str(kept.file) in note and aside.name in note for note in kept.notes] == [True]
        assert "(:" not in kept.notes[0]
        assert kept.begins_anew()
        assert len(kept.notes) == 1  # said once
    else:
        assert not aside.exists()


def a_folder(file: Path) -> None:
    (file / "x").mkdir(parents=True)


def a_dangling_link(file: Path) -> None:
    file.symlink_to("/nowhere/at/all")


def a_link_to_itself(file: Path) -> None:
    file.symlink_to(file)


@pytest.mark.parametrize("other", [a_folder, a_dangling_link, a_link_to_itself])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_stops_nothing_either(tmp_path: Path, kind: str, other: Callable[[Path], None]) -> None:
    kept = KINDS[kind](tmp_path)
    kept.file.unlink()
    other(kept.file)
    assert kept.begins_anew()


@pytest.mark.parametrize("kind", ["image record", "model record", "observed", "catalogue of an image"])
def test_a_map_of_another_release_is_no_use(tmp_path: Path, kind: str) -> None:
    kept = KINDS[kind](tmp_path)
    kept.file.write_text('{"release": 1}')
    assert kept.begins_anew()


def test_a_history_of_an_older_release_is_gone_on_with() -> None:
    assert history.parse(b'{"since": {}}') == {"since": {}, "nights": [], "read": {}, "last_success": 0}


def test_names_that_are_no_text_blind_no_host() -> None:
    state = {"netplan": [{"path": os.fsdecode(b"/etc/netplan/\xff.yaml"), "claims": ("a",)}], "free": 1, "\udcff": None}
    shown = printable(state)
    assert shown == {"netplan": [{"path": "/etc/netplan/\\udcff.yaml", "claims": ["a"]}], "free": 1, "\\udcff": None}
    json.dumps(shown, ensure_ascii=False).encode()


@pytest.mark.parametrize("content", [b"{", b"\xff{}", b"[]"])
def test_an_owners_file_that_can_not_be_read_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "daemon.json").write_bytes(content)
    with pytest.raises(ValueError, match=f"^{tmp_path}/daemon.json holds no JSON"):
        read_json([{"path": str(tmp_path / "daemon.json"), "keys": ["x"]}])


@pytest.mark.parametrize("kind", ["image record", "model record"])
def test_who_only_looks_moves_nothing(tmp_path: Path, kind: str) -> None:
    file = KINDS[kind](tmp_path).file
    file.write_bytes(b"{")
    assert ImageRecords(tmp_path).newest(REFERENCE) is None
    assert ModelRecords(Places(tmp_path, tmp_path)).of("org/model") == []
    assert file.exists()


def test_a_file_that_can_not_be_moved_is_reported_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_words: object) -> Iterator[Path]:
        raise OSError(errno.EROFS, "Read-only file system")

    (tmp_path / "x.json").write_text("{")
    monkeypatch.setattr(Path, "replace", refuse)
    notes: list[str] = []
    assert own_files.read(tmp_path / "x.json", json.loads, notes.append) is None
    assert "it can't be moved away either" in notes[0]


def test_a_folder_in_its_place_is_set_aside_too(tmp_path: Path) -> None:
    (tmp_path / "x.json" / "y").mkdir(parents=True)
    notes: list[str] = []
    assert own_files.read(tmp_path / "x.json", json.loads, notes.append) is None
    assert "Is a directory" in notes[0]
    assert (tmp_path / "x.json.damaged" / "y").is_dir()


@pytest.mark.parametrize("text", ["{", "[]", "{}", "7"])
def test_a_lock_whose_words_are_damaged_is_a_lock(tmp_path: Path, text: str) -> None:
    lock = tmp_path / "models.lock"
    with held(lock, "moving models"):
        lock.write_text(text)
        with pytest.raises(FleetError, match="held by another process"), held(lock, "x", pause=lambda _s: None):
            pass


@pytest.mark.parametrize(
    ("number", "rule", "words"),
    [
        (errno.ENOSPC, "disk-full", r"free; expected room for 900 B more; free room there, and run again"),
        (errno.EDQUOT, "disk-full", "free room there"),
        (errno.EROFS, "disk-broken", "`dmesg` and `findmnt` show"),
        (errno.EIO, "disk-broken", "`dmesg` and `findmnt` show"),
        (errno.EACCES, "host-file", "see to it on that host"),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_what_the_disk_refuses_is_reported_with_its_place(
    tmp_path: Path, number: int, rule: str, words: str, is_named: bool
) -> None:
    progress = Progress()
    progress.start("model org/model", 1000)
    progress.add(100)
    file = str(tmp_path / "part") if is_named else None
    error = in_the_way(OSError(number, os.strerror(number), file), tmp_path, progress)
    with pytest.raises(FleetError, match=words):
        raise error
    assert str(error).startswith(f"{file or tmp_path}: {os.strerror(number)}")
    assert error.findings[0].rule == rule


def test_a_part_that_the_disk_refuses_names_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_words: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    incoming = Incoming(tmp_path, RECIPE.sha256)
    incoming.begin(RECIPE)
    monkeypatch.setattr(os, "pwrite", no_room)
    with pytest.raises(OSError, match=rf"No space left on device: '{tmp_path}/{RECIPE.sha256}\.data'"):
        incoming.write([(0, RECIPE.parts[0], PARTS[0][0])])


def test_a_file_whose_parts_do_not_make_it_is_begun_anew(tmp_path: Path) -> None:
    """A recipe that lies: each part is what it says, the whole is not."""
    lying = RECIPE.__class__(hashlib.sha256(b"other").hexdigest(), RECIPE.size, RECIPE.parts)
    incoming = Incoming(tmp_path, lying.sha256)
    incoming.begin(lying)
    incoming.write((index, part, PARTS[index][0]) for index, part in enumerate(lying.parts))
    with pytest.raises(FleetError, match="another sum than it was offered with"):
        incoming.verified("model.bin")
    assert incoming.recipe() is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_what_can_not_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A descriptor that takes no more names no file."""

    def full(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=re.escape(f"'{tmp_path}/x'")) as refused:
        own_files.replace_file(tmp_path / "x", b"content")
    is_full = number != errno.EROFS
    assert ("make room there" in str(refused.value)) is is_full and not [*tmp_path.iterdir()]
    words = own_files.unwritten(refused.value, "/elsewhere", "a folder of yours", "make it writable")
    assert words.startswith(f"{tmp_path}/x: {os.strerror(number)}; expected ") and "None" not in words
    assert ("make room there" in words) is is_full and ("make it writable" in words) is not is_full
