# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a network change, as files on the host: written whole, kept twice, set aside when it can't be read.

``change.json`` holds the whole change, ``status.json`` what the controller asks for ({id, phase, reason, step}); both
stand in STATE, which outlives a power cut, and in RUN, which can be written when /etc no longer can. Of two copies the
one with the higher ``step`` is the newer.

Standard library only, and beside `guard` on the host.
"""

import base64
import contextlib
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# On the root file system: it is read at boot before any other is mounted.
STATE = Path("/etc/gb10-fleet/netplan")
RUN = Path("/run/gb10-netplan")
CHANGE = "change.json"
STATUS = "status.json"
CONFIRMED = "confirmed"
WAY_BACK = "way-back.sh"
UNSETTLED = ("applying", "applied")
PHASES = ("staged", *UNSETTLED, "confirmed", "restored")
# Room to write the old files and this record on a disk that has become full.
RESERVE_BYTES = 256 << 10
_RESERVE = "reserve"
_STATUS_KEYS = ("id", "phase", "reason", "step")
_TYPES = {"id": str, "reason": str, "before": dict, "after": dict, "interfaces": list, "links": list, "routes": list}

Change = dict[str, Any]


# One file ---------------------------------------------------------------------------------------------------------


def snapshot(path: Path) -> dict[str, Any] | None:
    """A file as JSON: its bytes (base64), mode and owner, or where a link leads; None where there is none."""
    if path.is_symlink():
        return {"link": str(path.readlink())}
    try:
        status = path.stat()
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    encoded = base64.b64encode(content).decode("ascii")
    return {"content": encoded, "mode": status.st_mode & 0o7777, "uid": status.st_uid, "gid": status.st_gid}


def put(path: Path, file: Mapping[str, Any] | None) -> None:
    """Make the file as in a snapshot: it is replaced whole, or removed. On disk when this returns."""
    if file is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.gb10")
        part.unlink(missing_ok=True)
        try:
            _write(part, file)
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def _write(path: Path, file: Mapping[str, Any]) -> None:
    if "link" in file:
        path.symlink_to(file["link"])
        return
    path.touch(mode=0o600)
    with path.open("wb") as stream:
        stream.write(base64.b64decode(file["content"]))
        os.fchown(stream.fileno(), file["uid"], file["gid"])
        os.fchmod(stream.fileno(), file["mode"])
        stream.flush()
        os.fsync(stream.fileno())


def own_file(content: bytes) -> dict[str, Any]:
    """A file of the guard's own, as in a snapshot."""
    encoded = base64.b64encode(content).decode("ascii")
    return {"content": encoded, "mode": 0o600, "uid": os.geteuid(), "gid": os.getegid()}


# The record -------------------------------------------------------------------------------------------------------


def read() -> tuple[Change | None, list[Path]]:
    """The last change, in whatever phase it is, and the copies of the record that can't be used. Changes nothing."""
    copies, damaged = [], []
    for folder in (STATE, RUN):
        path = folder / CHANGE
        try:
            copies.append(parse(path.read_bytes()))
        except FileNotFoundError:
            continue
        except (OSError, ValueError):
            damaged.append(path)
    return max(copies, key=lambda change: int(change["step"]), default=None), damaged


def parse(content: bytes) -> Change:
    """A record from its file's bytes; ValueError when it is none: cut off, empty, another type, a key missing."""
    change = json.loads(content)
    if not isinstance(change, dict) or change.get("phase") not in PHASES:
        raise ValueError("not the record of a change")
    wrong = [key for key, kind in _TYPES.items() if not isinstance(change.get(key), kind)]
    # A record of release 0.1 has neither of these.
    change = {"step": 0, "unwritten": {}} | change
    if wrong or not isinstance(change["step"], int) or not isinstance(change["unwritten"], dict):
        raise ValueError(f"the record lacks {', '.join(wrong) or 'a usable step'}")
    return change


def load() -> Change | None:
    """The last change. A copy that can't be used is set aside as ``change.json.damaged``."""
    change, damaged = read()
    for path in damaged:
        aside = path.with_name(f"{path.name}.damaged")
        print(f"{path} can't be read as the record of a change: set aside as {aside}", file=sys.stderr)
        with contextlib.suppress(OSError):
            path.replace(aside)
    return change


def save(change: Change, *, strict: bool = False, **news: Any) -> None:
    """Write both copies of the record.

    strict: OSError when one of them can't be written; without it, what can be written is.
    """
    change.update(news, step=change["step"] + 1)
    files = {
        CHANGE: own_file(json.dumps(change).encode("ascii")),
        STATUS: own_file(json.dumps({key: change[key] for key in _STATUS_KEYS}).encode("ascii") + b"\n"),
    }
    for folder in (STATE, RUN):
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for name, file in files.items():
                put(folder / name, file)
        except OSError as error:
            if strict:
                raise
            print(f"{folder}: {error}", file=sys.stderr)


def reserve_room() -> None:
    """Set room on the disk aside for taking the change back."""
    # Random, so that a file system which packs files does not make it small.
    put(STATE / _RESERVE, own_file(os.urandom(RESERVE_BYTES)))


def give_room() -> None:
    """Free what was set aside; where that is not possible, taking back goes on without."""
    with contextlib.suppress(OSError):
        (STATE / _RESERVE).unlink(missing_ok=True)


def forget_way_back() -> None:
    """The change is settled: the script that would take it back goes."""
    for folder in (STATE, RUN):
        with contextlib.suppress(OSError):
            (folder / WAY_BACK).unlink(missing_ok=True)
