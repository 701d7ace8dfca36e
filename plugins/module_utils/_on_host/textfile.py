# SPDX-License-Identifier: GPL-3.0-or-later
"""``python3 metrics.py FILE``: writes a host's own metrics for the node exporter, again and again.

Standard library only, Python 3.11: the role `monitoring` copies this file to each host. FILE is the plan's
(`_monitoring.plan`): ``{textfile, interval_s, floor_bytes, guard_bytes, services: [{name, rank, status_file,
high_bytes, starts_file}], interfaces, paths, drift, gateway: {socket, certificate, services}}``.
"""

import contextlib
import csv
import json
import os
import re
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

STATES = ("waiting", "preparing", "starting", "loading", "warming", "serving", "ending", "stopped")
# As nvidia-smi calls it, ours, what it is multiplied with. A GB10 tells no memory of the whole chip.
_GPU = (
    ("utilization.gpu", "gb10_gpu_utilization_ratio", 0.01),
    ("temperature.gpu", "gb10_gpu_temperature_celsius", 1),
    ("power.draw", "gb10_gpu_power_watts", 1),
    ("clocks.sm", "gb10_gpu_sm_clock_hertz", 1e6),
)
_REASONS = "clocks_event_reasons.active"
QUERY = ("nvidia-smi", f"--query-gpu={','.join(row[0] for row in _GPU)},{_REASONS}", "--format=csv,noheader,nounits")
PROGRAMS = ("nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader")
# What holds the clock back, by the bits of `_REASONS` (nvml.h, nvmlClocksEventReason*).
_HELD = {"power": 0x4 | 0x80, "heat": 0x20 | 0x40}
# What a kernel complains of. Xids that a program's own fault or end makes are left out: 13, 31, 43, 45 (NVIDIA, "XID
# Errors"), and 154 where it takes its demand back.
KINDS = (
    ("xid-gone", r"NVRM: Xid \(.*?\): (?:(?:62|79|119|120|143),|154,(?!.* to 0x0\b))"
     r"|NVRM: .*(?:(?i:heartbeat timed out)|PMU has halted|marked for reset|NV_ERR_RESET_REQUIRED|is probably locked"
     r"|rpcRecvPoll timedout|(?i:rm_?init_?adapter) failed)"),
    ("xid-memory", r"NVRM: Xid \(.*?\): (?:48|63|64|94|95|140),"),
    ("xid", r"NVRM: Xid \(.*?\): (?!(?:13|31|43|45|48|62|63|64|79|94|95|119|120|140|143|154),)\d+"),
    ("out-of-memory", r"NVRM: .*NV_ERR_NO_MEMORY"),
    ("killed", r"\bOut of memory: Killed process"),
    ("hardware", r"\[Hardware Error\]: +event severity: (?!corrected|info)|EDAC .*\bUE\b|AER: .*Uncorrect"
     r"|PCIe Bus Error: severity=Uncorrect|AER: .*(?<!Non-)\bFatal|AER: device recovery failed|SError Interrupt on CPU"
     r"|BERT: (?:Error records from|.*Skipped)|CMD_SYNC timeout|: nobody cared"),
    ("corrected", r"\[Hardware Error\]: +event severity: corrected|EDAC .*\bCE\b|AER: .*Correct"),
    ("disk", r"(?:I/O|medium) error,? (?:on )?dev nvme|EXT4-fs error \(device nvme|\(nvme\w+\): Remounting"
     r"|EXT4-fs \(nvme\w+\): error count|XFS \(nvme\w+\): (?:Filesystem has been shut down|Corruption)"
     r"|Aborting journal on device nvme|JBD2: .*IO error.* nvme|nvme\w+: I/O Cmd.*I/O Error"
     r"|nvme.*(?:controller is down|I/O .*timeout|Disabling device|Device not ready|Removing after probe"
     r"|resetting controller due to)"),
    ("heat", r"(?i)critical temperature reached|temperature above threshold|mlx5.*high temperature"
     r"|HARDWARE PROTECTION shutdown \(Temp"),
    ("adapter", r"mlx5.*(?:health compromised|not responding|No done completion|leak of a command|slot_reset"
     r"|PCI slot is unavailable|TX timeout|Cable error|transmit queue)"),
    ("network", r"NETDEV WATCHDOG: |mt7925.*(?:chip reset|own failed)"),
    ("stuck", r"INFO: task .* blocked for more than|BUG: (?:soft|workqueue) lockup|detected stalls? on|hard LOCKUP"),
    ("fault", r"Internal error: |kernel BUG at|BUG: (?!soft|workqueue)|Unable to handle kernel"),
)  # fmt: skip
# One of these is in each of them: a ring of 5,000 lines is read in 5 ms instead of 33.
_ANY = re.compile(
    r"NVRM|Killed|Hardware Error|EDAC|AER|PCIe Bus|nvme|emperature|blocked|lockup|stall|LOCKUP|Internal|BUG|Unab|mlx5"
    r"|NETDEV|mt7925|SError|BERT|CMD_SYNC|nobody|HARDWARE"
)
_PATTERNS = [(kind, re.compile(pattern)) for kind, pattern in KINDS]
_KMSG, _MOST_RECORDS, _MOST_WORDS, _MOST_ILLS, _DAY_S = "/dev/kmsg", 20_000, 300, 50, 86_400
# Of a supervisor's status: what is passed on as it is.
_FIGURES = {
    "memory_taken": "gb10_service_memory_bytes",
    "starts_left": "gb10_service_starts_left",
    "strikes": "gb10_service_strikes",
    "cache_drops": "gb10_service_cache_drops",
    "ready_s": "gb10_service_ready_seconds",
    "tokens_per_s": "gb10_service_tokens_per_second",
}
# Of a backend in HAProxy's `show stat`: ours, what it is multiplied with.
_OF_GATEWAY = {
    "qcur": ("gb10_gateway_queue", 1),
    "qtime": ("gb10_gateway_queue_seconds", 0.001),
    "act": ("gb10_gateway_servers", 1),
    "dreq": ("gb10_gateway_refused", 1),
}
_PATIENCE_S = 10
# What is read of a file at most; a year of nights is less.
_MOST_BYTES = 1 << 20


