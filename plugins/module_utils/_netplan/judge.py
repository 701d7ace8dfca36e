# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What a change of netplan files would do to a host, judged by what netplan itself makes of them, before it is made.

netplan renders each set of files into a scratch folder (`netplan generate --root-dir`); which interface a file claims
is read from the result, so that `match:` patterns, files that override earlier ones, and both renderers are covered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils import _layout
from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding, FleetError, error
from ansible_collections.gb10.fleet.plugins.module_utils._netplan.document import MARK

Files = dict[str, bytes]
# netplan's own rendering of a set of files: {name: text}; RenderError when netplan refuses them
Render = Callable[[Mapping[str, bytes]], dict[str, str]]

FOLDERS = ("/lib/netplan", "/etc/netplan", "/run/netplan")
MOVED = f"{_layout.NETPLAN}/moved"
# Where the rendering of a folder's root lies.
RENDERED = ("run/systemd/network", "run/NetworkManager/system-connections")
_NAME_KEYS = ("Name", "OriginalName", "interface-name")
_MAC_KEYS = ("MACAddress", "PermanentMACAddress", "mac-address")


class RenderError(Exception):
    """netplan refuses the files; its own words."""


@dataclass(frozen=True)
class Host:
    """What is there: netplan's files, each link's MAC address by name, and the links that our SSH session comes over.

    Those are several where the session's address is that of a bridge, bond or VLAN.
    """

    files: Mapping[str, bytes]
    links: Mapping[str, str]
    ssh_links: Sequence[str]


@dataclass(frozen=True)
class Decision:
    """The files to write (None: to remove). moved: files of others that go aside, by path, with the copy's path."""

    files: Mapping[str, bytes | None]
    moved: Mapping[str, str]


def decide(
    host: Host,
    render: Render,
    path: str,
    content: str | None,
    interfaces: Iterable[str],
    *,
    move_foreign: bool,
    ssh_interface: str | None,
) -> Decision:
    """The files to change so that ``path`` holds ``content`` and nothing else speaks for ``interfaces``.

    content None: a file of ours is to go; one without our mark is left alone. Raises FleetError for what may not be.
    """
    names = sorted(interfaces)
    _refuse([_missing(name, host.links) for name in names if name not in host.links])
    wanted: Files = {other: text for other, text in host.files.items() if other != path}
    claims = {other: _claimed(render, other, text, host.links) for other, text in wanted.items()}
    foreign = {other: claimed for other, claimed in claims.items() if claimed & set(names)}
    if not move_foreign:
        _refuse([_claim(other, claimed & set(names)) for other, claimed in foreign.items()])
    _refuse([_shared(other, claimed - set(names)) for other, claimed in foreign.items() if claimed - set(names)])
    moved = {other: _copy_of(other, wanted.pop(other)) for other in sorted(foreign)}
    if content is not None:
        wanted[path] = content.encode("utf-8")
        # Whoever followed NVIDIA's playbook has a file of this name.
        if path in host.files and not _is_ours(host.files[path]):
            moved[path] = _copy_of(path, host.files[path])
    elif not _is_ours(host.files.get(path, b"")):
        wanted |= {path: host.files[path]} if path in host.files else {}
    _refuse_unrenderable(host, render, path, wanted, names, ssh_interface)
    return Decision(_difference(host.files, wanted) | {moved[other]: host.files[other] for other in moved}, moved)


def _difference(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, bytes | None]:
    return {path: after.get(path) for path in sorted({*before, *after}) if before.get(path) != after.get(path)}


def _is_ours(text: bytes) -> bool:
    return text.startswith(MARK.encode("ascii"))


def _copy_of(path: str, text: bytes) -> str:
    return f"{MOVED}/{Path(path).name}.{hashlib.sha256(text).hexdigest()[:8]}"


# Who speaks for an interface --------------------------------------------------------------------------------------


def governing(rendered: Mapping[str, str], name: str, mac: str) -> dict[str, str]:
    """The rendered files that match an interface by name or MAC address."""
    return {file: text for file, text in rendered.items() if any(_matches(text, name, mac))}


def _matches(text: str, name: str, mac: str) -> Iterator[bool]:
    """For each condition of a rendered file's match: whether the interface meets it."""
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key in _NAME_KEYS:
            yield any(fnmatchcase(name, pattern) for pattern in value.replace(";", " ").split())
        elif equals and key in _MAC_KEYS:
            yield mac.lower() in value.lower().split()


