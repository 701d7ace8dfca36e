# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What real machines showed (tests/data/hosts), through the readers and judges that meet it on a host."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._engines.memory.boots import BootLog
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.text.boot_log import parse_boot_log
from ansible_collections.gb10.fleet.plugins.module_utils._host.netplan import judge
from ansible_collections.gb10.fleet.plugins.module_utils._host.netplan.judge import governing
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe import files as probe_files
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe import machine
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.files import claims
from ansible_collections.gb10.fleet.plugins.module_utils._on_host import gids
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.netplan import links
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import host as rank_host
from ansible_collections.gb10.fleet.plugins.module_utils._subjects import state
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.container_engine.reading import read_engine
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric import perftest
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.bandwidth import judge_bandwidth
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.hardware import RAILS
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.hotplug import plugged_at, unproven
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.reading import read_rdma
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.subject import _foreign_remedy
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.state import (
    listening_sockets,
    read_state,
    running_container,
)
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.system import obstacles

HOSTS = Path(__file__).resolve().parents[1] / "data" / "hosts"
HALVES = ("enp1s0f0np0", "enP2p1s0f0np0")


def recorded(name: str) -> str:
    return (HOSTS / name).read_text()


@pytest.mark.parametrize(("name", "seconds"), [("plugged", 7200.25), ("removed", None)])
def test_a_cable_that_was_plugged_in_is_seen_in_the_kernels_lines(name: str, seconds: float | None) -> None:
    assert plugged_at(recorded(f"pair-hotplugged/{name}.txt")) == seconds
    adapter = {"plugged_s": seconds, "measured": {}}
    assert unproven(adapter, HALVES) == ([*HALVES] if seconds else [])


def test_a_link_of_13_gbps_is_named_with_the_host_that_sends() -> None:
    rails = [
        {"interface": name, "device": RAILS[name].device, "message": "", "payload_bytes": 0, "counted_bytes": None,
         "gbps": perftest.parse(recorded(f"pair-hotplugged/ib_write_bw-half-{half}.txt")).gbps}
        for half, name in enumerate(HALVES)
    ]  # fmt: skip
    assert [rail["gbps"] for rail in rails] == [13.33, 13.23]
    result = {
        "possible": True, "left_out": [], "speeds": dict.fromkeys(HALVES, 200000), "iommu": {},
        "measured": [{"name": "both halves", "segment": "spark-2:0--spark-3:0", "peer": "spark-3", "rails": rails}],
    }  # fmt: skip
    (finding,) = judge_bandwidth("spark-2", {"rail_gbps": 87.5, "port_gbps": 175}, result)
    assert (finding.rule, finding.found) == (
        "fabric-degraded",
        "it sends 26.6 Gb/s to spark-3, while the link says 200000 Mb/s",
    )


def host(**more: Any) -> judge.Host:
    found = json.loads(recorded("gx10-desktop/ip-address.json"))
    macs = {link["ifname"]: link["address"] for link in found if link["ifname"] != "lo"}
    altnames = {name: link["ifname"] for link in found for name in link.get("altnames", ())}
    return judge.Host({}, macs, ["enP7s7"], altnames=altnames, **more)


def refusals(present: judge.Host, *names: str) -> dict[str, str]:
    with pytest.raises(FleetError) as refused:
        judge.decide(
            present, lambda files: {}, "/etc/netplan/40-cx7.yaml", "", [{"name": name} for name in names],
            move_foreign=False, ssh_interface=None,
        )  # fmt: skip
    return {finding.rule: finding.sentence() for finding in refused.value.findings}


def test_a_second_name_of_an_interface_is_known_as_one() -> None:
    assert "write enP7s7" in refusals(host(), "enP7p1s0")["netplan-altname"]


def test_ports_without_a_cable_are_there_and_not_unmet() -> None:
    wanted = [{"name": name, "address": "10.100.32.1/24", "mtu": 1500} for name in HALVES]
    assert links.unmet(wanted, json.loads(recorded("gx10-desktop/ip-address.json"))) == []


