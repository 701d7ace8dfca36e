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


# All at once; the connection alone is timed, not what the host needs to start a program.
PROBE = """
import sys
from concurrent.futures import ThreadPoolExecutor
from socket import create_connection

def answers(port):
    try:
        create_connection((sys.argv[1], port), 5).close()
    except OSError:
        return False
    return True

ports = [int(word) for word in sys.argv[2:]]
with ThreadPoolExecutor(len(ports)) as pool:
    print(*(port for port, answer in zip(ports, pool.map(answers, ports)) if answer))
"""


@pytest.mark.parametrize("address", [MANAGEMENT, FABRIC])
def test_what_answers(host: Host, address: str) -> None:
    name = host.check_output("hostname")
    seen = host.check_output("python3 -c %s %s " + " ".join(map(str, PORTS)), PROBE, address)
    assert [int(port) for port in seen.split()] == SEEN.get((name, address), [])


def test_the_host_answers_pings(host: Host) -> None:
    assert host.run(f"ping -c 1 -W 5 {MANAGEMENT}").rc == 0
