# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's decisions: names, topologies, cables, what they mean for links and files. No root, no lab."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab import base, cli, disk, links, linkwatch, model, requirements, ssh
from lab.errors import LabError
from lab.imitations import FILES, PROGRAMS, START_OF_PYTHON, UNITS
from lab.model import Cable, Lab, Port, between, parse_cable
from lab.wiring import REPLUGGED_RATE, Half, Socket, Wiring, sees_cable, sockets
from lab.workspace import Running, Workspace, start_time

HOSTS = ("titan", "spark-2", "spark-3")
CABLE = parse_cable("spark-2:1=spark-3:1")
LAB = Lab(HOSTS, (CABLE,))


def wiring(*cables: str) -> Wiring:
    return Wiring.of(HOSTS, tuple(parse_cable(text) for text in cables))


def halves_of(*hosts: str) -> frozenset[Half]:
    return frozenset(half for host in hosts for half in links.ports_of(host))


# -- names and topologies


def test_default_hosts_are_the_fleets() -> None:
    assert model.default_hosts(4) == ("titan", "spark-2", "spark-3", "spark-4")


@pytest.mark.parametrize(
    ("topology", "count", "cables"),
    [
        ("direct", 1, []),
        ("direct", 2, []),
        ("direct", 3, ["spark-2:1=spark-3:1"]),
        ("direct", 4, ["spark-2:1=spark-3:1"]),
        ("direct", 5, ["spark-2:1=spark-3:1", "spark-4:1=spark-5:1"]),
        ("switch", 3, ["spark-2:1=switch", "spark-3:1=switch"]),
        ("ring", 4, ["spark-2:0=spark-3:1", "spark-3:0=spark-4:1", "spark-2:1=spark-4:0"]),
    ],
)
def test_topologies(topology: str, count: int, cables: list[str]) -> None:
    assert [str(cable) for cable in model.topology_cables(topology, model.default_hosts(count))] == cables


@pytest.mark.parametrize("topology", ["direct", "switch", "ring"])
@pytest.mark.parametrize("count", range(4, model.MAX_HOSTS + 1))
def test_every_topology_can_be_wired(topology: str, count: int) -> None:
    hosts = model.default_hosts(count)
    Wiring.of(hosts, model.topology_cables(topology, hosts))


def test_addresses_and_interface_names_of_the_largest_lab_are_distinct_and_fit() -> None:
    lab = Lab(model.default_hosts(model.MAX_HOSTS), ())
    assert len({lab.address(host) for host in lab.hosts}) == model.MAX_HOSTS
    commands = [command for host in lab.hosts for command in links.plug_in_host(lab.hosts, host, "/proc/self/fd/9")]
    names = [command.split()[2] for command in commands if command.startswith("link add")]
    macs = [word for command in commands for word in command.split() if word.count(":") == 5]
    assert len(set(names)) == len(names) == 5 * model.MAX_HOSTS
    assert max(map(len, names)) <= 15
    assert len(set(macs)) == len(macs) == 5 * model.MAX_HOSTS


@pytest.mark.parametrize("text", ["spark-2:1=spark-3:1", "spark-2:0=switch", "spark-2:1=spark-3:1@100mbit"])
def test_cables_are_read_as_they_are_written(text: str) -> None:
    assert str(parse_cable(text)) == text


def test_a_cable_is_the_same_from_both_ends() -> None:
    assert parse_cable("spark-3:1=spark-2:1") == CABLE


@pytest.mark.parametrize(
    ("parse", "text", "words"),
    [
        (model.parse_port, "spark-2", "HOST:0 or HOST:1"),
        (model.parse_port, "spark-2:2", "HOST:0 or HOST:1"),
        (model.parse_cable, "spark-2:1", "spark-2:1=spark-3:1"),
        (model.parse_cable, "spark-2:1=spark-3:1@fast", "100mbit"),
        (model.parse_share, "models:/srv", "/directory/here"),
        (model.parse_share, "/models:/", "/directory/here"),
        (lambda text: model.check_hosts(tuple(text.split(","))), "titan,titan", "named twice"),
        (lambda text: model.check_hosts(tuple(text.split(","))), "Titan", "can't be a host"),
        (lambda text: model.check_hosts(tuple(text.split(","))), "switch", "can't be a host"),
        (lambda text: model.check_hosts(tuple(text.split(","))), "a-name-too-long-to-be-one", "can't be a host"),
        (lambda text: model.default_hosts(int(text)), "0", "1 to 32"),
        (lambda text: model.topology_cables(text, HOSTS), "ring", "a ring needs 3 hosts"),
        (model.check_renderer, "ifupdown", "NetworkManager or networkd"),
    ],
)
def test_bad_words_are_refused_with_what_to_write(parse: Callable[[str], object], text: str, words: str) -> None:
    with pytest.raises(LabError, match=words):
        parse(text)


