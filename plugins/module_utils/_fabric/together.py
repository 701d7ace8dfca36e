# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Programs that must run at the same time, which AnsibleModule.run_command can't do."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


def run_together(commands: Sequence[Sequence[str]], patience_s: float) -> list[str]:
    """What each of them printed; one that does not end within the patience is killed, and its output says so."""
    running = [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for command in commands
    ]
    return [_output(process, patience_s) for process in running]


def _output(process: subprocess.Popen[str], patience_s: float) -> str:
    try:
        return process.communicate(timeout=patience_s)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return f"{process.communicate()[0]}\nno result after {patience_s:.0f} s"
