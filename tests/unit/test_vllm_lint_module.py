# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The linter's doors through Ansible itself: the module with options and with a file, and the filter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAUNCH = {
    "argv": ["vllm", "serve", "m", "--nosuch"],
    "env": {"VLLM_USE_FLASHINFER_MOE_FP4": "1"},
    "vllm_version": "0.24.0",
}


def module(arguments: str) -> tuple[int, Any]:
    """Exit status and result of the module on localhost."""
    command = [sys.executable, "-m", "ansible", "adhoc", "localhost", "-m", "gb10.fleet.vllm_lint", "-a", arguments]
    environment = {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        "PATH": "/usr/bin:/bin",
    }
    environment |= {"HOME": str(ROOT), "LC_ALL": "C.UTF-8", "ANSIBLE_LOCALHOST_WARNING": "false"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    text = done.stdout[done.stdout.find("{") :] if done.returncode == 0 else done.stdout + done.stderr
    return done.returncode, json.loads(text) if done.returncode == 0 else text


@pytest.mark.parametrize("form", ["json", "file"])
def test_the_module(form: str, tmp_path: Path) -> None:
    file = tmp_path / "launch.json"
    file.write_text(json.dumps(LAUNCH))
    status, result = module(f"@{file}" if form == "file" else json.dumps(LAUNCH))
    assert status == 0
    assert result["changed"] is False
    rules = [finding["rule"] for finding in result["findings"]]
    assert "catalogue-unknown-option" in rules
    assert "R025" in rules


@pytest.mark.parametrize("arguments, words", [("@nosuch.json", "nosuch.json"), ("blah", "takes options, or @file")])
def test_a_wrong_file_is_reported(arguments: str, words: str) -> None:
    status, text = module(arguments)
    assert status != 0
    assert words in text
    assert "Traceback" not in text
