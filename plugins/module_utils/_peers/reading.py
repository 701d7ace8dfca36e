# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Reads who may come to a host for images and models, and by which public keys hosts know each other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._probe.parts import Part
from ansible_collections.gb10.fleet.plugins.module_utils._transfer import access

HOST_KEY = Path("/etc/ssh/ssh_host_ed25519_key.pub")


def read_peers(
    authorized: Path = Path(access.AUTHORIZED_KEYS),
    known: Path = Path(access.KNOWN_HOSTS),
    public: Path = Path(f"{access.KEY}.pub"),
    host_key: Path = HOST_KEY,
) -> dict[str, Any]:
    """``{authorized: {name: line}, known: {name: key}, public_key, host_key}``; keys are empty where there are none.

    authorized: the lines of the account's ``authorized_keys``, by the reader's name at their end.
    """
    return {
        "authorized": {line.rpartition(f"{access.ACCOUNT}@")[2]: line for line in _text(authorized).splitlines()},
        "known": {name: key for name, _, key in (line.partition(" ") for line in _text(known).splitlines())},
        "public_key": access.bare(_text(public)),
        "host_key": access.bare(_text(host_key)),
    }


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


READS: Mapping[str, Part] = {"peers": lambda _run, _ask: read_peers()}
