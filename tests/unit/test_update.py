# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages, kernel, driver and firmware, one host first. On hosts that restart: tests/update."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleAction
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.action import update
from ansible_collections.gb10.fleet.plugins.module_utils._base.forms import forms
from ansible_collections.gb10.fleet.plugins.module_utils._base.subject import PreflightContext
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.answer import read_answer
from ansible_collections.gb10.fleet.plugins.module_utils._operations.rollout.compare import slower_services
from ansible_collections.gb10.fleet.plugins.module_utils._operations.update import change, look
from ansible_collections.gb10.fleet.plugins.module_utils._operations.update.form import SHARED, record_of
from ansible_collections.gb10.fleet.plugins.module_utils._operations.update.gate import (
    apart,
    faults,
    name,
    problems,
    unproved,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.update.look import (
    deb_of,
    firmware_of,
    offered,
    simulation,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.update.order import (
    Served,
    UpdateStep,
    groups_of,
    next_of,
    services_of,
    steps,
    wanting,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.update.page import changes, page, stopped
from ansible_collections.gb10.fleet.plugins.module_utils._operations.update.result import known_good, result
from drift_fleet import planned, state_of
from hypothesis import given
from hypothesis import strategies as st
from test_hostile_reading import NO_VALUES, paths, put

READING = forms("update", **SHARED)["reading"]

PLAN = planned(
    fleet_services={
        "pair": {
            "recipe": "lab-tiny",
            "hosts": ["spark-2", "spark-3"],
            "port": 8000,
            "workload": {"max_model_len": 2048, "max_num_seqs": 8, "pool": 16512},
        },
        "solo": {"recipe": "lab-tiny", "hosts": ["titan"], "port": 8000},
    }
)
NOW, NEXT = "6.17.0-1014-nvidia", "6.17.0-1021-nvidia"
# As Ubuntu 24.04 on arm64 prints it, apt 2.7.14; the packages of a DGX Spark.
PRINTED = f"""\
Reading package lists...
Building dependency tree...
Calculating upgrade...
The following packages have been kept back:
  docker-ce docker-ce-cli
The following upgrades have been deferred due to phasing:
  libglib2.0-0t64
The following NEW packages will be installed:
  linux-image-{NEXT} linux-modules-nvidia-580-open-{NEXT}
The following packages will be upgraded:
  linux-image-nvidia-hwe-24.04 nvidia-kernel-common-580
2 upgraded, 2 newly installed, 0 to remove and 3 not upgraded.
Inst linux-image-{NEXT} (6.17.0-1021.21 Ubuntu:24.04/noble-updates [arm64])
Inst linux-modules-nvidia-580-open-{NEXT} (6.17.0-1021.21 Ubuntu:24.04/noble-updates [arm64])
Inst linux-image-nvidia-hwe-24.04 [6.17.0-1014.14] (6.17.0-1021.21 Ubuntu:24.04/noble-updates [arm64])
Inst nvidia-kernel-common-580 [580.142-0ubuntu1] (580.159.03-0ubuntu0.24.04.1 NVIDIA:580 [arm64])
Conf linux-image-{NEXT} (6.17.0-1021.21 Ubuntu:24.04/noble-updates [arm64])
"""
STEPS = simulation(PRINTED)["steps"]


def moves(package: str, have: str = "1", version: str = "2", action: str = "upgrade") -> dict[str, str]:
    return {"action": action, "package": package, "have": have, "version": version}


def comes(package: str, version: str = "1") -> dict[str, str]:
    return moves(package, "", version, "install")


RECORD: dict[str, Any] = {
    "stage": "installed",
    "boot_id": "before",
    "begun_s": 1000.0,
    "steps": STEPS,
    "lost": [],
    "automatic": [],
    "firmware": False,
    "units": ["gb10-service-solo.service"],
    "expected": {"kernel": NEXT, "driver": "580.159.03"},
    "known": [],
    "seconds": {"solo": [0.5]},
    "figures": {},
}
READ: dict[str, Any] = {
    "boot_id": "now",
    "steps": [],
    "kept_back": [],
    "downgraded": [],
    "held": [],
    "lost": [],
    "why": "",
    "broken": "",
    "firmware_why": "",
    "record_why": "",
    "installed": {f"linux-image-{NOW}": "6.17.0-1014.14", "nvidia-kernel-common-580": "580.142-0ubuntu1"},
    "kernels": [NOW],
    "firmware": None,
    "units": {},
    "took_s": None,
    "record": None,
}
OFFERED = [{"device": "Embedded Controller", "have": "0x02004b03", "version": "0x02004e18"}]
NIC = [{"device": "ConnectX-7 NIC", "have": "28.45.4028", "version": "28.47.1088"}]


def host(name: str = "titan", **parts: Any) -> PreflightContext:
    """As planned; no GPU unless one is asked for."""
    state = {**copy.deepcopy(state_of(PLAN, name)), "gpu": {"present": False, "module": False, "users": 0}}
    state["driver"] = "580.159.03"
    for part, value in parts.items():
        state[part] = {**state[part], **value} if isinstance(value, dict) else value
    return PreflightContext(name, PLAN["hosts"][name], state)


# What apt and fwupd print -------------------------------------------------------------------------------------------


def test_what_apt_would_do_is_read_with_what_it_leaves() -> None:
    found = simulation(PRINTED)
    assert [(one["action"], one["package"], one["have"]) for one in found["steps"]] == [
        ("install", f"linux-image-{NEXT}", ""),
        ("install", f"linux-modules-nvidia-580-open-{NEXT}", ""),
        ("upgrade", "linux-image-nvidia-hwe-24.04", "6.17.0-1014.14"),
        ("upgrade", "nvidia-kernel-common-580", "580.142-0ubuntu1"),
    ]
    assert found["kept_back"] == ["docker-ce", "docker-ce-cli", "libglib2.0-0t64"]
    assert found["downgraded"] == []


@pytest.mark.parametrize(
    ("printed", "what", "names"),
    [
        (
            "The following packages will be DOWNGRADED:\n  libc6 libc-bin\nRemv x [1]\n",
            "downgraded",
            ["libc6", "libc-bin"],
        ),
        ("The following packages have been kept back:\n  \x1b[31mrm \x1b]0;x\x07 ok-name\n", "kept_back", ["ok-name"]),
    ],
)
def test_headings_of_apt_and_names_below_them(printed: str, what: str, names: list[str]) -> None:
    assert simulation(printed)[what] == names


HOSTILE = [
    "Inst \x1b[2J [1] (2 x)\n",
    "Inst ../../etc/passwd [1] (2 x)\n",
    "Inst $(reboot) (1 x)\n",
    f"Inst {'a' * 500} (1 x)\n",
    "Inst foo [1;rm -rf] (2 x)\n",
    "Inst foo [1] (2`id` x)\n",
    "Inst -oDebug=1 (1 x)\n",
]


@pytest.mark.parametrize("printed", HOSTILE)
def test_what_is_no_package_is_refused_on_the_controller(printed: str) -> None:
    """A host says what it likes: such an answer is not used."""
    with pytest.raises(ValueError, match="its answer"):
        read_answer({"type": "map", "options": {"updates": READING}}, {"updates": {**READ, **simulation(printed)}})


@given(st.text(max_size=400))
def test_whatever_apt_prints_is_read(printed: str) -> None:
    found = simulation(printed)
    assert {*found} == {"steps", "kept_back", "downgraded"}
    offered(printed)
    deb_of(printed)


def test_firmware_is_read_of_what_fwupd_prints() -> None:
    device = {"Name": "Embedded Controller", "Version": "0x02004b03", "DeviceId": "1", "Flags": ["internal"]}
    releases = [{"Version": "0x02004e18"}, {"Version": "0x02004b03"}]
    printed = {"Devices": [{**device, "Releases": releases}, {"Name": "no release"}, {"Name": "x", "Releases": []}]}
    assert firmware_of(json.dumps(printed)) == OFFERED
    assert firmware_of('{"Devices": []}') == []
    strange = {"Devices": [{"Name": "\x1b[31mred", "Version": 7, "Releases": [{}]}]}
    assert firmware_of(json.dumps(strange)) == [{"device": "?[31mred", "have": "?", "version": "?"}]


@pytest.mark.parametrize(
    "printed", ["", "null", "[]", '{"Error": {"Message": "no daemon"}}', "[" * 100_000, '{"Devices": {}}']
)
def test_what_fwupd_does_not_print_is_an_error(printed: str) -> None:
    with pytest.raises(ValueError, match="fwupdmgr prints"):
        firmware_of(printed)


def test_names_of_packages_files() -> None:
    assert deb_of("docker-ce_5%3a29.2.1-1~ubuntu_arm64.deb") == ("docker-ce", "5:29.2.1-1~ubuntu")
    assert deb_of("partial") is None
    assert offered("  docker-ce | 5:29.2.1-1 | https://download.docker.com/linux noble/stable arm64 Packages\n") == {
        ("docker-ce", "5:29.2.1-1")
    }


# What the host would be ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "read", "kernel", "driver"),
    [
        ({}, {}, NOW, "580.159.03"),
        ({}, {"steps": STEPS}, NEXT, "580.159.03"),
        ({}, {"steps": [comes("linux-image-unsigned-6.17.0-1021-nvidia")]}, NEXT, "580.159.03"),
        # an older one is not booted, and a module package is no kernel
        ({}, {"steps": [comes("linux-image-6.11.0-1016-nvidia")]}, NOW, "580.159.03"),
        ({}, {"steps": [comes(f"linux-modules-{NEXT}")]}, NOW, "580.159.03"),
        # one that waits for a restart; else what lies in /boot is the owner's choice
        ({}, {"kernels": [NOW, NEXT]}, NOW, "580.159.03"),
        ({"kernel": {"reboot_required": True}}, {"kernels": [NOW, NEXT]}, NEXT, "580.159.03"),
        ({}, {"kernels": [NOW, NEXT], "record": RECORD}, NEXT, "580.159.03"),
        # nvidia-kernel-common is what the kernel's modules depend on
        ({}, {"steps": [moves("libnvidia-compute-580", version="580.999-1"), *STEPS]}, NEXT, "580.159.03"),
        ({}, {"steps": [moves("nvidia-driver-610-open", version="610.43.02-0ubuntu1")]}, NOW, "610.43.02"),
        ({"driver": None}, {}, NOW, None),
    ],
)
def test_kernel_and_driver_afterwards(parts: Any, read: Any, kernel: str, driver: str | None) -> None:
    after = result(host(**parts).state, {**READ, **read}, False)
    assert (after.kernel, after.driver) == (kernel, driver)


def rules(read: Any, firmware: bool | None = None, name: str = "titan", **parts: Any) -> list[tuple[str, str]]:
    one = host(name, **parts)
    found = {**READ, **read}
    judged = problems(one, found, result(one.state, found, bool(firmware)), firmware)
    return sorted((finding.severity, finding.rule) for finding in judged)


GPU = {"present": True, "module": True, "users": 0}


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ({}, []),
        # in the table of what is known to work
        ({"steps": STEPS}, []),
        ({"steps": [comes("linux-image-6.18.0-1001-nvidia")]}, [("warning", "update-unreported")]),
        ({"steps": [moves("bash")]}, []),
        ({"steps": [moves("bash", action="remove")]}, [("error", "update-removes")]),
        ({"downgraded": ["bash"]}, [("error", "update-downgrades")]),
        ({"why": "E: broken packages"}, [("error", "update-apt")]),
        ({"broken": "foo is half configured"}, [("error", "update-broken")]),
        ({"record_why": "the record is no JSON text"}, [("error", "update-record")]),
        ({"lost": ["bash"]}, [("warning", "update-no-way-back")]),
        # a held package of a family of which others move; another one's hold is the owner's business
        ({"steps": STEPS, "held": ["nvidia-utils-580"]}, [("error", "update-held")]),
        ({"steps": STEPS, "kept_back": ["linux-headers-nvidia-hwe-24.04"]}, [("error", "update-held")]),
        ({"steps": STEPS, "held": ["docker-ce", "nvidia-container-toolkit"]}, []),
        ({"held": ["nvidia-utils-580"]}, []),
        # library and module of two versions
        (
            {"steps": STEPS, "installed": {"libnvidia-compute-580": "580.142-0ubuntu1"}},
            [("error", "update-driver-torn")],
        ),
        ({"steps": STEPS, "installed": {"libnvidia-compute-570": "570.1-1"}}, []),
        ({"steps": [moves("nvidia-driver-590-open", version="590.48.01-1")]}, [("warning", "known-bad driver-590")]),
    ],
)
def test_the_gate(read: Any, expected: list[tuple[str, str]]) -> None:
    assert rules(read) == expected