def test_networkmanagers_own_profile_is_named_with_its_remedy() -> None:
    path = "/etc/NetworkManager/system-connections/compute-fabric.nmconnection"
    text = recorded("gn100-networkmanager/compute-fabric.nmconnection")
    messages = refusals(host(profiles={path: text}), *HALVES)["netplan-foreign-profile"]
    assert messages.startswith(f"{path}: a profile of NetworkManager's own configures enp1s0f0np0;")
    assert "`nmcli connection delete compute-fabric`" in messages
    assert [*claims(text, dict.fromkeys(RAILS, ""))] == ["enp1s0f0np0"]


@pytest.mark.parametrize(
    ("name", "state", "startup", "carrier", "busy"),
    [
        ("", "", "started", True, False),  # as recorded
        ("", "", "starting", True, False),  # another device waits for a lease
        ("enp1s0f0np0", "connected", "starting", True, False),
        ("enp1s0f0np0", "connected (externally)", "starting", True, False),
        ("enp1s0f0np0", "connecting (getting IP configuration)", "started", True, True),
        ("enp1s0f0np0", "deactivating", "started", True, True),
        ("enp1s0f0np0", "disconnected", "starting", True, True),
        ("enp1s0f0np0", "disconnected", "started", True, False),  # it is done, and has not connected it
        ("enp1s0f0np0", "unavailable", "starting", False, False),  # its cable is out
        ("gone", "", "starting", False, False),
    ],
)
def test_networkmanager_is_calm_when_netplans_devices_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, state: str, startup: str, carrier: bool, busy: bool
) -> None:
    """name: of netplan's device, and its state instead of the recorded one; none but the recorded ones without it."""
    rows = recorded("gn100-networkmanager/nmcli-device-status.txt").splitlines()
    start, end = rows[0].index("STATE"), rows[0].index("CONNECTION")
    states = {row.split()[0]: row[start:end].strip() for row in rows[1:]} | {"enP7s7": "connecting (prepare)"}
    states |= {name: state} if state else {}
    if name:
        (tmp_path / f"netplan-{name}.nmconnection").write_text(f"[connection]\ninterface-name={name}\n")
    device = "".join(f"{one}:{its}\n" for one, its in states.items())
    answers = {"systemctl": "active\n", "general": f"{startup}\n", "device": device}
    monkeypatch.setattr(links, "run", lambda command: answers.get(command[0]) or answers[command[4]])
    monkeypatch.setattr(links, "has_carrier", lambda _name: carrier)
    assert links.networkmanager_is_busy(tmp_path) is busy


@pytest.mark.parametrize(("active", "busy"), [("inactive", False), ("failed", False), ("activating", True)])
def test_networkmanager_that_does_not_answer_yet_is_busy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, active: str, busy: bool
) -> None:
    def run(command: list[str]) -> str:
        if command[0] == "systemctl":
            return f"{active}\n"
        raise links.CommandError("NetworkManager is not running")

    monkeypatch.setattr(links, "run", run)
    assert links.networkmanager_is_busy(tmp_path) is busy


def test_nvidia_syncs_file_is_named_with_its_remedy() -> None:
    name = "99-nvidia-sync-cluster.yaml"
    text = recorded(f"pair-nvidia-sync/{name}")
    ports = yaml.safe_load(text)["network"]["ethernets"]
    assert [*claims(text, dict.fromkeys(RAILS, ""))] == sorted(ports)
    assert "Settings > Clusters > Delete" in judge.foreign_remedy(f"/etc/netplan/{name}")


def test_containers_are_asked_for_without_their_size() -> None:
    """For which Docker mounts each container's layer and walks through it: a reading wrote to every host's disk."""
    asked: list[list[str]] = []
    read_state(lambda words: (asked.append(words), (1, "", ""))[1], [])
    [words] = [words for words in asked if words[:2] == ["docker", "ps"]]
    assert words[-1] == '{"ID": {{json .ID}}, "Names": {{json .Names}}, "Ports": {{json .Ports}}}'


