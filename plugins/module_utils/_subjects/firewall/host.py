# SPDX-License-Identifier: GPL-3.0-or-later
"""The packet filter on its host: read, compare, load, and take it back unless it is confirmed in time.

A new ruleset is loaded while a timer of systemd's already runs that loads the old one again. A confirmation comes over
an SSH connection that was opened afterwards; only then the file gets its final name, from which the unit loads it at
boot.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from ..._base import layout
from ..._base.own_files import clear_of_folders
from .ruleset import TABLE, Network, container_networks, named_networks

Run = Callable[[list[str]], tuple[int, str, str]]
FILE = Path(layout.FIREWALL)
UNIT = "gb10-firewall.service"
ROLLBACK = "gb10-firewall-rollback"
WINDOW_S = 60
_STAGED = FILE.with_suffix(".staged")
_LOCK = Path("/run/gb10-firewall.lock")
_SSHD = "/usr/sbin/sshd"
# An address that others can connect to.
_OUTSIDE = r"(?!127\.|\[::1\])\S+"


class FirewallError(Exception):
    """One sentence: what failed, and nftables' message."""


def ssh_ports(run: Run, session: int | None) -> list[int]:
    """Every port that SSH comes in by: of this session, and of the socket that starts sshd, or else of its settings.

    Where systemd listens (Ubuntu), sshd takes the sockets that it is given, whatever its settings say.
    """
    found = {session} if session else set()
    _code, socket, _err = run(["systemctl", "show", "ssh.socket", "--property", "ActiveState,Listen"])
    if "ActiveState=active" in socket.splitlines():
        listens = re.findall(rf"^Listen={_OUTSIDE}:(\d+) \(Stream\)", socket, re.MULTILINE)
    else:
        _code, settings, _err = run([_SSHD, "-T"])
        # its `port` lines do not count where ListenAddress names a port
        listens = re.findall(rf"^listenaddress {_OUTSIDE}:(\d+)\b", settings, re.MULTILINE)
    return sorted(found | {int(port) for port in listens})


def networks(run: Run, text: str) -> list[Network]:
    """Docker's own networks; while Docker doesn't answer those that the rules as they are (text) were written for."""
    if shutil.which("docker") is None:
        return []
    code, ids, _err = run(["docker", "network", "ls", "--quiet", "--no-trunc"])
    if code != 0:
        return named_networks(text)
    # a network that went meanwhile makes it fail, and shows the others
    _code, out, err = run(["docker", "network", "inspect", *ids.split()])
    try:
        return container_networks(json.loads(out))
    except (ValueError, LookupError, TypeError) as problem:
        raise FirewallError(f"Docker's networks can't be read: {problem} {err.strip()[:300]}") from None


def current(file: Path = FILE) -> str:
    """Our rules as they lie there; bytes that are no text show as what they are, so that they differ from any rules."""
    return file.read_bytes().decode("utf-8", "backslashreplace") if file.is_file() else ""


def in_kernel(run: Run, text: str) -> tuple[str, str]:
    """Our table as the kernel holds it, and as it would hold the text; an empty string for no table. Changes nothing.

    Both as nft lists them, so that equal rules are equal texts however they were written. What becomes of the text is
    seen in a network of its own, which ends with the command; without a table there is nothing to compare it with.
    """
    tables = _output(run, ["nft", "list", "tables"])
    if f"table {TABLE}" not in tables.splitlines():
        return "", text
    live = _output(run, ["nft", "--stateless", "list", "table", *TABLE.split()])
    return live, _output(run, ["unshare", "--net", "sh", "-c", _TRY, "sh", text]) if text else ""


_TRY = f'printf %s "$1" | nft -f - && nft --stateless list table {TABLE}'


def _output(run: Run, command: list[str]) -> str:
    code, out, err = run(command)
    if code != 0:
        raise FirewallError(f"{command[0]} can't list the rules, nothing was changed: {(err or out).strip()[:500]}")
    return out


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Of two runs at once, the second one looks when the first one has begun; the kernel ends it with the process."""
    with _LOCK.open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_unsettled(run: Run) -> bool:
    """Whether rules hold that another run has loaded, neither confirmed nor taken back."""
    code, _out, _err = run(["systemctl", "is-active", "--quiet", f"{ROLLBACK}.timer", f"{ROLLBACK}.service"])
    return code == 0


def load(run: Run, text: str) -> None:
    """Make it hold now, to be taken back in WINDOW_S unless `confirm` comes first."""
    write(_STAGED, text)
    _stop_rollback(run)
    # rules that are damaged can't be gone back to: then the host is open rather than closed to its owner
    back = (f"nft -f {FILE} || " if FILE.exists() else "") + f"nft delete table {TABLE}"
    timer = ["systemd-run", "--unit", ROLLBACK, f"--on-active={WINDOW_S}", "--timer-property=AccuracySec=1s"]
    _must(run, [*timer, "sh", "-c", f"{back}; rm -f {_STAGED}"], "the rollback can't be armed, nothing was changed")
    code, _out, err = run(["nft", "-f", str(_STAGED)])
    if code != 0:
        _stop_rollback(run)
        _STAGED.unlink(missing_ok=True)
        raise FirewallError(f"nftables refuses the rules, nothing was changed: {err.strip()[:500]}")


def confirm(run: Run) -> None:
    """Keep what was loaded; FirewallError when it was already taken back."""
    code, _out, _err = run(["systemctl", "is-active", "--quiet", f"{ROLLBACK}.timer"])
    if code != 0 or not _STAGED.exists():
        raise FirewallError("the host took the new rules back, since no new SSH connection confirmed them in time")
    clear_of_folders(FILE)
    _STAGED.replace(FILE)
    _stop_rollback(run)
    _must(run, ["systemctl", "restart", UNIT], "the rules hold, but their unit does not start")


def remove(run: Run) -> None:
    """Open the host again."""
    _stop_rollback(run)
    run(["systemctl", "disable", "--quiet", "--now", UNIT])
    run(["nft", "delete", "table", *TABLE.split()])
    clear_of_folders(FILE)
    FILE.unlink(missing_ok=True)


def _stop_rollback(run: Run) -> None:
    run(["systemctl", "stop", f"{ROLLBACK}.timer", f"{ROLLBACK}.service"])
    run(["systemctl", "reset-failed", f"{ROLLBACK}.service"])


def _must(run: Run, command: list[str], otherwise: str) -> None:
    code, out, err = run(command)
    if code != 0:
        raise FirewallError(f"{otherwise}: {(err or out).strip()[:500]}")


def problems(text: str, live: bool) -> Iterator[str]:
    """What is not as it should be beside the file, for the diff."""
    if not live:
        yield "the rules in the kernel are others than the file's" if text else "the table is still in the kernel"