class Sample(NamedTuple):
    """One line of Prometheus' text. value: as a number."""

    name: str
    value: float
    labels: Mapping[str, str] = {}


# Judged -----------------------------------------------------------------------------------------------------------


def text(samples: Iterable[Sample]) -> str:
    """Prometheus' exposition format: all samples of a name together, each a gauge."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name, []).append(sample)
    lines = []
    for name, found in sorted(by_name.items()):
        lines += [f"# TYPE {name} gauge", *(f"{name}{_labels(item.labels)} {item.value:.15g}" for item in found)]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    words = (f'{name}="{_escaped(value)}"' for name, value in sorted(labels.items()))
    return f"{{{','.join(words)}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def gpu(shown: str) -> Iterator[Sample]:
    """Of `QUERY`'s output; what the chip does not tell is left out."""
    for words, (_, name, unit) in zip(shown.split("\n", 1)[0].split(","), _GPU, strict=False):
        value = _number(words.strip())
        if value is not None:
            yield Sample(name, value * unit)
    if reasons := re.search(r"0x([0-9a-fA-F]+)\s*$", shown.split("\n", 1)[0]):
        for reason, bits in _HELD.items():
            yield Sample("gb10_gpu_held_back", float(bool(int(reasons[1], 16) & bits)), {"reason": reason})


def kinds(
    lines: Iterable[tuple[float, str]], now: float, found: dict[str, dict[str, Any]] | None = None
) -> dict[str, dict[str, Any]]:
    """``{kind: {count, last, times}}`` of what a kernel complains of, with what was `found` before. lines: seconds
    since the start, and words. times: of the last day before now."""
    found = {} if found is None else found
    for at, line in ((at, whole[:_MOST_WORDS]) for at, whole in lines):
        for kind, pattern in _PATTERNS if _ANY.search(line) else ():
            if pattern.search(line):
                known = found.setdefault(kind, {"count": 0, "last": "", "times": []})
                known.update(count=known["count"] + 1, last=line)
                known["times"].append(at)
                break
    for known in found.values():
        known["times"] = [at for at in known["times"] if now - at < _DAY_S][-_MOST_RECORDS:]
    return found


def _number(word: object) -> float | None:
    if isinstance(word, bool) or not isinstance(word, str | int | float):
        return None
    try:
        return float(word)
    except (ValueError, OverflowError):
        return None


