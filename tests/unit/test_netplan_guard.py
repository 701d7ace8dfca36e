# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host's guard decides, and that it puts files back as they were. The lab proves the rest (tests/fabric)."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._host.netplan import outcome, staging
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.netplan import guard, links, record

ROOT = Path(__file__).resolve().parents[2]
PLACES = {record.STATE: "state", record.RUN: "run"}


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
def test_what_is_not_as_wanted_is_reported(present: list[dict[str, Any]], problems: list[str]) -> None:
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
    profile = "[connection]\nid=netplan-{0}\ntype={1}\ninterface-name={0}\n"
    for name, kind in (("enP7s7", "ethernet"), ("wlP9s9", "wifi"), ("bond0", "bond"), ("vlan9", "vlan")):
        (tmp_path / f"netplan-{name}.nmconnection").write_text(profile.format(name, kind))
    (tmp_path / "mine.nmconnection").write_text(profile.format("virbr0", "bridge"))
    assert links.virtual_devices(tmp_path, tmp_path) == {"br0", "bond0", "vlan9"}


def test_a_file_comes_back_with_bytes_mode_and_owner(tmp_path: Path) -> None:
    path = tmp_path / "netplan" / "40-cx7.yaml"
    path.parent.mkdir()
    path.write_bytes(b"old \xff bytes")
    path.chmod(0o640)
    before = record.snapshot(path)
    record.put(path, record.snapshot(Path(os.devnull)) and {**(before or {}), "content": "", "mode": 0o600})
    assert path.read_bytes() == b""
    record.put(path, before)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"old \xff bytes", 0o640)
    assert [entry.name for entry in path.parent.iterdir()] == ["40-cx7.yaml"]
    record.put(path, None)
    assert record.snapshot(path) is None
    record.put(path, None)


def test_a_link_comes_back_as_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept.yaml").write_text("network: {}")
    path = tmp_path / "40-cx7.yaml"
    path.symlink_to("kept.yaml")
    before = record.snapshot(path)
    record.put(path, record.snapshot(tmp_path / "kept.yaml"))
    assert not path.is_symlink()
    record.put(path, before)
    assert str(path.readlink()) == "kept.yaml"
    assert (tmp_path / "kept.yaml").read_text() == "network: {}"


def test_a_write_that_fails_leaves_the_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "40-cx7.yaml"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        record.put(path, record.snapshot(path))
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("40-cx7.yaml", "old")]


