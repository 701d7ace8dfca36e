# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A chain of hosts against one copy, in turn: our transfer alone, without Ansible, SSH and simulated hosts.

Those take the two processors that all hosts share here, and each real one has its own: what is left is what links and
the choice of the next host cost. A link is a network namespace's, slow enough to be what limits.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path

from .content import MB, noise
from .figures import Figure
from .rivals import Contest, Line, Links, ours

RATE = "20mbit"
SIZE = 96 * MB


def figures(directory: Path, hosts: int, rounds: int) -> Iterator[Figure]:
    directory.mkdir()
    model = directory / "model.bin"
    model.write_bytes(noise("model", SIZE))
    sent, seconds = "sent by the source, of the size", "seconds"
    pairs = [tuple(_to(count, directory / f"{turn}-{count}", model) for count in (1, hosts)) for turn in range(rounds)]
    for what, key, goal in (("sent by the source", sent, "<= 1.03"), ("time", seconds, "<= 1.25")):
        ratio = statistics.median(many[key] / one[key] for one, many in pairs)
        yield Figure(f"chain of {hosts} hosts: {what}, {rounds} rounds", ratio, None, "of one copy", goal)


def _to(hosts: int, folder: Path, model: Path) -> Line:
    folder.mkdir()
    with Links(hosts, RATE) as links:
        return ours(Contest(links, folder), f"to {hosts}", model, None, cut=False)
