# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A person at a terminal: a command in a pseudoterminal, with an answer typed to each question that it asks."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# A person who sees that nothing happens types again: Ansible drops what came between its question and its reading
# (prompt_until of ansible/utils/display.py prints first, then sets the terminal and flushes its input).
_AGAIN_S = 2.0


@dataclass(frozen=True)
class Session:
    """status: the command's exit status, -9 where it did not end in time. asked: how many questions it asked."""

    status: int
    screen: str
    asked: int


def typed(
    command: Sequence[str],
    answers: Sequence[bytes],
    question: bytes,
    *,
    cwd: Path,
    environment: Mapping[str, str],
    seconds: float = 300,
) -> Session:
    """Run a command, and type the next answer whenever the screen ends another question.

    question: a regular expression of a question's end. A question beyond the answers gets Ctrl-C. A command that has
    not ended after so many seconds is killed.
    """
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(cwd)
        os.execve(command[0], [*command], {**environment})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 118, 0, 0))
    screen, asked, wrote = b"", 0, 0.0
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            if select.select([terminal], [], [], 0.2)[0]:
                try:
                    screen += os.read(terminal, 4096)
                except OSError:  # nobody has the other end
                    break
                continue
            questions = len(re.findall(question, screen))
            is_unheard = questions == asked and asked and time.monotonic() > wrote + _AGAIN_S
            if _reads_keys(terminal) and (questions > asked or is_unheard):
                asked, wrote = questions, time.monotonic()
                os.write(terminal, answers[asked - 1] if asked <= len(answers) else b"\x03")
        else:
            os.kill(child, signal.SIGKILL)
        return Session(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), screen.decode("utf-8", "replace"), asked)
    finally:
        os.close(terminal)


def _reads_keys(terminal: int) -> bool:
    """Whether the command reads key by key, as it does while a question waits."""
    lflag: int = termios.tcgetattr(terminal)[3]
    return not lflag & termios.ICANON
