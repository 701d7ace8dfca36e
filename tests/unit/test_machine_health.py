# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each illness of a machine that owners report, as it is read, found by doctor and drift, and kept apart from health.

Kernel lines have the form of the drivers' and the kernel's own sources; figures are those that owners report.
"""

from __future__ import annotations

import os
import stat
import struct
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base import worded
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import data_file, data_table
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe import machine
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.parts import bounded_run, read_parts
from ansible_collections.gb10.fleet.plugins.module_utils._on_host import textfile
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import compare
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.health import reading
from drift_fleet import changed
from unit.test_doctor import PLAN, each, put
from unit.test_health import QUERY, found

# What the kernel writes ---------------------------------------------------------------------------------------------

XID = "NVRM: Xid (PCI:000f:01:00): "
LINES = [
    (f"{XID}119, pid=2213, name=python, Timeout after 6s of waiting for RPC response from GPU0 GSP!", "xid-gone"),
    (f"{XID}120, GSP task panic: 0x1", "xid-gone"),
    (f"{XID}79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "xid-gone"),
    (f"{XID}62, 323f0f30 0000c3d8 00000000", "xid-gone"),
    (f"{XID}154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "xid-gone"),
    (f"{XID}154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)", ""),
    (f"{XID}48, pid=1, name=python, DBE (double bit error)", "xid-memory"),
    (f"{XID}63, Row Remapper: New row marked for remapping", "xid-memory"),
    (f"{XID}64, Row Remapper: failed", "xid-memory"),
    (f"{XID}94, pid=7, name=python, Contained: SM (0x1)", "xid-memory"),
    (f"{XID}95, pid=7, name=python, Uncontained: FBHUB", "xid-memory"),
    (f"{XID}74, NVLink: fatal error detected on link 0", "xid"),
    (f"{XID}169, fd8cd000 94000000", "xid"),
    (f"{XID}13, pid=1, name=python, Graphics SM Warp Exception on (GPC 1): Illegal Address", ""),
    (f"{XID}31, pid=1, name=python, MMU Fault: ENGINE GRAPHICS", ""),
    (f"{XID}43, pid=1, name=python, channel 0x1", ""),
    (f"{XID}45, pid=1, name=python, channel 0x00000002", ""),
    ("NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51)", "out-of-memory"),
    ("NVRM: loading NVIDIA UNIX Open Kernel Module for aarch64  580.159.03", ""),
    ("Out of memory: Killed process 2213 (VLLM::EngineCor) total-vm:199G", "killed"),
    ("Memory cgroup out of memory: Killed process 9 (python) total-vm:1G", ""),
    ("pcieport 0002:00:00.0: AER: Corrected error received: 0002:01:00.0", "corrected"),
    ("pcieport 0002:00:00.0: AER: Correctable error message received from 0002:01:00.0", "corrected"),
    ("pcieport 0002:00:00.0: AER: enabled with IRQ 301", ""),
    ("pcieport 0002:00:00.0: AER: Uncorrected (Fatal) error received: 0002:01:00.0", "hardware"),
    ("pcieport 0002:00:00.0: AER: Uncorrectable (Non-Fatal) error message received from 0002:01:00.0", "hardware"),
    ("mlx5_core 0000:01:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer", "hardware"),
    ("pcieport 0002:00:00.0: AER: device recovery failed", "hardware"),
    ("EDAC MC0: 1 UE on DIMM0 (channel:0 page:0x1)", "hardware"),
    ("EDAC MC0: 1 CE on DIMM0 (channel:0 page:0x1)", "corrected"),
    ("EDAC MC: Ver: 3.0.0", ""),
    ("{1}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 0", ""),
    ("{1}[Hardware Error]: It has been corrected by h/w and requires no further action", ""),
    ("{1}[Hardware Error]: event severity: corrected", "corrected"),
    ("{1}[Hardware Error]: event severity: recoverable", "hardware"),
    ("[Hardware Error]: event severity: fatal", "hardware"),
    ("nvme nvme0: I/O 12 QID 3 timeout, aborting", "disk"),
    ("nvme nvme0: I/O tag 12 (f00c) opcode 0x2 (Read) QID 3 timeout, aborting req_op:READ(0)", "disk"),
    ("nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff", "disk"),
    ("nvme nvme0: Disabling device after reset failure: -19", "disk"),
    ("I/O error, dev nvme0n1, sector 2048 op 0x0:(READ)", "disk"),
    ("critical medium error, dev nvme0n1, sector 2048 op 0x0:(READ)", "disk"),
    ("EXT4-fs error (device nvme0n1p2): ext4_find_entry:1663: inode #2: reading directory", "disk"),
    ("EXT4-fs (nvme0n1p2): Remounting filesystem read-only", "disk"),
    ("nvme nvme0: 20/0/0 default/read/poll queues", ""),
    ("nvme nvme0: Shutdown timeout set to 10 seconds", ""),
    ("nvme nvme0: missing or invalid SUBNQN field.", ""),
    ("thermal thermal_zone0: acpitz: critical temperature reached, shutting down", "heat"),
    ("mlx5_core 0000:01:00.0: temp_warn:209: High temperature on sensors with bit set 1", "heat"),
    ("INFO: task nvidia-smi:4711 blocked for more than 122 seconds.", "stuck"),
    ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python:9]", "stuck"),
    ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "stuck"),
    ("rcu: INFO: rcu_preempt self-detected stall on CPU", "stuck"),
    ("Internal error: Oops: 0000000096000004 [#1] SMP", "fault"),
    ("kernel BUG at mm/slub.c:448!", "fault"),
    ("Unable to handle kernel paging request at virtual address ffff", "fault"),
    ("usb 1-1: new high-speed USB device number 2 using xhci_hcd", ""),
    # a GSP that dies without an Xid: NVIDIA/open-gpu-kernel-modules issues 446, 1080, 1111 and 1200
    ("NVRM: _kgspRpcRecvPoll: GSP RM heartbeat timed out", "xid-gone"),
    (
        "NVRM: _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 3175895033 diff 79682 timeout 5200",
        "xid-gone",
    ),
    ("NVRM: GPU0 _kgspRpcGspEventPmuHalted: Received signal from GSP that PMU has halted.", "xid-gone"),
    (
        "NVRM: nvAssertFailedNoLog: Back to back GSP RPC timeout detected! GPU marked for reset @ kernel_gsp.c",
        "xid-gone",
    ),
    ("NVRM: _issueRpcAndWait: rpcRecvPoll timedout for fn 76 sequence 4129!", "xid-gone"),
    ("NVRM: nvAssertOkFailedNoLog: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned", "xid-gone"),
    ("NVRM: krcWatchdog_IMPL: RC watchdog: GPU is probably locked!  Notify Timeout Seconds: 7", "xid-gone"),
    ("NVRM: GPU 000f:01:00.0: RmInitAdapter failed! (0x62:0x40:2028)", "xid-gone"),
    ("NVRM: GPU 000f:01:00.0: rm_init_adapter failed, device minor number 0", "xid-gone"),
    (f"{XID}154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "xid-gone"),
    ("NVRM: GPU at PCI:000f:01:00: GPU-3f00ab1a-28c0-3678-0d8e-4ee2f636e747", ""),
    # a ConnectX-7 whose recovery wedges: MiaAI-Lab DSpark issue 146; mlx5/core/health.c, cmd.c, events.c
    ("mlx5_core 0000:01:00.0: poll_health:803:(pid 0): device's health compromised - reached miss count", "adapter"),
    ("mlx5_core 0000:01:00.0: print_health_info:423:(pid 0): synd 0x7: irisc not responding", "adapter"),
    (
        "mlx5_core 0000:01:00.0: wait_func_handle_exec_timeout:1104: cmd[22]: CREATE_DCT(0x710) No done completion",
        "adapter",
    ),
    (
        "mlx5_core 0000:01:00.0: wait_func:1132: CREATE_DCT(0x710) timeout. Will cause a leak of a command resource",
        "adapter",
    ),
    ("mlx5_core 0000:01:00.0: mlx5_pci_slot_reset: failed to enable device", "adapter"),
    ("mlx5_core 0000:01:00.0: mlx5_wait_for_pci_start:304: PCI slot is unavailable", "adapter"),
    ("mlx5_core 0000:01:00.0 enp1s0f0np0: TX timeout detected", "adapter"),
    (
        "mlx5_core 0000:01:00.0: Port module event[error]: module 0, Cable error, Bus stuck (I2C or data shorted)",
        "adapter",
    ),
    ("mlx5_core 0000:01:00.0: Port module event[error]: module 0, Cable error, High Temperature", "heat"),
    ("mlx5_core 0000:01:00.0: Port module event: module 0, Cable plugged", ""),
    ("mlx5_core 0000:01:00.0: mlx5_pcie_event:301:(pid 17): Detected insufficient power on the PCIe slot (27W).", ""),
    # the management network: MiaAI-Lab DSpark pull request 157; net/sched/sch_generic.c
    ("mt7925e 0009:01:00.0: driver own failed", "network"),
    ("mt7925e 0009:01:00.0: chip reset", "network"),
    ("r8127 0007:01:00.0 enP7s7: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5010 ms", "network"),
    ("NETDEV WATCHDOG: enP7s7 (r8127): transmit queue 0 timed out", "network"),
    ("mlx5_core 0000:01:00.0 enp1s0f0np0: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 15010 ms", "adapter"),
    # a disk in the words of Linux 6 and of other file systems
    ("nvme0n1: I/O Cmd(0x2) @ LBA 1234, 8 blocks, I/O Error (sct 0x2 / sc 0x81) MORE DNR", "disk"),
    ("nvme nvme0: resetting controller due to persistent internal error", "disk"),
    ("EXT4-fs (nvme0n1p2): error count since last fsck: 4", "disk"),
    ("Aborting journal on device nvme0n1p2-8.", "disk"),
    ("JBD2: Detected IO errors while flushing file data on nvme0n1p2-8", "disk"),
    ("XFS (nvme0n1p2): Filesystem has been shut down due to log error (0x2).", "disk"),
    ("EXT4-fs (nvme0n1p2): recovery complete", ""),
    ("nvme nvme0: failed to set APST feature (2)", ""),
    # what the firmware kept of the end before, and processors, memory management and interrupts that fail
    ("BERT: Error records from previous boot:", "hardware"),
    ("BERT: [Hardware Error]: Skipped 1 error records", "hardware"),
    ("SError Interrupt on CPU3, code 0x00000000be000011 -- SError", "hardware"),
    (
        "arm-smmu-v3 arm-smmu-v3.3.auto: CMD_SYNC timeout at 0x00000a11 [hwprod 0x00000a12, hwcons 0x00000a11]",
        "hardware",
    ),
    ('irq 173: nobody cared (try booting with the "irqpoll" option)', "hardware"),
    ("reboot: HARDWARE PROTECTION shutdown (Temperature too high)", "heat"),
    ("BUG: workqueue lockup - pool cpus=3 node=0 flags=0x0 nice=0 stuck for 31s!", "stuck"),
    # of healthy machines
    ("pci 000f:01:00.0: DOE: [2c8] ABORT timed out", ""),
    ("ucsi_acpi USBC000:00: UCSI_GET_PDOS failed (-95)", ""),
    ("nvidia: module verification failed: signature and/or required key missing - tainting kernel", ""),
    ("audit: type=1400 audit(1): apparmor=ALLOWED operation=open", ""),
]


@pytest.mark.parametrize(("line", "kind"), LINES)
def test_a_kernels_line_is_of_its_kind_or_of_none(line: str, kind: str) -> None:
    read = reading.complaints(textfile.kinds([(5.0, line), (90_000.0, line)], 90_010.0))
    assert {name: (one["count"], one["today"]) for name, one in read.items()} == ({kind: (2, 1)} if kind else {})
    rules = found(put("health", "lines", read))
    is_named = bool(kind) and "most" not in data_table("kernel_lines")[kind]
    assert ("kernel-warns" in rules) == is_named
    if is_named:
        one = rules["kernel-warns"]
        assert line[-30:] in one.found and "1 in the last day" in one.found and one.remedy and one.source


@pytest.mark.parametrize(
    ("kind", "today", "is_named"),
    [
        ("corrected", 40, False),
        ("corrected", 400, True),
        # a start of an engine, a burst, three days of a healthy host (vllm-project/vllm issue 56824)
        ("out-of-memory", 1, False),
        ("out-of-memory", 16, False),
        ("out-of-memory", 55, False),
        # hosts that froze (MiaAI-Lab DSpark issue 17; NVIDIA/open-gpu-kernel-modules issue 1358)
        ("out-of-memory", 163, True),
        ("out-of-memory", 202, True),
        ("network", 2, False),
        ("network", 30, True),
    ],
)
def test_a_flood_of_what_healthy_machines_have_is_named_and_a_few_are_not(
    kind: str, today: int, is_named: bool
) -> None:
    lines = {kind: {"count": 5000, "today": today, "last": "its words"}}
    assert ("kernel-warns" in found(put("health", "lines", lines))) == is_named


def test_a_long_line_takes_no_long_time() -> None:
    """It did: minutes for a hundred lines of a device that calls itself so."""
    lines = [(1.0, words * 800) for words in ("nvme0: I/O ", "NVRM: Xid (PCI", "JBD2: nvme", "EXT4-fs (nvme")]
    began = time.process_time()
    assert textfile.kinds(lines * 25, 2.0) == {} and time.process_time() - began < 5


def test_each_line_of_the_ring_is_counted_once(tmp_path: Path) -> None:
    pipe = tmp_path / "kmsg"
    os.mkfifo(pipe)
    kernel = textfile.Kernel(str(pipe))
    with pipe.open("wb", buffering=0) as ring:
        for _ in range(2):
            # a packet at a time, as /dev/kmsg gives them
            ring.write(
                f"4,1,{int(time.monotonic() * 1e6)},-;{XID}79, GPU has fallen off the bus.\n SUBSYSTEM=x\n".encode()
            )
            kernel.look()
        ring.write(f"14,1,1,-;{XID}79, as a program wrote it\n".encode())
        assert kernel.look()["xid-gone"]["count"] == 2
        shown = {one.labels.get("kind", one.name): one.value for one in textfile.samples(NOTHING, kernel)}
        assert (shown["xid-gone"], shown["corrected"]) == (2, 0)
    kernel.close()
    assert textfile.Kernel(str(tmp_path / "missing")).look() == {}


# How its starts ended -----------------------------------------------------------------------------------------------

NOW = 1_790_000_000


def logins(*records: tuple[int, bytes, float]) -> bytes:
    found = b""
    for kind, user, days in records:
        record = bytearray(400)
        struct.pack_into("<h", record, 0, kind)
        record[44 : 44 + len(user)] = user
        struct.pack_into("<q", record, 344, int(NOW - days * 86400))
        found += bytes(record)
    return found


@pytest.mark.parametrize("moved", [-30, 40])
def test_a_kernels_record_of_its_end_belongs_to_the_start_that_it_ended(tmp_path: Path, moved: int) -> None:
    """In pstore, or where systemd-pstore moves it at the next start."""
    folder = tmp_path / "pstore" / "1"
    folder.mkdir(parents=True)
    record = folder / "dmesg.txt"
    record.write_text(
        "Panic#1 Part1\n<0>[ 99.1] Kernel panic - not syncing: Fatal exception in interrupt\n<0>[99.2] x\n"
    )
    (folder / "other.txt").write_text("Oops#1 Part1\n<6>[ 1.0] usb 1-1: new device\n")
    at = NOW - 3 * 86400 + moved
    os.utime(record, (at, at))
    file = logins((2, b"reboot", 9), (2, b"reboot", 3), (2, b"reboot", 0.5))
    read = reading.boots([file], NOW, reading.panics([tmp_path / "pstore"]))
    assert [boot["why"] for boot in read] == ["Kernel panic - not syncing: Fatal exception in interrupt", "", ""]
    starts = [{"days_ago": 2.0, "cut_off": True, "why": read[0]["why"]}]
    assert "Fatal exception" in found(put("health", "boots", starts))["host-panics"].found


def test_a_file_of_logins_is_read_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "wtmp"
    file.write_bytes(logins(*[(7, b"owner", 20)] * 1200, (2, b"reboot", 3), (2, b"reboot", 0.5)))
    monkeypatch.setattr(reading, "_MOST_LOGINS", 400 * 384)
    assert len(reading._tail(file)) <= 2 * 400 * 384
    assert [boot["cut_off"] for boot in reading.boots([reading._tail(file)], NOW)] == [True, False]
    assert reading._tail(tmp_path / "missing") == b""


# The GPU at work ----------------------------------------------------------------------------------------------------


def at_work(use: float, clock: float, power: float, heat: float, *held: str) -> Any:
    figures = {"use_percent": use, "clock_mhz": clock, "power_w": power, "heat_c": heat, "clock_most_mhz": 3003}
    return each(put("gpu", "figures", figures), put("gpu", "held_back", list(held)))


CAP = "SW Power Cap"
UNLOADED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
ILLS: dict[str, tuple[Any, str, str]] = {
    "702 MHz under load (eugr/spark-vllm-docker issue 334)": (at_work(96, 702, 20, 48), "gpu-slow", "for a minute"),
    "513 MHz": (at_work(100, 513, 14, 44, CAP), "gpu-slow", "for a minute"),
    "15 W at its usual clock": (at_work(95, 2411, 15, 50), "gpu-slow", "for a minute"),
    "hot (MiaAI-Lab issue 146)": (at_work(96, 2411, 80, 91), "gpu-hot", "clock_max_mhz: 2150"),
    "held back by its heat": (at_work(96, 1900, 60, 82, "SW Thermal Slowdown"), "gpu-hot", "clean its filters"),
    "limited in power": (at_work(97, 1404, 31, 55, CAP), "gpu-held-back", "power supply"),
    "braked": (at_work(20, 900, 28, 50, "HW Power Brake Slowdown"), "gpu-held-back", "fwupdmgr"),
    "a disk that is used up": (put("drives", "nvme0", "used", 97), "drive-worn", "another disk"),
    "a disk without spare": (put("drives", "nvme0", "spare", 4), "drive-worn", "save what is on it"),
    "a disk that turned read-only": (put("drives", "nvme0", "warning", 8), "drive-worn", "save what is on it"),
    "a disk that lost what was written (blog.nerdz.cloud)": (put("drives", "nvme0", "errors", 4), "drive-worn", "copy"),
    "640 MHz for minutes, time and again (a GX10's owner, dredyson.com)": (
        at_work(95, 640, 16.5, 50),
        "gpu-slow",
        "for a minute",
    ),
    "695 MHz (hasso5703/dgx-spark-qwen38 issue 8)": (
        put("gpu", "figures", {"use_percent": 96, "clock_mhz": 695}),
        "gpu-slow",
        "for a minute",
    ),
    "88 degrees in a chassis that slows down at 87 (0xBakeer/inference-atlas pull request 225)": (
        at_work(96, 2150, 70, 88, "SW Thermal Slowdown"),
        "gpu-hot",
        "clock_max_mhz: 2150",
    ),
    "a module that Secure Boot keeps out (deepin-community/kernel issue 2144)": (
        put("gpu", "why", f"nvidia-smi ended with 9: {UNLOADED}"),
        "gpu-silent",
        "linux-modules-nvidia-580-open",
    ),
    "a closed module (Start9Labs/start-technologies pull request 3693)": (
        each(put("gpu", "why", "nvidia-smi ended with 6: No devices were found"), put("gpu", "closed", True)),
        "gpu-silent",
        "nvidia-driver-580-open",
    ),
    "a hot disk": (put("drives", "nvme0", "warning", 2), "drive-hot", "air"),
    "a hot zone": (put("sensors", "heat_c", {"zone 0": 99.0}), "machine-hot", "air"),
    "a hot adapter": (put("sensors", "heat_c", {"mlx5 1 1": 107.0}), "machine-hot", "air"),
    "a bad cable": (put("sensors", "errors", {"rocep1s0f0": {"symbol_error": 900}}), "fabric-damaged", "cable"),
    "a watchdog of somebody": (
        put("watchdogs", [{"unit": "vllm-watch.service", "line": "docker restart vllm"}]),
        "watchdog-foreign",
        "sudo systemctl disable --now vllm-watch.service",
    ),
    "a line of cron": (
        put("watchdogs", [{"unit": "/etc/cron.d/x;id", "line": "pkill vllm"}]),
        "watchdog-foreign",
        "take it out of that file",
    ),
}


@pytest.mark.parametrize("name", ILLS)
def test_an_illness_is_found_by_doctor_and_drift_with_what_helps(name: str) -> None:
    change, rule, remedy = ILLS[name]
    one = found(change)[rule]
    assert remedy in one.remedy and one.found and one.expected
    (same,) = (
        diff for diff in compare(PLAN, changed(PLAN, "titan", change), "2026-11-01").differences if diff.rule == rule
    )  # type: ignore[arg-type]
    assert (same.severity, same.remedy, same.repairs) == (one.severity, one.remedy, "")


def test_each_illness_has_a_source_and_the_nights_alert() -> None:
    ills = {*data_table("ills")}
    assert {rule for _change, rule, _remedy in ILLS.values()} <= ills
    own = {"kernel-warns": data_table("kernel_lines").values(), "restart-known-bad": data_file("known_bad")}
    rows = [row for name, row in worded.rows().items() if name.partition("/")[0] in ills - own.keys()]
    rows += [row for table in own.values() for row in table]
    assert len(rows) > 40 and [row for row in rows if not row.get("source")] == []


@pytest.mark.parametrize(
    "change",
    [
        at_work(96, 2411, 48, 64, CAP),  # of a healthy one under load for hours
        at_work(0, 208, 4, 41),
        at_work(40, 208, 5, 42),  # between two requests
        at_work(92, 2150, 33, 60),
        put("gpu", "figures", {}),
        put("sensors", "errors", {"rocep1s0f0": {"link_downed": 9, "out_of_sequence": 5000}}),  # a restart of its peer
        *(put(part, None) for part in ("sensors", "drives", "watchdogs", "health", "gpu")),
    ],
)
def test_a_healthy_machine_has_no_illness(change: Any) -> None:
    ills = {rule for _change, rule, _remedy in ILLS.values()}
    assert not ills & found(change).keys()


def test_a_gpu_that_has_just_ended_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_has_gpu", lambda: True)
    answers = [QUERY.replace("2411 MHz", "208 MHz"), QUERY.replace("2411 MHz", "208 MHz").replace(": 96 %", ": 0 %")]
    asked: list[list[str]] = []

    def run(words: list[str]) -> tuple[int, str, str]:
        if words[0] != "nvidia-smi":
            return 0, "", ""
        asked.append(words)
        return 0, answers[len(asked) - 1], ""

    assert machine.read_calm(run, pause=0)["figures"]["use_percent"] == 0 and len(asked) == 2
    answers[:] = [QUERY]
    asked.clear()
    assert machine.read_calm(run, pause=0)["figures"]["clock_mhz"] == 2411 and len(asked) == 1


# Disks, adapters, watchdogs -----------------------------------------------------------------------------------------


def test_a_disks_own_words_are_read() -> None:
    log = bytearray(512)
    log[:6] = struct.pack("<BHBBB", 4, 273 + 51, 97, 10, 23)
    log[160:176] = (7).to_bytes(16, "little")
    assert reading.worn(bytes(log)) == {
        "warning": 4,
        "heat_c": 51,
        "spare": 97,
        "spare_least": 10,
        "used": 23,
        "errors": 7,
    }


def test_what_a_machine_lacks_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_HWMON", "_ZONES", "_RDMA", "_UNITS", "_HOMES"):
        monkeypatch.setattr(reading, name, tmp_path)
    monkeypatch.setattr(reading, "_CRON", (tmp_path / "none",))
    assert reading.read_sensors() == {"heat_c": {}, "errors": {}} and reading.read_watchdogs() == []
    assert isinstance(reading.read_drives(), dict)


def test_zones_adapters_and_their_errors_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in {
        "zones/thermal_zone0/temp": "52300",
        "zones/thermal_zone1/temp": "no data",
        "hwmon/hwmon1/name": "mlx5",
        "hwmon/hwmon1/temp1_input": "61000",
        "hwmon/hwmon2/name": "nvme",
        "hwmon/hwmon2/temp1_input": "44000",
        "rdma/rocep1s0f0/ports/1/counters/symbol_error": "0",
        "rdma/rocep1s0f0/ports/1/counters/port_rcv_errors": "12",
        "rdma/rocep1s0f0/ports/1/hw_counters/rx_icrc_encapsulated": "3",
        "rdma/roceP2p1s0f0/ports/1/counters/port_rcv_errors": "0",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n")
    for name, folder in {"_ZONES": "zones", "_HWMON": "hwmon", "_RDMA": "rdma"}.items():
        monkeypatch.setattr(reading, name, tmp_path / folder)
    assert reading.read_sensors() == {
        "heat_c": {"mlx5 1 1": 61.0, "zone 0": 52.3},
        "errors": {"rocep1s0f0": {"port_rcv_errors": 12, "rx_icrc_encapsulated": 3}},
    }


START = "docker rm -f vllm\ndocker run --gpus all vllm/vllm-openai\nwhile ! curl localhost/health; do sleep 1; done\n"
KILLER = "#!/bin/bash\nwhile true; do\n  curl -sf localhost:8000/health || docker restart vllm\n  sleep 30\ndone\n"


@pytest.mark.parametrize(
    ("name", "script", "is_found"),
    [
        ("watch.service", KILLER, True),
        ("guard.service", "while True:\n  if MemAvailable < 1: os.kill(pid, 9)  # the vllm engine\n", True),
        # killers beside an engine: tonyd2wild's Vision issue 31, comment of 2026-08-19
        ("dgx-anti-oom.service", "while low():  # MemAvailable\n    psutil.Process(vllm).kill()\n", True),
        ("list.service", "while True:\n  if not up('/health'): run([\"docker\", 'restart', 'vllm'])\n", True),
        ("sig.service", "while :; do free -g | pkill -9 -f VLLM::EngineCore; done\n", True),
        ("gb10-service-x.service", KILLER, False),
        ("vllm.service", START, False),
        ("backup.service", "while read line; do systemctl stop postgresql; done\n", False),
        ("comment.service", "# docker restart vllm\nwhile true; do nvidia-smi; done\n", False),
    ],
)  # fmt: skip
def test_a_watchdog_of_somebody_is_known_by_what_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, script: str, is_found: bool
) -> None:
    units, program = tmp_path / "units", tmp_path / "watch.sh"
    (units / "multi-user.target.wants").mkdir(parents=True)
    program.write_text(script)
    (units / name).write_text(f"[Service]\nExecStart=/bin/bash {program}\nExecStop=docker kill vllm\n")
    (units / "off.service").write_text(f"[Service]\nExecStart=/bin/bash {program}\n")  # not enabled
    (units / "multi-user.target.wants" / name).symlink_to(units / name)
    (tmp_path / "cron").write_text(f"# {program}\n* * * * * root {program if is_found else '/usr/bin/true'}\n")
    of_account = tmp_path / "home" / "ann" / ".config" / "systemd" / "user"
    (of_account / "default.target.wants").mkdir(parents=True)
    (of_account / name).write_text(f"[Service]\nExecStart=/bin/bash {program}\n")
    (of_account / "default.target.wants" / name).symlink_to(of_account / name)
    monkeypatch.setattr(reading, "_UNITS", units)
    monkeypatch.setattr(reading, "_HOMES", tmp_path / "home")
    monkeypatch.setattr(reading, "_CRON", (tmp_path / "cron",))
    named = [name, str(of_account / name), str(tmp_path / "cron")]
    assert [one["unit"] for one in reading.read_watchdogs()] == (named if is_found else [])
    timer = units / f"{Path(name).stem}.timer"
    timer.write_text("[Timer]\nOnCalendar=minutely\n")
    (units / "multi-user.target.wants" / name).unlink()
    (units / "multi-user.target.wants" / timer.name).symlink_to(timer)
    assert [one["unit"] for one in reading.read_watchdogs()] == (named if is_found else [])


def test_units_of_somebody_hide_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of links, folders, pipes, devices and names that a shell would run."""
    wants = tmp_path / "default.target.wants"
    (wants / "dir.service").mkdir(parents=True)
    (wants / "loop.service").symlink_to(wants / "loop.service")
    (wants / "gone.service").symlink_to("/nowhere/gone.service")
    os.mkfifo(wants / "pipe.service")
    (wants / "bytes.service").write_bytes(bytes(range(256)) * 100)
    (wants / "dev.service").write_text("[Service]\nExecStart=/dev/zero /proc/kmsg vllm\n")
    (wants / "z$(id).service").write_text(f"[Service]\nExecStart=/bin/sh -c '{KILLER.splitlines()[2]}' while\n")
    for name in ("_UNITS", "_HOMES"):
        monkeypatch.setattr(reading, name, tmp_path)
    monkeypatch.setattr(reading, "_CRON", ())
    (one,) = reading.read_watchdogs()
    assert one == {"unit": "z$(id).service", "line": "docker restart vllm"}
    assert "id" not in found(put("watchdogs", [one]))["watchdog-foreign"].remedy.replace("identity", "")


