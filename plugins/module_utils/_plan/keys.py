# SPDX-License-Identifier: GPL-3.0-or-later
"""Files on the controller that hold a secret: a service's API key, which the owner names or a run makes for him,
passwords of registries and the hub's token."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .._base import secret_files
from .._base.findings import Finding, error

# Beside the inventory, in a folder that no inventory plugin reads.
MADE = ".fleet/keys"
# A header's value without quoting anywhere on its way, which no engine takes for an option of its own; what an endless
# file may cost to find that it is none.
_KEY = re.compile(r"[A-Za-z0-9._~+/=][A-Za-z0-9._~+/=-]{15,}")
_KEY_BYTES = 4096


def key_file(service_name: str, service: dict[str, Any], folder: Path) -> Iterator[Finding]:
    """Decide the file: ``api_key_file`` becomes absolute, None for an open service; ``key_made`` says that a run makes
    it. folder: of the inventory. A key that isn't there or can't work would be missed after hours of staging."""
    place, named = f"fleet_services.{service_name}", service.get("api_key_file")
    service["key_made"] = not named and not service["open"]
    if service["open"]:
        service["api_key_file"] = None
        if named:
            yield error(
                "input-key-file",
                f"{place}.open",
                found="true, and api_key_file as well",
                expected="one of the two",
                remedy="remove open to ask clients for the key, or api_key_file to ask nobody",
            )
        return
    path = folder / (named or f"{MADE}/{service_name}.key")
    service["api_key_file"] = str(path)
    if path.is_file():
        yield from _content_problems(f"{place}.api_key_file", path)
    elif named:
        yield error(
            "input-key-file",
            f"{place}.api_key_file",
            found=f"no file {path}",
            expected="a file with the key",
            remedy="write the key into it, mode 0600 or encrypted with ansible-vault; or remove api_key_file, and "
            "a key is made",
        )
    elif other := _in_the_way(path):
        yield error(
            "input-key-file",
            f"{place}.api_key_file",
            found=f"{other} is in the way of the key that is made",
            expected=f"nothing at {path}, or a file with the key",
            remedy=f"mv {other} {other}.damaged",
        )


def secret_file(place: str, path: Path, what: str) -> Iterator[Finding]:
    """Why a file that the owner names can't be what it is named for. what: of whom it holds the password or token. Its
    content is nowhere in a finding."""
    if not path.is_file():
        found = f"no file {path}" if not os.path.lexists(path) else f"{path} is no file"
    else:
        try:
            content = secret_files.read(path, _KEY_BYTES)
        except OSError as problem:
            found = f"{path} can't be read: {problem.strerror}"
        else:
            if content is None or _is_one_line(content):
                return
            found = f"{path} is empty" if not content.strip() else f"{path} holds more than one line"
    yield error(
        "input-secret-file",
        place,
        found=found,
        expected=f"a file of this machine with {what}, in one line",
        remedy="write it into that file, mode 0600 or encrypted with ansible-vault",
    )


def _is_one_line(content: bytes) -> bool:
    words = content.decode("utf-8", "replace").strip()
    return words.isprintable() and bool(words) and len(content) <= _KEY_BYTES


def _in_the_way(path: Path) -> Path | None:
    """What is there instead of the file, or of a folder on the way to it."""
    there = next(one for one in (path, *path.parents) if os.path.lexists(one))
    return None if there != path and there.is_dir() else there


def _content_problems(place: str, path: Path) -> Iterator[Finding]:
    content = secret_files.read(path, _KEY_BYTES)
    if content is not None:
        yield from key_problems(place, path, content)
        yield from secret_files.others_may_read("input-key-file", place, path)


def key_problems(place: str, path: Path, content: bytes) -> Iterator[Finding]:
    """Why a key can't work. The key itself is nowhere in a finding: findings are printed and kept."""
    words = content.decode("utf-8", "replace").strip()
    if not _KEY.fullmatch(words):
        fault = "is empty" if not words else "holds something else, or more than one word"
        yield error(
            "input-key-file",
            place,
            found=f"{path} {fault}",
            expected="one key of at least 16 characters of A-Z, a-z, 0-9 and ._~+/=-, which begins with no -",
            remedy=f"(umask 077; openssl rand -hex 32 > {path})",
        )
