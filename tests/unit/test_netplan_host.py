# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What may be changed on a host and what not, by what netplan would render."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.layout import MARK
from ansible_collections.gb10.fleet.plugins.module_utils._host.netplan import judge
from ansible_collections.gb10.fleet.plugins.module_utils._host.netplan.ssh_session import (
    carriers,
    server_end,
    session_address,
    session_port,
)
from ansible_collections.gb10.fleet.plugins.modules import netplan_apply

PATH = "/etc/netplan/40-cx7.yaml"
LINKS = {"enP7s7": "02:77:00:00:00:00", "enp1s0f1np1": "02:c7:00:01:00:00", "enP2p1s0f1np1": "02:c7:00:01:01:00"}
RAILS = ["enp1s0f1np1", "enP2p1s0f1np1"]
ADDRESSES = {"enp1s0f1np1": "192.168.100.10/24", "enP2p1s0f1np1": "192.168.101.10/24"}


def ethernets(**entries: dict[str, Any]) -> bytes:
    return yaml.safe_dump({"network": {"version": 2, "ethernets": entries}}).encode()


MANAGEMENT = ethernets(enP7s7={"addresses": ["10.77.0.11/24"]})
OURS = MARK + "\n" + ethernets(enp1s0f1np1={"mtu": 9000}, enP2p1s0f1np1={"mtu": 9000}).decode()


def render(files: Mapping[str, bytes]) -> dict[str, str]:
    """As netplan: files are joined in the order of their names, one .network file comes out for each entry."""
    joined: dict[str, Any] = {}
    for path in sorted(files, key=lambda name: name.rpartition("/")[2]):
        try:
            document = yaml.safe_load(files[path])["network"].get("ethernets", {})
        except (yaml.YAMLError, TypeError, KeyError) as error:
            raise judge.RenderError(f"{path}: {error}") from None
        for name, entry in document.items():
            joined[name] = joined.get(name, {}) | entry
    return {
        f"10-netplan-{name}.network": f"[Match]\n{_match(name, entry)}\n\n{entry}" for name, entry in joined.items()
    }


def _match(name: str, entry: Mapping[str, Any]) -> str:
    match = entry.get("match", {"name": name})
    return f"PermanentMACAddress={match['macaddress']}" if "macaddress" in match else f"Name={match['name']}"


def decide(files: Mapping[str, bytes], content: str | None = OURS, **options: Any) -> judge.Decision:
    ssh_links = options.pop("ssh_links", ["enP7s7"])
    more = options.pop("host", {})
    host = judge.Host({"/etc/netplan/00-management.yaml": MANAGEMENT, **files}, LINKS, ssh_links, **more)
    asked: dict[str, Any] = {"move_foreign": False, "ssh_interface": None} | options
    interfaces = asked.pop("interfaces", RAILS if content else [])
    wanted = [{"name": name, "address": ADDRESSES.get(name)} for name in interfaces]
    return judge.decide(host, render, PATH, content, wanted, **asked)


def refusals(files: Mapping[str, bytes], content: str | None = OURS, **options: Any) -> dict[str, str]:
    with pytest.raises(FleetError) as refused:
        decide(files, content, **options)
    return {finding.rule: finding.sentence() for finding in refused.value.findings}


def test_only_our_file_changes() -> None:
    assert decide({}) == judge.Decision({PATH: OURS.encode()}, {})
    assert decide({PATH: OURS.encode()}) == judge.Decision({}, {})


def test_our_file_goes_and_anothers_stays() -> None:
    assert decide({PATH: OURS.encode()}, None).files == {PATH: None}
    assert decide({PATH: OURS.partition("\n")[2].encode()}, None).files == {}
    assert decide({}, None).files == {}


@pytest.mark.parametrize(
    "entry",
    [
        {"enp1s0f1np1": {"dhcp4": True}},
        {"rails": {"match": {"name": "enp1s0f*"}, "dhcp4": True}},
        {"first": {"match": {"macaddress": LINKS["enp1s0f1np1"]}, "dhcp4": True}},
    ],
)
def test_another_file_for_a_rail_is_found_in_any_form(entry: dict[str, Any]) -> None:
    foreign = {"/etc/netplan/50-old.yaml": ethernets(**entry)}
    rules = refusals(foreign)
    assert set(rules) == {"netplan-foreign-claim"}
    assert "/etc/netplan/50-old.yaml: also configures enp1s0f1np1" in rules["netplan-foreign-claim"]
    decision = decide(foreign, move_foreign=True)
    (copy,) = decision.moved.values()
    assert decision.files == {"/etc/netplan/50-old.yaml": None, PATH: OURS.encode(), copy: ethernets(**entry)}


def test_a_file_of_our_name_that_others_wrote_is_kept() -> None:
    nvidias = ethernets(**{"enp1s0f1np1": {"link-local": ["ipv4"]}, "secret": {"password": "hush"}})
    decision = decide({PATH: nvidias})
    copy = decision.moved[PATH]
    assert decision.files == {PATH: OURS.encode(), copy: nvidias}
    shown = judge.describe(decision, {PATH: nvidias})
    assert [(entry["before_header"], entry["after_header"]) for entry in shown] == [(PATH, "moved aside"), (PATH, PATH)]
    assert "hush" not in str(shown)
    assert decide({PATH: OURS.encode() + b"# drifted"}).moved == {}


