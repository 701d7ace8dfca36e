# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Changes a host's netplan files so that it can't lock its owner out. Runs on the host itself, without the controller.

A change is staged as one file (``change.json``) with the old and the new bytes, then carried out by the unit
``gb10-netplan-change.service``::

    staged -> applying -> applied -> confirmed
                 |           |
                 +-----------+--> restored     not confirmed in time, netplan failed, an address missing

systemd runs ``settle`` however the main process ended (ExecStopPost), so killing it restores too. Should the host lose
power in between, ``gb10-netplan-recover.service`` restores at boot, before the network starts. A confirmation comes
from the controller over an SSH connection that it opened after the change was applied.

Taking back relies on nothing that may be broken by then: space on the disk is set aside before the change, each step is
tried whatever became of the one before, and where netplan or networkd no longer work, `ip` puts back what was there.

Standard library only: the role installs this very file, and `links` beside it, as the units' program.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .links import (
    COMMAND_TIMEOUT_S,
    CommandError,
    differences,
    networkd_is_busy,
    read_links,
    read_routes,
    read_state,
    remnants,
    renamings,
    run,
    try_ip,
    try_to,
    unmet,
    virtual_devices,
)

UNIT = "gb10-netplan-change.service"
# On the root file system: it is read at boot before any other is mounted.
STATE = Path("/etc/gb10-fleet/netplan")
# The answer that starts the change still has to reach the controller.
GRACE_S = 1.0
CALM_S = 3.0
CALM_LIMIT_S = 15.0
# With a command that hangs and all waits, the old files are back and applied within 90 s of the start.
WINDOW_S = 30.0
SETTLE_LIMIT_S = 15.0
POLL_S = 0.2
UNSETTLED = ("applying", "applied")
# Room to write the old files and this record on a disk that has become full.
RESERVE_BYTES = 256 << 10

Change = dict[str, Any]


# Files ------------------------------------------------------------------------------------------------------------


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


def _give_room() -> None:
    (STATE / "reserve").unlink(missing_ok=True)