def test_a_kernel_needs_its_module_where_there_is_a_gpu() -> None:
    alone = [comes(f"linux-image-{NEXT}")]
    assert rules({"steps": alone}, gpu=GPU) == [("error", "update-kernel-alone")]
    assert rules({"steps": STEPS}, gpu=GPU) == []
    built = [*alone, comes("nvidia-dkms-580-open", "580.159.03-1")]
    assert rules({"steps": built, "installed": {}}, gpu=GPU) == []


def test_the_result_is_judged_and_not_what_runs_now() -> None:
    """By what is known to fail: worse in a group, cured by a package that comes along."""
    bad = [comes("linux-image-7.0.0-1019-nvidia")]
    unreported = ("warning", "update-unreported")
    rule = "known-bad kernel-7.0.0-1019"
    assert rules({"steps": bad}) == [("warning", rule)]
    assert rules({"steps": bad}, name="spark-2") == [("error", rule)]
    assert rules({"steps": [*bad, comes("nvidia-spark-grub-kho")]}, name="spark-2") == [unreported]
    # what is bad already is doctor's business, and its cure is let through
    assert rules({"steps": [moves("bash")]}, name="spark-2", kernel={"release": "7.0.0-1019-nvidia"}) == []
    torn = [moves("nvidia-kernel-common-580", version="580.173.02-1")]
    assert ("error", "known-bad driver-without-its-firmware") in rules({"steps": torn}, platform={"ota": "7.4.0"})