def test_docker_29_is_read_and_gives_the_gpu_by_its_specification(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info = recorded("docker-29/info.json")
    engine = read_engine(lambda _words: (0, info, ""))
    of_engine = {"version": "29.6.2", "store": "containerd", "missing_rules": []}
    assert engine == {"installed": True, "running": True} | of_engine
    container = running_container(json.loads(recorded("docker-29/ps.json")))
    assert (container["name"], container["ports"]) == ("open-webui", [8080])
    folders = json.dumps(json.loads(info)["CDISpecDirs"]).replace("/var/run/cdi", str(tmp_path))
    (tmp_path / "nvidia.yaml").write_text("---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\n")
    monkeypatch.setattr(rank_host, "run", lambda words: subprocess.CompletedProcess(words, 0, folders, ""))
    assert rank_host.gpu_by_specification()


@pytest.mark.parametrize(("kind", "users"), [("C", 1), ("C+G", 1), ("G", 0)])
def test_a_desktop_is_no_program_that_computes(monkeypatch: pytest.MonkeyPatch, kind: str, users: int) -> None:
    """Xorg and gnome-shell are of type G: beside them memory can be leaked."""
    monkeypatch.setattr(machine, "_has_gpu", lambda: True)
    text = recorded("gb10-query/nvidia-smi.txt").replace(": C\n", f": {kind}\n")
    found = machine.read_gpu(lambda _words: (0, text, ""))
    assert (found["present"], found["module"], found["users"], found["why"]) == (True, True, users, "")


def test_closing_a_fresh_machine_cuts_nobody_off_but_ssh() -> None:
    """Its dashboard, printer service and resolver listen to the host alone."""
    rows = [line.split()[3].rpartition(":") for line in recorded("desktop-580.142/ss.txt").splitlines()[1:]]
    lines = ["sl local_address rem_address st"]
    for number, (address, _, port) in enumerate(rows):
        packed = ip_address(address.strip("[]").partition("%")[0]).packed
        words = (packed[start : start + 4][::-1] for start in range(0, len(packed), 4))
        end = f"{b''.join(words).hex().upper()}:{int(port):04X}"
        lines.append(f"{number}: {end} 0:0 0A 0:0 0:0 0 0 0 {number}")
    found = listening_sockets("\n".join(lines))
    assert len(found) == len(rows)
    assert {port for port, local in found.values() if not local} == {22}


def test_a_port_that_was_handed_on_while_it_was_read_has_its_new_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    """HAProxy reloaded between the tables and the processes: the gateway's own ports were another program's."""
    tables = iter([{"100": (443, False)}, {"200": (443, False)}])
    monkeypatch.setattr(state, "_sockets", lambda protocol: next(tables))
    monkeypatch.setattr(state, "_socket_owners", lambda sockets: {"200": ("haproxy", "")} if "200" in sockets else {})
    assert state._listening("tcp") == [{"port": 443, "local": False, "process": "haproxy", "container": ""}]


# Two Sparks as they should be: NVIDIA's guide measures both halves at once; eugr one half, with four queue pairs.
@pytest.mark.parametrize(
    ("name", "gbps"),
    [
        ("pair-nvidia-guide/ib_write_bw-half-0.txt", 92.57),
        ("pair-nvidia-guide/ib_write_bw-half-1.txt", 97.28),
        ("pair-eugr/ib_write_bw-4-queue-pairs.txt", 111.71),
    ],
)
def test_what_perftest_prints_on_sparks_is_read_and_good(name: str, gbps: float) -> None:
    assert perftest.parse(recorded(name)).gbps == gbps
    rails = [
        {"interface": half, "device": RAILS[half].device, "message": "", "payload_bytes": 0, "counted_bytes": None,
         "gbps": gbps} for half in HALVES
    ]  # fmt: skip
    result = {
        "possible": True, "left_out": [], "speeds": dict.fromkeys(HALVES, 200000), "iommu": {},
        "measured": [{"name": "both halves", "segment": "spark-2:0--spark-3:0", "peer": "spark-3", "rails": rails}],
    }  # fmt: skip
    assert [*judge_bandwidth("spark-2", {"rail_gbps": 87.5, "port_gbps": 175}, result)] == []


def test_names_of_interfaces_and_devices_are_those_of_sparks() -> None:
    rows = [line.split() for line in recorded("pair-eugr/ibdev2netdev.txt").splitlines()]
    assert {row[4]: row[0] for row in rows} == {name: known.device for name, known in RAILS.items()}


def port(sysfs: Path, device: str, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = sysfs / device / "ports" / "1" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


LINK_LOCAL = "fe80:0000:0000:0000:4ebb:47ff:fee8:9f39"
MAPPED = "0000:0000:0000:0000:0000:ffff:c0a8:640a"


@pytest.mark.parametrize(
    ("rows", "index"),
    [
        ([(0, LINK_LOCAL, "IB/RoCE v1"), (1, LINK_LOCAL, "RoCE v2")], None),  # before it has an address
        ([(0, LINK_LOCAL, "IB/RoCE v1"), (1, LINK_LOCAL, "RoCE v2"),
          (2, MAPPED, "IB/RoCE v1"), (3, MAPPED, "RoCE v2")], 3),
    ],
)  # fmt: skip
def test_the_gid_of_an_address_is_found_as_show_gids_lists_it(
    tmp_path: Path, rows: list[tuple[int, str, str]], index: int | None
) -> None:
    for number, gid, kind in rows:
        names = {f"gids/{number}": gid, f"gid_attrs/types/{number}": kind, f"gid_attrs/ndevs/{number}": HALVES[0]}
        port(tmp_path, "rocep1s0f0", names)
    port(tmp_path, "rocep1s0f0", {"gids/4": "0000:0000:0000:0000:0000:0000:0000:0000"})
    assert gids.index_of(gids.read_table("rocep1s0f0", tmp_path), "192.168.100.10") == index


def test_ports_that_are_down_are_read_as_ibstat_shows_them(tmp_path: Path) -> None:
    """A GB10 of Dell's with one cable: 200 at the cable's halves, and 40 where nothing is plugged."""
    numbers = {"Active": "4: ACTIVE", "Down": "1: DOWN"}
    shown: dict[str, dict[str, str]] = {}
    for block in recorded("dell-gb10/ibstat.txt").split("CA '")[1:]:
        fields = dict(line.strip().split(": ") for line in block.splitlines() if ": " in line)
        name = block.partition("'")[0]
        shown[name] = {"state": numbers[fields["State"]], "rate": f"{fields['Rate']} Gb/sec (4X)",
                       "link_layer": fields["Link layer"]}  # fmt: skip
        port(tmp_path, name, shown[name])
    assert {*shown} == {known.device for known in RAILS.values()}
    read = read_rdma(shown, tmp_path)
    for name, files in shown.items():
        assert (read[name]["rate"], read[name]["gids"]) == (files["rate"], []), name
        assert ("ACTIVE" in read[name]["state"]) == name.endswith("f0"), name


@pytest.mark.parametrize("name", ["pair-nvidia-guide/40-cx7.yaml"])
def test_nvidias_own_netplan_file_is_seen_to_claim_the_port(name: str) -> None:
    assert [*claims(recorded(name), dict.fromkeys(RAILS, ""))] == ["enP2p1s0f0np0", "enp1s0f0np0"]


def test_packages_of_one_update_are_apart_from_those_that_roles_install() -> None:
    """An owner's list of two machines: what of it may be pulled along by another package, and what not."""
    names = [line.split()[0] for line in recorded("edgexpert-pair/packages.txt").splitlines()]
    torn = {name for name in names if obstacles._is_torn({"package": name, "action": "install"})}
    assert torn == {
        "dgx-spark-mlnx-hotplug",
        "mlnx-pxe-setup",
        "nvidia-mlnx-tools",
        "nvidia-spark-mlnx-firmware-manager",
    }


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("0.20-gb10-mtp", BootLog(available_kv_gib=52.66, kv_cache_tokens=1253392)),
        ("0.20.1-gb10-gemma", BootLog(weights_gib=25.67)),
        ("0.26.0-gb10-mtp", BootLog(available_kv_gib=90.6, graphs_gib=0.73, kv_cache_tokens=4061215,
                                    max_model_len=262144, max_concurrency=15.49)),
        ("0.29.1rc1-gb10-pair-kv-too-small", BootLog(available_kv_gib=22.5)),
    ],
)  # fmt: skip
def test_what_vllm_prints_on_a_gb10_is_read(name: str, log: BootLog) -> None:
    """No estimate of CUDA graphs is taken for what they take."""
    assert parse_boot_log((HOSTS.parent / "vllm_logs" / f"{name}.log").read_text()) == log


