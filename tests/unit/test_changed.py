# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests `./test --changed` runs, and in which order the tests of a file run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import shuffle

from tools import changed

UTILS = "plugins/module_utils"


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        pytest.param("tests/unit/test_tls.py", {"test_tls.py"}, id="a test"),
        pytest.param(f"{UTILS}/_stores/transfer/fetch.py", {"test_transfer.py"}, id="imported by name"),
        pytest.param(
            f"{UTILS}/_engines/vllm/kv/pool.py", {"test_kv_pool.py"}, id="a module that nothing imports alone"
        ),
        pytest.param(f"{UTILS}/_engines/vllm/rules/model.py", {"test_rules.py"}, id="found by its package"),
        pytest.param(
            "plugins/action/tune.py", {"test_tune_action.py", "test_plugin_documentation.py"}, id="by its name"
        ),
        pytest.param("tests/unit/drift_fleet.py", {"test_drift_compare.py"}, id="what tests share"),
        pytest.param("data/vllm_models.yml", {"test_model_and_image_facts.py"}, id="data, by who reads it"),
        pytest.param("recipes/qwen3-1.7b.yml", {"test_recipes_shipped.py", "test_golden.py"}, id="a recipe"),
        pytest.param("roles/fabric/tasks/main.yml", {"test_roles.py"}, id="a role"),
    ],
)
def test_the_nearest_tests_run(file: str, expected: set[str]) -> None:
    run, _left = changed.chosen([file])
    names = {Path(test).name for test in run}
    assert expected | {*changed.ALWAYS} <= names
    assert len(names) <= changed.MOST + 5


def test_of_a_file_that_all_use_the_rest_is_counted() -> None:
    run, left = changed.chosen([f"{UTILS}/_base/findings.py"])
    assert len(run) <= changed.MOST + len(changed.ALWAYS) and len(left) > 20


def test_what_is_named_exists() -> None:
    named = {*changed.ALWAYS, *(name for names in changed.OF_FOLDERS.values() for name in names)}
    assert [name for name in named if not (changed.ROOT / changed.UNIT / name).is_file()] == []
    assert [folder for folder in changed.OF_FOLDERS if not (changed.ROOT / folder).is_dir()] == []


def test_a_base_that_is_not_there_ends_in_a_sentence() -> None:
    with pytest.raises(SystemExit, match="expected a commit of this clone"):
        changed.changes("no-such-branch")


def items(path: Path, story: bool = False) -> list[Any]:
    return [
        SimpleNamespace(path=path, number=number, get_closest_marker=lambda name: name if story else None)
        for number in range(20)
    ]


def order(found: list[Any]) -> list[int]:
    shuffle.pytest_collection_modifyitems(found)
    return [item.number for item in found]


def test_the_order_within_a_file_follows_from_its_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(shuffle.VARIABLE, raising=False)
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text("one")
    other.write_text("other")
    first = order(items(one) + items(other))
    assert first == order(items(one) + items(other))
    assert first[:20] != [*range(20)] and sorted(first[:20]) == [*range(20)] and first[:20] != first[20:]
    monkeypatch.setenv(shuffle.VARIABLE, "1")
    assert order(items(one)) != first[:20]


def test_a_story_stays_in_order(tmp_path: Path) -> None:
    file = tmp_path / "story.py"
    file.write_text("")
    assert order(items(file, story=True)) == [*range(20)]