def test_firmware_asks_for_a_word() -> None:
    assert rules({"firmware": OFFERED}) == [("error", "update-firmware")]
    assert rules({"firmware": OFFERED}, True) == [("warning", "update-firmware-stays")]
    assert rules({"firmware": OFFERED}, False) == []
    assert rules({"firmware": NIC}, True) == [
        ("error", "known-bad nic-firmware-28.47"),
        ("warning", "update-firmware-stays"),
    ]
    assert rules({"firmware_why": "no daemon"}) == [("error", "update-firmware-unknown")]
    assert rules({"firmware_why": "no daemon"}, False) == []


def test_hosts_of_a_group_end_alike() -> None:
    after = {
        "spark-2": result(host("spark-2").state, {**READ, "steps": STEPS}, False),
        "spark-3": result(host("spark-3").state, READ, False),
    }
    [one] = apart([("spark-2", "spark-3"), ("titan",)], after)
    assert one.sentence().startswith(
        f"spark-2, spark-3: spark-2 would have kernel {NEXT}; spark-3 would have kernel {NOW}"
    )
    assert [*apart([("spark-2",), ("spark-3",)], after)] == []


def test_hosts_of_ranks_that_belong_together() -> None:
    assert groups_of(PLAN) == [("spark-2", "spark-3"), ("titan",)]
    both = {"services": {"x": {"hosts": ["a", "b"]}, "y": {"hosts": ["b", "c"]}}, "hosts": dict.fromkeys("abcd")}
    assert groups_of(both) == [("a", "b", "c"), ("d",)]


