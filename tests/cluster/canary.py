# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks for secrets everywhere on a lab host where they must not be."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from lab.fixtures import Fleet

# The files that are there to hold them.
HOLDS = "/etc/gb10-fleet/secrets/"
# What a host shows besides its files.
_LOOKS = {
    "processes": "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ",
    "containers": "docker inspect {container}",
    "journal": "journalctl --no-pager --output export --all",
    "units": "systemctl show '*'",
}
# Docker's store may be a file system of its own.
_DISKS = "/ /run /tmp /dev/shm /var/lib/docker /var/lib/containerd"


def leaks(fleet: Fleet, host: str, container: str, secrets: Sequence[str]) -> list[str]:
    """In processes, containers, journals, units, and each file of each disk but those that hold them."""
    looks = {name: _seen(fleet, host, command.format(container=container)) for name, command in _LOOKS.items()}
    found = [f"{host}: {name}" for name, text in looks.items() if any(secret in text for secret in secrets)]
    patterns = " ".join(f"-e {shlex.quote(secret)}" for secret in secrets)
    search = f"find {_DISKS} -xdev -type f -print0 2> /dev/null | xargs -0 grep -lsF {patterns} | sort -u"
    files = fleet.root(host, search, check=False).split()
    assert [file for file in files if file.startswith(HOLDS)], f"the search on {host} does not even find {HOLDS}"
    return found + [f"{host}: {file}" for file in files if not file.startswith(HOLDS)]


def _seen(fleet: Fleet, host: str, command: str) -> str:
    """As text, whatever bytes it is."""
    text = fleet.root(host, f"({command}) | LC_ALL=C tr -c '[:print:]\\n' ' '", check=False)
    assert text, f"{host} shows nothing of `{command}`"
    return text
