# SPDX-License-Identifier: GPL-3.0-or-later
"""ib_write_bw of the perftest package: its argument list, and what it prints."""

import re
from dataclasses import dataclass

# As in the cluster owner's notes: four queue pairs, 8 MiB messages, addresses resolved by rdma_cm (-R).
_QUEUE_PAIRS = 4
_MESSAGE_BYTES = 8 << 20
# Before 23.x, perftest refuses to go on when the CPU's clock is not fixed, without -F.
_COMMON = ("-R", "-F", "--report_gbits", "-q", str(_QUEUE_PAIRS), "-s", str(_MESSAGE_BYTES))

_HEADER = re.compile(r"#bytes\s+#iterations\s+.*BW average\[(?P<unit>Gb/sec|MB/sec|MiB/sec)\]")
_ROW = re.compile(r"^\s*(?P<bytes>\d+)\s+(?P<iterations>\d+)\s+(?P<peak>[\d.]+)\s+(?P<average>[\d.]+)\s+[\d.]+")
# What older releases call a MB has 2^20 bytes, too.
_GBPS = {"Gb/sec": 1.0} | dict.fromkeys(("MB/sec", "MiB/sec"), (1 << 20) * 8 / 1e9)
_CHATTER = re.compile(r"^(\*+|-+|WARNING.*|Conflicting CPU.*|\s*)$")


@dataclass(frozen=True)
class Bandwidth:
    """What one run moved."""

    gbps: float
    payload_bytes: int


class NoResultError(Exception):
    """The run ended without a result; its own last words."""


def command(device: str, port: int, seconds: int, server: str | None = None) -> list[str]:
    """The argument list; with a server's address that of the client, else that of the server."""
    run = ["ib_write_bw", *_COMMON, "-d", device, "-p", str(port), "-D", str(seconds)]
    return run if server is None else [*run, server]


def parse(output: str) -> Bandwidth:
    """The last row of the result table. NoResultError when there is none."""
    header = _HEADER.search(output)
    rows = [row for line in output[header.end() :].splitlines() if (row := _ROW.match(line))] if header else []
    if header is None or not rows:
        raise NoResultError(_last_words(output))
    row = rows[-1]
    gbps = float(row["average"]) * _GBPS[header["unit"]]
    return Bandwidth(round(gbps, 2), int(row["bytes"]) * int(row["iterations"]))


def _last_words(output: str) -> str:
    """Its output before it gave up: the first line matters most, the last ones are consequences."""
    lines = [line.strip() for line in output.splitlines() if not _CHATTER.match(line.strip())]
    return "; ".join(lines[:3]) or "no output"
