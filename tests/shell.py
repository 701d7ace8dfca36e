# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a playbook of an owner is run with, and from."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# What the gate sets to pack modules once, of which nobody sees anything: tests/tools/callbacks/kept_payloads.py
_OF_THE_GATE = ("ANSIBLE_CALLBACK_PLUGINS", "ANSIBLE_CALLBACKS_ENABLED")


def owners_environment() -> dict[str, str]:
    """The environment without settings of Ansible, and without molecule's, so that the repository's own hold."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _OF_THE_GATE or not name.startswith(("ANSIBLE_", "MOLECULE_"))
    } | {"COLUMNS": "200"}


def copy_collection(folder: Path) -> None:
    """What Ansible reads of this checkout, into a folder, for a test that imitates a part of it."""
    for name in ("collections", "data", "meta", "playbooks", "plugins", "recipes", "roles"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("ansible.cfg", "galaxy.yml"):
        shutil.copy(ROOT / name, folder)
