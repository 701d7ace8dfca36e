# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`fleet_recipe_sources`: others' recipes are read, converted and found, and nothing of a source runs here."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes import shelf
from ansible_collections.gb10.fleet.plugins.module_utils._operations.shelf import as_text, changes, is_for, rows
from ansible_collections.gb10.fleet.plugins.module_utils._plan.sources import read_sources
from ansible_collections.gb10.fleet.plugins.plugin_utils import _source_files
from ansible_collections.gb10.fleet.plugins.plugin_utils._source_files import files_of

sys.path.insert(0, str(Path(__file__).parents[1] / "stand_ins"))
import git_server
import hostile_source
from hostile_source import recipe

TODAY = "2026-11-27"
NANO = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4"


def source(**keys: str) -> shelf.RecipeSource:
    sources, findings = shelf.read_sources_of([keys])
    assert not findings, [finding.sentence() for finding in findings]
    return sources[0]


def taken(declared: shelf.RecipeSource, files: dict[str, bytes], before: shelf.Kept | None = None) -> shelf.Kept:
    return shelf.take(declared, files, {}, TODAY, before)


@pytest.fixture(scope="module")
def harm(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Path]:
    """A hostile repository, its commit, and the mark of what ran."""
    place = tmp_path_factory.mktemp("harm")
    return place / "evil", hostile_source.hostile(place / "evil", place / "ran"), place / "ran"


