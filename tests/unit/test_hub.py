# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real ``hf`` of the release that the role installs, against a stand-in for the hub on this machine."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import hub_server
import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.staging import Progress, refusal
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.places import Places
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.cache import Cache
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.hub import Hub
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.store import DamagedError, ModelStore, Wanted

HF = Path(sys.executable).with_name("hf")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_nobody-may-see-this"  # of the stand-in
MODEL = "org/model"
ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not HF.exists(), reason="the tools of requirements/tools.txt have it, newest.txt not")


def safetensors(size: int) -> bytes:
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + os.urandom(size)


@pytest.fixture
def repository() -> hub_server.Hub:
    # The tool writes 10 MiB at once: more than that must be there to go on from.
    files = {"config.json": b"{}", "sub/template.jinja": b"hello", "model.safetensors": safetensors(24 << 20)}
    return hub_server.Hub(MODEL, COMMIT, files)


def store_at(folder: Path, progress: Progress | None = None, token_file: Path | None = None) -> ModelStore:
    places = Places(folder, folder / "hf")
    return ModelStore(places, Hub(str(HF), places.downloads, token_file), progress or Progress())


class Interrupted(Progress):
    """Ends the job, as a controller does that is gone, once so many bytes of the download came."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._after = after
        self.seen = ""

    def reach(self, done: int, total: int | None = None) -> None:
        super().reach(done, total)
        if done >= self._after:
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):  # a process that has just ended
                    self.seen += file.read_text(errors="replace")
            raise refusal("controller-gone", "", found="", expected="", remedy="")


def test_it_is_the_release_that_the_role_installs() -> None:
    lock = (ROOT / "roles" / "model_store" / "files" / "hub.txt").read_text("utf-8")
    assert f"\nhuggingface-hub=={importlib.metadata.version('huggingface_hub')} " in lock


@pytest.mark.parametrize("revision", [COMMIT, None])
def test_a_model_comes_with_the_hubs_own_sums(tmp_path: Path, hub: hub_server.Hub, revision: str | None) -> None:
    store, wanted = store_at(tmp_path), Wanted(MODEL, revision, "hub")
    size = sum(map(len, hub.files.values()))
    [step] = store.examine([wanted])
    assert (step.action, step.moved) == ("download", size), "the hub tells what is to come"
    assert store.apply(step).revision == COMMIT
    cache = Cache(tmp_path / "hf", MODEL)
    assert cache.main() == COMMIT
    assert hub_server.folder_of(cache.snapshot(COMMIT)) == hub.files
    assert [each.action for each in store.examine([wanted])] == ["nothing"]


def edited(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda _folder: None, ""),
        (lambda folder: (folder / "config.json").unlink(), ""),  # an owner may have less of it
        (edited("config.json", b'{"auto_map": {}}'), "git's sum"),
        (edited("modeling.py", b"import os"), "a file that the pinned revision does not have"),
        (edited("model.safetensors", safetensors(24 << 10)), "sha256"),
    ],
    ids=["as it is there", "less", "an edited config", "code of its own", "other weights"],
)
def test_an_owners_folder_is_the_pinned_revision_by_the_hubs_sums(
    tmp_path: Path, hub: hub_server.Hub, change: Callable[[Path], object], found: str
) -> None:
    folder = tmp_path / "mine"
    for name, content in hub.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    change(folder)
    store = store_at(tmp_path / "host")
    wanted = Wanted(MODEL, COMMIT, "path", folder)
    [step] = store.examine([wanted])
    if not found:
        assert store.apply(step).revision == COMMIT
        return
    with pytest.raises(DamagedError, match=found) as refused:
        store.apply(step)
    with pytest.raises(DamagedError):
        store.instead(wanted, refused.value)
    assert not Cache(tmp_path / "host" / "hf", MODEL).snapshot(COMMIT).exists()
    # without a pin its owner is believed
    [step] = store.examine([Wanted(MODEL, None, "path", folder)])
    assert store.apply(step).revision != COMMIT


def test_where_nobody_knows_the_sums_the_owner_is_believed_and_it_is_shown(
    tmp_path: Path, hub: hub_server.Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "model.safetensors").write_bytes(hub.files["model.safetensors"])
    progress = Progress()
    store = store_at(tmp_path / "host", progress)
    [step] = store.examine([Wanted(MODEL, COMMIT, "path", tmp_path / "mine")])
    assert store.apply(step).revision == COMMIT
    assert [note for note in progress.notes if "is believed to be org/model" in note]


def test_a_download_that_was_ended_goes_on_where_it_stopped(tmp_path: Path, hub: hub_server.Hub) -> None:
    size = len(hub.files["model.safetensors"])
    hub.stalls["model.safetensors"] = 21 << 20
    with pytest.raises(FleetError, match="controller-gone"):
        progress = Interrupted(20 << 20)
        store = store_at(tmp_path, progress)
        store.apply(store.examine([Wanted(MODEL, COMMIT, "hub")])[0])
    assert not Cache(tmp_path / "hf", MODEL).folder.exists(), "nothing is visible before it is proved"
    hub.stalls.clear()
    hub.sent.clear()
    store = store_at(tmp_path)
    [step] = store.examine([Wanted(MODEL, COMMIT, "hub")])
    assert step.moved is not None
    assert step.moved <= size - (20 << 20)
    store.apply(step)
    assert hub.sent["model.safetensors"] == size - (20 << 20)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_byte_that_changed_on_the_way_is_found_by_the_hubs_sum(
    tmp_path: Path, hub: hub_server.Hub, name: str
) -> None:
    content = bytearray(hub.files[name])
    content[-1] ^= 1
    hub.files[name] = bytes(content)  # its sum was taken before
    store = store_at(tmp_path)
    [step] = store.examine([Wanted(MODEL, COMMIT, "hub")])
    with pytest.raises(FleetError, match=f"{name}: .*; expected .* says the hub"):
        store.apply(step)
    assert Cache(tmp_path / "hf", MODEL).main() is None


def test_a_gated_model_comes_by_a_token_that_nobody_sees(tmp_path: Path, hub: hub_server.Hub) -> None:
    hub.token = TOKEN
    hub.stalls["model.safetensors"] = 21 << 20
    token_file = tmp_path / "token"
    token_file.write_text(f"{TOKEN}\n")
    progress = Interrupted(20 << 20)
    store = store_at(tmp_path, progress, token_file)
    [step] = store.examine([Wanted(MODEL, COMMIT, "hub")])
    with pytest.raises(FleetError) as caught:
        store.apply(step)
    assert str(HF) in progress.seen
    assert TOKEN not in progress.seen + str(caught.value)
    hub.stalls.clear()
    store = store_at(tmp_path, None, token_file)
    store.apply(store.examine([Wanted(MODEL, COMMIT, "hub")])[0])
    assert Cache(tmp_path / "hf", MODEL).main() == COMMIT


@pytest.mark.parametrize("given", [None, "hf_wrong"])
def test_without_the_right_token_it_names_the_remedy(tmp_path: Path, hub: hub_server.Hub, given: str | None) -> None:
    hub.token = TOKEN
    token_file = tmp_path / "token" if given else None
    if token_file:
        token_file.write_text(given or "")
    store = store_at(tmp_path, None, token_file)
    [step] = store.examine([Wanted(MODEL, COMMIT, "hub", size=4000)])
    assert step.moved == 4000, "the hub does not tell the size: what the recipe says counts"
    with pytest.raises(FleetError, match=r"Access denied.*model_store_token_file") as caught:
        store.apply(step)
    assert "hf_" not in str(caught.value).replace("hf_version", "")


@pytest.mark.parametrize(("model", "revision"), [(MODEL, "f" * 40), ("org/other", COMMIT)])
def test_what_the_hub_does_not_have(tmp_path: Path, hub: hub_server.Hub, model: str, revision: str) -> None:
    store = store_at(tmp_path)
    [step] = store.examine([Wanted(model, revision, "hub")])
    with pytest.raises(FleetError, match=r"not found.*correct model\.repository or model\.revision"):
        store.apply(step)


def test_a_file_that_http_does_not_give(tmp_path: Path, hub: hub_server.Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.claims["model.safetensors"] = 51 * 10**9
    monkeypatch.setattr(Hub, "_size", lambda *_: 1)
    store = store_at(tmp_path)
    [step] = store.examine([Wanted(MODEL, COMMIT, "hub")])
    with pytest.raises(FleetError, match=r"too large.*50 GB.*model\.source\.path"):
        store.apply(step)


def test_a_hub_that_is_not_there(tmp_path: Path, hub: hub_server.Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    store = store_at(tmp_path)
    [step] = store.examine([Wanted(MODEL, COMMIT, "hub")])
    assert step.moved is None
    with pytest.raises(FleetError, match=r"Connection refused.*that host's way to the hub"):
        store.apply(step)


def test_a_model_without_room_is_refused_before_the_first_byte(
    tmp_path: Path, hub: hub_server.Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hub, "_size", lambda *_: 10**15)
    with pytest.raises(FleetError, match="disk-full"):
        store_at(tmp_path).examine([Wanted(MODEL, COMMIT, "hub")])
    assert not hub.sent