def test_a_file_that_also_holds_the_management_interface_is_not_moved() -> None:
    foreign = {"/etc/netplan/50-cloud-init.yaml": ethernets(all={"match": {"name": "en*"}, "dhcp4": True})}
    assert set(refusals(foreign, move_foreign=True)) == {"netplan-foreign-shared"}


def test_a_moved_file_is_named_in_the_diff_and_not_shown() -> None:
    secret = {"/etc/netplan/50-old.yaml": ethernets(enp1s0f1np1={"password": "hush"})}
    decision = decide(secret, move_foreign=True)
    assert "hush" not in str(judge.describe(decision, secret))
    assert "/etc/netplan/50-old.yaml" in str(judge.describe(decision, secret))


def test_the_interface_of_ssh_is_touched_only_when_named() -> None:
    content = MARK + "\n" + ethernets(enP7s7={"mtu": 9000}).decode()
    rules = refusals({}, content, interfaces=[])
    assert set(rules) == {"netplan-ssh-interface"}
    assert "fabric_ssh_interface=enP7s7" in rules["netplan-ssh-interface"]
    assert set(decide({}, content, interfaces=[], ssh_interface="enP7s7").files) == {PATH}
    rules = refusals({}, content, interfaces=[], ssh_links=["br0", "enP7s7"])
    assert set(rules) == {"netplan-ssh-interface"}
    assert decide({}, content, interfaces=[], ssh_links=["br0", "enP7s7"], ssh_interface="br0").files
    # naming another one, or none that is there, allows nothing
    for other in ("enp1s0f1np1", "enP7s7.5", "ANYTHING", ""):
        assert set(refusals({}, content, interfaces=[], ssh_interface=other)) == {"netplan-ssh-interface"}
    by_pattern = MARK + "\n" + ethernets(**{"0all": {"match": {"name": "en*"}, "dhcp4": True}}).decode()
    assert set(refusals({}, by_pattern, interfaces=[])) == {"netplan-ssh-interface"}


def test_what_netplan_refuses_is_not_written() -> None:
    rules = refusals({}, "network: [\n")
    assert set(rules) == {"netplan-invalid"}
    assert set(refusals({"/etc/netplan/99-broken.yaml": b"network: [\n"})) == {"netplan-already-invalid"}


def test_our_own_broken_file_is_replaced() -> None:
    broken = MARK.encode() + b"\nnetwork: [\n"
    assert set(decide({PATH: broken}).files) == {PATH}


def test_a_missing_interface_is_named() -> None:
    rules = refusals({}, interfaces=["enp1s0f0np0"])
    assert "enp1s0f0np0: there is no such interface" in rules["netplan-no-interface"]


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({}, "look why the adapter is missing"),
        ({"absent": ("the adapter is switched off", "push the plug in")}, "switched off; push the plug in"),
        ({"altnames": {"enp1s0f0np0": "enp1s0f0"}}, "expected enp1s0f0; write enp1s0f0 [netplan-altname]"),
    ],
)
def test_why_an_interface_is_missing_is_given_with_its_own_remedy(host: dict[str, Any], words: str) -> None:
    assert words in "".join(refusals({}, interfaces=["enp1s0f0np0"], host=host).values())


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("99-nvidia-sync-cluster.yaml", "delete the cluster there (Settings > Clusters > Delete)"),
        ("99-nvidia-sync-cluster.yaml", "set aside end in .sync-disabled and a date"),
        ("98-spark-vllm-docker.yaml", "run `./setup-cluster.sh --restore` on its head"),
        ("90-NM-8402ac9a-5283-3d5d-9123-a90365c4bb31.yaml", "delete 8402ac9a-5283-3d5d-9123-a90365c4bb31`"),
        ("50-mine.yaml", "remove it, or run with -e fabric_foreign=move"),
    ],
)
def test_each_program_s_file_has_its_own_remedy(name: str, remedy: str) -> None:
    messages = refusals({f"/etc/netplan/{name}": ethernets(enp1s0f1np1={"dhcp4": True})})
    assert remedy in messages["netplan-foreign-claim"]


PROFILE = "[connection]\nid=Wired 1\nuuid=8402ac9a\ntype=ethernet\n"


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (PROFILE + "interface-name=enp1s0f1np1\n", True),
        (PROFILE + "autoconnect=true\ninterface-name=enp1s0f1np1\n", True),
        (PROFILE + "[ethernet]\nmac-address=02:C7:00:01:00:00\n", True),
        (PROFILE + "autoconnect=false\ninterface-name=enp1s0f1np1\n", False),
        (PROFILE + "interface-name=enP7s7\n", False),
        (PROFILE, False),
    ],
)
def test_a_profile_of_networkmanagers_own_is_found(text: str, refused: bool) -> None:
    host = {"profiles": {"/etc/NetworkManager/system-connections/Wired 1.nmconnection": text}}
    if not refused:
        decide({}, host=host)
        return
    messages = refusals({}, host=host)
    assert "configures enp1s0f1np1" in messages["netplan-foreign-profile"]
    assert "`nmcli connection delete 'Wired 1'`" in messages["netplan-foreign-profile"]


