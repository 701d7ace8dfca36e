# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host's guard decides, and that it puts files back as they were. The lab proves the rest (tests/fabric)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._netplan import guard


def link(name: str, *addresses: str, index: int = 5, mtu: int = 1500, **more: Any) -> dict[str, Any]:
    """As `ip -j address show` has it."""
    parts = [address.partition("/") for address in addresses]
    info = [{"family": "inet", "local": part[0], "prefixlen": int(part[2])} for part in parts]
    usual = {"flags": ["BROADCAST", "UP", "LOWER_UP"], "address": "02:c7:00:01:00:00"}
    return {"ifindex": index, "ifname": name, "mtu": mtu, "addr_info": info, **usual, **more}


WANTED = {"name": "enp1s0f1np1", "address": "192.168.100.10/24", "mtu": 9000}
RIGHT = link("enp1s0f1np1", "192.168.100.10/24", mtu=9000)
DARK = ["BROADCAST", "UP"]


@pytest.mark.parametrize(
    ("links", "problems"),
    [
        ([RIGHT], []),
        ([], ["there is no interface enp1s0f1np1"]),
        ([RIGHT | {"mtu": 1500}], ["enp1s0f1np1 has MTU 1500, not 9000"]),
        ([RIGHT | {"flags": ["BROADCAST"]}], ["enp1s0f1np1 is down"]),
        ([link("enp1s0f1np1", mtu=9000)], ["enp1s0f1np1 has no address, not 192.168.100.10/24"]),
        ([link("enp1s0f1np1", mtu=9000, flags=DARK)], []),
        (
            [link("enp1s0f1np1", "192.168.100.10/24", "10.0.0.1/8", mtu=9000)],
            ["enp1s0f1np1 has 10.0.0.1/8, 192.168.100.10/24, not 192.168.100.10/24"],
        ),
    ],
)
def test_what_is_not_as_wanted_is_said(links: list[dict[str, Any]], problems: list[str]) -> None:
    assert guard.unmet([WANTED], links) == problems


def test_what_is_left_open_is_not_looked_at() -> None:
    assert guard.unmet([{"name": "enP7s7", "address": None, "mtu": None}], [link("enP7s7", mtu=1234)]) == []


def test_names_macs_and_independence_are_given_back() -> None:
    before = [link("enP7s7", address="02:00:00:00:00:01")]
    now = [link("lan0", address="02:00:00:00:00:99", master="br0")]
    assert guard.renamings(before, now) == [
        ["link", "set", "lan0", "nomaster"],
        ["link", "set", "lan0", "down"],
        ["link", "set", "lan0", "name", "enP7s7"],
        ["link", "set", "enP7s7", "address", "02:00:00:00:00:01"],
    ]
    assert guard.renamings(before, before) == []


def test_what_netplan_leaves_behind_is_cleared() -> None:
    before = [link("enP7s7", index=2), link("enp1s0f1np1", index=5)]
    now = [
        link("enP7s7", index=2, flags=["BROADCAST"]),
        link("enp1s0f1np1", index=5, mtu=9000),
        link("br0", index=9),
        link("veth1a2b", index=10),
    ]
    assert guard.remnants(before, now, {"br0"}) == [
        ["link", "set", "enP7s7", "up"],
        ["link", "set", "enp1s0f1np1", "mtu", "1500"],
        ["link", "delete", "br0"],
    ]


def test_virtual_devices_are_named_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "10-netplan-br0.netdev").write_text("[NetDev]\nName=br0\nKind=bridge\n")
    (tmp_path / "10-netplan-enP7s7.network").write_text("[Match]\nName=enP7s7\n")
    assert guard.virtual_devices(tmp_path) == {"br0"}


def test_a_file_comes_back_with_bytes_mode_and_owner(tmp_path: Path) -> None:
    path = tmp_path / "netplan" / "40-cx7.yaml"
    path.parent.mkdir()
    path.write_bytes(b"old \xff bytes")
    path.chmod(0o640)
    before = guard.snapshot(path)
    guard.put(path, guard.snapshot(Path(os.devnull)) and {**(before or {}), "content": "", "mode": 0o600})
    assert path.read_bytes() == b""
    guard.put(path, before)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"old \xff bytes", 0o640)
    assert [entry.name for entry in path.parent.iterdir()] == ["40-cx7.yaml"]
    guard.put(path, None)
    assert guard.snapshot(path) is None
    guard.put(path, None)
