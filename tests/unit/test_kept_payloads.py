# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the gate's callback keeps of compiled plugins is that of the same file and source, and of nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import CodeType

import pytest
from ansible.utils.collection_loader import _collection_finder

FILE = Path(__file__).parents[1] / "tools" / "callbacks" / "kept_payloads.py"
BASE = _collection_finder._AnsibleCollectionPkgLoaderBase


class Loader(BASE):  # type: ignore[misc]  # ansible-core carries no types
    """Ansible's, of one file."""

    def __init__(self, filename: str, source: bytes) -> None:
        self._compiled_code, self._filename, self._source = None, filename, source

    def get_filename(self, fullname: str) -> str:
        return self._filename

    def get_source(self, fullname: str) -> bytes:
        return self._source


def test_code_is_kept_by_file_and_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    ansibles = BASE.get_code

    def get_code(self: Loader, fullname: str) -> CodeType:
        if self._compiled_code is None:
            compiled.append(self._filename)
        code: CodeType = ansibles(self, fullname)
        return code

    monkeypatch.setattr(BASE, "get_code", get_code)
    spec = importlib.util.spec_from_file_location("kept_payloads", FILE)
    assert spec and spec.loader
    callback = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(callback)
    callback.keep_code(tmp_path)
    for filename, source, value in (("/a.py", b"x = 1", 1), ("/a.py", b"x = 2", 2), ("/b.py", b"x = 2", 2)) * 2:
        code = Loader(filename, source).get_code("name")
        found: dict[str, int] = {}
        exec(code, found)
        assert (code.co_filename, found["x"]) == (filename, value)
    assert compiled == ["/a.py", "/a.py", "/b.py"]
    for kept in tmp_path.iterdir():
        kept.write_bytes(b"")
    Loader("/a.py", b"x = 1").get_code("name")
    assert compiled == ["/a.py", "/a.py", "/b.py", "/a.py"]