def test_hosts_are_chosen_by_name() -> None:
    assert model.chosen("spark-3,titan", HOSTS) == ("titan", "spark-3")
    assert (model.chosen("*", HOSTS), model.chosen("", HOSTS)) == (HOSTS, ())
    with pytest.raises(LabError, match='"spark-9" is no host of this lab: titan, spark-2, spark-3'):
        model.chosen("titan,spark-9", HOSTS)


def test_lab_survives_json() -> None:
    cables = (CABLE, Cable(Port("titan", 0), None, "1gbit"))
    shares = (model.Share("/a b", "/srv/models"), model.Share("/c", "/run/d", writable=True))
    lab = Lab(HOSTS, cables, shares, "networkd", hotplug=True, passwordless_sudo=True, docker=("titan",))
    assert Lab.from_json(json.loads(json.dumps(lab.as_json()))) == lab


# -- cables


def test_pulled_cable_goes_back_where_it_was() -> None:
    pulled = wiring(str(CABLE)).pull(Port("spark-3", 1))
    assert pulled.plugged == ()
    assert pulled.plug_back(Port("spark-2", 1)).plugged == (CABLE,)


def test_swap_moves_cables_with_their_rates() -> None:
    swapped = wiring("spark-2:1=spark-3:1@1gbit").swap(Port("spark-2", 1), Port("titan", 0))
    assert list(map(str, swapped.plugged)) == ["spark-3:1=titan:0@1gbit"]


def test_limit_is_taken_back_by_none() -> None:
    limited = wiring(str(CABLE)).limit(Port("spark-2", 1), "100mbit")
    assert limited.plugged == (replace(CABLE, rate="100mbit"),)
    assert limited.limit(Port("spark-3", 1), None).plugged == (CABLE,)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda w: w.pull(Port("titan", 1)), "no cable is plugged into titan:1"),
        (lambda w: w.plug(parse_cable("titan:1=spark-2:1")), "spark-2:1 has a cable already"),
        (lambda w: w.plug(parse_cable("titan:1=titan:1")), "the same port"),
        (lambda w: w.plug(parse_cable("titan:1=beast:1")), "no host beast"),
        (lambda w: w.plug_back(Port("titan", 1)), "had no cable when the lab came up"),
        (lambda w: w.plug_back(Port("spark-2", 1)), "has a cable already"),
        (lambda w: w.swap(Port("titan", 0), Port("titan", 1)), "neither titan:0 nor titan:1"),
        (lambda w: w.limit(Port("titan", 1), "1gbit"), "no cable is plugged into titan:1"),
    ],
)
def test_impossible_cabling_is_refused(act: Callable[[Wiring], Wiring], words: str) -> None:
    with pytest.raises(LabError, match=words):
        act(wiring(str(CABLE)))


PORTS = st.builds(Port, st.sampled_from(HOSTS), st.sampled_from((0, 1)))


@given(st.lists(st.tuples(PORTS, PORTS)))
def test_swaps_lose_no_cable_and_never_put_two_into_a_port(pairs: list[tuple[Port, Port]]) -> None:
    now = wiring("spark-2:1=spark-3:1", "spark-2:0=switch", "titan:0=spark-3:0")
    for one, other in pairs:
        if now.cable_at(one) or now.cable_at(other):
            now = now.swap(one, other)
    ports = [port for cable in now.plugged for port in cable.ports]
    assert len(now.plugged) == 3
    assert len(set(ports)) == len(ports) == 5


@given(PORTS, PORTS)
def test_swapping_twice_is_as_before(one: Port, other: Port) -> None:
    before = wiring("spark-2:1=spark-3:1", "titan:0=spark-3:0")
    if before.cable_at(one) or before.cable_at(other):
        assert set(before.swap(one, other).swap(one, other).plugged) == set(before.plugged)


# -- links


def test_a_cable_is_lit_when_both_its_ends_are_on() -> None:
    lit = {half for half, end in sockets(wiring(str(CABLE)), halves_of(*HOSTS)).items() if end.lit}
    assert lit == {Half(Port(host, 1), number) for host in ("spark-2", "spark-3") for number in (0, 1)}
    assert not any(end.lit for end in sockets(wiring(str(CABLE)), halves_of("titan", "spark-2")).values())


def test_the_halves_of_a_cable_receive_each_other_and_have_a_light_each() -> None:
    ends = sockets(wiring(str(CABLE)), halves_of(*HOSTS))
    bridges = [end.bridge for end in ends.values() if end.bridge]
    assert len(bridges) == 4 and len(set(bridges)) == 1
    down = halves_of(*HOSTS) - {Half(Port("spark-3", 1), 1)}
    lit = {half.number for half, end in sockets(wiring(str(CABLE)), down).items() if end.lit}
    assert lit == {0}