def test_what_is_known_to_work_is_not_known_to_fail() -> None:
    for row in known_good():
        assert {*row} - {"cmdline"} == {"kernel", "driver", "source", "seen"}
        kernel = {"release": row["kernel"], "cmdline": row.get("cmdline", "")}
        state = host("spark-2", kernel=kernel, driver=row["driver"])
        assert [one for one in faults("spark-2", state.slice, state.state) if "known-bad" in one.rule] == []


# The order ----------------------------------------------------------------------------------------------------------


def service(name: str, *hosts: str, others: tuple[str, ...] = (), serves: bool = True, **more: Any) -> Served:
    return Served(name, hosts, serves, others, **{"backend": None, "start_s": 100.0, "limit_s": 1800.0, **more})


GROUPS = [("a", "b"), ("c",), ("d",), ("e",)]
SERVICES = {
    "pair": service("pair", "a", "b"),
    "left": service("left", "c", others=("right",)),
    "right": service("right", "d", others=("left",)),
}
ALL = dict.fromkeys("abcde", "begin")


def order(
    wanted: Any = None, gateways: Any = (), took_s: float | None = 60.0, together: bool = False
) -> list[UpdateStep]:
    return steps(GROUPS, wanted or ALL, SERVICES, gateways, took_s, together)


def test_how_long_nobody_answers_is_not_known_where_a_start_never_was_measured() -> None:
    both = {name: service(name, "c", start_s=start_s) for name, start_s in (("new", None), ("old", 100.0))}
    (step,) = steps([("c",)], {"c": "begin"}, both, (), 60.0, False)
    assert (step.alone, step.nobody_s) == (("new", "old"), None)


def test_who_takes_nothing_from_anybody_goes_first() -> None:
    assert [one.hosts for one in order()] == [("e",), ("c",), ("d",), ("a", "b")]
    # nobody can be asked while the only gateway restarts
    assert [one.hosts for one in order(gateways=("e",))] == [("c",), ("d",), ("a", "b"), ("e",)]
    # nobody is without an answer where nobody stops, or others serve
    assert [one.nobody_s for one in order()[:3]] == [0, 0, 0]
    # no two hosts are under way at once
    assert next(one.hosts for one in order({**ALL, "b": "prove"})) == ("a", "b")


def test_ranks_of_a_group_change_one_after_the_other_while_it_is_down_once() -> None:
    [*_, group] = order()
    assert (group.turns, group.services, group.alone, group.nobody_s) == ((("a",), ("b",)), ("pair",), ("pair",), 220.0)
    [*_, group] = order(together=True)
    assert (group.turns, group.nobody_s) == ((("a", "b"),), 160.0)
    # who was cut off is brought to its end first
    [group] = order({"a": "begin", "b": "install"})
    assert group.turns == (("b",), ("a",))
    # the other host has nothing to do and stops with it
    [group] = order({"b": "begin"})
    assert (group.hosts, group.turns) == (("a", "b"), (("b",),))
    [group] = order({"b": "begin"}, took_s=None)
    assert group.nobody_s is None


def test_replicas_that_stop_together_do_not_serve_for_each_other() -> None:
    """On hosts of one group: nobody serves their model meanwhile, though each has the other."""
    both = {
        "pair": service("pair", "a", "b", serves=False),
        "one": service("one", "a", others=("two",)),
        "two": service("two", "b", others=("one",)),
    }
    [group] = steps([("a", "b")], {"a": "begin", "b": "begin"}, both, (), 60.0, False)
    assert (group.alone, group.nobody_s) == (("one", "two"), 220.0)
    elsewhere = both | {"three": service("three", "c", others=("one", "two"))}
    elsewhere |= {
        name: service(name, host, others=("three", other))
        for name, host, other in (("one", "a", "two"), ("two", "b", "one"))
    }
    [group] = steps([("a", "b")], {"a": "begin", "b": "begin"}, elsewhere, (), 60.0, False)
    assert (group.alone, group.nobody_s) == ((), 0)


@given(st.dictionaries(st.sampled_from("abcde"), st.sampled_from(["begin", "install", "prove"])), st.booleans())
def test_each_host_has_one_turn_and_no_two_of_a_group_at_once(wanted: dict[str, Any], gateway: bool) -> None:
    found = steps(GROUPS, wanted, SERVICES, ("e",) if gateway else (), None, False)
    turns = [turn for one in found for turn in one.turns]
    assert all(len(turn) == 1 for turn in turns)
    assert sorted(host for turn in turns for host in turn) == sorted(wanted)
    stopped = [name for one in found for name in one.services]
    assert len(stopped) == len({*stopped})


