# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks around from the controller: files of this account, one multicast question, and logins that change nothing."""

import contextlib
import itertools
import select
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..._base.received import one_line
from .find import (
    MOST_RECORDS,
    SYNC_FILES,
    Machine,
    Record,
    SshHosts,
    known_names,
    machines,
    neighbours,
    questions,
    records,
    ssh_hosts,
)
from .login import SCRIPT, Login, Refused, answer, refused

_MDNS = ("224.0.0.251", 5353)
_LISTEN_S = 2.0
_CONNECT_S = 5
_LOGIN_S = 30
_MOST_DEPTH = 4
_MOST_FILE = 1 << 20


def look_around(named: Sequence[str]) -> list[Machine]:
    """The machines that may be Sparks. named: what a person gave, which is then all."""
    config = _configuration("~/.ssh/config")
    sync = [_configuration(path) for pattern in SYNC_FILES for path in _matching(Path(pattern))]
    of_sync = SshHosts({name: block for item in sync for name, block in item.hosts.items()})
    known = [] if named else known_names(_text("~/.ssh/known_hosts"))
    table = {} if named else neighbours(_text("/proc/net/arp") or _printed(["arp", "-an"]))
    answers = [] if named else [*_ask(questions(table, [*config.hosts, *known]))]
    return machines(named, config, of_sync, known, table, answers)


def _configuration(path: str, depth: int = 0) -> SshHosts:
    """An ssh configuration with those that it includes."""
    found = ssh_hosts(_text(path))
    hosts = {**found.hosts}
    for pattern in found.includes if depth < _MOST_DEPTH else ():
        folder = Path("~/.ssh").expanduser()
        for file in _matching(folder / Path(pattern).expanduser()):
            hosts = {**_configuration(file, depth + 1).hosts, **hosts}
    return SshHosts(hosts)


def _matching(pattern: Path) -> list[str]:
    return sorted(map(str, Path("/").glob(str(pattern.expanduser()).lstrip("/"))))


def _text(path: str) -> str:
    try:
        with Path(path).expanduser().open(encoding="utf-8", errors="replace") as stream:
            return stream.read(_MOST_FILE)
    except OSError:
        return ""


def _printed(command: Sequence[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=_CONNECT_S, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _ask(packets: Sequence[bytes]) -> Iterator[tuple[Record, str]]:
    """What comes back within two seconds, with who sent it: asked from each address of this machine, and after a second
    once more, since neither questions nor answers are sent again by themselves (RFC 6762, 5.2)."""
    boxes = [box for address in own_addresses() if (box := _asked(packets, address))]
    end, taken, again = time.monotonic() + _LISTEN_S, 0, [*boxes]
    while boxes and taken < MOST_RECORDS and (left := end - time.monotonic()) > 0:
        if left < _LISTEN_S / 2:
            with contextlib.suppress(OSError):  # of an interface that went down meanwhile
                _send(packets, again)
            again.clear()
        for box in select.select(boxes, [], [], max(left - _LISTEN_S / 2, 0) if again else left)[0]:
            packet, sender = box.recvfrom(9000)
            for record in records(packet):
                taken += 1
                yield record, sender[0]
    for box in boxes:
        box.close()


def _asked(packets: Sequence[bytes], address: str) -> socket.socket | None:
    """A socket that has asked by the interface with this address; None where that can't send."""
    box = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        box.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)
        box.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        _send(packets, [box])
    except OSError:
        box.close()
        return None
    return box


def own_addresses() -> list[str]:
    words = (_printed(["ip", "-o", "-4", "addr"]) or _printed(["ifconfig"])).split()
    found = [after.partition("/")[0] for word, after in itertools.pairwise(words) if word == "inet"]
    return [item for item in found if not item.startswith("127.")]


def _send(packets: Sequence[bytes], boxes: Sequence[socket.socket]) -> None:
    for box in boxes:
        for packet in packets:
            box.sendto(packet, _MDNS)


# Logging in -------------------------------------------------------------------------------------------------------


def log_in(name: str, user: str, arguments: Sequence[str]) -> Login | Refused:
    """What a host answers to a login by key, or why it gives none. arguments: those of ssh that Ansible goes by."""
    account_of = ["-l", user] if user else []
    script = f"sh -c {shlex.quote(SCRIPT)}"
    code, out, words = _ssh(["-oStrictHostKeyChecking=yes", *arguments, *account_of, name, script])
    found = answer(out) if code == 0 else None
    return found or refused(name, user or account(name, arguments), words or out, lambda text: one_line(text, 200))


def log_in_here() -> Login | None:
    """The same of this machine; None where it shows no name."""
    return answer(_printed(["sh", "-c", SCRIPT]))


def account(name: str, arguments: Sequence[str]) -> str:
    """The account that ssh goes by."""
    return _resolved(name, arguments).get("user", "")


def host_key(name: str, arguments: Sequence[str]) -> tuple[str, str, Path] | None:
    """``(fingerprint, its line, the file that ssh would keep it in)`` of a host that nobody has compared yet.

    Nothing but the key is asked for: no login is tried. None where it shows none.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "keys")
        options = ["-oStrictHostKeyChecking=accept-new", f"-oUserKnownHostsFile={file}", "-oHashKnownHosts=no"]
        _ssh([*options, "-oPreferredAuthentications=none", *arguments, name, "true"])
        shown = _printed(["ssh-keygen", "-l", "-f", str(file)]).split()
        line = _text(str(file)).strip()
    kept = _resolved(name, arguments).get("userknownhostsfile", "~/.ssh/known_hosts").split()[0]
    return (shown[1], line, Path(kept).expanduser()) if len(shown) > 1 and len(line.splitlines()) == 1 else None


def _resolved(name: str, arguments: Sequence[str]) -> dict[str, str]:
    rows = (line.partition(" ") for line in _printed(["ssh", "-G", *arguments, name]).splitlines())
    return {key: value for key, _, value in rows}


def _ssh(arguments: Sequence[str]) -> tuple[int, str, str]:
    try:
        words = ["ssh", "-oBatchMode=yes", f"-oConnectTimeout={_CONNECT_S}", *arguments]
        done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=_LOGIN_S, check=False)
    except FileNotFoundError:
        return 1, "", "this machine has no program ssh"
    except subprocess.TimeoutExpired as late:
        return 1, "", (late.stderr or b"timed out").decode("utf-8", "replace")
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