def test_a_switch_lights_its_ports_whatever_else_is_off() -> None:
    assert sockets(wiring("spark-2:1=switch"), frozenset())[Half(Port("spark-2", 1), 0)].lit


@pytest.mark.parametrize(
    ("cable", "on", "seen"),
    [
        ("spark-2:1=spark-3:1", ("spark-2", "spark-3"), True),
        ("spark-2:1=spark-3:1", ("spark-3",), True),  # of a host that boots just now
        ("spark-2:1=spark-3:1", ("spark-2", "titan"), False),  # the other end is off
        ("spark-2:0=switch", ("spark-2",), True),
        ("titan:1=spark-3:1", ("titan", "spark-2", "spark-3"), False),
    ],
)
def test_hot_plug_sees_a_cable_with_somebody_at_its_end(cable: str, on: tuple[str, ...], seen: bool) -> None:
    assert sees_cable(wiring(cable), on, "spark-2") is seen


def test_a_replugged_adapter_is_slow_in_sending_alone() -> None:
    ends = sockets(wiring(str(CABLE)), halves_of(*HOSTS), frozenset({"spark-2"}))
    rates = {half.port.host: end.rate for half, end in ends.items() if end.bridge}
    assert rates == {"spark-2": None, "spark-3": REPLUGGED_RATE}
    limited = sockets(wiring(f"{CABLE}@100mbit"), halves_of(*HOSTS), frozenset({"spark-2"}))
    assert {end.rate for end in limited.values() if end.bridge} == {"100mbit"}


def test_rewiring_to_the_same_does_nothing() -> None:
    ends = sockets(wiring(str(CABLE)), halves_of(*HOSTS))
    assert links.rewire(HOSTS, ends, ends) == []
    assert links.reshape(HOSTS, ends, ends) == []


def test_pulling_takes_light_and_bridges_away() -> None:
    ends = sockets(wiring(str(CABLE)), halves_of(*HOSTS))
    dark = sockets(wiring(), halves_of(*HOSTS))
    commands = links.rewire(HOSTS, ends, dark)
    assert commands.count("link set h1p1a down") == commands.count("link set h2p1a down") == 1
    assert [command for command in commands if command.startswith("link delete")] == ["link delete ch1p1a"]


def test_bridge_of_a_cable_stays_while_one_end_has_power() -> None:
    both = sockets(wiring(str(CABLE)), halves_of(*HOSTS))
    dark = sockets(wiring(str(CABLE)), halves_of("titan", "spark-2"))
    one = {half: end for half, end in dark.items() if half.port.host != "spark-3"}
    assert links.rewire(HOSTS, both, one) == ["link set h1p1a down", "link set h1p1b down"]


@pytest.mark.parametrize(("rate", "burst"), [("100mbit", 131072), ("10gbit", 5_000_000)])
def test_limit_is_set_at_each_end_and_taken_off_again(rate: str, burst: int) -> None:
    half = Half(Port("spark-2", 1), 0)
    limited, free = {half: Socket("c", True, rate)}, {half: Socket("c", True)}
    assert links.reshape(HOSTS, free, limited) == [
        f"qdisc replace dev h1p1a root tbf rate {rate} burst {burst} latency 50ms"
    ]
    assert links.reshape(HOSTS, limited, free) == ["qdisc delete dev h1p1a root"]


def netlink_message(kind: int, name: str, flags: int) -> bytes:
    """As linux/rtnetlink.h lays it out: header, link header, an attribute to skip, the name."""
    attributes = struct.pack("=HHI", 8, 4, 9000) + struct.pack("=HH", 5 + len(name), 3) + name.encode() + b"\0"
    attributes += bytes(-len(attributes) % 4)
    body = struct.pack("=BxHiII", 0, 1, 7, flags, 0) + attributes
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body


def test_link_announcements_are_read() -> None:
    messages = netlink_message(16, "enp1s0f1np1", 1) + netlink_message(20, "ignored", 1) + netlink_message(16, "lo", 0)
    messages += netlink_message(17, "enp1s0f1np1", 1)
    assert list(linkwatch.parse(messages)) == [("enp1s0f1np1", True), ("lo", False), ("enp1s0f1np1", False)]


@given(st.binary())
def test_garbled_announcements_end(messages: bytes) -> None:
    with contextlib.suppress(struct.error, UnicodeDecodeError):
        list(linkwatch.parse(messages))


# -- files


def test_every_host_file_is_there_once_and_private_ones_are_private() -> None:
    files = disk.host_files(LAB, "0123abcd", "spark-2", disk.HostKey("secret", "public"), "ssh-ed25519 AAAA")
    by_path = {file.path: file for file in files}
    assert len(by_path) == len(files)
    assert by_path["/etc/ssh/ssh_host_ed25519_key"].mode == 0o600
    assert by_path["/etc/netplan/00-lab-management.yaml"].mode == 0o600
    assert "10.77.0.12/24" in by_path["/etc/netplan/00-lab-management.yaml"].text
    assert "10.77.0.13 spark-3" in by_path["/etc/hosts"].text
    assert "LimitNOFILE=1024:4096" in by_path["/etc/systemd/system/ssh.service.d/lab.conf"].text


