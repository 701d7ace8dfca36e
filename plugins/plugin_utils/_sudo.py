# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This plugin util is PRIVATE to the collection.
"""What sudo said where Ansible says only that a module gave no answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TTY = (
    "sudo asks for a terminal on this host (`Defaults requiretty`), and so nothing was changed; write "
    "ansible_pipelining: false for this host in the inventory, or `Defaults:USER !requiretty` in its sudoers "
    "[sudo-needs-tty]"
)


def refusal(result: Mapping[str, Any]) -> dict[str, str]:
    """A better ``msg`` for a module's result that sudo has kept from running; empty for others."""
    said = str(result.get("module_stderr", ""))
    return {"msg": _TTY} if "sudo: " in said and "must have a tty" in said else {}
