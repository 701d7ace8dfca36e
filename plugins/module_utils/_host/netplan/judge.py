# SPDX-License-Identifier: GPL-3.0-or-later
"""What a change of netplan files would do to a host, judged by what netplan itself makes of them, before it is made.

netplan renders each set of files into a scratch folder (as `netplan generate --root-dir` does); which interface a file
claims is read from the result, so that `match:` patterns, files that override earlier ones, and both renderers are
covered.
"""

import hashlib
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from ..._base import layout
from ..._base.findings import Finding, FleetError, host_error
from ..._base.received import shell_word
from ..._base.slice import Interface

Files = dict[str, bytes]
# netplan's own rendering of a set of files: {name: text}; RenderError when netplan refuses them
Render = Callable[[Mapping[str, bytes]], dict[str, str]]

FOLDERS = ("/lib/netplan", "/etc/netplan", "/run/netplan")
MOVED = f"{layout.NETPLAN}/moved"
# Where the rendering of a folder's root lies.
RENDERED = ("run/systemd/network", "run/NetworkManager/system-connections")
# A ConnectX-7 half that is not asked for: the change may be what takes its address away.
_RAIL = re.compile(r"enP?\d*p1s0f[01]np[01]")
_NAME_KEYS = ("Name", "OriginalName", "interface-name")
_MAC_KEYS = ("MACAddress", "PermanentMACAddress", "mac-address")


class RenderError(Exception):
    """netplan refuses the files; its own words."""


@dataclass(frozen=True)
class Host:
    """What is there: netplan's files, each link's MAC address by name, and the links that our SSH session comes over.

    Those are several where the session's address is that of a bridge, bond or VLAN. altnames: an interface's other
    names, with its own. profiles: NetworkManager's own files, those that netplan did not write. routes: the lines of
    `ip -4 route`. absent: why there is no ConnectX-7, and what to do; empty where nothing is known.
    """

    files: Mapping[str, bytes]
    links: Mapping[str, str]
    ssh_links: Sequence[str]
    altnames: Mapping[str, str] = field(default_factory=dict)
    profiles: Mapping[str, str] = field(default_factory=dict)
    routes: Sequence[str] = ()
    absent: tuple[str, str] = ("", "")


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
    interfaces: Iterable[Interface],
    *,
    move_foreign: bool,
    ssh_interface: str | None,
) -> Decision:
    """The files to change so that ``path`` holds ``content`` and nothing else speaks for ``interfaces``.

    interfaces: {name, address}. content None: a file of ours is to go; one without our mark is left alone. Raises
    FleetError for what may not be.
    """
    asked = {str(interface["name"]): interface.get("address") for interface in interfaces}
    names = sorted(asked)
    _refuse([_missing(name, host) for name in names if name not in host.links])
    _refuse([*_profiles(host, names), *_overlaps(host.routes, asked)])
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
    _refuse_unrenderable(host, render, path, wanted, ssh_interface)
    return Decision(_difference(host.files, wanted) | {moved[other]: host.files[other] for other in moved}, moved)


def decide_back(host: Host, render: Render, path: str, copies: Iterable[str], ssh_interface: str | None) -> Decision:
    """The files to change so that all is as before our first change: ours goes, and what was moved aside comes back.

    copies: those of ``host.files`` that lie in `MOVED`, the oldest first: of one name, it is what was there before us.
    Raises FleetError for what may not be.
    """
    copies = [*copies]
    before = {other: text for other, text in host.files.items() if other not in copies}
    wanted = {other: text for other, text in before.items() if other != path or not _is_ours(text)}
    for copy in copies:
        wanted.setdefault(f"/etc/netplan/{Path(copy).name.rpartition('.')[0]}", host.files[copy])
    _refuse_unrenderable(replace(host, files=before), render, path, wanted, ssh_interface)
    return Decision(_difference(before, wanted), {})


def _difference(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, bytes | None]:
    return {path: after.get(path) for path in sorted({*before, *after}) if before.get(path) != after.get(path)}


def _is_ours(text: bytes) -> bool:
    return text.startswith(layout.MARK.encode("ascii"))


def _copy_of(path: str, text: bytes) -> str:
    return f"{MOVED}/{Path(path).name}.{hashlib.sha256(text).hexdigest()[:8]}"


# Who speaks for an interface --------------------------------------------------------------------------------------


def governing(rendered: Mapping[str, str], name: str, mac: str) -> dict[str, str]:
    """The rendered files that match an interface by name or MAC address."""
    return {file: text for file, text in rendered.items() if any(_matches(text, name, mac))}


def _matches(text: str, name: str, mac: str) -> Iterator[bool]:
    """For each condition of a rendered file's match: whether the interface meets it."""
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key in _NAME_KEYS:
            yield any(fnmatchcase(name, pattern) for pattern in value.replace(";", " ").split())
        elif key in _MAC_KEYS:
            yield mac.lower() in value.lower().split()
        elif key.lower() == "driver":
            yield any(fnmatchcase("mlx5_core", pattern) for pattern in value.replace(";", " ").split())


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
    host: Host, render: Render, path: str, wanted: Mapping[str, bytes], ssh_interface: str | None
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