@pytest.mark.parametrize("renderer", model.RENDERERS)
@pytest.mark.parametrize("hotplug", [False, True])
def test_a_host_has_its_labs_renderer_and_hot_plug(renderer: str, hotplug: bool) -> None:
    lab = replace(LAB, renderer=renderer, hotplug=hotplug)
    files = disk.host_files(lab, "0123abcd", "spark-2", disk.HostKey("secret", "public"), "ssh-ed25519 AAAA")
    assert ("/etc/nvidia/cx7-hotplug-enabled" in {file.path for file in files}) is hotplug
    netplan = "".join(file.text for file in files if "/netplan/" in file.path)
    assert ("renderer: NetworkManager" in netplan) is (renderer == "NetworkManager")
    started = {name.rpartition("/")[2] for name in disk.host_links(renderer) if "multi-user.target.wants" in name}
    assert started == {"NetworkManager.service" if renderer == "NetworkManager" else "systemd-networkd.service"}


def test_every_imitation_is_installed() -> None:
    assert {path.name for path in FILES.iterdir()} == {*PROGRAMS.values(), *START_OF_PYTHON.values(), *UNITS}


def test_what_a_zip_brings_is_compiled_once_a_host(tmp_path: Path) -> None:
    """Another source of the same name is another program; what was kept and is damaged is compiled anew."""
    text = (FILES / "lab-compiled").read_text().replace("/run/lab-compiled", str(tmp_path / "kept"))
    (tmp_path / "lab_compiled.py").write_text(text.replace("os.geteuid() == 0", "True"))

    def output(source: str) -> str:
        with zipfile.ZipFile(tmp_path / "payload.zip", "w") as payload:
            payload.writestr("brought.py", source)
        program = "import sys, lab_compiled; sys.path.insert(0, 'payload.zip'); import brought"
        command = (sys.executable, "-c", program)
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.strip()

    assert [output("print(1)"), output("print(1)"), output("print(2)")] == ["1", "1", "2"]
    kept = sorted((tmp_path / "kept").iterdir())
    assert len(kept) == 2
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0o700
    for file in kept:
        file.write_bytes(b"")
    assert [output("print(1)"), output("print(2)")] == ["1", "2"]
    assert all(file.stat().st_size for file in kept)


def test_hosts_share_what_they_compile_where_the_tests_keep_payloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GB10_PAYLOADS", raising=False)
    assert cli.kept_by_tests() == ()
    monkeypatch.setenv("GB10_PAYLOADS", str(tmp_path))
    (share,) = cli.kept_by_tests()
    assert (share.target, share.writable) == ("/run/lab-compiled", True)
    assert f'FOLDER = "{share.target}"' in (FILES / "lab-compiled").read_text()
    assert stat.S_IMODE(Path(share.source).stat().st_mode) == 0o700


def test_ssh_checks_keys_and_survives_odd_directories(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "50% of a lab")
    text = ssh.config(workspace, LAB)
    assert "StrictHostKeyChecking yes" in text
    assert "50%% of a lab' %h %p" in text
    assert "Host spark-2\n    HostName 10.77.0.12\n" in text


def test_state_speaks_of_one_process_only(tmp_path: Path) -> None:
    """A number that another process has by now is not the lab."""
    started = start_time(os.getpid())
    assert started
    state = tmp_path / "state.json"
    assert Running.find(state) is None
    Running(LAB, os.getpid(), started).save(state)
    assert Running.find(state) == Running(LAB, os.getpid(), started)
    Running(LAB, os.getpid(), started - 1).save(state)
    assert Running.find(state) is None


def test_missing_programs_are_named_by_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "_is_there", lambda need: need not in ("ssh", "ssh-keygen", "mmdebstrap"))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(LabError, match="apt-get install -y mmdebstrap openssh-client"):
        requirements.check()


def test_without_root_it_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LabError, match="needs root"):
        requirements.check()


def test_bases_of_older_lists_go_unless_a_lab_holds_them(tmp_path: Path) -> None:
    for name in ("base-new", "base-old", "base-held"):
        (tmp_path / name / "usr").mkdir(parents=True)
    base.hold(tmp_path / "base-held")
    base._remove_others(tmp_path / "base-new")
    assert {path.name for path in tmp_path.iterdir()} == {"base-new", "base-held"}


def test_between_orders_its_ends() -> None:
    assert between(Port("b", 0), Port("a", 1)) == Cable(Port("a", 1), Port("b", 0))
