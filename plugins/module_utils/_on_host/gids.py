# SPDX-License-Identifier: GPL-3.0-or-later
"""Which entry of an RDMA device's GID table a rail uses: RoCE v2 with the rail's IPv4 address.

The table's order differs between hosts and changes with addresses and boots; a pinned index hangs NCCL (its issue
1333). So the index is read at each launch. Standard library only: a unit runs this file on the host as well.
"""

import argparse
import ipaddress
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SYSFS = Path("/sys/class/infiniband")
ROCE_V2 = "RoCE v2"


@dataclass(frozen=True)
class Gid:
    """One entry: its index, the GID as sysfs writes it, ``IB/RoCE v1`` or ``RoCE v2``, and the interface's name."""

    index: int
    gid: str
    kind: str
    interface: str

    def ipv4(self) -> ipaddress.IPv4Address | None:
        """The IPv4 address that the GID stands for, if it does."""
        try:
            return ipaddress.IPv6Address(self.gid).ipv4_mapped
        except ValueError:
            return None


def read_table(device: str, sysfs: Path = SYSFS) -> list[Gid]:
    """The device's used entries by index; empty when there is no such device."""
    port = sysfs / device / "ports" / "1"
    rows = []
    for entry in (port / "gids").glob("*"):
        texts = [
            _read(path / entry.name) for path in (port / "gids", port / "gid_attrs/types", port / "gid_attrs/ndevs")
        ]
        if texts[0].strip("0:") and texts[1]:
            rows.append(Gid(int(entry.name), *texts))
    return sorted(rows, key=lambda row: row.index)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:  # the kernel answers EINVAL for an entry that is not in use
        return ""


def index_of(table: Sequence[Gid], address: str) -> int | None:
    """The index of the RoCE v2 entry with this IPv4 address, or None."""
    wanted = ipaddress.IPv4Address(address)
    return next((row.index for row in table if row.kind == ROCE_V2 and row.ipv4() == wanted), None)


def launch_environment(addresses: Mapping[str, str], tables: Mapping[str, Sequence[Gid]]) -> tuple[dict[str, str], str]:
    """What NCCL gets about the GIDs of ``addresses`` (device -> IPv4), and a sentence when a rail has none.

    NCCL_IB_GID_INDEX is one number for all devices. Where they differ it stays unset: NCCL since 2.21 then finds each
    device's own by the NCCL_IB_ADDR_FAMILY and NCCL_IB_ROCE_VERSION_NUM that the plan sets.
    """
    found = {device: index_of(tables.get(device, ()), address) for device, address in addresses.items()}
    missing = [
        f"{device} has no RoCE v2 GID for {addresses[device]}" for device, index in found.items() if index is None
    ]
    if missing:
        return {}, "; ".join(missing) + ": is the cable in and the address set? `ip -br addr`, `show_gids`"
    indices = {index for index in found.values() if index is not None}
    return ({"NCCL_IB_GID_INDEX": str(indices.pop())} if len(indices) == 1 else {}), ""


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the GID environment of this host's rails as NAME=value lines.")
    parser.add_argument("rails", nargs="+", metavar="DEVICE=IPV4", help="e.g. rocep1s0f1=192.168.100.10")
    addresses = dict(text.split("=", 1) for text in parser.parse_args().rails)
    environment, problem = launch_environment(addresses, {device: read_table(device) for device in addresses})
    if problem:
        sys.exit(f"gb10.fleet: {problem}")
    print("".join(f"{name}={value}\n" for name, value in environment.items()), end="")


if __name__ == "__main__":
    main()
