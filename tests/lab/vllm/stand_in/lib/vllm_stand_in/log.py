# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Log lines in the real one's form, on stderr: the engine's stdout carries its answers."""

from __future__ import annotations

import os
import sys
import time


def log(process: str, level: str, file: str, text: str) -> None:
    now = time.strftime("%m-%d %H:%M:%S")
    print(f"({process} pid={os.getpid()}) {level} {now} [{file}:1] {text}", file=sys.stderr, flush=True)
