# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host's guard decides, and that it puts files back as they were. The lab proves the rest (tests/fabric)."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._netplan import guard, links


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
    ("present", "problems"),
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
def test_what_is_not_as_wanted_is_said(present: list[dict[str, Any]], problems: list[str]) -> None:
    assert links.unmet([WANTED], present) == problems


def test_what_is_left_open_is_not_looked_at() -> None:
    assert links.unmet([{"name": "enP7s7", "address": None, "mtu": None}], [link("enP7s7", mtu=1234)]) == []


def test_names_macs_and_independence_are_given_back() -> None:
    before = [link("enP7s7", address="02:00:00:00:00:01")]
    now = [link("lan0", address="02:00:00:00:00:99", master="br0")]
    assert links.renamings(before, now) == [
        ["link", "set", "lan0", "nomaster"],
        ["link", "set", "lan0", "down"],
        ["link", "set", "lan0", "name", "enP7s7"],
        ["link", "set", "enP7s7", "address", "02:00:00:00:00:01"],
    ]
    assert links.renamings(before, before) == []


def test_what_netplan_leaves_behind_is_cleared() -> None:
    before = [link("enP7s7", index=2), link("enp1s0f1np1", index=5)]
    now = [
        link("enP7s7", index=2, flags=["BROADCAST"]),
        link("enp1s0f1np1", index=5, mtu=9000),
        link("br0", index=9),
        link("veth1a2b", index=10),
    ]
    assert links.remnants(before, now, {"br0"}) == [
        ["link", "set", "enP7s7", "up"],
        ["link", "set", "enp1s0f1np1", "mtu", "1500"],
        ["link", "delete", "br0"],
    ]


def test_virtual_devices_are_named_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "10-netplan-br0.netdev").write_text("[NetDev]\nName=br0\nKind=bridge\n")
    (tmp_path / "10-netplan-enP7s7.network").write_text("[Match]\nName=enP7s7\n")
    assert links.virtual_devices(tmp_path) == {"br0"}


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


def test_a_link_comes_back_as_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept.yaml").write_text("network: {}")
    path = tmp_path / "40-cx7.yaml"
    path.symlink_to("kept.yaml")
    before = guard.snapshot(path)
    guard.put(path, guard.snapshot(tmp_path / "kept.yaml"))
    assert not path.is_symlink()
    guard.put(path, before)
    assert str(path.readlink()) == "kept.yaml"
    assert (tmp_path / "kept.yaml").read_text() == "network: {}"


def test_a_write_that_fails_leaves_the_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "40-cx7.yaml"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        guard.put(path, guard.snapshot(path))
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("40-cx7.yaml", "old")]