# A program that hangs -----------------------------------------------------------------------------------------------

NOTHING = {"floor_bytes": 6, "guard_bytes": 3, "services": [], "interfaces": [], "paths": ["/"], "drift": "/none"}
PID = "pid"


def imitated(folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Path:
    """A program nvidia-smi that notes each of its starts."""
    program, starts = folder / "nvidia-smi", folder / "starts"
    program.write_text(f"#!/bin/sh\necho x >> {starts}\n{body}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return starts


@pytest.mark.parametrize(
    "body",
    [
        "exec sleep 40",  # answers after 40 seconds
        # a child keeps its output open, as one that hangs in the kernel (state D) and can't be ended does
        "sleep 40 & wait",
    ],
)
def test_metrics_do_not_wait_for_a_gpu_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    starts = imitated(tmp_path, monkeypatch, body)
    monkeypatch.setattr(textfile, "_asked", {})
    monkeypatch.setattr(textfile.output, "__defaults__", (0.2,))
    began = time.monotonic()
    for _ in range(3):
        shown = {one.name for one in textfile.samples(NOTHING)}
        assert {"gb10_memory_floor_bytes", "gb10_disk_free_bytes"} <= shown and "gb10_gpu_programs" not in shown
    assert time.monotonic() - began < 6
    assert len(starts.read_text().split()) <= 3


def test_a_program_that_can_not_be_ended_is_not_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = imitated(tmp_path, monkeypatch, "exec sleep 3")
    monkeypatch.setattr(textfile, "_asked", {})
    monkeypatch.setattr(textfile.output, "__defaults__", (0.1,))
    monkeypatch.setattr(textfile.subprocess.Popen, "kill", lambda _process: None)  # as of state D
    began = time.monotonic()
    assert [*textfile.gpu(textfile.output(textfile.QUERY))] == [] == [*textfile.gpu(textfile.output(textfile.PROGRAMS))]
    assert time.monotonic() - began < 2.5 and starts.read_text().split() == ["x"]
    textfile._asked["nvidia-smi"].join(10)


def test_metrics_of_a_host_without_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(textfile, "_asked", {})
    assert "gb10_disk_free_bytes" in {one.name for one in textfile.samples(NOTHING)}


def test_a_gpu_that_hangs_takes_no_other_fact_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imitated(tmp_path, monkeypatch, "exec sleep 40")
    monkeypatch.setattr(machine, "_has_gpu", lambda: True)
    run, began = bounded_run(0.2), time.monotonic()
    reads = {**machine.READS, **reading.READS}
    state, unknown = read_parts({name: partial(reads[name], run, {}) for name in HERE}, 10)
    assert unknown == {} and "did not end within" in state["gpu"]["why"] and time.monotonic() - began < 8
    assert all(state[name] is not None for name in HERE)


HERE = ("gpu", "health", "sensors", "drives", "watchdogs", "boot", "cdi_drivers", "iommu")


def test_what_holds_the_clock_back_and_who_computes_are_metrics() -> None:
    shown = {
        (one.name, one.labels.get("reason")): one.value
        for one in textfile.gpu("97, 55, 31.2, 1404, 0x0000000000000004\n")
    }
    assert shown[("gb10_gpu_held_back", "power")] == 1 and shown[("gb10_gpu_held_back", "heat")] == 0
    hot = {one.labels.get("reason"): one.value for one in textfile.gpu("97, 91, 60, 1404, 0x0000000000000060")}
    assert hot["heat"] == 1
    for words in (
        "97, 55, 31.2, 1404, [N/A]",
        "ERR!, ERR!, ERR!, ERR!, ERR!",
        "[Unknown Error], [GPU requires reset]",
        "\n",
    ):
        assert "gb10_gpu_held_back" not in {one.name for one in textfile.gpu(words)}
