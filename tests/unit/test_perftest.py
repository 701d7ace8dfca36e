# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ib_write_bw's output, as recorded from the real tool (tests/data/perftest)."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.perftest import (
    Bandwidth,
    NoResultError,
    command,
    parse,
)

RECORDED = Path(__file__).resolve().parents[1] / "data" / "perftest"


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.txt").read_text()


@pytest.mark.parametrize(
    ("name", "bandwidth"),
    [
        ("client-gbits", Bandwidth(0.84, 65536 * 4816)),
        ("server-gbits", Bandwidth(0.84, 65536 * 4816)),
        ("client-mib", Bandwidth(1.18, 65536 * 500)),
    ],
)
def test_a_result_is_read(name: str, bandwidth: Bandwidth) -> None:
    assert parse(recorded(name)) == bandwidth


def test_older_releases_write_mb_and_complain_of_the_clock() -> None:
    old = recorded("client-mib").replace("MiB/sec", "MB/sec")
    head, row = old.split("\n 65536", 1)
    complaint = "Conflicting CPU frequency values detected: 1000.259000 != 3299.999000. CPU Frequency is not max."
    assert parse(f"{head}\n{complaint}\n 65536{row}") == Bandwidth(1.18, 65536 * 500)


def test_the_last_row_of_several_counts() -> None:
    text = recorded("client-gbits")
    row = next(line for line in text.splitlines() if line.startswith(" 65536"))
    assert parse(text.replace(row, f" 2          5000           0.04               0.04   2.6\n{row}")) == parse(text)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no-server", "Unable to perform rdma_client function"),
        ("no-device", "IB device roceP2p1s0f1 not found"),
        ("port-down", "Port number 1 state is Down"),
    ],
)
def test_a_failure_is_reported_in_the_tools_own_words(name: str, message: str) -> None:
    with pytest.raises(NoResultError, match=message):
        parse(recorded(name))


def test_silence_is_no_result() -> None:
    with pytest.raises(NoResultError, match="no output"):
        parse("")


def test_server_and_client_differ_by_the_address_alone() -> None:
    server = command("rocep1s0f1", 18515, 5)
    assert server[0] == "ib_write_bw"
    assert {"-R", "--report_gbits"} < {*server}
    assert command("rocep1s0f1", 18515, 5, "192.168.100.10") == [*server, "192.168.100.10"]