def _missing(name: str, host: Host) -> Finding:
    if name in host.altnames:
        own = host.altnames[name]
        found = f"it is another name of {own}, and netplan uses that name"
        return host_error("netplan-altname", name, found=found, expected=own, remedy=f"write {own}")
    why, remedy = host.absent
    if why:
        found = f"there is no such interface: {why}"
        return host_error("netplan-no-interface", name, found=found, remedy=remedy)
    present = ", ".join(sorted(host.links)) or "none"
    remedy = "correct the port in fleet_fabric, or look why the adapter is missing: `lspci -d 15b3:`, `dmesg`"
    return host_error(
        "netplan-no-interface", name, found=f"there is no such interface; there are {present}", remedy=remedy
    )


def _claim(path: str, claimed: set[str]) -> Finding:
    found = "also configures " + ", ".join(sorted(claimed))
    remedy = f"{foreign_remedy(path)}, or run with -e fabric_foreign=move: it is then kept in {MOVED}"
    reason = "netplan joins all files: the interface would have both files' addresses"
    return host_error(
        "netplan-foreign-claim", path, found=found, expected="one file for each interface", remedy=remedy, reason=reason
    )


def foreign_remedy(path: str) -> str:
    """What takes another program's netplan file away for good, by the name that the program gives it."""
    name = Path(path).name
    if "nvidia-sync" in name:
        aside = "files that it set aside end in .sync-disabled and a date, and nothing reads them"
        return f"NVIDIA Sync wrote it: delete the cluster there (Settings > Clusters > Delete); {aside}"
    if "spark-vllm" in name:
        return "spark-vllm-docker wrote it: run `./setup-cluster.sh --restore` on its head"
    if name.startswith("90-NM-"):
        profile = name[6:].removesuffix(".yaml")
        return f"NetworkManager wrote it for one of its profiles: `nmcli connection delete {shell_word(profile)}`"
    return "remove it"


def _profiles(host: Host, names: Iterable[str]) -> Iterator[Finding]:
    """NetworkManager's own profiles, which no netplan file shows."""
    for path, text in sorted(host.profiles.items()):
        claimed = [name for name in names if any(_matches(text, name, host.links[name]))]
        if claimed and not re.search(r"^autoconnect\s*=\s*(false|no|0)\s*$", text, re.MULTILINE):
            known = re.search(r"^(?:uuid|id)\s*=\s*(\S.*?)\s*$", text, re.MULTILINE)
            remedy = f"`nmcli connection delete {shell_word(known[1])}` on the host" if known else "remove it"
            yield host_error(
                "netplan-foreign-profile",
                path,
                found=f"a profile of NetworkManager's own configures {', '.join(claimed)}",
                expected="netplan's files alone",
                remedy=remedy,
                reason="it may be brought up instead of the fabric's, by its owner or at the next boot",
            )


def _overlaps(routes: Iterable[str], asked: Mapping[str, str | None]) -> Iterator[Finding]:
    """Networks that the host reaches by other interfaces: its LAN, Docker's bridges, a VPN."""
    wanted = {name: ipaddress.IPv4Interface(address).network for name, address in asked.items() if address}
    for line in routes:
        words = line.split()
        device = words[words.index("dev") + 1] if "dev" in words[:-1] else ""
        try:
            network = ipaddress.IPv4Network(words[0] if words else "")
        except ValueError:
            continue  # default, unreachable, ...
        clashes = [name for name, mine in wanted.items() if mine.overlaps(network)]
        if device and device not in asked and not _RAIL.fullmatch(device) and clashes:
            found = f"{wanted[clashes[0]]} overlaps {network}, which this host reaches by {device}"
            remedy = "write another pool in fleet_fabric, like 10.100.0.0/22, or renumber that network"
            yield host_error(
                "netplan-overlap", clashes[0], found=found, expected="a subnet only for the fabric", remedy=remedy
            )


def _shared(path: str, others: set[str]) -> Finding:
    return host_error(
        "netplan-foreign-shared",
        path,
        found=f"also configures {', '.join(sorted(others))}: it can't be moved as a whole",
        expected="a file only for the fabric",
        remedy="take the rails out of it by hand",
    )


def _already_invalid(message: str) -> Finding:
    return host_error(
        "netplan-already-invalid",
        "/etc/netplan",
        found=f"netplan refuses the files as they are: {message}",
        remedy="repair them first: `netplan generate` on the host says the same",
    )


def _invalid(path: str, message: str) -> Finding:
    return host_error(
        "netplan-invalid",
        path,
        found=f"netplan refuses it: {message}",
        remedy="nothing was changed; correct the fabric",
    )


def _carries_ssh(path: str, name: str) -> Finding:
    found = f"would change {name}, which this SSH connection comes over"
    remedy = f"run with -e fabric_ssh_interface={name} if you mean it: the host takes it back unless SSH works after it"
    return host_error(
        "netplan-ssh-interface", path, found=found, expected="only interfaces of the fabric", remedy=remedy
    )


def describe(decision: Decision, before: Mapping[str, bytes]) -> list[dict[str, str]]:
    """The decision as Ansible's diff. What goes aside is named, not shown: it may hold passwords."""
    diff = []
    for path, text in decision.files.items():
        if path in decision.moved:
            diff.append(shown(path, f"{path}\n", f"{decision.moved[path]}\n") | {"after_header": "moved aside"})
        if path not in decision.moved.values() and (path not in decision.moved or text is not None):
            here = b"" if path in decision.moved else before.get(path, b"")
            diff.append(shown(path, here.decode("utf-8", "replace"), (text or b"").decode("utf-8", "replace")))
    return diff


def shown(path: str, before: str, after: str) -> dict[str, str]:
    """A file's part of Ansible's diff."""
    return {"before": before, "after": after, "before_header": path, "after_header": path}
