# SPDX-License-Identifier: GPL-3.0-or-later
"""The undo record of a host: what was there before the first change of it, written by the modules that change it.

``{late, files, folders, json, kernel, links}``. Of each thing the first value stays:

- files: ``{path: file}`` as in `_on_host.netplan.record.snapshot`, null where there was none; none of our own making
- folders: those that were made
- json: ``{path: {file, keys}}`` of files that others also write; keys: all that was ever
  merged into it, by names alone, as `json_settings.restored` takes it
- kernel: ``{name: value}`` of the running kernel, as `kernel_settings.read_live` names them
- links: ``{interface: {mtu, addresses}}``

late: it was begun on a host that an earlier release had converged. What it finds there may be ours, so that of a late
record only files without our mark are kept.
"""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..._base import layout
from ..._base.own_files import look, replace_file
from ..._host.settings.json_settings import both
from ..._on_host.netplan.record import snapshot

FILE = Path(layout.UNDO)
_LIBRARY = Path(layout.LIBRARY)
_MARK = b"gb10.fleet"
_KINDS = ("files", "folders", "json", "kernel", "links")


def read() -> tuple[dict[str, Any] | None, str]:
    """The record; or None, and why it can't be used: empty where there is none."""
    return look(FILE, _parsed)


def begin() -> dict[str, Any]:
    """The record, made where there is none. To be called before the first change."""
    found, why = read()
    if found is not None:
        return found
    # one that is damaged knows nothing any more, and what it knew is ours by now
    new: dict[str, Any] = {"late": bool(why) or _LIBRARY.exists(), **{kind: {} for kind in _KINDS}}
    _write(new)
    return new


def remember_file(path: Path) -> None:
    """Before a file or link is written or removed that may be an owner's."""
    if layout.is_own(str(path)):
        begin()
        return
    found = begin()
    if str(path) not in found["files"]:
        there = None if path.is_dir() and not path.is_symlink() else snapshot(path)
        is_ours = found["late"] and there is not None and _MARK in base64.b64decode(there.get("content", ""))
        found["files"][str(path)] = None if is_ours else there
        _write(found)


def remember_folder(path: Path) -> None:
    """Before a folder is made."""
    found = begin()
    if not layout.is_own(f"{path}/") and str(path) not in found["folders"]:
        found["folders"][str(path)] = None
        _write(found)


def remember_json(path: Path, keys: Mapping[str, object]) -> None:
    """Before keys of a file are set. keys: the settings, of which no value is kept: some are secrets."""
    found = begin()
    if found["late"] or layout.is_own(str(path)):
        return
    known = found["json"].get(str(path), {"file": snapshot(path), "keys": {}})
    found["json"][str(path)] = known | {"keys": both(known["keys"], _names(keys))}
    _write(found)


def remember(kind: str, values: Mapping[str, object]) -> None:
    """Before any of these are set, of ``kernel`` and ``links``; what is known stays. Of nothing, nothing is written: a
    host of which nothing is asked has no folder of ours."""
    if not values:
        return
    found = begin()
    if not found["late"] and not {*values} <= {*found[kind]}:
        found[kind] = {**values, **found[kind]}
        _write(found)


def _names(settings: Mapping[str, object]) -> dict[str, Any]:
    return {key: _names(value) if isinstance(value, Mapping) else None for key, value in settings.items()}


def _write(record: Mapping[str, object]) -> None:
    replace_file(FILE, json.dumps(record, indent=1, sort_keys=True).encode(), 0o600)


def _parsed(content: bytes) -> dict[str, Any]:
    record = json.loads(content)
    if not isinstance(record["late"], bool) or not all(isinstance(record[kind], dict) for kind in _KINDS):
        raise ValueError("it is no undo record")
    return dict(record)
