# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Before a model load: no stale container, an empty page cache, a free port, enough free memory.

Managed by gb10.fleet. CPU and GPU share one memory on GB10: what the page cache holds, the GPU can't have (source 003,
tips 1 and 6). Exits 1 with one sentence for the journal when the load can't succeed; the unit's start budget then ends
the attempts.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

GIB = 1 << 30


def available_bytes(meminfo: str) -> int:
    """MemAvailable of /proc/meminfo's text, in bytes."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", meminfo, re.MULTILINE)
    if found is None:
        raise SystemExit("gb10.fleet: /proc/meminfo has no MemAvailable line")
    return int(found.group(1)) * 1024


def short_of_memory(available: int, needed: int) -> str | None:
    """The sentence for the journal, or None when there is enough."""
    if available >= needed:
        return None
    return (
        f"gb10.fleet: {available / GIB:.1f} GiB of memory are free, this service needs {needed / GIB:.1f} GiB: "
        "stop what else runs on this host (`docker ps`, `ps aux --sort=-rss | head`) or plan a smaller KV pool"
    )


def port_taken(port: int) -> str | None:
    """The sentence for the journal when somebody else already listens on a TCP port, else None."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError as error:
            return (
                f"gb10.fleet: port {port} can't be had ({error.strerror}); `ss -ltnp sport = :{port}` says who has it"
            )
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description="Prepare this host for a model load.")
    parser.add_argument("--container", required=True, help="name of the container to remove if it was left behind")
    parser.add_argument("--port", required=True, type=int, help="TCP port that the service will listen on")
    parser.add_argument("--memory", required=True, type=int, help="bytes that must be free")
    options = parser.parse_args()

    subprocess.run(["docker", "rm", "--force", options.container], check=False, capture_output=True)
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3\n", encoding="ascii")
    available = available_bytes(Path("/proc/meminfo").read_text(encoding="ascii"))
    sys.exit(short_of_memory(available, options.memory) or port_taken(options.port))


if __name__ == "__main__":
    main()
