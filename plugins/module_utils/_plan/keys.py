# SPDX-License-Identifier: GPL-3.0-or-later
"""Files on the controller that hold a secret: a service's API key, which the owner names or a run makes for him,
passwords of registries and the hub's token."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from .._base import secret_files, worded
from .._base.findings import Finding, error
from .._base.place import Place
from .._engines.declaration import ServiceData

# Beside the inventory, in a folder that no inventory plugin reads.
MADE = ".fleet/keys"
# A header's value without quoting anywhere on its way, which no engine takes for an option of its own.
_KEY = re.compile(r"[A-Za-z0-9._~+/=][A-Za-z0-9._~+/=-]{15,}")


def key_file(service_name: str, service: ServiceData, folder: Path) -> Iterator[Finding]:
    """Decide the file: ``api_key_file`` becomes absolute, None for an open service; ``key_made`` says that a run makes
    it. folder: of the inventory. A key that isn't there or can't work would be missed after hours of staging."""
    place, named = Place(service=service_name), service.get("api_key_file")
    service["key_made"] = not named and not service["open"]
    if service["open"]:
        service["api_key_file"] = None
        if named:
            yield worded.error("input-key-file/key-file", place.below("open"))
        return
    path, place = folder / (named or f"{MADE}/{service_name}.key"), place.below("api_key_file")
    service["api_key_file"] = str(path)
    if named or path.is_file():
        remedy = "write the key into it, mode 0600 or encrypted with ansible-vault; or remove api_key_file: it is made"
        text = yield from secret_files.named(
            "input-key-file", place, path, expected="a file with the key", remedy=remedy, most=1 << 20
        )
        yield from key_problems(place, path, text) if text is not None else ()
    elif other := _in_the_way(path):
        yield worded.error("input-key-file/key-file-that", place, other=other, path=path)


def secret_file(place: Place, path: Path, what: str) -> Iterator[Finding]:
    """Why a file that the owner names can't be what it is named for. what: of whom it holds the password or token. Its
    content is nowhere in a finding."""
    rule, expected = "input-secret-file", f"a file of this machine with {what}, in one line"
    remedy = "write it into that file, mode 0600 or encrypted with ansible-vault"
    text = yield from secret_files.named(rule, place, path, expected=expected, remedy=remedy)
    if text is not None and not (text.strip() and text.strip().isprintable()):
        found = f"{path} holds more than one line" if text.strip() else f"{path} is empty"
        yield error(rule, place, found=found, expected=expected, remedy=remedy)


def _in_the_way(path: Path) -> Path | None:
    """What is there instead of the file, or of a folder on the way to it."""
    there = next(folder for folder in (path, *path.parents) if os.path.lexists(folder))
    return None if there != path and there.is_dir() else there


def key_problems(place: Place, path: Path, text: str) -> Iterator[Finding]:
    """Why a key can't work. The key itself is nowhere in a finding: findings are printed and kept."""
    words = text.strip()
    if not _KEY.fullmatch(words):
        fault = "is empty" if not words else "holds something else, or more than one word"
        yield worded.error("input-key-file/key-problems", place, path=path, fault=fault)
