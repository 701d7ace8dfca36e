# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's person at a terminal is heard, and never waits for ever."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from lab import terminal

# As Ansible asks: it prints, sets the terminal, and drops what was typed until then; here, what was typed first.
ASKS = """
import os, sys, termios, tty
print("name: ", end="", flush=True)
tty.setraw(0)
os.read(0, 1)
termios.tcflush(0, termios.TCIFLUSH)
print("got", os.read(0, 100).decode().strip(), end="\\r\\n")
termios.tcsetattr(0, termios.TCSANOW, termios.tcgetattr(1))
"""


def run(program: str, tmp_path: Path, seconds: float) -> terminal.Session:
    command = [sys.executable, "-c", program]
    return terminal.typed(command, [b"anna\r"], rb"name: ", cwd=tmp_path, environment={}, seconds=seconds)


def test_an_answer_that_is_dropped_is_typed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "_AGAIN_S", 0.1)
    session = run(ASKS, tmp_path, 60)
    assert session.status == 0 and "got anna" in session.screen and session.asked == 1


def test_a_command_that_does_not_end_is_killed(tmp_path: Path) -> None:
    session = run("import time; time.sleep(600)", tmp_path, 0.1)
    assert session.status == -9 and session.asked == 0
