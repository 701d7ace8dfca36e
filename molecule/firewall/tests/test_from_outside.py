# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""spark-2 is closed: as titan, which its owner allows one port more, and spark-3, its neighbour by a cable, see it."""

from __future__ import annotations

import pytest
from testinfra.host import Host

testinfra_hosts = ["ssh://titan", "ssh://spark-3"]

MANAGEMENT, FABRIC = "10.77.0.12", "192.168.100.10"
PORTS = (22, 8000, 9100, 12345)
SEEN = {
    ("titan", MANAGEMENT): [22, 8000, 9100],
    ("spark-3", MANAGEMENT): [22, 8000],
    ("spark-3", FABRIC): [22, 8000, 9100, 12345],
}


@pytest.mark.parametrize("address", [MANAGEMENT, FABRIC])
def test_what_answers(host: Host, address: str) -> None:
    name = host.check_output("hostname")
    probe = f"timeout 2 bash -c '</dev/tcp/{address}/%s' 2> /dev/null"
    seen = [port for port in PORTS if host.run(probe % port).rc == 0]
    assert seen == SEEN.get((name, address), [])


def test_the_host_answers_pings(host: Host) -> None:
    assert host.run(f"ping -c 1 -W 5 {MANAGEMENT}").rc == 0