def test_a_busy_program_is_known_by_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway beside a probe: connections that close while its descriptors are read are none of its listener."""
    real = Path.readlink
    closed: list[Path] = []

    def readlink(path: Path) -> Path:
        if path.parent.name == "fd" and path.parent.parent.name == str(os.getpid()) and len(closed) < 3:
            closed.append(path)
            raise FileNotFoundError(2, "closed meanwhile", str(path))
        return real(path)

    inside = [os.open("/dev/null", os.O_RDONLY) for _ in range(3)]
    with socket.create_server(("127.0.0.1", 0)) as server:
        inode = real(Path(f"/proc/self/fd/{server.fileno()}")).name[8:-1]
        monkeypatch.setattr(Path, "readlink", readlink)
        owners = state._socket_owners({inode: None})
    for descriptor in inside:
        os.close(descriptor)
    assert len(closed) == 3 and owners[inode][0]


@pytest.mark.parametrize(
    "text",
    [
        "network: {ethernets: {fast: {match: {driver: mlx5_core}, mtu: 9000}}}",
        "ethernets:\n  fast:\n    match:\n      driver:\n        - mlx5_core\n",
        "ethernets:\n  fast:\n    match: {driver: 'mlx5*'}\n",
        "[Match]\nDriver=mlx5_core\n[Network]\nAddress=10.0.0.1/24\n",
        "[Match]\nName=enp1s0f* enP2p1s0f*\n",
    ],
)
def test_a_file_that_means_the_adapters_interfaces_by_their_driver_claims_them(text: str) -> None:
    assert [*claims(text, dict.fromkeys(RAILS, ""))] == sorted(RAILS)
    assert [*claims("# " + text.replace("\n", "\n# "), dict.fromkeys(RAILS, ""))] == []


def test_files_of_networkd_and_ifupdown_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("network/10-fast.network", "interfaces", "interfaces.d/fast"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("iface enp1s0f0np0 inet static\n")
    up = "[Match]\nName=enp1s0f0np0\n[Network]\nDHCP=no\nLinkLocalAddressing=no\n"
    (tmp_path / "network/90-ports-up.network").write_text(up)
    (tmp_path / "network/10-fast.network").write_text("[Match]\nName=enp1s0f0np0\n[Network]\nAddress=10.0.0.1/24\n")
    below = str(tmp_path).lstrip("/")
    monkeypatch.setattr(probe_files, "NETPLAN_FOLDERS", ())
    monkeypatch.setattr(probe_files, "PROFILES", str(tmp_path / "none"))
    monkeypatch.setattr(
        probe_files, "OTHER_NETWORKS", [f"{below}/network/*.network", f"{below}/interfaces", f"{below}/interfaces.d/*"]
    )
    read = probe_files.read_netplan(dict.fromkeys(RAILS, ""))
    assert [one["path"].removeprefix(f"{tmp_path}/") for one in read] == [
        "network/10-fast.network",
        "interfaces",
        "interfaces.d/fast",
    ]
    assert all(one["claims"] == ["enp1s0f0np0"] for one in read)


@pytest.mark.parametrize("text", ["[Match]\nDriver=mlx5_core\n", "[match]\ndriver=mlx5_core;\n"])
def test_a_rendered_file_may_mean_an_interface_by_its_driver(text: str) -> None:
    assert governing({"x": text, "y": text.replace("mlx5", "igb")}, "enp1s0f0np0", "02:00:00:00:00:01") == {"x": text}


@pytest.mark.parametrize("path", ["/etc/systemd/network/10-x.network", "/etc/network/interfaces"])
def test_a_file_of_another_program_is_no_profile_of_networkmanager(path: str) -> None:
    assert "nmcli" not in _foreign_remedy(path) and "that file" in _foreign_remedy(path)
