# SPDX-License-Identifier: GPL-3.0-or-later
"""The way of clients to an endpoint while it drains: new connections are refused, and those that there are go on.

A refusal is what clients and gateways know what to do with: they go elsewhere, or come again. An engine's own way of
draining is none: one of them answers 500 then, and says at its health path that it is well (vLLM 0.32).
"""

import contextlib
from pathlib import Path

from .host import run

_PROC = Path("/proc")
# As /proc/net/tcp has them: established; and closed by the client, which may wait for its answer still.
_CONNECTED = ("01", "08")


def refuse(port: int) -> str:
    """Refuse new connections to a port of this host, but those of root, who looks after it; a sentence when that can't
    be done, else an empty string. It holds until `admit`."""
    done = run(["nft", _rules(port)])
    return f"nft: {done.stderr.strip().partition(chr(10))[0][:200]}" if done.returncode else ""


def admit(port: int) -> None:
    """Let everybody in again; nothing where nothing is shut."""
    run(["nft", f"delete table inet {_table(port)}"])


def _table(port: int) -> str:
    return f"gb10_draining_{port}"


def _rules(port: int) -> str:
    """A table of its own, before Docker's ways to a container. It needs no memory of connections: only what opens one
    is refused. An address of this host: containers here may ask other hosts at the same port."""
    opens = f"fib daddr type local tcp dport {port} tcp flags & (fin | syn | rst | ack) == syn"
    # what this host asks itself comes by both
    chains = {"prerouting": f'iifname != "lo" {opens}', "output": f"meta skuid != 0 {opens}"}
    text = "".join(
        f"chain {hook} {{ type filter hook {hook} priority -150; policy accept; {rule} reject with tcp reset; }}; "
        for hook, rule in chains.items()
    )
    # made before it is deleted: a table that isn't there can't be
    return f"add table inet {_table(port)}; delete table inet {_table(port)}; table inet {_table(port)} {{ {text}}}"


def clients(init: int, port: int, proc: Path = _PROC) -> int:
    """How many connections to a port there are, in the network of the container with this first process."""
    found = 0
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (proc / str(init) / "net" / table).read_text(encoding="ascii").splitlines()[1:]:
                words = line.split()
                found += words[3] in _CONNECTED and int(words[1].rpartition(":")[2], 16) == port
    return found
