# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""``python3 metrics.py FILE``: writes a host's own metrics for the node exporter, again and again.

Standard library only, Python 3.11: the role `monitoring` copies this file to each host. FILE is the plan's
(`_monitoring.plan`): ``{textfile, interval_s, floor_bytes, guard_bytes, services: [{name, rank, status_file,
high_bytes}], interfaces, paths, drift}``.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
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
QUERY = ("nvidia-smi", f"--query-gpu={','.join(row[0] for row in _GPU)}", "--format=csv,noheader,nounits")
# Of a supervisor's status: what is passed on as it is.
_FIGURES = {
    "memory_taken": "gb10_service_memory_bytes",
    "starts_left": "gb10_service_starts_left",
    "strikes": "gb10_service_strikes",
    "cache_drops": "gb10_service_cache_drops",
    "tokens_per_s": "gb10_service_tokens_per_second",
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


# Read -------------------------------------------------------------------------------------------------------------


def samples(plan: Mapping[str, Any]) -> Iterator[Sample]:
    yield Sample("gb10_memory_floor_bytes", float(plan["floor_bytes"]))
    yield Sample("gb10_memory_guard_bytes", float(plan["guard_bytes"]))
    yield from gpu(_output(QUERY))
    for service in plan["services"]:
        found = _json(service["status_file"])
        yield from of_service(service, found if isinstance(found, dict) else None, time.time())
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


def _output(words: Iterable[str]) -> str:
    try:
        done = subprocess.run([*words], capture_output=True, text=True, check=False, timeout=_PATIENCE_S)
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


def write(plan: Mapping[str, Any]) -> None:
    """The whole file at once: the node exporter reads whenever it is asked."""
    file = Path(plan["textfile"])
    part = file.with_name(f".{file.name}.part")
    part.write_text(text(samples(plan)), encoding="utf-8", errors="replace")
    part.chmod(0o644)
    part.replace(file)


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    while True:
        write(plan)
        time.sleep(plan["interval_s"])


if __name__ == "__main__":
    main()
