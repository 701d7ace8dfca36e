# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes a host's netplan files so that it can't lock its owner out. Runs on the host itself, without the controller.

A change is staged as one record (`record`) with the old and the new bytes, then carried out by the unit
``gb10-netplan-change.service``::

    staged -> applying -> applied -> confirmed
                 |           |
                 +-----------+--> restored     not confirmed in time, netplan failed, an address missing

A confirmation comes from the controller over an SSH connection that it opened after the change was applied. A change
whose confirmation can't be recorded on the disk is taken back: the next boot would do so anyhow.

Each way back relies on less than the one before:

- the process that made the change takes it back itself, from its memory;
- was it killed, or did systemd's watchdog find it stuck, then systemd runs ``settle`` (ExecStopPost);
- does this program no longer work either, then a shell script that was written before the change (`staging.way_back`);
- after a loss of power ``gb10-netplan-recover.service`` does the same before the network starts.

Taking back relies on nothing that may be broken by then: space on the disk is set aside before the change, each step is
tried whatever became of the one before, what can't be written in /etc/netplan is shadowed in /run/netplan, and where
netplan or its renderer no longer work, `ip` puts back what was there.

Standard library only: the role installs this very file, `record` and `links` beside it, as the units' program.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .links import (
    CommandError,
    alive,
    differences,
    is_busy,
    read_links,
    read_routes,
    read_state,
    remnants,
    renamings,
    renderers,
    run,
    try_ip,
    try_to,
    unmet,
    virtual_devices,
)
from .record import CONFIRMED, RUN, UNSETTLED, Change, forget_way_back, give_room, load, own_file, put, save, snapshot

UNIT = "gb10-netplan-change.service"
# The answer that starts the change still has to reach the controller.
GRACE_S = 1.0
CALM_S = 3.0
# Each look is five commands; a shorter pause finds nothing more, and takes a tenth of a processor.
CALM_POLL_S = 0.5
# NetworkManager starts anew at each `netplan apply`, and waits for carriers, leases and Wi-Fi.
CALM_LIMIT_S = 30.0
# With a command that hangs and all waits, the old files are back and applied within 90 s of the start.
WINDOW_S = 30.0
SETTLE_LIMIT_S = 15.0
POLL_S = 0.2
NETPLAN = "/etc/netplan/"
# netplan reads a file of this folder instead of one of the same name in /etc/netplan.
SHADOWS = Path("/run/netplan")
_NOTHING = b"network: {version: 2}\n"


# The change -------------------------------------------------------------------------------------------------------


def change_and_wait(change: Change) -> None:
    """Carry the staged change out and wait for the confirmation; CommandError says why it is to be taken back."""
    save(change, strict=True, phase="applying")
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
        alive()
        if _confirmed(change):
            try:
                save(change, strict=True, phase="confirmed")
            except OSError as error:
                raise CommandError(f"the confirmation can't be recorded on the disk: {error}") from None
            give_room()
            forget_way_back()
            return
        time.sleep(POLL_S)
    raise CommandError("no new SSH connection confirmed the change in time")


def _wait_for_calm() -> None:
    """Until addresses and routes have stood still: what comes late must not come after the confirmation.

    netplan apply returns while networkd or NetworkManager is still at work; on a busy host, seconds before the harm is
    done.
    """
    began = calm_since = time.monotonic()
    seen = ""
    while time.monotonic() < began + CALM_LIMIT_S:
        now = read_state()
        if now != seen or is_busy():
            seen, calm_since = now, time.monotonic()
        elif time.monotonic() > calm_since + CALM_S:
            return
        time.sleep(CALM_POLL_S)


def _confirmed(change: Change) -> bool:
    """Whether the controller has written this change's id; what else may stand in that file confirms nothing."""
    try:
        return (RUN / CONFIRMED).read_bytes() == str(change["id"]).encode("ascii")
    except OSError:
        return False


# Taking it back ---------------------------------------------------------------------------------------------------


