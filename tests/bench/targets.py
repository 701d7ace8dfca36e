# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts and services of a large fleet, as far as a Prometheus sees them: ``python targets.py``, an imitation.

Stdin: a line of JSON ``{addresses, port, exporter, service}``: loopback addresses, each of a host at /metrics and of
its service at /v1/metrics; two texts of a real node exporter 15 s apart, and the names of a real vLLM's series. What
moved between the two moves here as fast, else it stays; of every second service all counters move. Prints ``ready``.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from dataclasses import dataclass

# A GB10 has ten times the cores of a machine of two, and by rough count five times its network devices.
_CORES, _DEVICES = 20, 10
_LABELLED = re.compile(r'^(node_cpu_\w+\{.*?cpu="|node_network_\w+\{.*?device=")([^"]*)(".*)$')
_HISTOGRAM = re.compile(r"_(bucket|sum|count)[{ ]")


@dataclass
class Series:
    """name: with its labels. step: by how much it grows between two looks; 0 for what stays."""

    name: str
    value: float
    step: float

    def line(self) -> str:
        if self.step:
            grown = self.step * random.uniform(0.5, 1.5)
            self.value += round(grown) if self.step.is_integer() else round(grown, 2)
        return f"{self.name} {self.value:.15g}"


def of_exporter(first: str, second: str) -> list[Series]:
    """The real series, those of a processor and of a network device as often as a GB10 has them."""
    then = dict(line.rsplit(" ", 1) for line in first.splitlines() if not line.startswith("#"))
    found = []
    for name, now in (line.rsplit(" ", 1) for line in second.splitlines() if not line.startswith("#")):
        value = float(now)
        step = value - float(then.get(name, now)) if name.split("{")[0].endswith("_total") else 0.0
        found += [Series(one, value, step) for one in _as_many(name)]
    return found


def _as_many(name: str) -> list[str]:
    match = _LABELLED.match(name)
    if not match or match[2] in ("lo", "1"):
        return [] if match and match[2] == "1" else [name]
    before, label, after = match.groups()
    if "node_cpu" in before:
        return [f"{before}{core}{after}" for core in range(_CORES)]
    return [f"{before}{label}{suffix}{after}" for suffix in ("", *range(1, _DEVICES // 2))]


def of_service(names: str, busy: bool) -> list[Series]:
    """Counters and histograms of a service with requests grow; gauges are as they are."""
    moves = [name for name in names.splitlines() if name and not name.startswith("#")]
    counts = [busy and ("_total{" in name or bool(_HISTOGRAM.search(name))) for name in moves]
    return [Series(name, 0.0, 7.0 if count else 0.0) for name, count in zip(moves, counts, strict=True)]


async def _answer(pages: dict[str, list[Series]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while head := await reader.readuntil(b"\r\n\r\n"):
        page = pages[head.split(b" ", 2)[1].decode()]
        text = "".join(f"{series.line()}\n" for series in page).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(text), text))
        await writer.drain()


async def main() -> None:
    asked = json.loads(sys.stdin.readline())
    for number, address in enumerate(asked["addresses"]):
        pages = {
            "/metrics": of_exporter(*asked["exporter"]),
            "/v1/metrics": of_service(asked["service"], number % 2 == 0),
        }

        async def answer(
            reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pages: dict[str, list[Series]] = pages
        ) -> None:
            try:
                await _answer(pages, reader, writer)
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

        await asyncio.start_server(answer, address, asked["port"])
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