def of_service(planned: Mapping[str, Any], status: Mapping[str, Any] | None, now: float) -> Iterator[Sample]:
    """A rank by what its supervisor says. status: None where nothing can be read: it serves not."""
    labels = {"service": str(planned["name"]), "rank": str(planned["rank"])}
    found, state = status or {}, str((status or {}).get("state", ""))
    yield Sample("gb10_service_planned_bytes", float(planned["high_bytes"]), labels)
    yield Sample("gb10_service_serving", float(state == "serving"), labels)
    yield Sample("gb10_service_creeps", float(bool(found.get("creep"))), labels)
    for known_state in STATES:
        yield Sample("gb10_service_state", float(known_state == state), {**labels, "state": known_state})
    for key, name in _FIGURES.items():
        value = _number(found.get(key))
        if value is not None:
            yield Sample(name, value, labels)
    at = _seconds(found.get("updated_at"))
    if at is not None:
        yield Sample("gb10_service_status_age_seconds", max(0.0, now - at), labels)


def of_starts(planned: Mapping[str, object], kept: object) -> Iterator[Sample]:
    """The last start that was proved, by phase (`_operations.verify.starts`)."""
    starts = kept.get("starts") if isinstance(kept, dict) else None
    last = starts[-1] if isinstance(starts, list) and starts else None
    phases = last.get("phases") if isinstance(last, dict) else None
    for phase, took in list(phases.items())[:_MOST_ILLS] if isinstance(phases, dict) else ():
        value = _number(took)
        if value is not None:
            labels = {"service": str(planned["name"]), "rank": str(planned["rank"]), "phase": str(phase)[:_MOST_WORDS]}
            yield Sample("gb10_service_start_phase_seconds", value, labels)