def settle(change: Change, reason: str) -> None:
    """Take an unconfirmed change back: files, names, what netplan sets, and what it leaves behind."""
    unwritten = _restore_files(change)
    if _is_shutting_down():
        _settled(change, unwritten, "the host shut down before the change was confirmed")
        return
    brought = virtual_devices()
    try_ip(lambda: renamings(change["links"], read_links()))
    if not try_to(["netplan", "apply"]):
        # A reload renders the files anew, by netplan's generator.
        try_to(["systemctl", "daemon-reload"])
        for unit in renderers():
            try_to(["systemctl", "restart", unit])
    try_ip(lambda: remnants(change["links"], read_links(), brought - virtual_devices()))
    deadline = time.monotonic() + SETTLE_LIMIT_S
    while time.monotonic() < deadline and _differs(change):
        time.sleep(POLL_S)
    try_ip(lambda: differences(change, read_links(), read_routes()))
    _settled(change, unwritten, reason)


def recover(change: Change) -> None:
    """After a reboot nothing of the change lives on but its files, and what netplan's systemd generator made of them.

    `netplan generate` would wait for udevd, which starts later.
    """
    unwritten = _restore_files(change)
    try_to(["systemctl", "daemon-reload"])
    _settled(change, unwritten, "the host restarted before the change was confirmed")


def _settled(change: Change, unwritten: Mapping[str, tuple[str, str]], reason: str) -> None:
    """Record the end. unwritten: for each file that could not be put back its shadow, and why."""
    for path, (shadow, why) in unwritten.items():
        instead = (
            f"its old text is in effect from {shadow} until a restart" if shadow else "it is as the change left it"
        )
        reason += f"; {path} could not be put back ({why}): {instead}"
    save(change, phase="restored", reason=reason, unwritten={path: shadow for path, (shadow, _) in unwritten.items()})
    forget_way_back()


def _restore_files(change: Change) -> dict[str, tuple[str, str]]:
    """Put the old files back; for each that can't be written where it is shadowed ("": nowhere), and why."""
    give_room()
    unwritten = {}
    for path, file in change["before"].items():
        try:
            if snapshot(Path(path)) != file:
                put(Path(path), file)
        except OSError as error:
            print(f"{path}: {error}", file=sys.stderr)
            unwritten[path] = (_shadow(path, file), str(error.strerror))
    return unwritten


def _shadow(path: str, file: Mapping[str, Any] | None) -> str:
    """Have netplan read the old text from another folder; "" where that is not possible."""
    if not path.startswith(NETPLAN):
        return ""
    target = SHADOWS / Path(path).name
    if file is None:
        file = own_file(_NOTHING)
    elif "link" in file:
        file = {"link": str(Path(path).parent / file["link"])}
    try:
        put(target, file)
    except OSError as error:
        print(f"{target}: {error}", file=sys.stderr)
        return ""
    return str(target)


def _is_shutting_down() -> bool:
    """The network goes away anyhow, and comes back from the old files."""
    try:
        return run(["systemctl", "show", "--property=SystemState", "--value"]).strip() == "stopping"
    except (CommandError, OSError):
        return False


def _differs(change: Change) -> bool:
    try:
        return bool(differences(change, read_links(), read_routes()))
    except (CommandError, OSError, ValueError):
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description="Change netplan files; take the change back unless it is confirmed.")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("run", help=f"carry out the staged change, or settle one that never was ({UNIT})")
    actions.add_parser("settle", help="take it back unless it was confirmed (ExecStopPost)")
    actions.add_parser("recover", help="take it back after a reboot, before the network starts")
    action = parser.parse_args().action
    change = load()
    if change is None:
        # With a script left over, the record that is missing or damaged was that of an unsettled change.
        sys.exit("there is no record of a change")
    if action == "recover":
        if change["phase"] in UNSETTLED or change["unwritten"]:
            recover(change)
        forget_way_back()
    elif change["phase"] in UNSETTLED:
        settle(change, "the change was interrupted")
    elif change["phase"] == "staged" and action == "settle":
        give_room()
        _settled(change, {}, "the change could not begin, see the unit's journal")
    elif change["phase"] == "staged":
        try:
            change_and_wait(change)
        except (CommandError, OSError) as error:
            settle(change, str(error))
            sys.exit(str(error))
