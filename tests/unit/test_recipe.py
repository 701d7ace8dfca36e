# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.layers import Layer, Value, fill, merge
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import Library, load, load_all, parse
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.flags import flags_to_argv
from hypothesis import given
from hypothesis import strategies as st

REVISION = "0123456789abcdef0123456789abcdef01234567"
DIGEST = "sha256:" + "ab" * 32
RECIPE: dict[str, Any] = {
    "name": "tiny",
    "summary": "A tiny model",
    "model": {"repository": "org/tiny", "revision": REVISION},
    "image": {"reference": "vllm/vllm-openai:v0.24.0", "digest": DIGEST, "family": "upstream", "release": "0.24.0"},
    "flags": {"max-model-len": 2048},
    "env": {"VLLM_USE_DEEP_GEMM": "0"},
    "status": {"state": "reported", "by": "someone", "when": "2026-03", "hardware": "DGX Spark"},
    "sources": ["a note"],
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The recipe with the value at a dotted path replaced, or removed with ``...``."""
    recipe = copy.deepcopy(RECIPE)
    *parents, last = path.split("/")
    spot = recipe
    for parent in parents:
        spot = spot.setdefault(parent, {})
    if value is ...:
        del spot[last]
    else:
        spot[last] = value
    return recipe


def write(folder: Path, recipe: dict[str, Any], name: str = "tiny.yml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


def test_a_complete_recipe_has_no_finding_and_gets_its_defaults() -> None:
    recipe, findings = parse(RECIPE, Place(thing="tiny.yml"))
    assert findings == []
    assert recipe["kind"] == "chat"
    assert recipe["host_counts"] == [1]
    assert recipe["model"]["source"] == "hub"
    assert recipe["image"]["source"] == "registry"
    assert recipe["memory"] == {"calibrations": []}


DRAFT_FLAGS = {"speculative-config": {"method": "dflash", "model": "org/draft", "num_speculative_tokens": 7}}
UNWEIGHED = {"release": "0.24.0", "weights_gib": None, "source": "a note"}
FIX = {"reason": "because", "source": "a note"}


@pytest.mark.parametrize(
    ("path", "value", "rule", "place"),
    [
        ("model/repository", ..., "schema-required", "tiny.yml: model.repository"),
        ("model/revison", REVISION, "schema-unknown-key", "tiny.yml: model.revison"),
        ("model/revision", "main", "schema-pattern", "tiny.yml: model.revision"),
        ("model/source", {"hots": "beast"}, "schema-unknown-key", "tiny.yml: model.source.hots"),
        ("model/source", {"host": "a", "path": "/b"}, "schema-range", "tiny.yml: model.source"),
        ("image/reference", "vllm/vllm-openai", "schema-pattern", "tiny.yml: image.reference"),
        ("image/release", 0.24, "schema-type", "tiny.yml: image.release"),
        ("image/vllm", "0.24.0", "recipe-old-key", "tiny.yml: image.vllm"),
        ("engine", "vlm", "recipe-engine", "tiny.yml: engine"),
        ("engine", ["vllm"], "recipe-engine", "tiny.yml: engine"),
        ("image/family", "nvidia", "schema-choice", "tiny.yml: image.family"),
        ("flags/--max-model-len", 1, "schema-pattern", 'tiny.yml: flags, key "--max-model-len"'),
        ("flags/max_model_len", 1, "option-written-twice", "tiny.yml: flags.max-model-len"),
        ("flags/port", 8000, "recipe-planned-flag", "tiny.yml: flags.port"),
        ("flags/api-key", "s3cret", "recipe-planned-flag", "tiny.yml: flags.api-key"),
        ("flags/middleware", [], "recipe-flag-value", "tiny.yml: flags.middleware"),
        ("flags/hf-overrides", {"x": float("nan")}, "recipe-flag-value", "tiny.yml: flags.hf-overrides"),
        ("flags/max-model-len", [8], "schema-type", "tiny.yml: flags.max-model-len"),
        ("flags/gpu-memory-utilization", 85, "schema-range", "tiny.yml: flags.gpu-memory-utilization"),
        ("env/VLLM_USE_DEEP_GEMM", 0, "schema-type", "tiny.yml: env.VLLM_USE_DEEP_GEMM"),
        ("env/VLLM_HOST_IP", "10.9.9.9", "recipe-planned-env", "tiny.yml: env.VLLM_HOST_IP"),
        ("env/HF_TOKEN", "hf_x", "recipe-secret", "tiny.yml: env.HF_TOKEN"),
        ("status/state", "works", "schema-choice", "tiny.yml: status.state"),
        ("status/when", "spring", "schema-pattern", "tiny.yml: status.when"),
        ("reasons", {"max-num-seqs": "why"}, "recipe-reason", "tiny.yml: reasons.max-num-seqs"),
        ("flags", DRAFT_FLAGS, "recipe-draft", "tiny.yml: model.draft.repository"),
        ("model/draft", {"repository": "org/draft"}, "recipe-draft", "tiny.yml: model.draft.repository"),
        ("overlays", [{"target": "a", **FIX}], "recipe-overlay", "tiny.yml: overlays[0]"),
        (
            "overlays",
            [{"target": "/a", "json_merge": {"b": 1}, **FIX}],
            "recipe-overlay",
            "tiny.yml: overlays[0].target",
        ),
        ("overlays", [{"target": "../a", "model_file": "b", **FIX}], "schema-pattern", "tiny.yml: overlays[0].target"),
        ("sources", [], "schema-range", "tiny.yml: sources"),
        ("memory", {"calibrations": [UNWEIGHED]}, "schema-required", "tiny.yml: memory.calibrations[0].weights_gib"),
    ],
)
def test_what_is_wrong_is_an_error_at_its_place(path: str, value: Any, rule: str, place: str) -> None:
    recipe, findings = parse(changed(path, value), Place(thing="tiny.yml"))
    assert recipe is None
    assert [(finding.severity, finding.rule, finding.place) for finding in findings] == [("error", rule, place)]


@pytest.mark.parametrize("path", ["model/revision", "image/digest"])
def test_what_is_not_pinned_is_no_warning(path: str) -> None:
    """The lock file keeps what the first run brings."""
    recipe, findings = parse(changed(path, None), Place(thing="tiny.yml"))
    assert recipe
    assert findings == []


def test_a_known_bad_recipe_is_usable_and_reports_it() -> None:
    bad = changed("status/state", "known-bad")
    bad["status"]["note"] = "it hangs; run this"
    recipe, findings = parse(bad, Place(thing="tiny.yml"))
    assert recipe
    assert [(finding.rule, finding.remedy, finding.reason) for finding in findings] == [
        ("recipe-known-bad", "use another recipe", "it hangs; run this")
    ]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
)


@given(st.sampled_from(["model", "flags", "env", "overlays", "memory", "image/source", "status", "name"]), ANYTHING)
def test_any_content_ends_in_findings(path: str, value: Any) -> None:
    recipe, findings = parse(changed(path, value), Place(thing="tiny.yml"))
    assert recipe or findings


@given(st.text())
def test_any_file_ends_in_findings(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("recipes") / "tiny.yml"
    path.write_text(text, encoding="utf-8", errors="replace")
    recipe, findings = load(path)
    assert recipe is None
    assert findings


@pytest.mark.parametrize("text", ["a: [", "a: 1\na: 2", "!!python/object:os.system {}", "\x00", "- 1", "[" * 1200, ""])
def test_files_that_are_no_recipe(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tiny.yml"
    path.write_text(text, encoding="utf-8")
    recipe, findings = load(path)
    assert recipe is None
    assert all(str(path) in finding.place for finding in findings)


def test_a_date_without_quotes_is_a_text(tmp_path: Path) -> None:
    path = write(tmp_path, RECIPE)
    path.write_text(path.read_text().replace("2026-03", "2026-03-26"), encoding="utf-8")
    recipe, findings = load(path)
    assert findings == []
    assert recipe is not None
    assert recipe.data["status"]["when"] == "2026-03-26"


def test_the_name_is_the_files_name(tmp_path: Path) -> None:
    recipe, findings = load(write(tmp_path, RECIPE, "other.yml"))
    assert recipe is None
    assert findings[0].rule == "recipe-name"


def test_the_users_own_folder_comes_first(tmp_path: Path) -> None:
    own, shipped = tmp_path / "own", tmp_path / "shipped"
    write(own, changed("summary", "mine"))
    write(shipped, RECIPE)
    write(shipped, changed("name", "other"), "other.yml")
    library, findings = load_all([own, shipped])
    assert findings == []
    assert sorted(library.recipes) == ["other", "tiny"]
    assert library.recipes["tiny"].data["summary"] == "mine"


def test_a_bad_recipe_leaves_the_others_usable(tmp_path: Path) -> None:
    write(tmp_path, changed("summary", ...))
    write(tmp_path, changed("name", "other"), "other.yml")
    write(tmp_path, changed("name", "other"), "other.yaml")
    library, findings = load_all([tmp_path, tmp_path / "absent"])
    assert list(library.recipes) == ["other"]
    assert sorted(finding.rule for finding in findings) == ["recipe-duplicate", "recipe-folder", "schema-required"]


def test_an_unknown_recipe_suggests_the_right_one(tmp_path: Path) -> None:
    write(tmp_path, RECIPE)
    library, _ = load_all([tmp_path])
    recipe, findings = library.find("tinny", "fleet_services.a.recipe")
    assert recipe is None
    assert findings[0].place == "fleet_services.a.recipe"
    assert findings[0].remedy == 'write "tiny"'


def test_configs_are_found_beside_the_recipes(tmp_path: Path) -> None:
    own, shipped = tmp_path / "own", tmp_path / "shipped"
    for folder, text in ((own, '{"a": 1}'), (shipped, '{"a": 2}')):
        (folder / "configs").mkdir(parents=True)
        (folder / "configs" / "tiny.json").write_text(text)
    (shipped / "configs" / "bad.json").write_text("{")
    (shipped / "configs" / "list.json").write_text("[]")
    library = Library({}, (own, shipped))
    assert library.config("tiny", "x") == ({"a": 1}, [])
    for name in ("bad", "list", "tniy"):
        config, findings = library.config(name, "tiny.yml: model.config")
        assert config is None
        assert findings[0].rule == "recipe-config"
    assert findings[0].remedy == 'write "tiny"'


def test_an_overlay_file_is_found_checked_or_asked_for(tmp_path: Path) -> None:
    (tmp_path / "overlays").mkdir()
    file = tmp_path / "overlays" / "fix.jinja"
    file.write_bytes(b"x")
    library = Library({}, (tmp_path,))
    right = {"file": "fix.jinja", "sha256": hashlib.sha256(b"x").hexdigest()}
    assert library.overlay(right, "place") == (file, [])
    assert library.overlay({**right, "sha256": None}, "place") == (file, [])
    assert library.overlay({**right, "sha256": "0" * 64}, "place")[1][0].rule == "recipe-overlay-changed"
    missing = library.overlay({"file": "y", "sha256": None, "where": "the project x"}, "place")[1][0]
    assert missing.rule == "recipe-overlay-missing"
    assert "the project x" in missing.remedy


def test_later_layers_win_and_null_removes() -> None:
    merged = merge(
        [
            Layer("default", {"max-num-seqs": 4, "seed": 0}, {"max-num-seqs": "decode is bound by bandwidth"}),
            Layer(
                "recipe", {"kv-cache-dtype": "fp8", "max-num-seqs": 8, "seed": None}, {"kv-cache-dtype": "halves KV"}
            ),
            Layer("service", {"kv-cache-dtype": None}),
            Layer("host", {"enforce-eager": True}),
        ]
    )
    assert merged == {"enforce-eager": Value(True, "host"), "max-num-seqs": Value(8, "recipe")}


def test_the_order_of_keys_does_not_matter() -> None:
    assert list(merge([Layer("recipe", {"b": 1, "a": 2})])) == ["a", "b"]
    assert flags_to_argv({"b": 1, "a": {"y": 1, "x": 2}}) == flags_to_argv({"a": {"x": 2, "y": 1}, "b": 1})


@pytest.mark.parametrize(
    ("value", "argv"),
    [
        (True, ["--x"]),
        (False, ["--no-x"]),
        (None, []),
        (4, ["--x", "4"]),
        (0.85, ["--x", "0.85"]),
        ("fp8", ["--x", "fp8"]),
        ("", ["--x", ""]),
        (-1, ["--x=-1"]),
        ("--y", ["--x=--y"]),
        (["a", "b"], ["--x", "a", "b"]),
        ([{"a": 1}, True], ["--x", '{"a":1}', "true"]),
        ({"b": None, "a": "it's $HOME; `x`"}, ["--x", '{"a":"it\'s $HOME; `x`","b":null}']),
    ],
)
def test_flags_become_arguments(value: Any, argv: list[str]) -> None:
    assert flags_to_argv({"x": value}) == argv


@given(st.dictionaries(st.text(), st.integers() | st.text()))
def test_a_map_survives_as_one_json_argument(value: dict[str, Any]) -> None:
    name, text = flags_to_argv({"hf-overrides": value})
    assert name == "--hf-overrides"
    assert json.loads(text) == value


def test_places_are_filled_in_however_deep() -> None:
    value = {"a": ["{model_path}/assistant", 3], "b": {"c": "{other} {model_path}"}}
    filled = {"a": ["/m/assistant", 3], "b": {"c": "{other} /m"}}
    assert fill(value, {"model_path": "/m"}) == filled
