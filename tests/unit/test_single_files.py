# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One file of a repository as a model of its own: from its name to the hub, other hosts, drift and removal."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sysconfig
from pathlib import Path
from typing import Any

import hub_server
import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.layout import model_folder
from ansible_collections.gb10.fleet.plugins.module_utils._base.schema import check
from ansible_collections.gb10.fleet.plugins.module_utils._base.staging import Progress
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.stored import (
    STORED,
    files_of,
    repository_of,
    shards_of,
    stored_name,
)
from ansible_collections.gb10.fleet.plugins.module_utils._stores.lock import lock as locks
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.request import read_request
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.places import Places
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.cache import repository_folder
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.hub import Hub
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.manifest import File, Manifest
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.prune import Pruner
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.reading import read_models
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.store import (
    ModelStore,
    Wanted,
    offered_manifest,
)
from hypothesis import given
from hypothesis import strategies as st

MODEL, COMMIT = "org/model-gguf", "0123456789abcdef0123456789abcdef01234567"
SPLIT = ["Q4/m-00001-of-00002.gguf", "Q4/m-00002-of-00002.gguf"]
FILES = {name: name.encode() * 1000 for name in ("m-Q8.gguf", "mmproj-f16.gguf", "m-Q2.gguf", *SPLIT)}
FILES["README.md"] = b"twenty sizes of one model"
Q8, Q4, PROJECTOR = (stored_name(MODEL, file) for file in ("m-Q8.gguf", SPLIT[0], "mmproj-f16.gguf"))


def fits(name: str) -> bool:
    return not check(STORED, name, "it")[1]


@pytest.mark.parametrize(
    ("name", "repository", "files"),
    [
        (MODEL, MODEL, None),
        ("org/odd.gguf", "org/odd.gguf", None),
        (Q8, MODEL, ["m-Q8.gguf"]),
        (Q4, MODEL, SPLIT),
        (PROJECTOR, MODEL, ["mmproj-f16.gguf"]),
    ],
)
def test_a_name_means_files_of_a_repository(name: str, repository: str, files: list[str] | None) -> None:
    assert fits(name)
    assert (repository_of(name), files_of(name)) == (repository, files)


@pytest.mark.parametrize(
    "file",
    [
        *(
            "../m.gguf",
            "/m.gguf",
            "a//m.gguf",
            ".gguf",
            "a/.m.gguf",
            "-m.gguf",
            "a/-m.gguf",
            "m.bin",
            "m.gguf\n",
            "ü.gguf",
        ),
        *("a--b.gguf", "a b.gguf", "m-00002-of-00002.gguf", "m-00001-of-00000.gguf", "m-00001-of-99999.gguf"),
        "m" * 400 + ".gguf",
    ],
)
def test_what_names_no_file_is_refused(file: str) -> None:
    assert not fits(stored_name(MODEL, file))


STEPS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,12}", fullmatch=True)
NAMES = st.builds(
    lambda steps, file: stored_name(MODEL, "/".join([*steps, f"{file}.gguf"])), st.lists(STEPS, max_size=3), STEPS
).filter(fits)


@given(NAMES, NAMES)
def test_two_files_never_share_a_folder_or_a_name_in_the_lock(one: str, other: str) -> None:
    of_lock = [locks.key("models", {"repository": name, "revision": COMMIT}) for name in (one, other)]
    assert (one == other) == (repository_folder(one) == repository_folder(other)) == (of_lock[0] == of_lock[1])
    locked = {name: {"revision": COMMIT, "seal": "0" * 64} for name in of_lock}
    assert locks.parse(locks.dump({"images": {}, "models": locked}).encode(), "lock")["models"] == locked
    assert repository_of(one) == MODEL
    assert (files_of(one) or [])[0] == one.removeprefix(f"{MODEL}/")


@given(st.integers(1, 999), STEPS)
def test_parts_are_counted_from_the_first(count: int, stem: str) -> None:
    parts = shards_of(f"{stem}-00001-of-{count:05}.gguf")
    assert (len(parts), len({*parts}), sorted(parts)) == (count, count, parts)
    for part in parts[1:]:
        with pytest.raises(ValueError, match="not the first of its parts"):
            shards_of(part)


# --- the store ----------------------------------------------------------------------------------------------------


@pytest.fixture
def repository() -> hub_server.Hub:
    return hub_server.Hub(MODEL, COMMIT, FILES)


def places_in(folder: Path) -> Places:
    return Places(folder, folder / "hf", (f"{folder}/home/*/hub",))


def store_at(folder: Path) -> ModelStore:
    places = places_in(folder)
    return ModelStore(places, Hub(str(Path(sysconfig.get_path("scripts")) / "hf"), places.downloads), Progress())


def wish(name: str, revision: str | None = COMMIT, **more: Any) -> Wanted:
    return Wanted(name, revision, "hub", is_main=revision is None, **more)


def bring(store: ModelStore, *wanted: Wanted) -> list[tuple[str, Manifest]]:
    return [(step.action, store.apply(step)) for step in store.examine(wanted)]


def content(folder: Path, name: str, revision: str | None = COMMIT) -> dict[str, bytes]:
    return hub_server.folder_of(Path(model_folder(name, revision, str(folder / "hf"))))


