# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel says of its release, to Python alone: the lab's hosts share this machine's kernel."""

from __future__ import annotations

import os
from pathlib import Path

FILE = Path("/run/lab-kernel")
_uname = os.uname


def uname() -> os.uname_result:
    found = _uname()
    release = FILE.read_text("ascii").strip() if FILE.exists() else found.release
    return os.uname_result((found.sysname, found.nodename, release, found.version, found.machine))


os.uname = uname
