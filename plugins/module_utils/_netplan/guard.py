# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Changes a host's netplan files so that it can't lock its owner out. Runs on the host itself, without the controller.

A change is staged as one file (``change.json``) with the old and the new bytes, then carried out by the unit
``gb10-netplan-change.service``::

    staged -> applying -> applied -> confirmed
                 |           |
                 +-----------+--> restoring -> restored     not confirmed in time, netplan failed, an address missing

systemd runs ``settle`` however the main process ended (ExecStopPost), so killing it restores too. Should the host lose
power in between, ``gb10-netplan-recover.service`` restores at boot, before the network starts. A confirmation comes
from the controller over an SSH connection that it opened after the change was applied.

Standard library only: the role installs this very file as the units' program.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

UNIT = "gb10-netplan-change.service"
# On the root file system: it is read at boot before any other is mounted.
STATE = Path("/etc/gb10-fleet/netplan")
# Where netplan renders to.
NETWORKD = Path("/run/systemd/network")
# The answer that starts the change still has to reach the controller.
GRACE_S = 1.0
# netplan apply takes 1 to 2 s on an idle host. Two that hang, and all waits, end within 90 s of the start.
COMMAND_TIMEOUT_S = 20.0
CALM_S = 3.0
CALM_LIMIT_S = 15.0
WINDOW_S = 30.0
POLL_S = 0.2
_BUSY = ("pending", "initialized", "configuring")
UNSETTLED = ("applying", "applied", "restoring")

Change = dict[str, Any]


# Files ------------------------------------------------------------------------------------------------------------