def test_what_serves_meanwhile_by_plan_and_ranks() -> None:
    read = {"service": "pair", "health": "serving", "supervisor": {"ready_s": 71.0}}
    plan = {**PLAN, "gateway": {"hosts": ["titan"], "models": [{"services": ["pair"]}, {"services": ["solo"]}]}}
    found = services_of(plan, {"spark-2": [read]}, True)
    assert (found["pair"].serves, found["pair"].start_s, found["pair"].backend) == (True, 71.0, "pair")
    assert (found["solo"].serves, found["solo"].others, found["pair"].others) == (False, ("pair",), ())
    assert services_of(plan, {}, False)["pair"].backend is None
    assert services_of({**PLAN, "gateway": None}, {}, True)["pair"].backend is None


@pytest.mark.parametrize(
    ("record", "boot_id", "expected"),
    [
        (None, "now", "begin"),
        ({"stage": "kept", "boot_id": "now"}, "now", "begin"),
        ({"stage": "installing", "boot_id": "now"}, "now", "install"),
        ({"stage": "installing", "boot_id": "before"}, "now", "install"),
        ({"stage": "installed", "boot_id": "now"}, "now", "restart"),
        ({"stage": "installed", "boot_id": "before"}, "now", "prove"),
        ({"stage": "back", "boot_id": "now"}, "now", "put back"),
        ({"stage": "restored", "boot_id": "before"}, "now", "put back"),
    ],
)
def test_what_comes_next_after_a_cut(record: Any, boot_id: str, expected: str) -> None:
    assert next_of(record, boot_id) == expected


def test_what_there_is_to_do() -> None:
    assert not wanting(READ, False, True)
    assert wanting(READ, True, False)
    assert wanting({**READ, "steps": STEPS}, False, False)
    assert wanting({**READ, "record": RECORD}, False, False)
    assert [wanting({**READ, "firmware": OFFERED}, False, word) for word in (True, False)] == [True, False]


def test_the_page() -> None:
    after = result(host(driver="580.142").state, {**READ, "steps": STEPS}, False)
    line = changes(
        {**READ, "steps": STEPS, "firmware": OFFERED, "kept_back": ["docker-ce"]}, (NOW, "580.142"), after, True
    )
    assert line == (
        f"kernel {NOW} to {NEXT}; driver 580.142 to 580.159.03; 2 packages move, 2 come (linux-image-{NEXT} "
        f"6.17.0-1021.21, linux-modules-nvidia-580-open-{NEXT} 6.17.0-1021.21, linux-image-nvidia-hwe-24.04 "
        "6.17.0-1021.21, nvidia-kernel-common-580 580.159.03-0ubuntu0.24.04.1); firmware of Embedded Controller; held "
        "or kept back: docker-ce"
    )
    text = page(dict.fromkeys("abcde", "bash moves"), {**ALL, "b": "restart"}, order(), ["f"])
    assert text.splitlines() == [
        "f: nothing to do",
        "1. e: it serves nothing",
        "   e: bash moves",
        "2. c: left stops meanwhile, which takes nobody away",
        "   c: bash moves",
        "3. d: right stops meanwhile, which takes nobody away",
        "   d: bash moves",
        "4. a, b one after the other: nobody serves pair for about 4 min, and requests are refused",
        "   a: bash moves",
        "   b: bash moves (an update was cut off before the restart: it goes on there)",
        "each has to boot, to be without a new fault and to serve as before, before the next is touched; else what can "
        "be put back is, and the run ends",
    ]
    assert page({}, {}, [], ["a"]) == "a: nothing to do\nnothing is updated"
    assert "never measured here" in page(dict.fromkeys("abcde", ""), ALL, order(took_s=None), [])


@pytest.mark.parametrize(
    ("services", "failed", "gone", "words"),
    [
        ((), {}, [], ""),
        (("nano",), {}, [], ""),
        (
            (),
            {"a": "none runs"},
            [],
            "a did not prove itself, what can be put back was; the hosts after it were not touched:\na: none runs",
        ),
        (
            ("pair",),
            {"a": "it failed", "b": "slow"},
            [],
            "a, b did not prove themselves, what can be put back was, and its services serve again; the hosts "
            "after it were not touched:\na: it failed\nb: slow",
        ),
        (
            ("pair",),
            {"b": "slow"},
            ["a"],
            "a, b did not prove themselves; the hosts after it were not touched:\n"
            "a: it can't be reached, or could not be put back\nb: slow",
        ),
        (("pair",), {"a": "slow"}, ["a"], "a did not prove itself; the hosts after it were not touched:\na: slow"),
    ],
)
def test_why_a_run_ends(services: Any, failed: dict[str, str], gone: list[str], words: str) -> None:
    assert stopped({"services": services}, failed, gone) == words


# Faults of the recorded state itself, such as an archive that is not there.
KNOWN = [name(one) for one in faults("titan", host().slice, host().state)]


