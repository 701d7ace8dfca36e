# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""doctor.yml: silent on a clean machine, each obstacle named with the remedy that removes it, and nothing private in a
bundle, which is judged like its host."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.action.drift_info import ActionModule
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe import machine
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.system import memory_bytes
from ansible_collections.gb10.fleet.plugins.module_utils._host.settings.kernel_settings import swap_stays
from ansible_collections.gb10.fleet.plugins.module_utils._operations.doctor.bundle import (
    as_text,
    make_bundle,
    parse_bundle,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.doctor.judge import (
    Examined,
    examine,
    examine_file,
    silent,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.doctor.text import as_text as shown
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.questions import host_view
from ansible_collections.gb10.fleet.plugins.module_utils._plan.preflight.needs import obstacles
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.container_engine.reading import (
    daemon_flags,
    unit_files,
    written,
)
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.host_tuning.subject import named_paths
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.system.known_bad import found_bad, known_bad
from drift_fleet import GIB, planned, state_of

LOGINS = Path(__file__).resolve().parents[1] / "data" / "init.yml"
REFUSED = {
    name: one
    for name, one in yaml.safe_load(LOGINS.read_text("utf-8"))["locked-out"]["refused"].items()
    if "odd" not in name
}
HOSTS = Path(__file__).resolve().parents[1] / "data" / "hosts"
FROM_HUB = {"tiny": {"recipe": "lab-tiny", "hosts": ["titan"], "port": 8000, "model": {"source": "hub"},
                     "image": {"reference": "vllm/vllm-openai:v0.24.0", "source": "registry"}}}  # fmt: skip
PLAN = planned(fleet_services=FROM_HUB, fleet_host={"memory_kib": 127601452, "firewall": {"state": "closed"}})
OPEN = planned(fleet_services=FROM_HUB, fleet_host={"memory_kib": 127601452, "firewall": {"state": "open"}})
PAIR = {"pair": {"recipe": "lab-tiny", "hosts": ["spark-2", "spark-3"], "port": 8000}}
GROUP = planned(fleet_services=PAIR, fleet_host={"memory_kib": 127601452})
NAMES = {"sysctl": {"net.ipv4.tcp_rmen": "1 2 3"}, "default_target": "mine.target"}
NAMED = planned(fleet_services=FROM_HUB, fleet_host={"memory_kib": 127601452, "host_tuning": NAMES})
RAIL = "enp1s0f1np1"
WANTED = sum(one["memory_bytes"] for one in PLAN["hosts"]["titan"]["services"])

Change = Callable[[dict[str, Any]], Any]


def bare(plan: dict[str, Any], host: str) -> dict[str, Any]:
    """A machine that no role has touched, with everything in order."""
    state = state_of(plan, host)
    state["memory_bytes"] = {"total": 127601452 << 10, "available": 118 * GIB, "swapped": 0, "unaccounted": GIB}
    wanted = plan["hosts"][host]["needs"]["paths"]
    given = {one["path"] for one in plan["hosts"][host]["needs"]["files"]}
    given |= {path for _, path in named_paths(plan["hosts"][host]["host_tuning"])}
    state["paths"] = {path: {"exists": path in given, "free_bytes": 800 * GIB} for path in wanted}
    state["listening"] = [{"port": 22, "local": False, "process": "sshd", "container": ""}]
    state["images"] = dict.fromkeys(state["images"])
    state["models"] = {"models": {}, "others": []}
    for link in state["fabric"]["links"].values():
        link["addresses"] = []
    return state


def looked(
    plan: dict[str, Any], host: str, change: Change | None = None, unknown: dict[str, str] | None = None
) -> Examined:
    state = copy.deepcopy(bare(plan, host))
    if change:
        change(state)
    return examine(make_bundle(host, plan, state, unknown or {}, ["Docker"]))


def put(*path: Any) -> Change:
    def change(state: dict[str, Any]) -> None:
        *keys, last, value = path
        for key in keys:
            state = state.setdefault(key, {})
        state[last] = value

    return change


def listens(port: int, process: str = "xrdp") -> Change:
    return lambda state: state["listening"].append({"port": port, "local": False, "process": process, "container": ""})


def memory(available: int, **more: int) -> Change:
    return lambda state: state["memory_bytes"].update({"available": available, **more})


def runs(name: str) -> Change:
    return put("containers", [{"id": "c" * 64, "name": name, "ports": [11434]}])


def unproved(state: dict[str, Any]) -> None:
    unit = PLAN["hosts"]["titan"]["services"][0]["unit"]
    state["our_units"] = [{"unit": unit, "inventory": PLAN["inventory"], "ranks": 1, "unproved": True}]


def taken_back(state: dict[str, Any]) -> None:
    mine = PLAN["hosts"]["titan"]["services"][0]
    unproved(state)
    record = {"definition": mine["definition"], "of": mine["name"], "at": "2026-11-26 11:58 UTC", "why": "no engine"}
    state["our_units"][0] |= {"unproved": False, "taken_back": record}


def each(*changes: Change) -> Change:
    return lambda state: [change(state) for change in changes]


# What `apt-get --simulate install` prints, of Ubuntu 24.04; the second and third line as on a torn update.
PULLS = """NOTE: This is only a simulation!
Inst libibverbs1 [50.0-2ubuntu0.1] (50.0-2ubuntu0.2 Ubuntu:24.04/noble-updates [arm64])
Inst mlnx-fw-updater (25.07-0.9.7 Mellanox:noble [arm64])
Inst nvidia-driver-580-open [580.126.09-0ubuntu1] (580.173.02-0ubuntu1 Ubuntu:24.04/noble-updates [arm64]) []
Inst nftables (1.0.9-1ubuntu0.1 Ubuntu:24.04/noble-updates [arm64])
Conf nftables (1.0.9-1ubuntu0.1 Ubuntu:24.04/noble-updates [arm64])
"""
REMOVES = """Remv doca-ofed [3.1.0]
Inst perftest (24.01.0+0.38-1build2 Ubuntu:24.04/noble [arm64])
"""


# (fleet, host, what is wrong, verdict's severity, rule, a word of the remedy)
LIMITS = {"max-size": "50m", "max-file": "3"}
OURS = {"features": {"cdi": True}, "icc": False, "log-driver": "json-file", "log-opts": LIMITS}
GONE = ["the chain DOCKER of iptables' table nat"]
OBSTACLES: list[tuple[Any, str, Change, str, str, str]] = [
    (GROUP, "spark-2", put("kernel", "release", "7.0.0-1019-nvidia"), "error", "known-bad kernel-7.0.0-1019",
     "nvidia-spark-grub-kho"),
    (PLAN, "titan", put("kernel", "release", "7.0.0-1019-nvidia"), "warning", "known-bad kernel-7.0.0-1019", "kho"),
    (GROUP, "spark-2", put("kernel", "release", "7.0.0-31-generic"), "error", "known-bad kernel-7.0.0-31", "kho=off"),
    (PLAN, "titan", put("driver", "590.44"), "warning", "known-bad driver-590", "driver 580"),
    (PLAN, "titan", put("driver", "610.43.02"), "warning", "known-bad driver-610", "install driver 580"),
    (PLAN, "titan", put("driver", "580.142"), "warning", "known-bad driver-out-of-memory", "room"),
    (PLAN, "titan", each(put("driver", "580.173.02"), put("platform", "ota", "7.3.1")), "error",
     "known-bad driver-without-its-firmware", "tolerated"),
    (PLAN, "titan", put("firmware", "nic_firmware", "28.47.1088"), "error", "known-bad nic-firmware-28.47", "support"),
    (PLAN, "titan", put("firmware", "nic_firmware", "28.43.1014"), "warning", "known-bad nic-firmware-old", "fwupdmgr"),
    (PLAN, "titan", put("platform", "bios", "GX10DGX.0102.2025.1111.1531"), "warning", "known-bad bios-pcie-lanes",
     "fwupdmgr"),
    (PLAN, "titan", put("apt", "holders", ["unattended-upgr"]), "warning", "packages-at-work", "Dashboard"),
    (PLAN, "titan", put("apt", "unproved", True), "warning", "update-unproved", "gb10.fleet.update goes on"),
    (PLAN, "titan", put("installs", {"nftables": machine.simulated(PULLS)}), "error", "packages-pulled-along",
     "DGX Dashboard"),
    (GROUP, "spark-2", put("installs", {"perftest": machine.simulated(REMOVES)}), "error", "packages-pulled-along",
     "apt-get --simulate install perftest"),
    (PLAN, "titan", put("installs", {"docker.io": None, "perftest": None}), "warning", "packages-unknown",
     "apt-get --simulate install docker.io"),
    (PLAN, "titan", put("gpu", "module", False), "error", "driver-missing", "linux-modules-nvidia-580-open-6.17"),
    (PLAN, "titan", put("sudo", "password", True), "warning", "sudo-password", "-K"),
    (PLAN, "titan", put("network", "default", ["wlP9s9", "enP7s7"]), "warning", "wifi-management", "cable"),
    (PLAN, "titan", put("kernel", "reboot_required", True), "warning", "reboot-pending", "--no-block"),
    (PLAN, "titan", each(memory(WANTED + GIB), put("network", "desktop", True)), "warning", "memory-short", "isolate"),
    (PLAN, "titan", each(memory(GIB), runs("ollama")), "error", "memory-short", "docker stop ollama"),
    (PLAN, "titan", memory(GIB), "error", "memory-short", "ps aux"),
    (PLAN, "titan", memory(GIB, unaccounted=100 * GIB), "error", "memory-leaked", "restart this host"),
    (PLAN, "titan", memory(37630000 << 10, total=127538298 << 10, unaccounted=78 * GIB), "warning", "memory-leaked",
     "restart this host"),  # eugr, issue 257: 36.75 of 121.63 GiB free after a crash loop
    (PLAN, "titan", memory(WANTED + 6 * GIB, unaccounted=9 * GIB), "warning", "memory-leaked", "restart this host"),
    (PLAN, "titan", put("fragments", {"free": 40 * GIB, "huge": GIB}), "warning", "memory-fragmented",
     "compact_memory"),
    (PLAN, "titan", put("reach", {"huggingface.co": "timed out"}), "error", "server-unreachable", "let the host out"),
    (PLAN, "titan", put("reach", {"registry-1.docker.io": "[Errno -2] Name or service not known"}), "error",
     "server-unreachable", "source in the recipe"),
    (PLAN, "titan", listens(3389), "error", "firewall-unknown-listener", "fleet_host.firewall.allow"),
    (PLAN, "titan", put("listening_udp", [{"port": 2049, "local": False, "process": "", "container": ""}]), "error",
     "firewall-unknown-listener", "protocol: udp"),
    (PLAN, "titan", put("daemon", "flags", ["hosts", "log-driver"]), "error", "docker-option-twice",
     "`log-driver: null`"),
    (PLAN, "titan", put("engine", {"installed": True, "running": False, "hangs": "docker did not end within 30 s"}),
     "error", "docker-hangs", "sudo systemctl restart docker"),
    (PLAN, "titan", put("daemon", "masked", True), "error", "docker-masked", "sudo systemctl unmask docker.service"),
    (PLAN, "titan", put("daemon", "file", "/etc/mine.json"), "error", "docker-other-file", "take --config-file out"),
    (PLAN, "titan", runs("open-webui"), "error", "docker-restart", "restart: true"),
    (PLAN, "titan", each(runs("open-webui"), put("daemon", "settings", OURS), put("engine", "missing_rules", GONE)),
     "error", "docker-restart", "stop them, or write `restart: true` in fleet_host.container_engine"),
    (PLAN, "titan", memory(13 * GIB, swapped=8 * GIB), "error", "swap-does-not-fit", "restart the host"),
    (NAMED, "titan", put("paths", "/proc/sys/net/ipv4/tcp_rmen", "exists", False), "error", "tuning-unknown", "null"),
    (NAMED, "titan", put("paths", "/usr/lib/systemd/system/mine.target", "exists", False), "error", "tuning-unknown",
     "null"),
    (PLAN, "titan", each(listens(8000, "nginx"), put("closed", True)), "error", "preflight-port", "write another port"),
    (PLAN, "titan", memory(110 * GIB, total=125513944 << 10), "error", "preflight-memory", "memory_kib: 125513944"),
    (PLAN, "titan", memory(60 * GIB, total=64 * GIB), "error", "preflight-memory", "memory_kib"),
    (PLAN, "titan", put("disks", "/", "free", GIB), "warning", "disk-low", "docker image prune"),
    (PLAN, "titan", put("clock", 1100.0), "warning", "clock-off", "set-ntp"),
    (PLAN, "titan", taken_back, "error", "service-taken-back", "site.yml -e retry="),
    (PLAN, "titan", unproved, "warning", "service-unproved", "gb10.fleet.rollout -e"),
    (GROUP, "spark-2", put("netplan", [{"path": "/etc/netplan/99-nvidia-sync-cluster.yaml", "claims": [RAIL]}]),
     "error", "netplan-foreign", "fabric_foreign=move"),
    (GROUP, "spark-2", put("fabric", "adapter", "marker", True), "warning", "fabric-hotplug", "hotplug: off"),
    (GROUP, "spark-2", put("fabric", "links", {}), "error", "fabric-no-interface", "adapter"),
    (GROUP, "spark-2", put("fabric", "links", RAIL, "carrier", False), "error", "fabric-half-dead", "reseat"),
    (GROUP, "spark-2", put("fabric", "links", RAIL, "pcie_width", 2), "warning", "fabric-pcie-narrow", "fwupdmgr"),
]  # fmt: skip


@pytest.mark.parametrize(("plan", "host"), [(PLAN, "titan"), (GROUP, "spark-2"), (GROUP, "spark-3"), (GROUP, "titan")])
def test_a_clean_machine_is_silent(plan: dict[str, Any], host: str) -> None:
    found = looked(plan, host)
    assert (found.findings, found.verdict) == ((), "will be changed")


@pytest.mark.parametrize(("plan", "host", "change", "severity", "rule", "remedy"), OBSTACLES)
def test_an_obstacle_is_named_with_its_remedy(
    plan: dict[str, Any], host: str, change: Change, severity: str, rule: str, remedy: str
) -> None:
    found = looked(plan, host, change)
    mine = [one for one in found.findings if one.rule == rule]
    assert mine, [one.rule for one in found.findings]
    assert mine[0].severity == severity
    assert remedy in mine[0].remedy, mine[0].remedy
    assert (found.verdict == "stops you") == any(one.severity == "error" for one in found.findings)
    # the file alone says the same, word for word
    assert found.bundle is not None
    again = examine(parse_bundle(as_text(found.bundle).encode(), "x.json"))
    assert (again.findings, again.verdict) == (found.findings, found.verdict)


SETTINGS = {"memory_kib": 127601452, "firewall": {"state": "closed"}}
# What of a remedy is typed into the inventory: (what is read of its words, what that becomes of `fleet_host`).
TYPED: dict[str, tuple[str, Callable[[re.Match[str]], dict[str, Any]]]] = {
    "preflight-memory": (r"memory_kib: (\d+)", lambda typed: {"memory_kib": int(typed[1])}),
    "docker-option-twice": (r"`(\S+): null`", lambda typed: {"container_engine": {"daemon": {typed[1]: None}}}),
    "docker-restart": (r"`restart: (true)`", lambda _match: {"container_engine": {"restart": True}}),
    "tuning-unknown": (
        r"with (null)",
        lambda _match: {"host_tuning": {"sysctl": {"net.ipv4.tcp_rmen": None}, "default_target": None}},
    ),
    "firewall-unknown-listener": (
        r"\{port: (\d+), protocol: (\w+)\}",
        lambda typed: {"firewall": {"state": "closed", "allow": [{"port": int(typed[1]), "protocol": typed[2]}]}},
    ),
}
# What is done to the machine: where it is a command, what the command changes is what is read again.
BY_HAND = {
    "an update, a restart or another part of the machine": (
        *("known-bad", "packages-at-work", "packages-pulled-along", "packages-unknown", "driver-missing"),
        *("reboot-pending", "fabric-hotplug", "fabric-no-interface", "fabric-half-dead", "fabric-pcie-narrow"),
    ),
    "memory, disk and processes that are the owner's": (
        *("memory-short", "memory-leaked", "memory-fragmented", "swap-does-not-fit", "disk-low", "preflight-port"),
    ),
    "files, units and a daemon that are the owner's": (
        *("docker-other-file", "docker-masked", "docker-hangs", "netplan-foreign", "clock-off"),
    ),
    "a rollout or an update that is taken up again": ("service-taken-back", "service-unproved", "update-unproved"),
    "how the owner comes, and what the host reaches": ("sudo-password", "wifi-management", "server-unreachable"),
}


def test_each_remedy_is_typed_or_done_by_hand() -> None:
    rules = {rule.partition(" ")[0] for _plan, _host, _change, _severity, rule, _remedy in OBSTACLES}
    assert rules == {*TYPED} | {rule for group in BY_HAND.values() for rule in group}


@pytest.mark.parametrize(
    ("plan", "host", "change", "rule"),
    [(plan, host, change, rule) for plan, host, change, _severity, rule, _remedy in OBSTACLES if rule in TYPED],
)
def test_an_obstacle_goes_when_its_remedy_is_typed(plan: dict[str, Any], host: str, change: Change, rule: str) -> None:
    (found,) = [one for one in looked(plan, host, change).findings if one.rule == rule]
    words, typed = TYPED[rule]
    match = re.search(words, found.remedy)
    assert match, found.remedy
    plan = planned(fleet_services=FROM_HUB, fleet_host=SETTINGS | typed(match))
    assert rule not in [one.rule for one in looked(plan, host, change).findings]


def test_there_are_thirty_of_them() -> None:
    assert len(OBSTACLES) >= 30


def test_what_the_preflight_refuses_is_what_doctor_names() -> None:
    """One truth: every obstacle of a subject stops site.yml before its first change."""
    state = bare(GROUP, "spark-2")
    state["kernel"]["release"] = "7.0.0-1019-nvidia"
    refused = [one.rule for one in obstacles("spark-2", GROUP["hosts"]["spark-2"], state) if one.severity == "error"]
    assert refused == ["known-bad kernel-7.0.0-1019"]


def test_a_known_bad_version_can_be_tolerated_and_is_cured_by_its_word() -> None:
    host = {"memory_kib": 127601452, "versions": {"tolerated": {"kernel-7.0.0-1019": "measured without RDMA"}}}
    plan = planned(fleet_services=PAIR, fleet_host=host)
    bad = put("kernel", "release", "7.0.0-1019-nvidia")
    assert looked(plan, "spark-2", bad).findings == ()
    cured = each(bad, put("kernel", "cmdline", "quiet kho=off"))
    assert looked(GROUP, "spark-2", cured).findings == ()


@pytest.mark.parametrize(
    ("plan", "host", "package", "text", "found"),
    [
        (PLAN, "titan", "nftables", PULLS, "installing it would install mlnx-fw-updater (25.07-0.9.7), upgrade "
         "nvidia-driver-580-open (580.126.09-0ubuntu1 to 580.173.02-0ubuntu1)"),
        (GROUP, "spark-2", "perftest", REMOVES, "installing it would remove doca-ofed (3.1.0)"),
        (PLAN, "titan", "perftest", REMOVES, None),  # no cable, so nobody installs it
        (OPEN, "titan", "nftables", PULLS, None),
        (PLAN, "titan", "nvidia-container-toolkit", "Inst libnvidia-container1 (1.18.0-1 NVIDIA:stable [arm64])\n"
         "Inst nvidia-container-toolkit-base (1.18.0-1 x [arm64])\nInst nvidia-container-toolkit (1.18.0-1 x)\n", None),
        (PLAN, "titan", "docker.io", "Inst containerd (1.7.28 x [arm64])\nInst docker.io (28.2.2 x)\n", None),
    ],
)  # fmt: skip
def test_what_apt_would_do_besides_is_listed(
    plan: dict[str, Any], host: str, package: str, text: str, found: str | None
) -> None:
    """Asked before the first change, and only of packages that a role installs on that host."""
    findings = looked(plan, host, put("installs", {package: machine.simulated(text)})).findings
    assert [one.found for one in findings] == ([found] if found else [])


@pytest.mark.parametrize(
    ("plan", "host", "has_gpu", "asked"),
    [
        (PLAN, "titan", True, ["docker.io", "nftables", "nvidia-container-toolkit"]),
        (PLAN, "titan", False, ["docker.io", "nftables"]),
        (OPEN, "titan", False, ["docker.io"]),
        (GROUP, "spark-2", False, ["docker.io", "ibverbs-utils", "nftables", "perftest"]),
    ],
)
def test_apt_is_asked_about_what_roles_install_there(
    monkeypatch: pytest.MonkeyPatch, plan: dict[str, Any], host: str, has_gpu: bool, asked: list[str]
) -> None:
    monkeypatch.setattr(machine, "_has_gpu", lambda: has_gpu)
    monkeypatch.setattr(machine.shutil, "which", lambda *_args, **_named: None)
    installs = plan["hosts"][host]["needs"]["installs"]
    assert [*machine.read_installs(lambda words: (0, f"Inst {words[-1]} (1 x)", ""), installs)] == asked


def test_a_package_is_looked_for_by_a_program_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_has_gpu", lambda: False)
    monkeypatch.setattr(machine.shutil, "which", lambda name, **_named: None if name == "haproxy" else f"/{name}")
    found = machine.read_installs(lambda words: (0, f"Inst {words[-1]} (1 x)", ""), ["haproxy", "nftables"])
    assert [*found] == ["haproxy"]


@pytest.mark.parametrize("fields", [{"id", "what", "severity", "effect", "remedy", "source", "since", "until"}])
def test_each_row_of_the_table_has_all_keys(fields: set[str]) -> None:
    assert [
        row["id"]
        for row in known_bad()
        if not fields <= row.keys() or not (row.get("pattern") or row.get("from") or row["until"])
    ] == []


def test_a_port_that_is_named_is_no_obstacle() -> None:
    settings = {"state": "closed", "allow": [{"port": 3389}], "shut": [5900]}
    plan = planned(fleet_services=FROM_HUB, fleet_host={"memory_kib": 127601452, "firewall": settings})
    assert looked(plan, "titan", each(listens(3389), listens(5900))).findings == ()
    assert looked(PLAN, "titan", each(listens(3389), put("closed", True))).findings == ()


@pytest.mark.parametrize(
    ("why", "remedy"), [("Missing sudo password", "-K"), ("unreachable: no route", "ansible HOST -m ping")]
)
def test_a_host_that_could_not_be_read_is_not_ready(why: str, remedy: str) -> None:
    found = silent("titan", why)
    assert found.verdict == "could not look"
    assert remedy in found.findings[0].remedy


@pytest.mark.parametrize("name", REFUSED)
def test_a_failed_login_is_named_by_what_ssh_printed(name: str) -> None:
    """Each of them had the remedy to bring the host up."""
    [found] = silent("titan", f"unreachable: Failed to connect to the host via ssh: {REFUSED[name]['words']}").findings
    wanted = [
        words.replace(name, "titan")
        for words in REFUSED[name]["sentence"]
        if "kex" not in words and "-e user" not in words
    ]
    assert [words for words in wanted if words not in f"{found.found}; {found.remedy}"] == []
    assert "@@@" not in found.found


def test_what_could_not_be_read_is_reported() -> None:
    found = looked(PLAN, "titan", put("gpu", None), {"gpu": "modinfo did not end within 30 s"})
    assert [(one.rule, one.place) for one in found.findings] == [("doctor-unread", "gpu")]


def test_a_machine_without_docker_is_clean() -> None:
    """Found in the lab: its containers and images can't be read there, and site.yml brings Docker."""
    bare_of_docker = each(put("engine", {"installed": False, "running": False}), put("containers", None))
    unknown = dict.fromkeys(("containers", "images", "running"), "docker is not installed")
    assert looked(PLAN, "titan", bare_of_docker, unknown).findings == ()


def test_what_several_hosts_have_is_shown_once() -> None:
    both = [silent(host, "no answer") for host in ("spark-2", "spark-3")]
    text = shown([*both, silent("titan", "timed out")], [], [], 120)
    assert "error: spark-2, spark-3 [doctor-silent]" in text and "error: titan [doctor-silent]" in text
    assert text.count("[doctor-silent]") == 2


def test_the_table_has_one_row_a_host_and_takes_no_control_characters() -> None:
    text = shown([looked(PLAN, "titan", put("driver", "590.44\x1b[2J")), silent("spark-2", "no answer")], [], [], 120)
    assert "\x1b" not in text
    rows = text.splitlines()
    assert any(row.startswith("titan    will be changed  2 warnings, 1 things") for row in rows), rows[-3:]
    assert rows[-1].startswith("spark-2  could not look")


def test_a_host_is_asked_for_what_the_preflight_looks_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Found in the lab: without these paths each file of a source was said to be missing."""
    asked: list[dict[str, Any]] = []
    action = ActionModule.__new__(ActionModule)
    options = {"view": host_view(GROUP, "spark-2"), "folder": str(tmp_path), "deep": False, "salt": ""}
    monkeypatch.setattr(ActionBase, "run", lambda *_given, **_named: {})
    monkeypatch.setattr(action, "validate_argument_spec", lambda _spec: (None, options))
    monkeypatch.setattr(action, "_loader", SimpleNamespace(get_text_file_contents=str), raising=False)
    answer = {"state": {"files": None}, "unknown": {}}
    monkeypatch.setattr(action, "_execute_module", lambda _name, given, task_vars: asked.append(given) or answer)
    action.run(task_vars={"inventory_hostname": "spark-2"})
    assert asked[0]["paths"] == GROUP["hosts"]["spark-2"]["needs"]["paths"] != []


# Bundles ----------------------------------------------------------------------------------------------------------

CANARY = "canary4f9a"
PRIVATE = {
    "hf": f"hf_{CANARY}aaaaaaaaaaaaaaaaaaaaaaaa",
    "nvapi": f"nvapi-{CANARY}-bbbbbbbbbbbbbbbb",
    "key": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{CANARY}\n-----END OPENSSH PRIVATE KEY-----",
    "ssh": f"ssh-ed25519 AAAA{CANARY} me@home",
    "url": f"http://me:{CANARY}@proxy.lan:3128",
    "words": f"root=x password={CANARY} token={CANARY}, api_key={CANARY}",
    "header": f"Authorization: Bearer {CANARY}cccccccc",
    "home": f"/home/{CANARY}/models",
    "digest": f"{CANARY}".encode().hex() * 4,
    "mac": "4c:bb:47:11:22:33",
    "v4": "81.2.69.142",
    "v6": "2a02:8109:9ec0:1::17",
}


def test_no_secret_and_no_public_address_is_in_a_bundle() -> None:
    """Planted wherever a host or its owner could write a text."""
    words = " ".join(PRIVATE.values())
    state = bare(PLAN, "titan")
    state["kernel"]["cmdline"] = f"BOOT_IMAGE=/x root=UUID={CANARY} {words} kho=off"
    state["daemon"] = {"flags": ["hosts", PRIVATE["hf"]], "settings": {"log-opts": {"x": words}}, "names": [words]}
    state["containers"] = [{"id": "e" * 64, "name": words, "ports": [1]}]
    state["listening"].append({"port": 9, "local": False, "process": words, "container": "e" * 64})
    state["apt"] = {"holders": [words]}
    state["reach"] = {"huggingface.co": words}
    state["fabric"]["asked"][words] = {"answers": {PRIVATE["v4"]: PRIVATE["mac"]}, "pings": {}}
    state["files"] = {"/etc/x": {"text": words}}
    state["running"] = {"x": {"argv": [words], "env": {"A": words}}}
    plan = copy.deepcopy(PLAN)
    plan["hosts"]["titan"]["container_engine"]["daemon"]["http-proxy"] = PRIVATE["url"]
    made = make_bundle("titan", plan, state, {"gpu": words}, [words])
    bundle = as_text(made)
    kept = [name for name, text in PRIVATE.items() if text in bundle or CANARY in bundle]
    assert (kept, CANARY in bundle) == ([], False)
    assert "kho=off" in bundle
    assert (
        json.loads(bundle)["state"]["containers"][0]["id"] == json.loads(bundle)["state"]["listening"][-1]["container"]
    )
    examine(parse_bundle(bundle.encode(), "x.json"))


def test_private_addresses_and_names_stay_since_they_are_what_is_judged() -> None:
    bundle = as_text(make_bundle("spark-2", GROUP, bare(GROUP, "spark-2"), {}, []))
    assert "192.168.100." in bundle
    assert "enp1s0f1np1" in bundle
    assert "6.17.0-1014-nvidia" in bundle


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"\xff", b"{}", b'{"format": 2}', b"1" * 5_000_000, b"[" * 100_000,
     b'{"format":1,"host":"x","slice":{},"drift":{},"state":{},"unknown":{},"changes":[],"together":[]}'],
)  # fmt: skip
def test_what_is_no_bundle_is_refused_with_words(text: bytes) -> None:
    with pytest.raises(FleetError) as refused:
        examine_file(parse_bundle(text, "x.json"))
    assert "x" in str(refused.value)


# Recorded hosts ---------------------------------------------------------------------------------------------------


def versions_of(name: str) -> dict[str, str | None]:
    known = json.loads((HOSTS / name / "versions.json").read_text())
    release = machine.dgx_release((HOSTS / name / "dgx-release").read_text())
    return {**known, "ota": release["DGX_OTA_VERSION"]}


@pytest.mark.parametrize(
    ("name", "cmdline", "ids"),
    [
        ("dgx-os-7.6.0", "quiet", ["kernel-7.0.0-1019", "driver-out-of-memory"]),
        ("dgx-os-7.6.0", (HOSTS / "docker-options" / "cmdline").read_text(), ["driver-out-of-memory"]),
        ("dgx-os-7.5.0", "quiet", ["driver-out-of-memory"]),
    ],
)
def test_recorded_machines_have_what_their_owners_report(name: str, cmdline: str, ids: list[str]) -> None:
    assert [row["id"] for row, _have in found_bad(versions_of(name), cmdline)] == ids


def test_nvidias_drop_in_is_read_and_its_options_may_not_come_twice() -> None:
    flags = daemon_flags((HOSTS / "docker-options" / "show.txt").read_text())
    assert flags == ["bip", "default-shm-size", "fixed-cidr", "hosts", "storage-driver"]
    host = {"memory_kib": 127601452, "container_engine": {"daemon": {"storage-driver": "overlay2"}}}
    plan = planned(fleet_services=FROM_HUB, fleet_host=host)
    assert [one.rule for one in looked(plan, "titan", put("daemon", "flags", flags)).findings] == [
        "docker-option-twice"
    ]
    assert looked(PLAN, "titan", put("daemon", "flags", flags)).findings == ()
    host["container_engine"] = {"daemon": {"storage-driver": None}}  # the remedy
    plan = planned(fleet_services=FROM_HUB, fleet_host=host)
    assert looked(plan, "titan", put("daemon", "flags", flags)).findings == ()


STORE = {"containerd-snapshotter": True}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (OURS, None),
        ({**OURS, "features": {"cdi": True, **STORE}, "log-opts": {**LIMITS, "tag": "x"}}, None),
        ({**OURS, "features": STORE}, "features change"),  # dockerd reads it at its start
        ({**OURS, "log-opts": {"max-size": "50m"}}, "log-opts change"),
        ({**OURS, "icc": True}, "icc change"),
    ],
)
def test_docker_restarts_only_for_what_merging_changes(settings: dict[str, Any], named: str | None) -> None:
    found = looked(PLAN, "titan", each(runs("open-webui"), put("daemon", "settings", settings))).findings
    assert [named in one.found for one in found if one.rule == "docker-restart"] == [True] * bool(named)


@pytest.mark.parametrize(
    ("settings", "container", "found"),
    [
        (
            OURS,
            "open-webui",
            "the chain DOCKER of iptables' table nat is gone, so Docker restarts, and with it open-webui",
        ),
        (OURS | {"icc": True}, "open-webui", "icc change, and the chain DOCKER of iptables' table nat is gone, so"),
        (OURS | {"live-restore": True}, "open-webui", None),
        (OURS, "gb10-service-tiny", None),
    ],
)
def test_docker_restarts_for_rules_that_are_gone(settings: dict[str, Any], container: str, found: str | None) -> None:
    change = each(runs(container), put("daemon", "settings", settings), put("engine", "missing_rules", GONE))
    restarts = [one.found for one in looked(PLAN, "titan", change).findings if one.rule == "docker-restart"]
    assert [found in restart for restart in restarts] == [True] * bool(found)


def test_an_option_of_dockerd_is_known_by_file_and_line(tmp_path: Path) -> None:
    unit, drop_in = tmp_path / "docker.service", tmp_path / "mine.conf"
    unit.write_text("[Service]\nExecStart=/usr/bin/dockerd -H fd://\n")
    drop_in.write_text("[Service]\nExecStart=\nExecStart=/usr/bin/dockerd --config-file=/etc/mine.json --debug\n")
    files = unit_files(f"FragmentPath={unit}\nDropInPaths={drop_in} {tmp_path}/gone.conf\n")
    assert files[:2] == [unit, drop_in]
    line = f"{drop_in}, line 3"
    assert written(["config-file", "debug", "host"], files) == {"config-file": line, "debug": line}


READINGS = json.loads((HOSTS / "memory" / "readings.json").read_text())


def meminfo(reading: dict[str, Any]) -> str:
    names = {"total": "MemTotal", "free": "MemFree", "available": "MemAvailable", "swap_total": "SwapTotal",
             "swap_free": "SwapFree"}  # fmt: skip
    return "".join(f"{name}:       {reading[key]} kB\n" for key, name in names.items() if reading.get(key) is not None)


@pytest.mark.parametrize("reading", [one for one in READINGS if one["available"]], ids=lambda one: str(one["name"]))
def test_every_recorded_memory_is_read(reading: dict[str, Any]) -> None:
    found = memory_bytes(meminfo(reading))
    assert (found["total"], found["available"]) == (reading["total"] << 10, reading["available"] << 10)
    # 8.5 GB in swap and 13.9 GB available: switching swap off would take what has to stay free
    assert bool(swap_stays(found["swapped"], found["available"])) == ("swap_total" in reading)


# MemTotal in kB of machines whose owners gave no more (vLLM, issue 48140, for one).
TOTALS = [125367746, 127598544, 127598608, 127600592, 127600812, 127608704, 127622144, 127535252]


@pytest.mark.parametrize("total", sorted({one["total"] for one in READINGS} | {*TOTALS}))
def test_a_machine_with_less_memory_than_planned_is_refused(total: int) -> None:
    """The units of 2025 have 2 GiB less than the plan counts on; those of 2026 differ by some MB."""
    found = looked(PLAN, "titan", memory(116 * GIB, total=total << 10))
    is_smaller = total < 126_000_000
    assert [one.rule for one in found.findings] == (["preflight-memory"] if is_smaller else [])


# Readers ----------------------------------------------------------------------------------------------------------


HOLDS = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(flush=True); input()"


def test_who_holds_the_package_managers_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock-frontend"
    assert machine.lock_holder(path) is None
    words = (sys.executable, "-c", HOLDS, str(path))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin and holder.stdout and holder.stdout.readline() == b"\n"
        assert machine.lock_holder(path) == holder.pid
    assert machine.lock_holder(path) is None


def test_readers_of_what_a_machine_brings_along() -> None:
    assert machine.asks_password("User me may run:\n    (ALL : ALL) ALL\n") is True
    assert machine.asks_password("User me may run:\n    (ALL : ALL) ALL\n    (ALL) NOPASSWD: ALL\n") is False
    assert machine.asks_password("User me is not allowed to run sudo on x.\n") is None
    routes = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "wlP9s9\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
        "enP7s7\t00000000\t0101A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
        "enP7s7\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
    )
    assert machine.default_interfaces(routes) == ["enP7s7", "wlP9s9"]
    buddy = "Node 0, zone   Normal   10 0 0 0 0 0 0 0 0 0 4\n"
    assert machine.fragments(buddy, 4096) == {"free": 10 * 4096 + (16 << 20), "huge": 16 << 20}


def test_another_memory_starts_each_service_of_the_host_anew_with_a_word() -> None:
    two = {name: FROM_HUB["tiny"] | {"port": port} for name, port in (("one", 8001), ("two", 8002))}
    plans = [planned(fleet_services=two, fleet_host={"memory_kib": kib}) for kib in (127601452, 125513944)]
    before, after = ([one["definition"] for one in plan["hosts"]["titan"]["services"]] for plan in plans)
    assert len({*before, *after}) == 4
    found = looked(PLAN, "titan", memory(110 * GIB, total=125513944 << 10)).findings
    (reason,) = [one.reason for one in found if one.rule == "preflight-memory"]
    assert "all services of this host restart" in reason
