# SPDX-License-Identifier: GPL-3.0-or-later
"""The ConnectX-7 of a GB10 machine: two QSFP ports of two halves, each half an interface and an RDMA device of its own.

Names, speed and largest MTU as found on machines of NVIDIA and of OEMs (cluster owner's notes, "Hardware Quirk"). Each
half sits behind its own PCIe x4 and carries about half of the port's 200 Gb/s: only both together fill the cable.
"""

from dataclasses import dataclass

from ..._base.place import Place

PORTS = (0, 1)
HALVES = (0, 1)
# Of a port, as its interfaces say it. All of them were seen on Sparks: 25 and 50 by QSA adapters, 100 by cables of that
# kind and by switches, 200 by NVIDIA's cable. Beyond a half's own PCIe x4 a faster port gains nothing.
SPEED_MBPS = 200_000
SPEEDS_GBPS = (10, 25, 40, 50, 100, 200)
HALF_MBPS = 100_000
MTU_MIN, MTU_MAX = 1500, 9978
# What iperf and ib_write_bw show on a port whose firmware came up degraded while ethtool still says 200000 Mb/s:
# 12.9 and 13.2 Gb/s; NVIDIA's own check takes 8 to 25 Gb/s for it (dgx-spark-playbooks pull request 108).
DEGRADED_GBPS = (8.0, 25.0)


@dataclass(frozen=True)
class Rail:
    """One half of a port: its network interface and its RDMA device."""

    port: int
    half: int
    interface: str
    device: str


def rail(port: int, half: int) -> Rail:
    """Half 0 lies in PCI domain 0000 and half 1 in 0002, hence the capital P: ``enP2p1s0f1np1`` is no typing error."""
    domain = "P2p1" if half else "p1"
    return Rail(port, half, f"en{domain}s0f{port}np{port}", f"roce{domain}s0f{port}")


RAILS = {known.interface: known for known in (rail(port, half) for port in PORTS for half in HALVES)}


def interfaces_of(port: int) -> list[str]:
    """The interfaces of a port."""
    return [rail(port, half).interface for half in HALVES]


def where(host: str, interface: str) -> Place:
    """An interface as one finds it on the machine: host, port, half, name."""
    known = RAILS.get(interface)
    named = f"port {known.port} half {known.half} ({interface})" if known else interface
    return Place(host=host, thing=named)