def snapshot(path: Path) -> dict[str, Any] | None:
    """A file's bytes (base64), mode and owner as JSON, or None where there is none."""
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
        part.touch(mode=0o600)
        with part.open("wb") as stream:
            stream.write(base64.b64decode(file["content"]))
            os.fchown(stream.fileno(), file["uid"], file["gid"])
            os.fchmod(stream.fileno(), file["mode"])
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def load(state: Path = STATE) -> Change | None:
    """The last change, in whatever phase it is."""
    try:
        change: Change = json.loads((state / "change.json").read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    return change


def save(change: Change, state: Path = STATE, **news: Any) -> None:
    change.update(news)
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    content = base64.b64encode(json.dumps(change).encode("ascii")).decode("ascii")
    put(state / "change.json", {"content": content, "mode": 0o600, "uid": os.geteuid(), "gid": os.getegid()})


def stage(
    identity: str, files: Mapping[str, Mapping[str, Any] | None], interfaces: Sequence[Mapping[str, Any]]
) -> Change:
    """Prepare a change of files (path -> as in `snapshot`, None to remove) without making it.

    interfaces: what must be there afterwards, {name, address, mtu}.
    """
    before = {path: snapshot(Path(path)) for path in files}
    change = {"id": identity, "phase": "staged", "before": before, "after": dict(files), "interfaces": [*interfaces]}
    (STATE / "confirmed").unlink(missing_ok=True)
    save(change, links=read_links(), reason="")
    return change


# Links ------------------------------------------------------------------------------------------------------------


def read_links() -> list[dict[str, Any]]:
    """`ip -j address show`: every interface with its index, name, MTU, flags and addresses."""
    links: list[dict[str, Any]] = json.loads(run(["ip", "-j", "address", "show"]))
    return [link for link in links if link.get("ifname")]


def unmet(interfaces: Iterable[Mapping[str, Any]], links: Iterable[Mapping[str, Any]]) -> list[str]:
    """What of {name, address, mtu} is not so, in words."""
    present = {link["ifname"]: link for link in links}
    return [problem for wanted in interfaces for problem in _link_problems(wanted, present.get(wanted["name"]))]


def _link_problems(wanted: Mapping[str, Any], link: Mapping[str, Any] | None) -> Iterator[str]:
    name, address = wanted["name"], wanted["address"]
    if link is None:
        yield f"there is no interface {name}"
        return
    if wanted["mtu"] not in (None, link["mtu"]):
        yield f"{name} has MTU {link['mtu']}, not {wanted['mtu']}"
    if "UP" not in link["flags"]:
        yield f"{name} is down"
    # Without a carrier, not every renderer sets addresses.
    elif "LOWER_UP" in link["flags"] and address is not None and addresses(link) != {address}:
        yield f"{name} has {', '.join(sorted(addresses(link))) or 'no address'}, not {address}"


def addresses(link: Mapping[str, Any]) -> set[str]:
    """The IPv4 addresses of a link with their prefixes."""
    return {f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"] if one["family"] == "inet"}


def renamings(before: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """`ip` commands that give links their old names, MAC addresses and independence back.

    netplan applies set-name, macaddress and a bridge's membership, but does not take them back.
    """
    old = {link["ifindex"]: link for link in before}
    commands = []
    for link in now:
        was = old.get(link["ifindex"])
        if was is None:
            continue
        name = link["ifname"]
        if link.get("master") and not was.get("master"):
            commands.append(["link", "set", name, "nomaster"])
        if name != was["ifname"]:
            commands += [["link", "set", name, "down"], ["link", "set", name, "name", was["ifname"]]]
            name = was["ifname"]
        if link.get("address") != was.get("address"):
            commands.append(["link", "set", name, "address", was["address"]])
    return commands


def remnants(
    before: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]], devices: Iterable[str]
) -> list[list[str]]:
    """`ip` commands for what the old files, applied again, left behind: bridges and the like, MTU, links that are down.

    devices: the names of bridges, bonds and VLANs that the change brought. Other new links belong to somebody else.
    """
    old = {link["ifindex"]: link for link in before}
    brought = set(devices)
    commands = []
    for link in now:
        name = link["ifname"]
        was = old.get(link["ifindex"])
        if was is None:
            commands += [["link", "delete", name]] if name in brought else []
            continue
        if link["mtu"] != was["mtu"]:
            commands.append(["link", "set", name, "mtu", str(was["mtu"])])
        if "UP" in was["flags"] and "UP" not in link["flags"]:
            commands.append(["link", "set", name, "up"])
    return commands


# Commands ---------------------------------------------------------------------------------------------------------


def run(command: Sequence[str]) -> str:
    """Standard output; CommandError with what the command said when it fails or takes too long."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=COMMAND_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise CommandError(f"`{' '.join(command)}` took more than {COMMAND_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise CommandError(f"`{' '.join(command)}` ended with {done.returncode}: {said}")
    return done.stdout


class CommandError(Exception):
    """A command that failed, with its own words."""


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
        now = json.dumps([read_links(), json.loads(run(["ip", "-j", "route", "show", "table", "all"]))])
        if now != seen or _networkd_is_busy():
            seen, calm_since = now, time.monotonic()
        elif time.monotonic() > calm_since + CALM_S:
            return
        time.sleep(POLL_S)


def _networkd_is_busy() -> bool:
    """Whether a link with a carrier is still being configured; False where networkd does not run."""
    try:
        links = json.loads(run(["networkctl", "--json=short", "list"]))["Interfaces"]
    except (CommandError, OSError, ValueError):
        return False
    return any(link["CarrierState"] == "carrier" and link["AdministrativeState"] in _BUSY for link in links)


def _confirmed(change: Change) -> bool:
    answer = STATE / "confirmed"
    return answer.exists() and answer.read_text(encoding="ascii") == str(change["id"])


def confirm(identity: str) -> Change | None:
    """Confirm the applied change with this id; returns the change as it is then."""
    change = load()
    if change is None or change["id"] != identity or change["phase"] != "applied":
        return change
    (STATE / "confirmed").write_text(identity, encoding="ascii")
    while change is not None and change["phase"] == "applied":
        time.sleep(POLL_S)
        change = load()
    return change


def restore_files(change: Change) -> None:
    for path, file in change["before"].items():
        put(Path(path), file)


def settle(change: Change) -> None:
    """Take an unconfirmed change back: files, names, what netplan sets, and what it leaves behind."""
    save(change, phase="restoring", reason=change["reason"] or "the change was interrupted")
    brought = virtual_devices()
    restore_files(change)
    _try_all(renamings(change["links"], read_links()))
    with contextlib.suppress(CommandError):
        run(["netplan", "apply"])
    _try_all(remnants(change["links"], read_links(), brought - virtual_devices()))
    save(change, phase="restored")


def virtual_devices(folder: Path = NETWORKD) -> set[str]:
    """The names of the bridges, bonds, VLANs and the like that netplan has networkd make."""
    texts = (path.read_text(encoding="utf-8", errors="replace") for path in folder.glob("*.netdev"))
    return {line[5:].strip() for text in texts for line in text.splitlines() if line.startswith("Name=")}


def recover(change: Change) -> None:
    """After a reboot nothing of the change lives on but its files, and what netplan's systemd generator made of them.

    `netplan generate` would wait for udevd, which starts later.
    """
    restore_files(change)
    run(["systemctl", "daemon-reload"])
    save(change, phase="restored", reason="the host restarted before the change was confirmed")


def _try_all(commands: Iterable[Sequence[str]]) -> None:
    """Each on its own: one that is no longer possible does not keep the others from helping."""
    for command in commands:
        with contextlib.suppress(CommandError):
            run(["ip", *command])


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
            save(change, reason=str(error))
            sys.exit(str(error))
    elif change is not None and change["phase"] == "staged" and options.action == "settle":
        save(change, phase="restored", reason=change["reason"] or "the change could not begin, see the unit's journal")
    elif change is not None and change["phase"] in UNSETTLED:
        {"settle": settle, "recover": recover}[options.action](change)


if __name__ == "__main__":
    main()