def load() -> Change | None:
    """The last change, in whatever phase it is."""
    try:
        change: Change = json.loads((STATE / "change.json").read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    return change


def save(change: Change, **news: Any) -> None:
    change.update(news)
    STATE.mkdir(parents=True, exist_ok=True, mode=0o700)
    put(STATE / "change.json", _own_file(json.dumps(change).encode("ascii")))


def _own_file(content: bytes) -> dict[str, Any]:
    encoded = base64.b64encode(content).decode("ascii")
    return {"content": encoded, "mode": 0o600, "uid": os.geteuid(), "gid": os.getegid()}


def stage(
    identity: str, files: Mapping[str, Mapping[str, Any] | None], interfaces: Sequence[Mapping[str, Any]]
) -> Change:
    """Prepare a change of files (path -> as in `snapshot`, None to remove) without making it.

    interfaces: what must be there afterwards, {name, address, mtu}.
    """
    before = {path: snapshot(Path(path)) for path in files}
    change = {"id": identity, "phase": "staged", "before": before, "after": dict(files), "interfaces": [*interfaces]}
    (STATE / "confirmed").unlink(missing_ok=True)
    # Random, so that a file system which packs files does not make it small.
    put(STATE / "reserve", _own_file(os.urandom(RESERVE_BYTES)))
    save(change, links=read_links(), routes=read_routes(), reason="")
    return change


# The change -------------------------------------------------------------------------------------------------------


def change_and_wait(change: Change) -> None:
    """Carry the staged change out and wait for the confirmation; CommandError says why it is to be taken back."""
    save(change, phase="applying")
    time.sleep(GRACE_S)
    for path, file in change["after"].items():
        put(Path(path), file)
    run(["netplan", "apply"])
    _wait_for_calm()
    if problems := unmet(change["interfaces"], read_links()):
        raise CommandError("after `netplan apply` " + "; ".join(problems))
    save(change, phase="applied")
    deadline = time.monotonic() + WINDOW_S
    while time.monotonic() < deadline:
        if _confirmed(change):
            save(change, phase="confirmed")
            _give_room()
            return
        time.sleep(POLL_S)
    raise CommandError("no new SSH connection confirmed the change in time")


def _wait_for_calm() -> None:
    """Until addresses and routes have stood still: what comes late must not come after the confirmation.

    netplan apply returns while networkd is still at work; on a busy host, seconds before the harm is done.
    """
    began = calm_since = time.monotonic()
    seen = ""
    while time.monotonic() < began + CALM_LIMIT_S:
        now = read_state()
        if now != seen or networkd_is_busy():
            seen, calm_since = now, time.monotonic()
        elif time.monotonic() > calm_since + CALM_S:
            return
        time.sleep(POLL_S)


def _confirmed(change: Change) -> bool:
    answer = STATE / "confirmed"
    return answer.exists() and answer.read_text(encoding="ascii") == str(change["id"])


def confirm(identity: str) -> Change | None:
    """Confirm the applied change with this id; returns the change as it is then."""
    change = load()
    if change is None or change["id"] != identity or change["phase"] != "applied":
        return change
    (STATE / "confirmed").write_text(identity, encoding="ascii")
    deadline = time.monotonic() + COMMAND_TIMEOUT_S
    while change is not None and change["phase"] == "applied" and time.monotonic() < deadline:
        time.sleep(POLL_S)
        change = load()
    return change


# Taking it back ---------------------------------------------------------------------------------------------------


def settle(change: Change) -> None:
    """Take an unconfirmed change back: files, names, what netplan sets, and what it leaves behind."""
    _restore_files(change)
    if _is_shutting_down():
        save(change, phase="restored", reason="the host shut down before the change was confirmed")
        return
    brought = virtual_devices()
    try_ip(lambda: renamings(change["links"], read_links()))
    if not try_to(["netplan", "apply"]):
        # A reload renders the files anew, by netplan's generator.
        try_to(["systemctl", "daemon-reload"])
        try_to(["systemctl", "restart", "systemd-networkd"])
        try_to(["systemctl", "try-restart", "NetworkManager"])
    try_ip(lambda: remnants(change["links"], read_links(), brought - virtual_devices()))
    deadline = time.monotonic() + SETTLE_LIMIT_S
    while time.monotonic() < deadline and _differs(change):
        time.sleep(POLL_S)
    try_ip(lambda: differences(change, read_links(), read_routes()))
    save(change, phase="restored", reason=change["reason"] or "the change was interrupted")


def recover(change: Change) -> None:
    """After a reboot nothing of the change lives on but its files, and what netplan's systemd generator made of them.

    `netplan generate` would wait for udevd, which starts later.
    """
    _restore_files(change)
    try_to(["systemctl", "daemon-reload"])
    save(change, phase="restored", reason="the host restarted before the change was confirmed")


def _restore_files(change: Change) -> None:
    _give_room()
    for path, file in change["before"].items():
        try:
            put(Path(path), file)
        except OSError as error:
            print(f"{path}: {error}", file=sys.stderr)


def _is_shutting_down() -> bool:
    """The network goes away anyhow, and comes back from the old files."""
    try:
        return run(["systemctl", "show", "--property=SystemState", "--value"]).strip() == "stopping"
    except (CommandError, OSError):
        return False


def _differs(change: Change) -> bool:
    try:
        return bool(differences(change, read_links(), read_routes()))
    except CommandError:
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description="Change netplan files; take the change back unless it is confirmed.")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("run", help=f"carry out the staged change ({UNIT})")
    actions.add_parser("settle", help="take it back unless it was confirmed (ExecStopPost)")
    actions.add_parser("recover", help="take it back after a reboot, before the network starts")
    actions.add_parser("status", help="say which change is in which phase")
    actions.add_parser("confirm", help="confirm an applied change").add_argument("id")
    options = parser.parse_args()
    change = load()
    if options.action in ("status", "confirm"):
        known = change if options.action == "status" else confirm(options.id)
        print(json.dumps({key: known[key] for key in ("id", "phase", "reason")} if known else {}))
    elif change is not None and options.action == "run" and change["phase"] == "staged":
        try:
            change_and_wait(change)
        except (CommandError, OSError) as error:
            change["reason"] = str(error)
            with contextlib.suppress(OSError):
                save(change)
            sys.exit(str(error))
    elif change is not None and change["phase"] == "staged" and options.action == "settle":
        _give_room()
        save(change, phase="restored", reason=change["reason"] or "the change could not begin, see the unit's journal")
    elif change is not None and change["phase"] in UNSETTLED:
        {"settle": settle, "recover": recover}[options.action](change)
