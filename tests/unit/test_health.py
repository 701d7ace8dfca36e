# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine as a patient: what a probe reads of it, and what doctor and drift make of that."""

from __future__ import annotations

import copy
import re
import struct
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import drift_fleet
import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import host_warning
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._base.schema import check
from ansible_collections.gb10.fleet.plugins.module_utils._base.subject import PreflightContext
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.spec import recipe_spec
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe import machine, nvidia_smi
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.parts import (
    UnreadableError,
    bounded_run,
    read_parts,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import compare
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.health.reading import boots, read_health
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.health.subject import gpu_slice
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.system.known_bad import known_bad, reported
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.system.next_boot import after_restart, judged
from drift_fleet import DRIVER, GIB, changed, planned, state_of
from unit.test_doctor import GROUP, PLAN, each, looked, memory, put

HOSTS = Path(__file__).resolve().parents[1] / "data" / "hosts"
QUERY = (HOSTS / "gb10-query" / "nvidia-smi.txt").read_text("utf-8")
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.178\n"


def found(change: Any, plan: dict[str, Any] = PLAN, host: str = "titan") -> dict[str, Any]:
    return {finding.rule: finding for finding in looked(plan, host, change).findings}


# The next restart -------------------------------------------------------------------------------------------------

GRUB = """
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
else
   set default="%s"
fi
menuentry 'Ubuntu' --class ubuntu $menuentry_id_option 'gnulinux-simple-1' {
\tlinux\t/boot/vmlinuz-7.0.0-31-generic root=UUID=1 ro quiet
}
submenu 'Advanced options for Ubuntu' {
\tmenuentry 'Ubuntu, with Linux 7.0.0-31-generic' {
\t\tlinux\t/boot/vmlinuz-7.0.0-31-generic root=UUID=1 ro quiet
\t}
\tmenuentry 'Ubuntu, with Linux 7.0.0-31-generic (recovery mode)' {
\t\tlinux\t/boot/vmlinuz-7.0.0-31-generic root=UUID=1 ro recovery
\t}
\tmenuentry 'Ubuntu, with Linux 7.0.0-30-generic' {
\t\tlinux\t/boot/vmlinuz-7.0.0-30-generic root=UUID=1 ro quiet splash
\t}
}
"""
KERNELS = ["7.0.0-30-generic", "7.0.0-31-generic"]


def waits(default: str = "0", environment: str = "", config: str = GRUB, driver: str = DRIVER) -> Any:
    menu = machine.boot_menu(config % default if config else "", environment)
    return each(
        put("kernel", "release", "7.0.0-30-generic"),
        put("kernel", "reboot_required", True),
        put("boot", {"kernels": KERNELS, **menu, "driver": driver}),
    )


@pytest.mark.parametrize("config", [GRUB, ""])
def test_a_restart_into_a_kernel_that_is_known_to_fail_is_refused_with_the_way_out(config: str) -> None:
    """MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark issue 259: three days lay between installation and restart."""
    rules = found(waits(config=config), GROUP, "spark-2")
    one = rules["restart-known-bad"]
    assert (one.severity, one.place) == ("error", "the next restart")
    assert "kernel 7.0.0-31-generic is installed" in one.found and "reboot-pending" not in rules
    order = ["don't restart", "kho=off", "GRUB_DEFAULT", "apt-mark hold", "only then sudo systemctl reboot"]
    assert sorted(order, key=one.remedy.index) == order
    (alone,) = (rule for rule in found(waits(config=config)).values() if rule.rule == "restart-known-bad")
    assert alone.severity == "warning"  # no group, no RDMA


def test_a_hosts_words_become_no_command_of_its_owner() -> None:
    """What a host calls its kernels and files stands in lines that a person types with sudo."""
    evil = GRUB.replace("7.0.0-31-generic", "7.0.0-31-generic;id")
    assert ";id" not in found(waits(config=evil), GROUP, "spark-2")["restart-known-bad"].remedy
    renamed = each(waits(), put("kernel", "release", "7.0.0-30-generic';id'"))
    assert ";id" not in found(renamed, GROUP, "spark-2")["restart-known-bad"].remedy
    stale = put("cdi_drivers", {"/etc/cdi/x;id": {"versions": ["580.159.04"], "missing": []}})
    assert "cdi generate '--output=/etc/cdi/x;id'" in found(stale)["gpu-specification"].remedy


@pytest.mark.parametrize(
    ("default", "environment", "release"),
    [
        ("0", "", "7.0.0-31-generic"),
        ("1>0", "", "7.0.0-31-generic"),
        ("1>2", "", "7.0.0-30-generic"),
        ("Advanced options for Ubuntu>Ubuntu, with Linux 7.0.0-30-generic", "", "7.0.0-30-generic"),
        ("gnulinux-advanced-1>gnulinux-7.0.0-30-generic-advanced-1", "", "7.0.0-30-generic"),
        ("${saved_entry}", "# GRUB Environment Block\nsaved_entry=1>2\n####", "7.0.0-30-generic"),
        ("${saved_entry}", "", "7.0.0-31-generic"),
        ("0", "next_entry=1>2\n", "7.0.0-30-generic"),
        ("1>9", "", "7.0.0-30-generic"),
    ],
)
def test_the_entry_that_grub_starts_is_judged(default: str, environment: str, release: str) -> None:
    """The way out is taken at its word: with the boot entry that it names the error is gone."""
    change, state = waits(default, environment), copy.deepcopy(state_of(GROUP, "spark-2"))
    change(state)
    after = after_restart(state)  # type: ignore[arg-type]
    assert after["kernel"] and after["kernel"]["release"] == release
    rules = found(change, GROUP, "spark-2")
    assert ("restart-known-bad" in rules) == (release == KERNELS[1])
    assert ("reboot-pending" in rules) == (release == KERNELS[0])


def test_a_cure_on_the_next_command_line_counts() -> None:
    rules = found(waits(config=GRUB.replace("ro quiet", "ro kho=off quiet")), GROUP, "spark-2")
    assert "restart-known-bad" not in rules and "reboot-pending" in rules


def test_a_driver_that_waits_is_judged_too() -> None:
    change = put("boot", "driver", "590.44.01")
    assert found(change)["restart-known-bad"].found.startswith("driver 590.44.01 is installed")
    assert "gpu-libraries" in found(change)  # the module that runs is another one


def test_whatever_advises_a_restart_is_judged() -> None:
    leaked = each(memory(12 * GIB, unaccounted=100 * GIB), waits())
    remedy = found(leaked, GROUP, "spark-2")["memory-leaked"].remedy
    assert remedy.startswith("mend `restart-known-bad` of this host first")
    assert found(memory(12 * GIB, unaccounted=100 * GIB))["memory-leaked"].remedy.startswith("restart this host: sudo")
    broken = each(put("gpu", "why", "nvidia-smi ended with 15: GPU is lost"), waits())
    assert "mend `restart-known-bad`" in found(broken, GROUP, "spark-2")["gpu-silent"].remedy


def test_a_remedy_of_the_table_that_restarts_is_judged_too() -> None:
    """The way out of a bad BIOS is to power off and on, which starts the kernel that waits."""
    old = each(put("platform", "bios", "GX10DGX.0101"), waits())
    for remedy in (
        found(old, GROUP, "spark-2")["known-bad bios-pcie-lanes"].remedy,
        next(
            one.remedy
            for one in compare(GROUP, changed(GROUP, "spark-2", old), "2026-11-01").differences  # type: ignore[arg-type]
            if one.rule == "known-bad bios-pcie-lanes"
        ),
    ):
        assert remedy.startswith("mend `restart-known-bad` of this host first")
    assert not found(put("platform", "bios", "GX10DGX.0101"))["known-bad bios-pcie-lanes"].remedy.startswith("mend")


def test_drift_finds_the_same() -> None:
    view = compare(GROUP, changed(GROUP, "spark-2", waits()), "2026-11-01")  # type: ignore[arg-type]
    mine = [one for one in view.differences if one.rule in ("restart-known-bad", "reboot-pending")]
    assert [(one.rule, one.severity, one.host) for one in mine] == [("restart-known-bad", "error", "spark-2")]


LEAKED = host_warning("memory-leaked", "memory", found="x", remedy="restart this host: sudo systemctl reboot")


def test_what_can_not_be_read_is_not_judged() -> None:
    for change in (put("boot", None), put("kernel", None)):
        state = copy.deepcopy(state_of(PLAN, "titan"))
        change(state)
        look = PreflightContext("titan", PLAN["hosts"]["titan"], state)  # type: ignore[arg-type]
        assert judged(look, LEAKED) is LEAKED


@pytest.mark.parametrize(
    "driver", ["580.95.05", "580.159.03", "580.167.08", "580.173.02", "580.178.04", "595.84", "595.91.07", "610.43.02"]
)
def test_no_release_is_free_of_what_nobody_has_shown(driver: str) -> None:
    one = found(put("driver", driver))["known-bad driver-out-of-memory"]
    assert one.severity == "warning" and "memory_guard" in one.remedy


def test_a_pair_that_nobody_reports_is_shown_in_the_table() -> None:
    state = copy.deepcopy(state_of(PLAN, "titan"))
    assert reported(state) == ""  # type: ignore[arg-type]
    state["kernel"]["release"], state["driver"] = "6.17.0-1032-nvidia", "580.173.02"
    assert reported(state) == "2026-10"  # type: ignore[arg-type]
    assert all(row.get("until") or row["since"] for row in known_bad())


# The GPU ----------------------------------------------------------------------------------------------------------


def answering(code: int, out: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(machine, "_has_gpu", lambda: True)
    return machine.read_gpu(lambda words: (code, out, "") if words[0] == "nvidia-smi" else (0, "", ""))


def test_an_answer_of_a_gb10_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = answering(0, QUERY, monkeypatch)
    assert read == {
        **{"present": True, "module": True, "closed": False, "users": 1, "why": "", "persistence": True},
        "held_back": ["SW Power Cap"],
        "figures": {"use_percent": 96, "heat_c": 64, "power_w": 47.91, "clock_mhz": 2411, "clock_most_mhz": 3003},
    }


@pytest.mark.parametrize(("license_name", "is_closed"), [("NVIDIA\n", True), ("Dual MIT/GPL\n", False), ("", False)])
def test_a_closed_module_is_known_by_its_license(
    license_name: str, is_closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_has_gpu", lambda: True)
    read = machine.read_gpu(lambda words: (0, QUERY if words[0] == "nvidia-smi" else license_name, ""))
    assert read["closed"] == is_closed and "gpu-silent" not in found(put("gpu", read))


@pytest.mark.parametrize(
    ("code", "out", "why"),
    [
        (18, MISMATCH, "nvidia-smi ended with 18: Failed to initialize NVML: Driver/library version mismatch NVML"),
        (6, "No devices were found\n", "nvidia-smi ended with 6: No devices were found"),
        (0, "No devices were found\n", "No devices were found"),
        (
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
            "nvidia-smi ended with 9",
        ),
        (0, "", "nvidia-smi prints nothing"),
        (137, "", "nvidia-smi ended with 137"),
        (0, QUERY.replace("2411 MHz", "GPU is lost"), "Graphics : GPU is lost"),
        (0, QUERY.replace("2411 MHz", "[Unknown Error]"), "Graphics : [Unknown Error]"),
    ],
)
def test_words_of_an_error_are_no_programs(code: int, out: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA/nvidia-container-toolkit issues 171 and 394: eleven words were eleven programs."""
    read = answering(code, out, monkeypatch)
    assert read["users"] == 0 and read["why"].startswith(why)
    rules = found(each(put("gpu", read), memory(12 * GIB, unaccounted=100 * GIB)))
    (one,) = (rules[name] for name in ("gpu-libraries", "gpu-silent") if name in rules)
    assert one.severity == "error" and why[-20:] in one.found
    assert "memory-leaked" in rules and "memory-short" not in rules


def test_a_driver_that_was_updated_under_its_module_wants_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    read = answering(18, MISMATCH, monkeypatch)
    one = found(each(put("gpu", read), put("boot", "driver", "580.178.04")))["gpu-libraries"]
    assert f"module is {DRIVER}, and the libraries are 580.178.04" in one.found
    assert one.remedy == "restart this host: sudo systemctl reboot --no-block; it loads the module that fits"


def test_a_single_unknown_value_is_no_dead_gpu() -> None:
    assert nvidia_smi.trouble(0, QUERY.replace("47.91 W", "[Unknown Error]"), "") == ""


def test_a_gpu_that_hangs_or_has_no_tool_leaves_the_other_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the kernel (state D) or for 40 seconds: it is given up after its limit, and not waited for."""
    monkeypatch.setattr(machine, "_has_gpu", lambda: True)
    run, began = bounded_run(0.2), time.monotonic()

    def hangs(words: list[str]) -> tuple[int, str, str]:
        return run(["sleep", "40"]) if words[0] == "nvidia-smi" else (0, "", "")

    state, unknown = read_parts({"gpu": lambda: machine.read_gpu(hangs), "other": lambda: 1}, 5)
    assert time.monotonic() - began < 5 and unknown == {} and state["other"] == 1
    assert "did not end within" in state["gpu"]["why"]
    assert "gpu-silent" in found(put("gpu", state["gpu"]))

    def missing(words: list[str]) -> tuple[int, str, str]:
        if words[0] == "nvidia-smi":
            raise FileNotFoundError
        return 0, "", ""

    assert found(put("gpu", machine.read_gpu(missing)))["gpu-silent"].severity == "warning"


def test_a_program_that_can_not_be_killed_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess.Popen, "kill", lambda _process: None)
    monkeypatch.setattr(subprocess.Popen, "__del__", lambda _process: None)
    began = time.monotonic()
    with pytest.raises(UnreadableError, match="did not end"):
        bounded_run(0.1)(["sleep", "6"])
    assert time.monotonic() - began < 5


# The specification ------------------------------------------------------------------------------------------------

STALE = """kind: nvidia.com/gpu
mounts: [/usr/lib/aarch64-linux-gnu/libcuda.so.580.159.04, /usr/lib/aarch64-linux-gnu/libEGL_nvidia.so.580.159.04]
- /usr/lib/aarch64-linux-gnu/libnvidia-egl-wayland.so.1.1.13
- --link ../libglxserver_nvidia.so.1::/usr/lib/aarch64-linux-gnu/x
"""


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("/etc/cdi/nvidia.yaml", "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"),
        ("/var/run/cdi/nvidia.yaml", "sudo systemctl restart nvidia-cdi-refresh"),
    ],
)
def test_a_specification_of_another_driver_is_named_with_its_command(path: str, remedy: str) -> None:
    """HaveAGitGat/Tdarr issue 1423: 580.159.04 in the file, 580.178.04 on the host."""
    read = machine.named_libraries(STALE)
    assert read["versions"] == ["580.159.04"] and len(read["missing"]) == 2
    one = found(put("cdi_drivers", {path: read}))["gpu-specification"]
    assert (one.severity, one.place) == ("error", path) and remedy in one.remedy
    assert one.found == f"it names libraries of 580.159.04, and the driver is {DRIVER}"


def test_a_specification_of_the_driver_that_waits_is_no_fault() -> None:
    new = {"/var/run/cdi/nvidia.yaml": {"versions": ["580.178.04"], "missing": []}}
    rules = found(each(put("cdi_drivers", new), put("boot", "driver", "580.178.04")))
    assert "gpu-specification" not in rules and "gpu-libraries" in rules


# The clock --------------------------------------------------------------------------------------------------------


def test_a_declared_clock_is_a_unit_that_sets_it_at_each_boot_and_frees_it_when_it_stops() -> None:
    part = gpu_slice({"gpu": {"clock_max_mhz": 2150, "persistence": True}})
    (file,) = part["files"].values()
    lines = [line for line in str(file.get("content")).splitlines() if line.startswith("Exec")]
    was = "/usr/bin/nvidia-smi --query-gpu=persistence_mode --format=csv,noheader > /run/gb10-gpu/persistence"
    assert lines[:2] == [
        f"ExecStart=/bin/sh -c '{was} && exec /usr/bin/nvidia-smi --persistence-mode=1'",
        "ExecStart=/bin/sh -c 'echo free > /run/gb10-gpu/clock && exec /usr/bin/nvidia-smi --lock-gpu-clocks=0,2150'",
    ]
    assert part["units"] == {"gb10-gpu.service": "started"}


@pytest.mark.parametrize(
    ("was", "ended"), [("Enabled", "--persistence-mode=1"), ("Disabled", "--persistence-mode=0"), (None, "")]
)
def test_what_was_before_comes_back(tmp_path: Path, was: str | None, ended: str) -> None:
    """Whoever else wants persistence keeps it, and what was not declared is not touched: by the unit's own lines."""
    (file,) = gpu_slice({"gpu": {"clock_max_mhz": 2150}})["files"].values()
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\necho $@ >> {tmp_path}/done\n")
    tool.chmod(0o755)
    if was:
        (tmp_path / "persistence").write_text(f"{was}\n")
    for line in re.findall(r"^ExecStopPost=-/bin/sh -c '(.*)'$", str(file.get("content")), re.MULTILINE):
        own = line.replace("$$", "$").replace("/run/gb10-gpu", str(tmp_path)).replace("/usr/bin/nvidia-smi", str(tool))
        subprocess.run(["/bin/sh", "-c", own], check=True)
    assert ((tmp_path / "done").read_text().strip() if was else "") == ended


def test_nothing_declared_leaves_the_gpu_alone() -> None:
    for settings in ({}, {"gpu": {}}, {"gpu": {"clock_max_mhz": None, "persistence": None}}):
        part = gpu_slice(settings)  # type: ignore[arg-type]
        assert part["units"] == {} and [file["content"] for file in part["files"].values()] == [None]  # type: ignore[typeddict-item]


def test_drift_finds_a_clock_that_is_not_kept() -> None:
    plan = planned(fleet_host={"memory_kib": 15728640, "gpu": {"clock_max_mhz": 2150, "persistence": True}})
    clean = compare(plan, changed(plan, "titan", lambda _state: None), "2026-11-01")  # type: ignore[arg-type]
    assert clean.differences == ()
    stopped = changed(plan, "titan", put("units", "gb10-gpu.service", "active", "inactive"))
    assert [one.place for one in compare(plan, stopped, "2026-11-01").differences] == ["unit gb10-gpu.service"]  # type: ignore[arg-type]
    hot = changed(plan, "titan", put("gpu", "figures", {"clock_mhz": 2411}))
    assert [one.rule for one in compare(plan, hot, "2026-11-01").differences] == ["gpu-clock"]  # type: ignore[arg-type]
    unknown = changed(plan, "titan", put("gpu", "persistence", None))  # [N/A], and nobody knows
    assert compare(plan, unknown, "2026-11-01").differences == ()  # type: ignore[arg-type]
    off = changed(plan, "titan", put("gpu", "persistence", False))
    assert [one.rule for one in compare(plan, off, "2026-11-01").differences] == ["gpu-persistence"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gpu", "rules"),
    [
        ({}, ["gpu-clock-proposed"]),
        ({"persistence": True}, ["gpu-clock-proposed"]),
        ({"clock_max_mhz": 2150}, []),
        ({"clock_max_mhz": 2400}, []),  # the owner has decided
        ({"clock_max_mhz": None}, []),
    ],
)
def test_a_recipe_proposes_a_clock_with_its_source_and_the_owner_decides(
    gpu: dict[str, Any], rules: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = drift_fleet.LIBRARY.recipes["lab-tiny"]
    capped = {**tiny.data, "gpu": {"clock_max_mhz": {"value": 2150, "source": "issue 7 of somebody"}}}
    recipes = {**drift_fleet.LIBRARY.recipes, "lab-tiny": replace(tiny, data=capped)}  # type: ignore[arg-type]
    monkeypatch.setattr(drift_fleet, "LIBRARY", replace(drift_fleet.LIBRARY, recipes=recipes))
    plan = drift_fleet.planned(fleet_host={"memory_kib": 15728640, "gpu": gpu})
    found = [one for one in plan["findings"] if one["rule"] == "gpu-clock-proposed"]
    assert [one["rule"] for one in found] == rules
    assert all(one["severity"] == "hint" and one["source"] == "issue 7 of somebody" for one in found)
    assert all("clock_max_mhz: 2150" in one["remedy"] and "titan" in one["found"] for one in found)
    # nothing is set by a recipe alone
    assert plan["hosts"]["titan"]["gpu"]["clock_max_mhz"] == gpu.get("clock_max_mhz")


@pytest.mark.parametrize("gpu", [{"clock_max_mhz": 2150}, {"clock_max_mhz": {"value": 2150}}, {"clock": 1}])
def test_a_proposed_clock_without_its_source_is_no_recipe(gpu: dict[str, Any]) -> None:
    tiny = drift_fleet.LIBRARY.recipes["lab-tiny"]
    _checked, wrong = check(recipe_spec(ENGINES["vllm"].spec), {**tiny.data, "gpu": gpu}, Place(thing="x"))
    assert [one.severity for one in wrong] == ["error"]


# Starts, and the kernel -------------------------------------------------------------------------------------------

NOW = 1_790_000_000


def wtmp(size: int, *records: tuple[int, bytes, float]) -> bytes:
    """Records of utmp(5): kind, account, days ago."""
    found = b""
    for kind, user, days in records:
        record = bytearray(size)
        struct.pack_into("<h", record, 0, kind)
        record[44 : 44 + len(user)] = user
        struct.pack_into("<q" if size == 400 else "<i", record, 344 if size == 400 else 340, int(NOW - days * 86400))
        found += bytes(record)
    return found


START, STOP, LOGIN = (2, b"reboot"), (1, b"shutdown"), (7, b"owner")


@pytest.mark.parametrize("size", [400, 384])  # of arm64 and of x86
def test_a_start_without_a_shutdown_before_it_was_cut_off(size: int) -> None:
    """NVIDIA/open-gpu-kernel-modules issue 1358: the journal ends in mid-line, and the host comes up again."""
    file = wtmp(size, (*START, 40), (*STOP, 9.1), (*START, 9), (*LOGIN, 8), (*START, 3), (*LOGIN, 2), (*START, 0.2))
    read = [(round(boot["days_ago"], 1), boot["cut_off"]) for boot in boots([file], NOW)]
    assert read == [(9.0, True), (3.0, True), (0.2, False)]
    early = wtmp(size, (*START, 20))
    assert [boot["cut_off"] for boot in boots([early, wtmp(size, (*STOP, 10), (*START, 9))], NOW)] == [False, False]
    assert boots([b"no record"], NOW) == []


@pytest.mark.parametrize(
    ("days", "is_found"),
    [((6.0, 0.5), True), ((0.9, 0.5, 0.1), True), ((0.5,), False), ((20.0, 0.5), False), ((), False)],
)
def test_a_host_that_restarts_by_itself_is_named(days: tuple[float, ...], is_found: bool) -> None:
    """Once may be a plug that was pulled."""
    starts = [{"days_ago": ago, "cut_off": True, "why": ""} for ago in days]
    starts.append({"days_ago": 0.0, "cut_off": False, "why": ""})
    rules = found(put("health", "boots", starts))
    assert ("host-restarts" in rules) == is_found
    if is_found:
        assert f"{len(days)} times in 7 days" in rules["host-restarts"].found
        assert "field diagnostic" in rules["host-restarts"].remedy
    assert "host-restarts" not in found(put("health", "boots", None))


def test_a_machine_without_records_is_read() -> None:
    assert read_health().keys() == {"boots", "lines"}