def _claimed(render: Render, path: str, text: bytes, links: Mapping[str, str]) -> set[str]:
    """The interfaces that a file on its own configures; none when it makes sense only together with others."""
    try:
        rendered = render({path: text})
    except RenderError:
        return set()
    return {name for name, mac in links.items() if governing(rendered, name, mac)}


# Refusals ---------------------------------------------------------------------------------------------------------


def _refuse(findings: Iterable[Finding]) -> None:
    found = tuple(findings)
    if found:
        raise FleetError(*found)


def _refuse_unrenderable(
    host: Host, render: Render, path: str, wanted: Mapping[str, bytes], names: list[str], ssh_interface: str | None
) -> None:
    """Files that netplan refuses, and a change of the interface that carries SSH."""
    others = {other: text for other, text in host.files.items() if other != path}
    try:
        present = _rendered_or(render, host.files, others)
    except RenderError as refusal:
        raise FleetError(_already_invalid(str(refusal))) from None
    try:
        planned = render(wanted)
    except RenderError as refusal:
        raise FleetError(_invalid(path, str(refusal))) from None
    if ssh_interface in host.ssh_links:
        return
    for name in host.ssh_links:
        mac = host.links.get(name, "")
        if governing(present, name, mac) != governing(planned, name, mac):
            raise FleetError(_carries_ssh(path, name))


def _rendered_or(render: Render, files: Mapping[str, bytes], instead: Mapping[str, bytes]) -> dict[str, str]:
    """The rendering of the files; where only our own file is broken, that of the others."""
    try:
        return render(files)
    except RenderError:
        return render(instead)


def _missing(name: str, links: Mapping[str, str]) -> Finding:
    present = ", ".join(sorted(links)) or "none"
    remedy = "correct the port in fleet_fabric, or look why the adapter is missing: `lspci -d 15b3:`, `dmesg`"
    return error(
        "netplan-no-interface",
        name,
        found=f"there is no such interface; there are {present}",
        remedy=remedy,
        kind="host",
    )


def _claim(path: str, claimed: set[str]) -> Finding:
    found = "also configures " + ", ".join(sorted(claimed))
    remedy = f"remove it, or run with -e fabric_foreign=move: it is then kept in {MOVED}"
    reason = "netplan joins all files: the interface would have both files' addresses"
    return error(
        "netplan-foreign-claim",
        path,
        found=found,
        expected="one file for each interface",
        remedy=remedy,
        reason=reason,
        kind="host",
    )


def _shared(path: str, others: set[str]) -> Finding:
    found = f"also configures {', '.join(sorted(others))}: it can't be moved as a whole"
    return error(
        "netplan-foreign-shared",
        path,
        found=found,
        expected="a file for the fabric alone",
        remedy="take the rails out of it by hand",
        kind="host",
    )


def _already_invalid(message: str) -> Finding:
    remedy = "repair them first: `netplan generate` on the host says the same"
    return error(
        "netplan-already-invalid",
        "/etc/netplan",
        found=f"netplan refuses the files as they are: {message}",
        remedy=remedy,
        kind="host",
    )


def _invalid(path: str, message: str) -> Finding:
    return error(
        "netplan-invalid",
        path,
        found=f"netplan refuses it: {message}",
        remedy="nothing was changed; correct the fabric",
        kind="host",
    )


def _carries_ssh(path: str, name: str) -> Finding:
    found = f"would change {name}, which this SSH connection comes over"
    remedy = f"run with -e fabric_ssh_interface={name} if you mean it: the host takes it back unless SSH works after it"
    return error(
        "netplan-ssh-interface",
        path,
        found=found,
        expected="interfaces of the fabric alone",
        remedy=remedy,
        kind="host",
    )


def describe(decision: Decision, before: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """The decision as Ansible's diff. What goes aside is named, not shown: it may hold passwords."""
    diff = []
    for path, text in decision.files.items():
        if path in decision.moved:
            diff.append(
                {
                    "before": f"{path}\n",
                    "after": f"{decision.moved[path]}\n",
                    "before_header": path,
                    "after_header": "moved aside",
                }
            )
        if path not in decision.moved.values() and (path not in decision.moved or text is not None):
            shown = b"" if path in decision.moved else before.get(path, b"")
            diff.append(
                {
                    "before": shown.decode("utf-8", "replace"),
                    "after": (text or b"").decode("utf-8", "replace"),
                    "before_header": path,
                    "after_header": path,
                }
            )
    return diff
