# SPDX-License-Identifier: GPL-3.0-or-later
"""The SSH session that a process belongs to, also behind sudo, which takes SSH_CONNECTION out of the environment.

And the links that it comes over.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


def session_address(process: int, proc: Path = Path("/proc")) -> str | None:
    """The host's own address of the SSH connection that this process or one of its ancestors was started over."""
    return next((address for address, _port in _ends(process, proc)), None)


def session_port(process: int, proc: Path = Path("/proc")) -> int | None:
    """The host's own port of that connection."""
    return next((port for _address, port in _ends(process, proc)), None)


def _ends(process: int, proc: Path) -> Iterator[tuple[str, int]]:
    while process > 1:
        try:
            environment = (proc / str(process) / "environ").read_bytes()
            status = (proc / str(process) / "status").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        if end := server_end(environment):
            yield end
        found = re.search(r"^PPid:\s*(\d+)$", status, re.MULTILINE)
        process = int(found.group(1)) if found else 0


def server_end(environment: bytes) -> tuple[str, int] | None:
    """The last words of SSH_CONNECTION: client address, client port, server address, server port."""
    for variable in environment.split(b"\0"):
        name, _, value = variable.partition(b"=")
        words = value.decode("ascii", "replace").split()
        if name == b"SSH_CONNECTION" and len(words) == 4 and words[3].isdigit():
            return words[2].partition("%")[0].removeprefix("::ffff:"), int(words[3])
    return None


def carriers(links: Sequence[Mapping[str, Any]], address: str | None) -> list[str]:
    """The links (`ip -j address show`) that a session to this address of ours comes over.

    The one that has the address, and below a bridge, bond or VLAN what it is made of.
    """
    found = [str(link["ifname"]) for link in links if address in [entry["local"] for entry in link["addr_info"]]]
    for name in found:  # grows while it is walked
        found += [
            str(link["ifname"])
            for link in links
            if (link.get("master") == name or _parent(links, name) == link["ifname"]) and link["ifname"] not in found
        ]
    return found


def _parent(links: Sequence[Mapping[str, Any]], name: str) -> str | None:
    return next((link.get("link") for link in links if link["ifname"] == name), None)