def full(_descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# What `ip` puts back ------------------------------------------------------------------------------------------------

BEFORE: dict[str, list[Any]] = {
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


def test_an_address_of_networkmanagers_comes_back_without_a_second_route() -> None:
    """It sets the route of an address itself, with a metric; the kernel's own beside it would come first."""
    was, now = link("enP7s7", "10.77.0.11/24", index=2), link("enP7s7", index=2)
    was["addr_info"][0]["noprefixroute"] = True
    route = "10.77.0.0/24 dev enP7s7 proto kernel scope link src 10.77.0.11 metric 100"
    before = {"links": [was], "routes": [route]}
    extra = "10.77.0.0/24 dev enP7s7 proto kernel scope link src 10.77.0.11"
    assert [" ".join(command) for command in links.differences(before, [now], [])] == [
        "address add 10.77.0.11/24 brd + noprefixroute dev enP7s7",
        f"route replace {route}",
    ]
    found = links.differences(before, [was], [route, extra])
    assert [" ".join(command) for command in found] == [f"route del {extra}"]


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
    outputs = {
        "-4": "default via 10.77.0.1 dev enP7s7 proto static onlink \n192.168.100.0/24 dev enp1s0f1np1 linkdown \n",
        "-6": "fd77::/64 dev enP7s7 proto kernel metric 256\ndefault via fd77::1 dev enP7s7 proto static \n",
    }
    monkeypatch.setattr(links, "run", lambda command: outputs[command[1]])
    monkeypatch.setattr(links, "IPV6", tmp_path)
    of_4 = ["default via 10.77.0.1 dev enP7s7 proto static onlink", "192.168.100.0/24 dev enp1s0f1np1"]
    assert links.read_routes() == [*of_4, "-6 default via fd77::1 dev enP7s7 proto static"]
    monkeypatch.setattr(links, "IPV6", tmp_path / "none")
    assert links.read_routes() == of_4


def test_a_lease_that_runs_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a host with DHCP would never count as calm."""
    lifetimes = iter((86400, 86399))
    outputs = '[{"addr_info":[{"local":"10.77.0.11","valid_life_time":%d,"preferred_life_time":60}]}]'
    monkeypatch.setattr(links, "run", lambda command: outputs % next(lifetimes) if command[2] == "address" else "[]")
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
    monkeypatch.setattr(record, "STATE", tmp_path / "state")
    for module in (record, guard):
        monkeypatch.setattr(module, "RUN", tmp_path / "run")
    monkeypatch.setattr(guard, "NETPLAN", f"{tmp_path}/")
    monkeypatch.setattr(guard, "SHADOWS", tmp_path / "shadows")
    monkeypatch.setattr(guard, "SETTLE_LIMIT_S", 0.0)
    monkeypatch.setattr(guard, "GRACE_S", 0.0)
    folders = tuple((unit, tmp_path / unit, "netplan-*") for unit, _, _ in links.RENDERED)
    for module in (links, staging):
        monkeypatch.setattr(module, "RENDERED", folders)
    for module in (guard, staging):
        monkeypatch.setattr(module, "read_links", lambda: BEFORE["links"])
        monkeypatch.setattr(module, "read_routes", lambda: BEFORE["routes"])
    new, old = tmp_path / "60-new.yaml", tmp_path / "40-old.yaml"
    old.write_text("old")
    files = {str(new): record.snapshot(old), str(old): None}
    change = staging.stage("1", files, [])
    for path, file in files.items():
        record.put(Path(path), file)
    assert (new.exists(), old.exists()) == (True, False)
    return change


@pytest.mark.parametrize("renderer", [unit for unit, _, _ in links.RENDERED])
@pytest.mark.parametrize("broken", [set[str](), {"netplan"}, {"ip"}, {"netplan", "ip", "systemctl"}])
def test_the_old_files_come_back_whatever_is_broken(
    staged: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: set[str], renderer: str
) -> None:
    """Where netplan fails, what it has written files for is started again, and nothing else."""
    host = Host(broken)
    monkeypatch.setattr(links, "run", host.run)
    (tmp_path / renderer).mkdir()
    (tmp_path / renderer / "netplan-enP7s7").touch()
    guard.settle(staged, "it was interrupted")
    assert sorted(path.name for path in tmp_path.glob("*.yaml")) == ["40-old.yaml"]
    assert "netplan apply" in host.asked
    restarted = [command for command in host.asked if command.startswith("systemctl restart")]
    assert restarted == ([f"systemctl restart {renderer}"] if "netplan" in broken else [])
    assert (record.load() or {})["phase"] == "restored"
    assert list(tmp_path.glob("*/way-back.sh")) == []


def test_room_is_set_aside_and_given_back(staged: dict[str, Any], tmp_path: Path) -> None:
    reserve = tmp_path / "state" / "reserve"
    assert reserve.stat().st_blocks * 512 >= record.RESERVE_BYTES
    guard.recover(staged)
    assert not reserve.exists()


def test_a_change_that_never_began_reports_it(
    staged: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when not even the record could be written, on a full disk: what was set aside is enough for it."""
    monkeypatch.setattr(sys, "argv", ["netplan", "settle"])
    guard.main()
    seen = record.load() or {}
    assert (seen["phase"], "could not begin" in seen["reason"]) == ("restored", True)
    assert not (tmp_path / "state" / "reserve").exists()


def test_a_file_that_can_not_be_written_keeps_no_other_from_coming_back(
    staged: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "run", Host(set()).run)
    staged["before"] = {str(tmp_path / "no" / "such"): {"link": "x"}, **staged["before"]}
    (tmp_path / "no").write_text("a file where a folder should be")
    guard.settle(staged, "")
    assert sorted(path.name for path in tmp_path.glob("*.yaml")) == ["40-old.yaml"]


def test_no_clock_that_can_be_set_is_read() -> None:
    """A clock that jumps in the window neither ends it nor makes it longer."""
    source = Path(guard.__file__).read_text("utf-8")
    assert re.findall(r"\b(?:time\.time|datetime|clock_gettime)\b", source) == []


# A disk that can't be written any more ------------------------------------------------------------------------------


@pytest.fixture
def read_only(staged: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """As a file system that the kernel remounts after an error: nothing below it can be written or removed."""
    folder, state = Path(next(iter(staged["before"]))).parent, tmp_path / "state"

    def guarded(name: str) -> None:
        real = getattr(Path, name)

        def call(self: Path, *arguments: Any, **more: Any) -> Any:
            if (self.parent == folder and self.suffix) or state in (self, *self.parents):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))
            return real(self, *arguments, **more)

        monkeypatch.setattr(Path, name, call)

    for name in ("unlink", "touch", "replace", "mkdir", "symlink_to"):
        guarded(name)
    host = Host(set())
    monkeypatch.setattr(links, "run", host.run)
    monkeypatch.setattr(guard, "run", host.run)
    return host


def test_a_disk_that_became_read_only_keeps_no_owner_out(
    staged: dict[str, Any], read_only: Host, tmp_path: Path
) -> None:
    guard.settle(staged, "no new SSH connection confirmed the change in time")
    assert "netplan apply" in read_only.asked
    assert (tmp_path / "shadows" / "40-old.yaml").read_text() == "old"
    assert (tmp_path / "shadows" / "60-new.yaml").read_bytes() == b"network: {version: 2}\n"
    status = outcome.newest((tmp_path / "run" / "status.json").read_text(), "1") or {}
    assert status["phase"] == "restored"
    words = outcome.refusal(outcome.Contact(status, answered=True))
    assert "40-old.yaml could not be put back (Read-only file system): its old text is in effect from" in words
    assert "make /etc writable again" in words


def test_what_could_not_be_put_back_is_put_back_by_the_next_run(
    staged: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    with monkeypatch.context():
        request.getfixturevalue("read_only")
        guard.settle(staged, "")
        monkeypatch.undo()
    monkeypatch.setattr(record, "STATE", tmp_path / "state")
    monkeypatch.setattr(record, "RUN", tmp_path / "run")
    last = record.load()
    new, old = (str(tmp_path / name) for name in ("60-new.yaml", "40-old.yaml"))
    shadows = {str(path): path.read_bytes() for path in (tmp_path / "shadows").iterdir()}
    assert staging.owed(last, {new: b"old", **shadows}) == {old: b"old"}
    assert last is not None
    staging.put_back(last)
    assert sorted(path.name for path in tmp_path.rglob("*.yaml")) == ["40-old.yaml"]
    assert staging.owed(None, {new: b"x"}) == {new: b"x"}


def test_a_confirmation_that_can_not_be_kept_does_not_count(
    staged: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next boot would take the change back, long after the owner was told that it is in force."""
    asked = Host(set())
    monkeypatch.setattr(guard, "run", asked.run)
    monkeypatch.setattr(guard, "_wait_for_calm", lambda: None)
    real = record.put

    def put(path: Path, file: Any) -> None:
        if path == tmp_path / "state" / record.CHANGE and staged["phase"] == "confirmed":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        real(path, file)
        if staged["phase"] == "applied":
            (tmp_path / "run" / record.CONFIRMED).write_text("1")

    monkeypatch.setattr(record, "put", put)
    with pytest.raises(links.CommandError, match="can't be recorded on the disk"):
        guard.change_and_wait(staged)
    seen = [outcome.newest((tmp_path / folder / "status.json").read_text(), "1") or {} for folder in ("state", "run")]
    assert {status["phase"] for status in seen} == {"applied"}


# The guard's own state ------------------------------------------------------------------------------------------------

DAMAGE = {
    "emptied": lambda text: b"",
    "truncated": lambda text: text[: len(text) // 2],
    "a list": lambda text: b"[]",
    "null": lambda text: b"null",
    "empty map": lambda text: b"{}",
    "not UTF-8": lambda text: b"\xff" + text,
    "unknown phase": lambda text: text.replace(b'"phase": "staged"', b'"phase": "begun"'),
    "step of a wrong type": lambda text: text.replace(b'"step": 1', b'"step": "1"'),
    "a folder": None,
}


@pytest.mark.parametrize("copies", [("state",), ("run",), ("state", "run")])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_record_is_set_aside_and_begun_anew(
    staged: dict[str, Any], tmp_path: Path, damage: str, copies: tuple[str, ...]
) -> None:
    for folder in copies:
        path = tmp_path / folder / record.CHANGE
        make = DAMAGE[damage]
        if make is None:
            path.unlink()
            path.mkdir()
        else:
            path.write_bytes(make(path.read_bytes()))
    assert record.read()[1] == [tmp_path / folder / record.CHANGE for folder in ("state", "run") if folder in copies]
    known = record.load()
    assert (known or {}).get("id") == ("1" if len(copies) == 1 else None)
    assert {path.parent.name for path in tmp_path.glob("*/change.json.damaged")} == {*copies}
    staging.stage("2", {}, [])
    assert record.read() == (record.load(), [])
    assert (record.load() or {})["id"] == "2"


def test_a_record_of_the_release_before_is_read(staged: dict[str, Any]) -> None:
    old = {key: value for key, value in staged.items() if key not in ("step", "unwritten")}
    assert record.parse(json.dumps(old).encode()) == staged | {"step": 0}


@pytest.mark.parametrize("content", [b"", b"2", b"1\n", b"\xff", None])
def test_only_the_changes_own_id_confirms_it(staged: dict[str, Any], tmp_path: Path, content: bytes | None) -> None:
    confirmed = tmp_path / "run" / record.CONFIRMED
    confirmed.mkdir() if content is None else confirmed.write_bytes(content)
    assert not guard._confirmed(staged)
    shutil.rmtree(confirmed, ignore_errors=True)
    confirmed.write_bytes(b"1")
    assert guard._confirmed(staged)


# The ways back that need less and less --------------------------------------------------------------------------------


def test_the_process_that_made_the_change_takes_it_back_itself(
    staged: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its memory: the program's files may be gone by then (harm F12)."""
    host = Host(set())
    for module in (guard, links):
        monkeypatch.setattr(module, "run", host.run)
    monkeypatch.setattr(guard, "_wait_for_calm", lambda: None)
    monkeypatch.setattr(guard, "WINDOW_S", 0.0)
    monkeypatch.setattr(sys, "argv", ["netplan", "run"])
    with pytest.raises(SystemExit, match="no new SSH connection"):
        guard.main()
    assert sorted(path.name for path in tmp_path.glob("*.yaml")) == ["40-old.yaml"]
    assert (record.load() or {})["phase"] == "restored"


def test_a_change_that_was_never_settled_is_settled_by_its_unit(
    staged: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "run", Host(set()).run)
    record.save(staged, phase="applied")
    monkeypatch.setattr(sys, "argv", ["netplan", "run"])
    guard.main()
    assert (record.load() or {})["reason"] == "the change was interrupted"


@pytest.mark.parametrize(("boot", "works"), [(True, True), (False, True), (False, False)])
def test_the_script_takes_a_change_back_without_our_program(
    staged: dict[str, Any], tmp_path: Path, boot: bool, works: bool
) -> None:
    """works: whether netplan does. Where it fails, NetworkManager or networkd is started again, whichever has files."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("ip", "netplan", "systemctl", "sleep", "sync", "timeout"):
        rest = 'shift\nexec "$@"\n' if name == "timeout" else "exit 1\n" if name == "netplan" and not works else ""
        (commands / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/asked\n{rest}')
        (commands / name).chmod(0o755)
    profiles = tmp_path / links.NETWORKMANAGER
    profiles.mkdir()
    for name in ("netplan-enP7s7", "netplan-enp1s0f1np1"):
        (profiles / name).touch()
    script = tmp_path / "state" / record.WAY_BACK
    assert script.read_bytes() == (tmp_path / "run" / record.WAY_BACK).read_bytes()
    search = f"{commands}:{os.environ['PATH']}"
    subprocess.run(["sh", script, *(["boot"] if boot else [])], check=True, env={"PATH": search})
    assert sorted(path.name for path in tmp_path.glob("*.yaml")) == ["40-old.yaml"]
    assert record.snapshot(tmp_path / "40-old.yaml") == staged["before"][str(tmp_path / "40-old.yaml")]
    status = outcome.newest((tmp_path / "run" / "status.json").read_text(), "1") or {}
    assert status["phase"] == "restored"
    asked = (tmp_path / "asked").read_text().splitlines()
    if boot:
        assert asked == ["sync ", "systemctl daemon-reload"]
    else:
        restarted = ["systemctl daemon-reload", f"systemctl restart {links.NETWORKMANAGER}"]
        assert [command for command in asked if command.startswith("systemctl")] == ([] if works else restarted)
        # each under a time limit, which then runs it
        assert asked[asked.index("sleep 5") + 1 :: 2] == [
            "timeout 10 ip link set enP7s7 up",
            "timeout 10 ip -4 address flush dev enP7s7",
            "timeout 10 ip link set enp1s0f1np1 up",
            "timeout 10 ip -4 address flush dev enp1s0f1np1",
            "timeout 10 ip -4 route flush table main",
            "timeout 10 ip address add 10.77.0.11/24 brd + dev enP7s7",
            "timeout 10 ip route replace 10.77.0.0/24 dev enP7s7 proto kernel scope link",
            "timeout 10 ip route replace default via 10.77.0.1 dev enP7s7 proto static",
        ]


def test_systemd_is_notified_that_the_guard_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that stands still is ended by the watchdog, and what it left is settled (harm F11)."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        links.run(["true"])
        assert systemd.recv(100) == b"WATCHDOG=1"
    links.alive()  # nobody listens any more
    unit = (ROOT / "roles/fabric/files/gb10-netplan-change.service").read_text()
    (limit,) = re.findall(r"^WatchdogSec=(\d+)$", unit, re.MULTILINE)
    assert int(limit) > links.COMMAND_TIMEOUT_S


# What the controller says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "phase"),
    [
        ("", ""),
        ('{"id": "1", "phase": "applied", "step": 3}\n{"id": "1", "phase": "applying", "step": 2}\n', "applied"),
        ('{"id": "1", "phase": "applying", "step": 2}\n{"id": "1", "phase": "restored", "step": 4}\n', "restored"),
        ('{"id": "0", "phase": "confirmed", "step": 9}\n{"id": "1", "phase": "staged", "step": 1}\n', "staged"),
        ('{"id": "1", "pha\n[]\nnull\n', ""),
    ],
)
def test_the_newer_status_of_this_change_counts(answer: str, phase: str) -> None:
    assert outcome.Contact(outcome.newest(answer, "1") or {}).phase == phase


def test_status_and_confirmation_need_a_shell_alone(tmp_path: Path, staged: dict[str, Any]) -> None:
    here = {str(record_folder): str(tmp_path / name) for record_folder, name in PLACES.items()}
    read, confirm = outcome.READ_STATUS, outcome.confirmation("1")
    for real, instead in here.items():
        read, confirm = read.replace(real, instead), confirm.replace(real, instead)
    shutil.rmtree(tmp_path / "state")
    done = subprocess.run(["sh", "-c", read], capture_output=True, text=True, check=True)
    assert outcome.newest(done.stdout, "1") == {"id": "1", "phase": "staged", "reason": "", "step": 1}
    shutil.rmtree(tmp_path / "run")
    subprocess.run(["sh", "-c", confirm], check=True)
    assert guard._confirmed(staged)


@pytest.mark.parametrize(
    ("contact", "words"),
    [
        (outcome.Contact(), "has not been reachable since"),
        (outcome.Contact({"phase": "applied"}), "has not been reachable since"),
        (outcome.Contact({"phase": "applied"}, answered=True), "did not record how the network change ended"),
        (outcome.Contact(answered=True), "no readable record"),
        (outcome.Contact(answered=True, error="sudo: I/O error"), "not asked how the network change ended: sudo: I/O"),
        (outcome.Contact({"phase": "restored", "reason": "x"}, answered=True), "took the network change back, the old"),
    ],
)
def test_the_words_fit_what_happened(contact: outcome.Contact, words: str) -> None:
    assert words in outcome.refusal(contact)
    assert ("reachable since" in outcome.refusal(contact)) == (not contact.answered)
