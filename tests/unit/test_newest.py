# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests run on the newest ansible-core, too: what comes to Ansible by any way within the tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import newest

MODULES = "from ansible_collections.gb10.fleet.plugins.modules import lease\n"
PURE = "from ansible_collections.gb10.fleet.plugins.module_utils._base import place\n"
TEST = "def test_it(): "


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{PURE}{TEST}place.Place()", []),
        (f"{MODULES}{TEST}lease.main()", ["test_it"]),
        (f"{MODULES}{TEST}pass", []),
        (f"{MODULES}def run(): lease.main()\n{TEST}run()", ["test_it"]),
        (f"{MODULES}def made(): lease.main()\ndef test_it(made): pass", ["test_it"]),
        (f"{MODULES}class Runs:\n    def go(self): lease.main()\n{TEST}Runs().go()", ["test_it"]),
        (f"{MODULES}TABLE = [lease]\n{TEST}TABLE", ["test_it"]),
        (f"{MODULES}@fixture(autouse=True)\ndef always(): lease\n{TEST}pass", ["test_it"]),
        (f"{MODULES}def one(): two()\ndef two(): one(); lease\n{TEST}one()", ["test_it"]),
        (f'@parametrize("words", ["ansible-vault"])\n{TEST}pass', ["test_it"]),
        (f'{TEST}run("-m", "ansible")', ["test_it"]),
        (f"{TEST}\n    from ansible.template import Templar", ["test_it"]),
        (f"from helper import taken\n{TEST}taken()", ["test_it"]),
        (f"from helper import pure\n{TEST}pure()", []),
        (f"import helper\n{TEST}helper.pure()", ["test_it"]),
        (f"from helper import taken as test_of_another\n{TEST}test_of_another()", ["test_it"]),
    ],
)
def test_what_comes_to_ansible_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, found: list[str]
) -> None:
    monkeypatch.setattr(newest, "UNIT", tmp_path / "unit")
    (tmp_path / "helper.py").write_text(f"{MODULES}def taken(): lease\ndef pure(): pass\n")
    (tmp_path / "test_some.py").write_text(text)
    assert newest.touching(tmp_path / "test_some.py") == found


def test_each_plugin_that_is_tested_is_tried() -> None:
    """A file that imports one has a test that uses it."""
    idle = [
        path.name
        for path in sorted(newest.UNIT.glob("test_*.py"))
        if any(part.touches for part in newest.parts(path).values()) and not newest.touching(path)
    ]
    assert idle == []
