# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forms that are data are specs, with nothing in them that nobody takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base import forms as module
from ansible_collections.gb10.fleet.plugins.module_utils._base.forms import forms
from ansible_collections.gb10.fleet.plugins.module_utils._base.schema import Spec, TypeName
from ansible_collections.gb10.fleet.plugins.module_utils._base.yaml_text import read_yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "data" / "forms").glob("*.yml"))
CODE = "\n".join(path.read_text("utf-8") for path in (ROOT / "plugins").rglob("*.py"))
KEYS = {*Spec.__annotations__, "is"}


def parts(row: Any) -> Iterator[Any]:
    """A spec, each spec in it, and the words in place of them."""
    yield row
    if isinstance(row, dict):
        inner = [row[key] for key in ("is", "elements", "keys", "values") if key in row]
        for each in (*inner, *row.get("any_of", ()), *row.get("options", {}).values()):
            yield from parts(each)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_form_is_a_spec(path: Path) -> None:
    rows = read_yaml(path.read_text("utf-8"))
    found = [each for row in rows.values() for each in parts(row)]
    for spec in (each for each in found if not isinstance(each, str)):
        assert spec.keys() <= KEYS, spec
        assert spec.get("type", "any") in get_args(TypeName), spec
        assert all(isinstance(spec.get(bound, 0), int | float) for bound in ("min", "max")), spec
        assert isinstance(spec.get("expected", ""), str), spec
        re.compile(spec.get("pattern", ""))
    words = {each for each in found if isinstance(each, str)}
    taken = {name for name in rows if f'["{name}"]' in CODE}
    assert rows.keys() <= words | taken
    assert re.search(rf'forms\(\s*"{path.stem}"', CODE)


def test_a_word_is_the_name_of_a_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data" / "forms").mkdir(parents=True)
    (tmp_path / "data" / "forms" / "gadget.yml").write_text(
        "text: {type: str, required: true, min: 1}\n"
        "named: {type: map, options: {name: text, from: port}}\n"
        "gadget: {is: named, min: 1, options: {from: {is: text, required: false}, each: list}}\n"
        "list: {type: list, elements: port}\n"
        "either: {any_of: [text, port]}\n"
    )
    monkeypatch.setattr(module, "data_file", lambda name: read_yaml((tmp_path / "data" / f"{name}.yml").read_text()))
    port: Spec = {"type": "int"}
    text: Spec = {"type": "str", "required": True, "min": 1}
    found = forms("gadget", port=port)
    assert found["named"] == {"type": "map", "options": {"name": text, "from": port}}
    assert found["gadget"] == {
        "type": "map",
        "min": 1,
        "options": {"name": text, "from": {**text, "required": False}, "each": {"type": "list", "elements": port}},
    }
    assert found["either"] == {"any_of": [text, port]}


def test_a_word_that_nobody_has_is_no_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data" / "forms").mkdir(parents=True)
    (tmp_path / "data" / "forms" / "gadget.yml").write_text("gadget: {type: map, options: {name: txt}}\n")
    monkeypatch.setattr(module, "data_file", lambda name: read_yaml((tmp_path / "data" / f"{name}.yml").read_text()))
    with pytest.raises(KeyError, match="txt"):
        forms("gadget")