@pytest.fixture
def https(tmp_path: Path, harm: tuple[Path, str, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    pem = git_server.certificate(tmp_path / "git.pem", "127.0.0.1")
    monkeypatch.setenv("GIT_SSL_CAINFO", f"{pem}.crt")
    one = git_server.server(harm[0].parent, "127.0.0.1", 0, pem)
    thread = threading.Thread(target=one.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{one.server_port}/evil"
    one.shutdown()
    one.server_close()


def judge_harm(files: dict[str, bytes], refused: dict[str, str], mark: Path) -> None:
    assert not mark.exists(), "something of the source ran"
    assert {*files} >= {"honest.yaml", "tags.yaml", "aliases.yaml"}
    assert not any(name.startswith(("link", "sub", "huge", "bad", "name", ".", "/")) or ".." in name for name in files)
    assert {"link.yaml", "sub.yaml", "huge.yaml", "bad/../outside.yaml"} <= {*refused}
    assert all(text.isprintable() for row in refused.items() for text in row)
    kept = shelf.take(source(path="evil"), files, refused, TODAY, None)
    assert {*kept["recipes"]} == {"evil-honest"} and not mark.exists()
    assert {"tags.yaml", "aliases.yaml", "deep.yaml", "binary.yaml", "pointer.yaml", "shell.yaml"} <= {*kept["refused"]}
    assert "\x1b" not in json.dumps([*kept["refused"].values()])


def test_nothing_of_a_hostile_source_runs_over_https(https: str, harm: tuple[Path, str, Path], tmp_path: Path) -> None:
    judge_harm(*files_of(source(git=https, commit=harm[1]), tmp_path), harm[2])


def test_nothing_of_a_hostile_repository_on_this_machine_runs(harm: tuple[Path, str, Path], tmp_path: Path) -> None:
    judge_harm(*files_of(source(path=str(harm[0]), commit=harm[1]), tmp_path), harm[2])


def test_a_folder_is_read_without_its_links(harm: tuple[Path, str, Path], tmp_path: Path) -> None:
    files, refused = files_of(source(path=str(harm[0])), tmp_path)
    assert "honest.yaml" in files and "link.yaml" in refused and not any(".git" in name for name in files)


def test_a_file_that_is_listed_and_lacking_is_named(
    harm: tuple[Path, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = _source_files._git

    def lacks(place: str, protocol: str, words: Any, most: int, given: bytes = b"") -> bytes:
        if words[0] != "cat-file":
            return real(place, protocol, words, most, given)
        first, *rest = given.splitlines(keepends=True)
        return first.strip() + b" missing\n" + real(place, protocol, words, most, b"".join(rest))

    monkeypatch.setattr(_source_files, "_git", lacks)
    files, refused = files_of(source(path=str(harm[0]), commit=harm[1]), tmp_path)
    (name,) = [name for name, why in refused.items() if "lacks its content" in why]
    assert name not in files and "honest.yaml" in {*files, name}


def test_a_repository_that_lost_a_file_is_refused_in_words(tmp_path: Path) -> None:
    place = tmp_path / "torn"
    commit = hostile_source.repository(place, {"a.yaml": recipe(NANO), "b.yaml": recipe(NANO, env={"A": "b"})})
    blob = hostile_source.git(place, "rev-parse", "HEAD:b.yaml").strip()
    (place / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(FleetError, match="git: "):
        files_of(source(path=str(place), commit=commit), tmp_path)


@pytest.mark.parametrize(
    ("bound", "value", "words"),
    [("_MOST_FETCHED", 4096, "more than"), ("_MOST_FILES", 1, ""), ("_LIMIT_S", 0.01, "did not end within")],
)
def test_a_source_has_bounds(
    harm: tuple[Path, str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: float, words: str
) -> None:
    monkeypatch.setattr(_source_files, bound, value)
    declared = source(path=str(harm[0]), commit=harm[1])
    if words:
        with pytest.raises(FleetError, match=words):
            files_of(declared, tmp_path)
    else:
        files, refused = files_of(declared, tmp_path)
        assert len(files) == 1 and any("it comes after" in why for why in refused.values())


@pytest.mark.parametrize("keys", [{"folder": "nowhere"}, {"commit": "1" * 40}, {"path": "nowhere"}])
def test_a_source_that_cannot_be_read_is_refused_in_words(
    harm: tuple[Path, str, Path], tmp_path: Path, keys: dict[str, str]
) -> None:
    declared = source(**{"path": str(harm[0]), "commit": harm[1], "name": "evil", **keys})
    with pytest.raises(FleetError, match="correct git, path, commit or folder"):
        files_of(declared, tmp_path)


@pytest.mark.parametrize(
    "written",
    [
        [{"git": "https://x/y"}],
        [{"git": "https://user:secret@x/y", "commit": "a" * 40}],
        [{"git": "ssh://x/y", "commit": "a" * 40}],
        [{"git": "ext::sh -c x", "commit": "a" * 40}],
        [{"git": "https://x/y", "commit": "main"}],
        [{"git": "https://x/y", "path": "z", "commit": "a" * 40}],
        [{"path": "a/x"}, {"path": "b/x"}],
        [{"path": "x", "folder": "../y"}],
        [{"path": "/"}],
        [{}],
        {"path": "x"},
    ],
)
def test_a_declaration_that_cannot_be_is_refused(written: Any) -> None:
    sources, findings = shelf.read_sources_of(written)
    assert sources == [] and findings


def test_a_recipe_knows_its_origin_and_its_day_stays() -> None:
    declared = source(git="https://host/owner/them.git", commit="a" * 40)
    first = taken(declared, {"r/x.yaml": recipe(NANO), "r/y.yaml": recipe(NANO)})
    found = first["recipes"]["them-x"]["origin"]
    assert {**found, "sha256": ""} == {
        "url": "https://host/owner/them.git", "commit": "a" * 40, "file": "r/x.yaml", "sha256": "", "when": TODAY,
    }  # fmt: skip
    again = shelf.take(
        declared, {"r/x.yaml": recipe(NANO), "r/y.yaml": recipe(NANO, env={"A": "b"})}, {}, "2027-01-01", first
    )
    assert [again["recipes"][f"them-{name}"]["origin"]["when"] for name in "xy"] == [TODAY, "2027-01-01"]


def test_files_of_the_same_name_differ_by_their_folders() -> None:
    kept = taken(source(path="them"), {"a/one.yaml": recipe(NANO), "b/one.yaml": recipe(NANO), "two.yml": recipe(NANO)})
    assert sorted(kept["recipes"]) == ["them-a-one", "them-b-one", "them-two"]


def test_another_commit_shows_what_changed() -> None:
    before = taken(source(path="them"), {"a.yaml": recipe(NANO), "b.yaml": recipe(NANO), "c.yaml": recipe(NANO)})
    changed = recipe(NANO, container="vllm/vllm-openai:v0.33.0", env={"VLLM_X": "1"})
    after = taken(source(path="them"), {"a.yaml": recipe(NANO), "b.yaml": changed, "d.yaml": recipe("x/y")}, before)
    lines = [*changes(before, after)]
    assert [line[:9] for line in lines] == ["~ them-b:", "- them-c:", "+ them-d:"]
    assert "env.VLLM_X none -> 1" in lines[0] and "v0.32.0 -> vllm/vllm-openai:v0.33.0" in lines[0]
    assert [*changes(None, after)] == [] == [*changes(after, after)]


def test_a_recipe_in_our_form_silences_no_rule_and_is_not_tested_by_us() -> None:
    ours = b"""
name: x
summary: a model
model: {repository: a/b}
image: {reference: "vllm/vllm-openai:v0.32.0", family: upstream, release: 0.32.0}
silence: {R011: "no"}
status: {state: tested, by: them, hardware: theirs}
sources: [theirs]
"""
    kept = taken(source(path="them"), {"x.yml": ours})
    made = kept["recipes"]["them-x"]
    assert (made["status"]["state"], made["silence"], kept["left_out"]["them-x"]) == ("reported", {}, ["silence"])


def inventory(folder: Path, services: dict[str, Any], sources: list[dict[str, str]]) -> dict[str, Any]:
    variables = {"fleet_services": services, "fleet_recipe_sources": sources}
    return {"hosts": {"titan": {"address": "192.0.2.1", "port": 22, "variables": variables}}, "folder": str(folder)}


def test_services_find_recipes_of_a_source_by_name_and_by_model(tmp_path: Path) -> None:
    model = "lab/of-nobody-else"
    declared = {"path": "them"}
    kept = taken(source(**declared), {"x.yaml": recipe(model)})
    services = {
        "one": {"recipe": "them-x", "hosts": ["titan"], "port": 8000},
        "two": {"model": model, "hosts": ["titan"], "port": 8001},
    }
    before = read_sources(inventory(tmp_path, services, [declared])).planned()
    assert {row["rule"] for row in before["findings"]} >= {"recipe-source", "recipe-unknown", "model-unread"}
    shelf.file_of(tmp_path, "them").parent.mkdir(parents=True)
    shelf.file_of(tmp_path, "them").write_text(json.dumps(kept))
    plan = read_sources(inventory(tmp_path, services, [declared])).planned()
    assert {name: one["recipe"] for name, one in plan["services"].items()} == {"one": "them-x", "two": "them-x"}
    assert "recipe-source" not in {row["rule"] for row in plan["findings"]}
    other = read_sources(inventory(tmp_path, services, [{**declared, "folder": "new"}])).planned()
    assert "recipe-source" in {row["rule"] for row in other["findings"]} and len(other["services"]) == 2
    assert not read_sources(inventory(tmp_path, services, [])).planned()["services"], "no longer declared"


def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    path = shelf.file_of(tmp_path, "them")
    path.parent.mkdir(parents=True)
    path.write_text('{"url": 3}')
    notes: list[str] = []
    assert shelf.read_kept(tmp_path, "them", notes.append) is None
    assert notes and not path.exists()


def test_the_table_has_what_an_owner_asks_first() -> None:
    command = f"vllm serve {NANO} --revision {'a' * 40} --tool-call-parser qwen3_coder --enable-auto-tool-choice"
    embedder = "vllm serve {model} --runner pooling"
    files = {
        "chat.yaml": recipe(NANO, command=command, mods=["mods/patch"]),
        "embed.yaml": recipe("Qwen/Qwen3-VL-Embedding-8B", command=embedder),
        "large.yaml": recipe("nvidia/MiniMax-M2.7-NVFP4", command="vllm serve {model} -tp 2", cluster_only=True),
    }
    kept = taken(source(path="them"), files)
    recipes, _ = shelf.usable({"them": kept}, Path("x"))
    library = read_sources({"hosts": {}, "folder": "x"}).library
    found = {row["recipe"]: row for row in rows([*recipes.values()], library, [{}], kept["left_out"])}
    assert [*found] == ["them-chat", "them-embed", "them-large"]
    chat = found["them-chat"]
    assert (chat["hosts"], chat["fits"], chat["pin"]) == ("1", "yes", "model")
    assert "patch" in chat["not carried over"] and chat["tok/s"].startswith("~")
    assert found["them-large"]["hosts"] == "needs 2"
    wanted = {purpose: [name for name, one in recipes.items() if is_for(one, purpose, library)]
              for purpose in ("chat", "code", "vision", "embed")}  # fmt: skip
    assert wanted == {
        "chat": ["them-chat", "them-large"], "code": ["them-chat"], "vision": ["them-embed"], "embed": ["them-embed"],
    }  # fmt: skip
    text = as_text([*found.values()])
    assert len(text.splitlines()) == 7 and "not carried over: mods: patch" in text
    [short] = rows([recipes["them-chat"]], library, [{"memory_kib": 16 << 20}], {}, 131072)
    assert short["fits"] == "no" and short["refused"]