# The proof ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "read", "words"),
    [
        ({}, {}, []),
        ({}, {"boot_id": "before"}, ["it has not restarted since"]),
        ({"kernel": {"release": NOW}}, {}, [f"{NOW} runs; expected {NEXT}"]),
        ({"driver": None}, {}, ["none runs; expected 580.159.03"]),
        ({}, {"broken": "foo is half configured"}, ["foo is half configured"]),
        ({}, {"record": None}, ["it is gone"]),
        ({}, {"firmware": OFFERED}, []),
        ({}, {"firmware": OFFERED, "record": {"firmware": True}}, ["still offered: Embedded Controller"]),
        ({"gpu": {"present": True, "module": False, "users": 0}}, {}, ["no module of NVIDIA's driver"]),
        # a fault that it had before is not the update's
        (
            {"gpu": {"present": True, "module": False, "users": 0}},
            {"record": {"known": [*KNOWN, f"driver-missing kernel {NEXT}"]}},
            [],
        ),
    ],
)
def test_the_proof_of_a_host(parts: Any, read: Any, words: list[str]) -> None:
    one = host(**{"kernel": {"release": NEXT}, **parts})
    record = {**RECORD, "known": KNOWN, **(read.get("record") or {})}
    found = [
        *unproved("titan", one.slice, one.state, {**READ, **read, "record": read.get("record", record) and record})
    ]
    assert len(found) == len(words)
    assert all(word in sentence for word, sentence in zip(words, (each.sentence() for each in found), strict=True))


def test_each_service_answers_as_fast_as_before() -> None:
    before = {"a": [1.0, 1.2], "b": [1.0], "c": [1.0], "d": []}
    [one] = slower_services(before, {"a": [1.1], "b": [2.0, 1.9], "d": [9.0]}, 0.7)
    assert one.startswith("b: it answers at 53% of the old one's speed")


def test_a_fault_is_known_again_by_rule_and_place() -> None:
    one = host(gpu={"present": True, "module": False, "users": 0})
    assert {name(each) for each in faults("titan", one.slice, one.state)} - {*KNOWN} == {f"driver-missing kernel {NOW}"}


# The record, and what is done on a host -----------------------------------------------------------------------------


def test_the_record_has_a_form() -> None:
    assert record_of(json.dumps(RECORD).encode()) == RECORD
    # of the release before
    assert record_of(json.dumps({key: value for key, value in RECORD.items() if key != "figures"}).encode()) == RECORD
    assert READING["options"]["record"]["options"] is not None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"stage": "installed"}',
        json.dumps({**RECORD, "stage": "proved"}).encode(),
        json.dumps({**RECORD, "steps": [moves("-x", version="$(id)")]}).encode(),
        b"\xff" * 10,
    ],
)
def test_a_record_that_can_not_be_used_is_an_error(content: bytes) -> None:
    with pytest.raises(ValueError, match="the record"):
        record_of(content)


class Apt:
    """A host's packages. fails: the word of the command that ends badly."""

    def __init__(self) -> None:
        self.have = {"bash": "1", "lib": "1"}
        self.offers = {"bash": "2", "new": "1"}
        self.automatic = {"bash"}
        self.fails = ""
        self.ran: list[str] = []

    def run(self, command: list[str]) -> tuple[int, str, str]:
        words = [word for word in command if not word.startswith(("--option", "APT::", "DPkg::", "Dpkg::", "Debug::"))]
        line = " ".join(words)
        self.ran.append(line)
        if self.fails and self.fails in line:
            return 100, "", "E: it fails\n"
        if "--simulate" in words:
            rows = [
                f"Inst {name} [{self.have[name]}] ({new} x)" if name in self.have else f"Inst {name} ({new} x)"
                for name, new in self.offers.items()
                if self.have.get(name) != new
            ]
            return 0, "\n".join(rows) + "\n", ""
        if words[0] == "dpkg-query":
            return 0, "".join(f"{name} installed {version}\n" for name, version in self.have.items()), ""
        if "download" in words:
            name, version = words[-1].split("=")
            (look.DEBS / f"{name}_{version}_all.deb").touch()
        if words[:2] == ["apt-mark", "showauto"]:
            return 0, "".join(f"{name}\n" for name in words[2:] if name in self.automatic), ""
        if words[:2] == ["apt-mark", "auto"]:
            self.automatic |= {*words[2:]}
        if words[-1] == "dist-upgrade" and "--download-only" not in words:
            self.have |= self.offers
        if "install" in words:
            for word in words[words.index("install") + 1 :]:
                if word.endswith("-"):
                    del self.have[word[:-1]]
                else:
                    name, version, _rest = Path(word).name.split("_")
                    self.have[name] = version
                    self.automatic -= {name}
        return 0, "", ""


@pytest.fixture
def apt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Apt:
    folder = tmp_path / "update"
    for where in (look, change):
        monkeypatch.setattr(where, "RECORD", folder / "record.json")
        monkeypatch.setattr(where, "FOLDER", folder)
        monkeypatch.setattr(where, "DEBS", folder / "debs")
    monkeypatch.setattr(change, "read_packages_at_work", lambda: {"holders": []})
    monkeypatch.setattr(look, "ARCHIVES", tmp_path / "archives")
    monkeypatch.setattr(change.layout, "UPDATE_TOOK", str(tmp_path / "took.json"))
    monkeypatch.setattr(look, "_TOOK", tmp_path / "took.json")
    return Apt()