def _seconds(written: object) -> float | None:
    try:
        return datetime.fromisoformat(str(written).replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def of_drift(history: object) -> Iterator[Sample]:
    """Of the last night that the drift timer kept (`_drift.history`)."""
    nights = history.get("nights") if isinstance(history, dict) else None
    if not isinstance(nights, list) or not nights or not isinstance(nights[-1], dict):
        return
    night = nights[-1]
    at = _seconds(night.get("at"))
    if at is not None:
        yield Sample("gb10_drift_checked_timestamp_seconds", at)
    hosts = night.get("hosts")
    for host, tally in sorted(hosts.items()) if isinstance(hosts, dict) else ():
        for severity in ("error", "warning"):
            value = _number(tally.get(severity)) if isinstance(tally, dict) else None
            if value is not None:
                yield Sample("gb10_drift_differences", value, {"of": str(host), "severity": severity})
        ills = tally.get("ills") if isinstance(tally, dict) else None
        for rule in ills[:_MOST_ILLS] if isinstance(ills, list) else ():
            yield Sample("gb10_machine_ill", 1.0, {"of": str(host), "rule": str(rule)[:_MOST_WORDS]})


def of_gateway(shown: str, services: Iterable[str]) -> Iterator[Sample]:
    """By the name of a model's service. shown: of `show stat`; empty where HAProxy does not answer."""
    rows = {row["# pxname"]: row for row in csv.DictReader(shown.splitlines()) if row.get("svname") == "BACKEND"}
    yield Sample("gb10_gateway_serving", float(bool(rows)))
    for name in services:
        row = rows.get(name, {})
        figures: list[tuple[str, float, str | None, dict[str, str]]]
        figures = [(series, unit, row.get(column), {}) for column, (series, unit) in _OF_GATEWAY.items()]
        figures += [("gb10_gateway_responses", 1, row.get(f"hrsp_{n}xx"), {"code": f"{n}xx"}) for n in range(1, 6)]
        for series, unit, word, labels in figures:
            if (value := _number(word)) is not None:
                yield Sample(series, value * unit, {"service": name, **labels})


# Read -------------------------------------------------------------------------------------------------------------


class Kernel:
    """The kernel's own ring, without what programs write there: their facility is another. Each line is read once."""

    def __init__(self, path: str = _KMSG) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        try:
            self.ring = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            self.ring = -1

    def look(self) -> dict[str, dict[str, Any]]:
        """`kinds` of all lines since it started; empty where the ring can't be read."""
        return kinds(self._lines(), time.monotonic(), self.found)

    def _lines(self) -> Iterator[tuple[float, str]]:
        for _ in range(_MOST_RECORDS if self.ring >= 0 else 0):
            try:
                record = os.read(self.ring, 8192).decode("utf-8", "replace")
            except BrokenPipeError:  # it was overwritten meanwhile
                continue
            except OSError:
                return
            head, _, text = record.partition(";")
            priority, _, rest = head.partition(",")
            if priority.isdecimal() and int(priority) < 8:
                yield (_number(rest.partition(",")[2].partition(",")[0]) or 0) / 1e6, text.partition("\n")[0]

    def close(self) -> None:
        if self.ring >= 0:
            os.close(self.ring)


def samples(plan: Mapping[str, Any], kernel: Kernel | None = None) -> Iterator[Sample]:
    yield Sample("gb10_memory_floor_bytes", float(plan["floor_bytes"]))
    yield Sample("gb10_memory_guard_bytes", float(plan["guard_bytes"]))
    figures = [*gpu(output(QUERY))]
    yield from figures
    if figures:
        yield Sample("gb10_gpu_programs", float(len(re.findall(r"^\d+$", output(PROGRAMS), re.MULTILINE))))
    lines = kernel.look() if kernel else {}
    for kind, _pattern in KINDS if kernel else ():
        yield Sample("gb10_kernel_lines", float(lines.get(kind, {"count": 0})["count"]), {"kind": kind})
    for service in plan["services"]:
        found = _json(service["status_file"])
        yield from of_service(service, found if isinstance(found, dict) else None, time.time())
        yield from of_starts(service, _json(service.get("starts_file") or os.devnull))
    for interface in plan["interfaces"]:
        carrier = _read(f"/sys/class/net/{interface}/carrier").strip()
        yield Sample("gb10_fabric_link", float(carrier == "1"), {"device": interface})
    for path in plan["paths"]:
        try:
            # a folder that nothing was brought to yet will be on the disk of the one above
            disk = os.statvfs(next(folder for folder in (Path(path), *Path(path).parents) if folder.exists()))
        except OSError:
            continue
        yield Sample("gb10_disk_free_bytes", float(disk.f_bavail * disk.f_frsize), {"path": path})
    yield from of_drift(_json(plan["drift"]))
    if gateway := plan.get("gateway"):
        yield from of_gateway(stat_of(gateway["socket"]), gateway["services"])
        ends = output(("openssl", "x509", "-noout", "-enddate", "-in", gateway["certificate"])).strip()
        with contextlib.suppress(ValueError):
            at = float(ssl.cert_time_to_seconds(ends.removeprefix("notAfter=")))
            yield Sample("gb10_gateway_certificate_ends_timestamp_seconds", at)


def stat_of(path: str) -> str:
    """HAProxy's figures; empty where it does not answer."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_PATIENCE_S)
            connection.connect(path)
            connection.sendall(b"show stat\n")
            with connection.makefile("rb") as stream:
                return stream.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


_asked: dict[str, threading.Thread] = {}


def output(words: tuple[str, ...], patience_s: float = _PATIENCE_S) -> str:
    """What a program prints that ends well; empty for any other. One that hangs in the kernel, as nvidia-smi on a GPU
    that is gone, can't be ended: it is left behind, and not started again before it has ended."""
    before = _asked.get(words[0])
    if before is not None and before.is_alive():
        return ""
    found: list[str] = []
    _asked[words[0]] = threading.Thread(target=lambda: found.append(_ran(words, patience_s)), daemon=True)
    _asked[words[0]].start()
    _asked[words[0]].join(patience_s + 1)
    return found[0] if found else ""


def _ran(words: tuple[str, ...], patience_s: float) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False, timeout=patience_s)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _read(path: str) -> str:
    """A small plain file, as text; empty for any other: some are of accounts that are not root's to trust."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return ""
        try:
            return file.read(_MOST_BYTES)
        except OSError:
            return ""


def _json(path: str) -> object:
    try:
        return json.loads(_read(path))
    except (ValueError, RecursionError):
        return None


def write(plan: Mapping[str, Any], kernel: Kernel | None = None) -> None:
    """The whole file at once: the node exporter reads whenever it is asked."""
    file = Path(plan["textfile"])
    part = file.with_name(f".{file.name}.part")
    part.write_text(text(samples(plan, kernel)), encoding="utf-8", errors="replace")
    part.chmod(0o644)
    part.replace(file)


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    kernel = Kernel()
    while True:
        write(plan, kernel)
        time.sleep(plan["interval_s"])


if __name__ == "__main__":
    main()
