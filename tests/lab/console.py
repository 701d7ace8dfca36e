# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab tells its user while it works: one line a step, on stderr, so that stdout stays machine-readable."""

from __future__ import annotations

import sys


def announce(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)