ASK: dict[str, Any] = {
    "steps": [moves("bash"), comes("new")],
    "firmware": False,
    "units": ["a.service"],
    "expected": {"kernel": None, "driver": None},
    "known": [],
    "seconds": {"a": [0.5]},
}


def kept(apt: Apt, **ask: Any) -> dict[str, Any]:
    return change.keep(apt.run, {**ASK, **ask}, lambda: 1000.0)


def test_forwards_and_back(apt: Apt, tmp_path: Path) -> None:
    record = kept(apt)
    assert (record["stage"], record["lost"], record["automatic"]) == ("kept", [], ["bash"])
    assert apt.have == {"bash": "1", "lib": "1"}
    # of what was only kept nothing has to be put back
    assert change.restore(apt.run)["stage"] == "kept"
    assert change.install(apt.run)["stage"] == "installed"
    assert apt.have == {"bash": "2", "lib": "1", "new": "1"}
    assert apt.automatic == {"bash"}
    # each once more changes nothing
    ran = len(apt.ran)
    assert (kept(apt)["stage"], change.install(apt.run)["stage"]) == ("installed", "installed")
    assert len(apt.ran) == ran
    assert change.restore(apt.run)["stage"] == "restored"
    assert (apt.have, apt.automatic) == ({"bash": "1", "lib": "1"}, {"bash"})
    ran = len(apt.ran)
    assert change.restore(apt.run)["stage"] == "restored"
    assert len(apt.ran) == ran
    assert change.forget() and not change.forget()
    # what was put back took no update's time
    assert not (tmp_path / "took.json").exists()


def test_whoever_installs_something_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    at_work = [{"holders": ["apt-get"]}, {"holders": ["dpkg"]}, {"holders": []}]
    slept: list[float] = []
    monkeypatch.setattr(change, "read_packages_at_work", lambda: at_work.pop(0))
    change.wait_for_others(slept.append)
    assert (len(slept), at_work) == (2, [])


def test_how_long_it_took_is_kept(apt: Apt) -> None:
    kept(apt)
    change.install(apt.run)
    assert change.forget(lambda: 1300.0)
    assert look._took() == 300


@pytest.mark.parametrize("where", ["--download-only", "dpkg --configure", "--assume-yes --no-remove dist-upgrade"])
def test_what_fails_is_a_sentence_and_is_taken_up(apt: Apt, where: str) -> None:
    apt.fails = where
    with pytest.raises(
        change.UpdateError, match=r"E: it fails; mend that on the host, and run gb10.fleet.update again"
    ):
        kept(apt)
        change.install(apt.run)
    apt.fails = ""
    kept(apt)
    assert change.install(apt.run)["stage"] == "installed"


def test_other_package_lists_than_were_judged_are_refused(apt: Apt) -> None:
    apt.offers["bash"] = "3"
    with pytest.raises(change.UpdateError, match="apt would do something else than was judged: bash 2, bash 3"):
        kept(apt)
    apt.offers["bash"] = "2"
    kept(apt)
    apt.offers["lib"] = "2"
    with pytest.raises(change.UpdateError, match="lib 2"):
        change.install(apt.run)
    assert apt.have["bash"] == "1"


def test_a_cut_while_packages_were_installed(apt: Apt) -> None:
    kept(apt)
    apt.fails = "--no-remove dist-upgrade"
    with pytest.raises(change.UpdateError):
        change.install(apt.run)
    apt.have["new"] = "1"  # this far it went
    apt.fails = ""
    assert next_of(change.record(), "any") == "install"
    assert change.install(apt.run)["stage"] == "installed"


def test_services_that_a_cut_run_has_stopped_are_not_forgotten(apt: Apt) -> None:
    kept(apt)
    record = kept(apt, units=[], seconds={})
    assert (record["units"], record["seconds"]) == (["a.service"], {"a": [0.5]})


def test_what_can_not_be_had_stays_and_the_rest_goes_back(apt: Apt) -> None:
    def without_bash(command: list[str]) -> tuple[int, str, str]:
        return (100, "", "") if "download" in command else apt.run(command)

    assert change.keep(without_bash, ASK)["lost"] == ["bash"]
    change.install(apt.run)
    assert change.restore(apt.run)["stage"] == "restored"
    assert apt.have == {"bash": "2", "lib": "1"}


def test_a_way_back_that_fails_goes_on_with_the_next_run(apt: Apt) -> None:
    kept(apt)
    change.install(apt.run)
    apt.fails = "--allow-downgrades"
    with pytest.raises(change.UpdateError, match="apt can't put the packages back"):
        change.restore(apt.run)
    assert next_of(change.record(), "any") == "put back"
    apt.fails = ""
    assert change.restore(apt.run)["stage"] == "restored"


def test_firmware_is_brought_last_and_once(apt: Apt) -> None:
    kept(apt, firmware=True)
    apt.fails = "fwupdmgr update"
    with pytest.raises(change.UpdateError, match="fwupdmgr update: E: it fails"):
        change.install(apt.run)
    assert next_of(change.record(), "any") == "install"


