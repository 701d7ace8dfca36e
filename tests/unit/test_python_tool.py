"""A program installed by a lock of hashes: from wheels made here, without any network."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gb10.fleet.plugins.modules import python_tool

ROOT = Path(__file__).resolve().parents[2]
LOCKS = {"model_store": "hub.txt", "drift_timer": "runner.txt", "phoenix": "phoenix.txt", "pull": "pull.txt"}


def wheel(folder: Path, version: str) -> str:
    """A package of one module, and its line of a lock."""
    path = folder / f"greeter-{version}-py3-none-any.whl"
    about = f"greeter-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("greeter.py", f"VERSION = '{version}'\n")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: greeter\nVersion: {version}\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return f"greeter=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def install(capsys: pytest.CaptureFixture[str], folder: Path, lock: str, check: bool = False) -> dict[str, Any]:
    arguments = {"path": str(folder / "tool"), "lock": lock, "_ansible_check_mode": check, "_ansible_diff": True}
    pip = ["--no-index", "--find-links", str(folder)]
    arguments |= {"pip_arguments": pip, "_ansible_remote_tmp": str(folder), "_ansible_keep_remote_files": False}
    with patch_module_args(arguments), pytest.raises(SystemExit):
        python_tool.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def has(folder: Path) -> list[str]:
    found = (folder / "tool").glob("lib/python3*/site-packages/greeter-*.dist-info")
    return [re.sub(r"greeter-(.*)\.dist-info", r"\1", path.name) for path in found]


def test_a_lock_is_installed_exactly_and_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = wheel(tmp_path, "1.0"), wheel(tmp_path, "1.1")
    assert (install(capsys, tmp_path, first, check=True)["changed"], (tmp_path / "tool").exists()) == (True, False)
    # another file than the lock's is refused, and the next run tries again
    refused = install(capsys, tmp_path, re.sub("[0-9a-f]{64}", "0" * 64, first))
    assert refused["failed"] is True and "gave other files than the lock names: greeter==1.0" in refused["msg"]
    assert has(tmp_path) == []
    assert (install(capsys, tmp_path, first)["changed"], has(tmp_path)) == (True, ["1.0"])
    assert install(capsys, tmp_path, first)["changed"] is False
    # another lock: anew
    newer = install(capsys, tmp_path, second)
    assert (newer["packages"], has(tmp_path)) == (["greeter==1.1"], ["1.1"])
    assert newer["diff"] == {"before": "greeter==1.0\n", "after": "greeter==1.1\n"}


FILES = [f"roles/{role}/files/{name}" for role, name in LOCKS.items()] + ["playbooks/files/benchy.txt"]


@pytest.mark.parametrize("file", FILES)
def test_each_package_of_a_lock_has_hashes(file: str) -> None:
    text = (ROOT / file).read_text("utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) > 3
    assert [line for line in lines if "==" not in line or "--hash=sha256:" not in line] == []


def test_nothing_else_is_installed_by_pip() -> None:
    tasks = [path.read_text("utf-8") for path in (ROOT / "roles").glob("*/tasks/*.yml")]
    assert [text for text in tasks if re.search(r"\bpip\b.*\binstall\b|ansible\.builtin\.pip", text)] == []
    used = [re.findall(r"gb10\.fleet\.python_tool", text) for text in tasks]
    assert sum(map(len, used)) == len(LOCKS)