@pytest.mark.parametrize("revision", [COMMIT, None])
def test_two_files_of_one_revision_come_alone_and_stay(
    tmp_path: Path, hub: hub_server.Hub, revision: str | None
) -> None:
    store, wanted = store_at(tmp_path), [wish(name, revision) for name in (Q8, Q4)]
    steps = store.examine(wanted)
    assert [step.moved for step in steps] == [len(FILES["m-Q8.gguf"]), sum(len(FILES[name]) for name in SPLIT)]
    brought = [store.apply(step) for step in steps]
    assert {*hub.sent} == {"m-Q8.gguf", *SPLIT}, "nothing else of the repository is fetched"
    assert content(tmp_path, Q8, revision) == {"m-Q8.gguf": FILES["m-Q8.gguf"]}
    assert content(tmp_path, Q4, revision) == {name: FILES[name] for name in SPLIT}
    assert brought[0].seal != brought[1].seal
    assert [step.action for step in store.examine(wanted)] == ["nothing", "nothing"]
    assert not [*(tmp_path / "hf" / ".staging").rglob("*.gguf")]
    found = read_models(places_in(tmp_path), [{"repository": one.repository, "revision": revision} for one in wanted])
    assert [found["models"][name]["seal"] for name in (Q8, Q4)] == [one.seal for one in brought]
    assert found["others"] == []
    (path,) = (tmp_path / "hf" / "hub" / repository_folder(Q8) / "blobs").iterdir()
    path.write_bytes(b"another")
    found = read_models(places_in(tmp_path), [{"repository": one.repository, "revision": revision} for one in wanted])
    assert [found["models"][name]["changed"] for name in (Q8, Q4)] == [["m-Q8.gguf"], []]


def test_a_file_that_the_hub_lacks_is_named_before_the_first_byte(tmp_path: Path, hub: hub_server.Hub) -> None:
    with pytest.raises(FleetError, match=r'it has no m-Q5.gguf.* write "m-Q2.gguf"|it has no m-Q5.gguf.*m-Q8'):
        store_at(tmp_path).examine([wish(Q8), wish(stored_name(MODEL, "m-Q5.gguf"))])
    assert not hub.sent


@pytest.mark.parametrize("where", ["the store", "a user's cache"])
def test_a_file_that_is_here_among_all_others_is_linked(tmp_path: Path, hub: hub_server.Hub, where: str) -> None:
    cache = tmp_path / ("hf" if where == "the store" else "home/me")
    [(action, _)] = bring(store_at(tmp_path), wish(MODEL))
    assert action == "download"
    if where != "the store":
        cache.mkdir(parents=True)
        shutil.move(tmp_path / "hf" / "hub", cache)
        shutil.rmtree(tmp_path / "models")
    [(action, manifest)] = bring(store_at(tmp_path), wish(Q4))
    assert (action, [file.path for file in manifest.files]) == ("link", SPLIT)


def test_of_an_owners_folder_the_named_files_are_taken(tmp_path: Path, hub: hub_server.Hub) -> None:
    mine = tmp_path / "mine"
    (mine / "Q4").mkdir(parents=True)
    for name in ("m-Q8.gguf", "README.md", SPLIT[0]):
        (mine / name).write_bytes(FILES[name])
    [(action, manifest)] = bring(store_at(tmp_path), Wanted(Q8, None, "path", mine, is_main=True))
    assert (action, [file.path for file in manifest.files]) == ("link", ["m-Q8.gguf"])
    (mine / "README.md").write_text("another file of the folder changes nothing")
    [(action, _)] = bring(store_at(tmp_path), Wanted(Q8, None, "path", mine, is_main=True))
    assert action == "nothing"
    with pytest.raises(FleetError, match=r"it has no Q4/m-00002-of-00002.gguf"):
        store_at(tmp_path).examine([Wanted(Q4, None, "path", mine)])


def test_another_host_gives_that_file_and_no_other(tmp_path: Path, hub: hub_server.Hub) -> None:
    [(_, manifest)] = bring(store_at(tmp_path), wish(Q4))
    assert read_request(json.dumps({"model": Q4, "revision": COMMIT}).encode())[1]["model"] == Q4
    with pytest.raises(ValueError, match="or one GGUF file of it"):
        read_request(json.dumps({"model": f"{MODEL}/../x.gguf", "revision": COMMIT}).encode())
    offer = {"manifest": dataclasses.asdict(manifest), "seal": manifest.seal}
    assert offered_manifest(wish(Q4), json.dumps(offer).encode()) == manifest
    with pytest.raises(ValueError, match="expected"):
        offered_manifest(wish(Q8), json.dumps(offer).encode())
    for files in ((), manifest.files[:1], (*manifest.files, File("Q4/x.gguf", 1, "0" * 64))):
        other = dataclasses.replace(manifest, files=files)
        answer = {"manifest": dataclasses.asdict(other), "seal": other.seal}
        with pytest.raises(ValueError, match="other files than"):
            offered_manifest(wish(Q4), json.dumps(answer).encode())


def test_a_file_that_nobody_serves_goes_though_another_of_its_revision_stays(
    tmp_path: Path, hub: hub_server.Hub
) -> None:
    bring(store_at(tmp_path), wish(Q8), wish(PROJECTOR), wish(Q4))
    services = tmp_path / "services"
    services.mkdir()
    (services / "a.json").write_text(json.dumps({"run": ["--model", model_folder(Q8, COMMIT, "/hf") + "/m-Q8.gguf"]}))
    pruner = Pruner(places_in(tmp_path), services=services)
    wanted: dict[str, set[str | None]] = {PROJECTOR: {COMMIT}}
    assert pruner.stale(wanted, 1) == [], "of each file, as of each model, so many earlier revisions are kept"
    (stale,) = pruner.stale(wanted, 0)
    assert stale.repository == Q4
    pruner.remove(stale)
    assert not (tmp_path / "hf" / "hub" / repository_folder(Q4) / "snapshots" / COMMIT).exists()
    assert content(tmp_path, Q8) == {"m-Q8.gguf": FILES["m-Q8.gguf"]}