def full(_descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# What `ip` puts back ------------------------------------------------------------------------------------------------

BEFORE = {
    "links": [link("enP7s7", "10.77.0.11/24", index=2), link("enp1s0f1np1", index=5)],
    "routes": ["default via 10.77.0.1 dev enP7s7 proto static", "10.77.0.0/24 dev enP7s7 proto kernel scope link"],
}


@pytest.mark.parametrize(
    ("now", "routes", "commands"),
    [
        (BEFORE["links"], BEFORE["routes"], []),
        (
            [link("enP7s7", "10.78.0.11/24", index=2)],
            ["unreachable 10.77.0.1 proto static", "10.78.0.0/24 dev enP7s7 proto kernel scope link"],
            [
                "address del 10.78.0.11/24 dev enP7s7",
                "address add 10.77.0.11/24 brd + dev enP7s7",
                "route del unreachable 10.77.0.1 proto static",
                "route replace 10.77.0.0/24 dev enP7s7 proto kernel scope link",
                "route replace default via 10.77.0.1 dev enP7s7 proto static",
            ],
        ),
        (
            [*BEFORE["links"], link("docker0", "172.17.0.1/16", index=9)],
            [*BEFORE["routes"], "172.17.0.0/16 dev docker0 proto kernel scope link", "10.0.0.0/8 dev docker0"],
            [],
        ),
    ],
)
def test_addresses_and_routes_go_back_to_what_they_were(
    now: list[dict[str, Any]], routes: list[str], commands: list[str]
) -> None:
    assert [" ".join(command) for command in links.differences(BEFORE, now, routes)] == commands


def of_6(local: str, **more: Any) -> dict[str, Any]:
    return {"family": "inet6", "local": local, "prefixlen": 64, "scope": "global"} | more


def test_an_ipv6_address_by_which_the_owner_comes_goes_back_too() -> None:
    """What a router or the kernel gives is neither added nor taken away."""
    route = "-6 default via fd77::1 dev enP7s7 proto static metric 1024 pref medium"
    was, now = link("enP7s7", index=2), link("enP7s7", index=2)
    was["addr_info"] += [of_6("fd77::11"), of_6("2001:db8::1", dynamic=True), of_6("fe80::1", scope="link")]
    now["addr_info"] += [of_6("fd78::11"), of_6("2001:db8::2", dynamic=True), of_6("fe80::2", scope="link")]
    found = links.differences(
        {"links": [was, link("lo")], "routes": [route]}, [now], ["-6 unreachable default dev lo proto static"]
    )
    assert [" ".join(command) for command in found] == [
        "address del fd78::11/64 dev enP7s7",
        "address add fd77::11/64 nodad dev enP7s7",
        "-6 route del unreachable default dev lo proto static",
        "-6 route replace default via fd77::1 dev enP7s7 proto static metric 1024 pref medium",
    ]


def test_routes_are_read_as_ip_takes_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = {
        "-4": "default via 10.77.0.1 dev enP7s7 proto static onlink \n192.168.100.0/24 dev enp1s0f1np1 linkdown \n",
        "-6": "fd77::/64 dev enP7s7 proto kernel metric 256\ndefault via fd77::1 dev enP7s7 proto static \n",
    }
    monkeypatch.setattr(links, "run", lambda command: said[command[1]])
    monkeypatch.setattr(links, "IPV6", tmp_path)
    of_4 = ["default via 10.77.0.1 dev enP7s7 proto static onlink", "192.168.100.0/24 dev enp1s0f1np1"]
    assert links.read_routes() == [*of_4, "-6 default via fd77::1 dev enP7s7 proto static"]
    monkeypatch.setattr(links, "IPV6", tmp_path / "none")
    assert links.read_routes() == of_4


def test_a_lease_that_runs_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a host with DHCP would never count as calm."""
    lifetimes = iter((86400, 86399))
    said = '[{"addr_info":[{"local":"10.77.0.11","valid_life_time":%d,"preferred_life_time":60}]}]'
    monkeypatch.setattr(links, "run", lambda command: said % next(lifetimes) if command[2] == "address" else "[]")
    assert links.read_state() == links.read_state()


# The whole way, on a host where nothing works any more ---------------------------------------------------------------


class Host:
    """Commands that a host answers, or not; `ip` shows it as it was before."""

    def __init__(self, broken: set[str]) -> None:
        self.broken, self.asked = broken, list[str]()

    def run(self, command: Sequence[str]) -> str:
        self.asked.append(" ".join(command))
        if command[0] in self.broken:
            raise links.CommandError(f"{command[0]} is broken")
        if command[:2] == ["ip", "-4"]:
            return "".join(f"{route}\n" for route in BEFORE["routes"])
        return json.dumps(BEFORE["links"]) if command[:2] == ["ip", "-j"] else ""


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A change that was applied and not confirmed; the disk is full but for what was set aside."""
    monkeypatch.setattr(guard, "STATE", tmp_path / "state")
    monkeypatch.setattr(guard, "SETTLE_LIMIT_S", 0.0)
    monkeypatch.setattr(guard, "read_links", lambda: BEFORE["links"])
    monkeypatch.setattr(guard, "read_routes", lambda: BEFORE["routes"])
    new, old = tmp_path / "60-new.yaml", tmp_path / "40-old.yaml"
    old.write_text("old")
    files = {str(new): guard.snapshot(old), str(old): None}
    change = guard.stage("1", files, [])
    for path, file in files.items():
        guard.put(Path(path), file)
    assert (new.exists(), old.exists()) == (True, False)
    return change


@pytest.mark.parametrize("broken", [set[str](), {"netplan"}, {"ip"}, {"netplan", "ip", "systemctl"}])
def test_the_old_files_come_back_whatever_is_broken(
    staged: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: set[str]
) -> None:
    host = Host(broken)
    monkeypatch.setattr(links, "run", host.run)
    guard.settle(staged)
    assert sorted(path.name for path in tmp_path.glob("*.yaml")) == ["40-old.yaml"]
    assert "netplan apply" in host.asked
    assert ("systemctl restart systemd-networkd" in host.asked) == ("netplan" in broken)
    assert (guard.load() or {})["phase"] == "restored"


def test_room_is_set_aside_and_given_back(staged: dict[str, Any], tmp_path: Path) -> None:
    reserve = tmp_path / "state" / "reserve"
    assert reserve.stat().st_blocks * 512 >= guard.RESERVE_BYTES
    guard.recover(staged)
    assert not reserve.exists()


def test_a_change_that_never_began_says_so(
    staged: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when not even the record could be written, on a full disk: what was set aside is enough for it."""
    monkeypatch.setattr(sys, "argv", ["netplan", "settle"])
    guard.main()
    told = guard.load() or {}
    assert (told["phase"], "could not begin" in told["reason"]) == ("restored", True)
    assert not (tmp_path / "state" / "reserve").exists()


def test_a_file_that_can_not_be_written_keeps_no_other_from_coming_back(
    staged: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "run", Host(set()).run)
    staged["before"] = {str(tmp_path / "no" / "such"): {"link": "x"}, **staged["before"]}
    (tmp_path / "no").write_text("a file where a folder should be")
    guard.settle(staged)
    assert sorted(path.name for path in tmp_path.glob("*.yaml")) == ["40-old.yaml"]


def test_no_clock_that_can_be_set_is_read() -> None:
    """A clock that jumps in the window neither ends it nor makes it longer."""
    source = Path(guard.__file__).read_text("utf-8")
    assert re.findall(r"\b(?:time\.time|datetime|clock_gettime)\b", source) == []