@pytest.mark.parametrize(
    ("answer", "firmware", "why"),
    [
        ((0, '{"Devices": []}', ""), [], ""),
        ((2, "", "No updates available"), [], ""),
        ((1, "", "no daemon"), None, "what fwupdmgr prints is no JSON text: no daemon"),
        (FileNotFoundError(), None, ""),
    ],
)
def test_a_machine_with_and_without_fwupd(answer: Any, firmware: Any, why: str) -> None:
    def run(_command: list[str]) -> tuple[int, str, str]:
        if isinstance(answer, Exception):
            raise answer
        return tuple(answer)  # type: ignore[return-value]

    assert look._firmware(run) == (firmware, why)


def test_a_reading_fits_its_form(apt: Apt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "_firmware", lambda _run: (OFFERED, ""))
    monkeypatch.setattr(look, "boot_id", lambda: "now")
    kept(apt)
    run: Callable[[list[str]], tuple[int, str, str]] = apt.run
    found = look.read_updates(run, [])
    assert found["record"]["stage"] == "kept"
    form = {"type": "map", "options": {"updates": READING}}
    assert read_answer(form, {"updates": found})["updates"]["steps"] == ASK["steps"]  # type: ignore[arg-type]


# Whatever a host answers --------------------------------------------------------------------------------------------

FORM: Any = {"type": "map", "options": {"updates": {**READING, "required": True}}}
ANSWER = {
    **READ,
    "steps": STEPS[-1:],
    "held": ["bash"],
    "kernels": [NEXT],
    "firmware": OFFERED,
    "units": {"gb10-service-solo.service": True},
    "record": {**RECORD, "steps": STEPS[:1], "known": ["driver-missing kernel 6.17"]},
}


@pytest.mark.parametrize("value", NO_VALUES, ids=lambda value: repr(value)[:12])
def test_no_value_at_any_place_ends_the_judgement_of_others(value: Any) -> None:
    """It is refused, or all that is done with it later can be done; and no terminal obeys it."""
    taken = 0
    for path in paths(ANSWER):
        try:
            found = read_answer(FORM, {"updates": put(ANSWER, path, value)})["updates"]
        except ValueError as refused:
            assert "\x1b" not in str(refused)
            continue
        taken += 1
        one = host()
        after = result(one.state, found, True)
        sentences = [each.sentence() for each in problems(one, found, after, True)]
        sentences += [each.sentence() for each in unproved("titan", one.slice, one.state, found)]
        sentences.append(changes(found, (None, None), after, True))
        assert "\x1b" not in "".join(sentences)
        assert wanting(found, False, False) in (True, False)
        assert next_of(found["record"], found["boot_id"])
    assert taken < len([*paths(ANSWER)])


# The action -----------------------------------------------------------------------------------------------------------


def decide(monkeypatch: pytest.MonkeyPatch, *, check: bool = False, **options: Any) -> dict[str, Any]:
    """What the action returns; the page in ``shown``."""
    shown: list[str] = []
    action = update.ActionModule.__new__(update.ActionModule)
    action._task = SimpleNamespace(check_mode=check)
    names = ("titan", "spark-2", "spark-3")
    given = {
        "plan": PLAN,
        "hosts": list(names),
        "states": {each: host(each).state for each in names},
        "found": {each: {**READ, "steps": [moves("bash")]} for each in names},
        "ranks": {},
        "firmware": None,
        "together": False,
        **options,
    }
    monkeypatch.setattr(ActionBase, "run", lambda *_given, **_named: {})
    monkeypatch.setattr(action, "validate_argument_spec", lambda _spec: (None, given))
    monkeypatch.setattr(update, "show", shown.append)
    return {**action.run(), "shown": shown}


def test_the_order_and_what_a_host_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    done = decide(monkeypatch)
    assert [one["turns"] for one in done["steps"]] == [(("titan",),), (("spark-2",), ("spark-3",))]
    assert not done["changed"]
    judged = done["judged"]["titan"]
    assert judged["expected"] == {"kernel": NOW, "driver": "580.159.03"}
    assert (judged["steps"], judged["known"]) == ([moves("bash")], sorted(KNOWN))
    [page_] = done["shown"]
    assert page_.startswith("1. titan: solo stops meanwhile")


def test_check_mode_shows_the_same_and_takes_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    done = decide(monkeypatch, check=True)
    assert (done["changed"], done["steps"]) == (True, [])
    assert done["shown"] == decide(monkeypatch)["shown"]
    assert not decide(monkeypatch, check=True, found={"titan": READ})["changed"]


def test_one_host_that_may_not_refuses_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {each: {**READ, "steps": [moves("bash")]} for each in ("titan", "spark-2", "spark-3")}
    found["titan"] |= {"broken": "foo is half configured"}
    with pytest.raises(AnsibleAction, match=r"titan: dpkg: foo is half configured.*\[update-broken\]"):
        decide(monkeypatch, found=found)
    found["titan"] |= {"broken": "", "steps": []}
    found["spark-3"] |= {"steps": STEPS}
    with pytest.raises(AnsibleAction, match="update-apart"):
        decide(monkeypatch, found=found)
    # what is put back is not judged by what it goes back from
    back = {**READ, "broken": "foo is half configured", "record": {**RECORD, "stage": "back"}}
    assert len(decide(monkeypatch, found={"titan": back})["steps"]) == 1