@pytest.mark.parametrize(
    ("route", "refused"),
    [
        ("192.168.100.0/24 dev wlP9s9 proto kernel scope link src 192.168.100.23 metric 600", True),
        ("192.168.0.0/16 via 10.0.0.1 dev tailscale0", True),
        ("192.168.101.7 dev br-32d29ded7ce4 scope link", True),
        ("192.168.100.0/24 dev enp1s0f1np1 proto kernel scope link src 192.168.100.10", False),
        ("192.168.100.0/24 dev enp1s0f0np0 proto kernel scope link src 192.168.100.10", False),
        ("default via 192.168.1.1 dev enP7s7 proto dhcp", False),
        ("192.168.1.0/24 dev enP7s7 proto kernel scope link", False),
        ("unreachable 192.168.100.0/24", False),
        ("-6 fd77::/64 dev wlP9s9", False),
        ("", False),
    ],
)
def test_a_network_that_the_host_reaches_otherwise_is_not_taken(route: str, refused: bool) -> None:
    host = {"routes": ["default via 10.0.0.1 dev wlP9s9", route]}
    if not refused:
        decide({}, host=host)
        return
    messages = refusals({}, host=host)
    assert "which this host reaches by" in messages["netplan-overlap"]


# The SSH session ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "end"),
    [
        (b"A=1\0SSH_CONNECTION=10.77.0.1 50000 10.77.0.11 22\0", ("10.77.0.11", 22)),
        (b"SSH_CONNECTION=fe80::1%enP7s7 50000 fe80::2%enP7s7 22", ("fe80::2", 22)),
        (b"SSH_CONNECTION=::ffff:10.77.0.1 50000 ::ffff:10.77.0.11 2222", ("10.77.0.11", 2222)),
        (b"SSH_CONNECTION=", None),
        (b"", None),
    ],
)
def test_the_sessions_own_end(environment: bytes, end: tuple[str, int] | None) -> None:
    assert server_end(environment) == end


def test_the_session_is_found_behind_sudo(tmp_path: Path) -> None:
    tree = {30: (20, b"SUDO_USER=nvidia\0"), 20: (10, b"HOME=/root\0"), 10: (1, b"SSH_CONNECTION=1 2 10.77.0.11 22\0")}
    for process, (parent, environment) in tree.items():
        folder = tmp_path / str(process)
        folder.mkdir()
        (folder / "environ").write_bytes(environment)
        (folder / "status").write_text(f"Name:\tx\nPPid:\t{parent}\n")
    assert (session_address(30, tmp_path), session_port(30, tmp_path)) == ("10.77.0.11", 22)
    (tmp_path / "10" / "environ").write_bytes(b"")
    assert session_address(30, tmp_path) is None
    assert session_address(99, tmp_path) is None


def named(name: str, *addresses: str, **more: str) -> dict[str, Any]:
    return {"ifname": name, "addr_info": [{"local": address} for address in addresses], **more}


@pytest.mark.parametrize(
    ("links", "found"),
    [
        ([named("enP7s7", "10.77.0.11"), named("enp1s0f1np1")], ["enP7s7"]),
        ([named("enP7s7", master="br0"), named("br0", "10.77.0.11"), named("wlP9s9")], ["br0", "enP7s7"]),
        (
            [named("enP7s7", master="bond0"), named("bond0"), named("bond0.5", "10.77.0.11", link="bond0")],
            ["bond0.5", "bond0", "enP7s7"],
        ),
        ([named("enP7s7")], []),
    ],
)
def test_the_links_that_carry_a_session(links: list[dict[str, Any]], found: list[str]) -> None:
    assert carriers(links, "10.77.0.11") == found
    assert carriers(links, None) == []


@pytest.mark.parametrize(("has_second", "asked"), [(False, "generate"), (True, "netplan")])
def test_a_check_has_nothing_read_anew(
    has_second: bool, asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`netplan generate` reloads the host's systemd and udev, also for another folder; its program of before 1.2 alone
    renders."""
    text = '#!/bin/sh\nfor folder; do :; done\nmkdir -p "$folder/run/systemd/network"\n'
    for name in ("generate", "netplan", *(["configure"] if has_second else [])):
        (tmp_path / name).write_text(f"{text}echo {name} > $folder/run/systemd/network/by\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(netplan_apply, "_GENERATOR", tmp_path / "generate")
    monkeypatch.setattr(netplan_apply, "_CONFIGURATOR", tmp_path / "configure")
    assert netplan_apply._render({PATH: MANAGEMENT}) == {"by": f"{asked}\n"}
