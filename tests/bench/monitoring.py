# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a real Prometheus with the plan's own configuration and rules costs, which collects a large fleet.

Without a lab: hosts and services are imitated on loopback addresses (targets.py), with the series of this machine's own
node exporter and of a real vLLM. Needs the programs of Debian's packages prometheus and prometheus-node-exporter on
PATH; unpacked is enough.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import fact
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring import prometheus
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring.prometheus import Endpoint
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring.rules import rules

from .figures import Figure

HOSTS = 200
_SERIES = Path(__file__).resolve().parents[1] / "lab/vllm/stand_in/lib/vllm_stand_in/metrics.txt"
_BLOCK_S = 7200
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
_LIMITS = {"first_token_s": 10, "preemptions_per_s": 0.1, "disk_gib": 20, "load_s": 1800}


def figures(directory: Path, minutes: int) -> Iterator[Figure]:
    """Processor and memory once every host was asked; what a sample takes on the disk, as a block."""
    directory.mkdir(parents=True)
    with ExitStack() as all_end:
        target_port, port = _free_port(), _free_port()
        addresses = [f"127.0.{1 + number // 250}.{1 + number % 250}" for number in range(HOSTS)]
        exporter = all_end.enter_context(_exporter())
        all_end.enter_context(_targets(addresses, target_port, exporter))
        pid = all_end.enter_context(_prometheus(directory, addresses, target_port, port))
        _until(lambda: _value(port, "count(up == 1)") == 2 * HOSTS, "every target is up")
        began, cpu = time.monotonic(), _cpu_s(pid)
        most = 0
        while time.monotonic() < began + minutes * 60:
            time.sleep(10)
            most = max(most, _resident(pid))
        taken = (_cpu_s(pid) - cpu) / (time.monotonic() - began)
        series = _own(port, "prometheus_tsdb_head_series")
        samples = _own(port, "prometheus_tsdb_head_samples_appended_total")
        missed = _own(port, "prometheus_rule_group_iterations_missed_total")
        silent = _value(port, f"count(count_over_time((up == 0)[{minutes}m:15s]))")
        a_host, a_service = (_value(port, f'max(scrape_samples_scraped{{job="{job}"}})') for job in ("host", "service"))
        name = f"Prometheus, {HOSTS} hosts and {HOSTS} services, {minutes} minutes"
        yield Figure(f"{name}: processor", taken, None, "of one", "<= 0.5")
        yield Figure(f"{name}: memory, the most", most / 2**20, None, "MiB", "<= 4096")
        yield Figure(f"{name}: series", series, None, "series", f"<= {_counted()}")
        yield Figure(f"{name}: of a host", a_host, None, "series", f"<= {fact('monitoring', 'host_series')}")
        yield Figure(f"{name}: of a service", a_service, None, "series", f"<= {fact('monitoring', 'service_series')}")
        yield Figure(f"{name}: missed evaluations, targets without an answer", missed + silent, None, "times", "= 0")
        chunks, index = _snapshot(port, directory)
        sample = chunks / samples + index / (series * _BLOCK_S / fact("monitoring", "interval_s"))
        counted = prometheus.retention_bytes(HOSTS, HOSTS, 1) / (_counted() * 86_400 / fact("monitoring", "interval_s"))
        yield Figure(f"{name}: a sample in a block", sample, None, "bytes", f"<= {counted:g}")


def _counted() -> int:
    """Series that the plan's retention counts with."""
    return HOSTS * int(fact("monitoring", "host_series") + fact("monitoring", "service_series"))


@contextmanager
def _ended(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def _exporter() -> Iterator[list[str]]:
    """Two texts of this machine's node exporter, with the plan's collectors."""
    port = _free_port()
    names = (name for name in fact("monitoring", "collectors") if name != "textfile")
    words = [f"--web.listen-address=127.0.0.1:{port}", "--collector.disable-defaults"]
    command = [_program("prometheus-node-exporter"), *words, *(f"--collector.{name}" for name in names)]
    with _ended(subprocess.Popen(command, stderr=subprocess.DEVNULL)):
        url = f"http://127.0.0.1:{port}/metrics"
        _until(lambda: _answers(url), "the node exporter answers")
        first = _got(url)
        time.sleep(fact("monitoring", "interval_s"))
        yield [first, _got(url)]


@contextmanager
def _targets(addresses: list[str], port: int, exporter: list[str]) -> Iterator[None]:
    command = [sys.executable, str(Path(__file__).with_name("targets.py"))]
    with _ended(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)) as running:
        assert running.stdin and running.stdout
        service = _SERIES.read_text("utf-8")
        asked = {"addresses": addresses, "port": port, "exporter": exporter, "service": service}
        running.stdin.write(json.dumps(asked) + "\n")
        running.stdin.flush()
        assert running.stdout.readline() == "ready\n"
        yield


@contextmanager
def _prometheus(directory: Path, addresses: list[str], target_port: int, port: int) -> Iterator[int]:
    """Its process. As the plan configures it, but for its files' places."""
    targets = {f"spark-{number:03}": f"{address}:{target_port}" for number, address in enumerate(addresses)}
    services = [Endpoint(f"chat-{host}", host, target, "/v1/metrics") for host, target in targets.items()]
    config = json.dumps(prometheus.config("bench", targets, services)).replace(prometheus.RULES, "rules.yml")
    (directory / "prometheus.yml").write_text(config)
    (directory / "rules.yml").write_text(json.dumps(rules([ENGINES["vllm"].spec.series], _LIMITS)))
    words = [
        f"--config.file={directory}/prometheus.yml",
        f"--storage.tsdb.path={directory}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-admin-api",
    ]
    with (directory / "log").open("w") as log:
        running = subprocess.Popen([_program("prometheus"), *words], stdout=log, stderr=log)
    with _ended(running):
        yield running.pid


def _snapshot(port: int, directory: Path) -> tuple[int, int]:
    """Bytes of all samples in memory as they come to the disk every two hours, and of their index."""
    urllib.request.urlopen(
        urllib.request.Request(f"http://127.0.0.1:{port}/api/v1/admin/tsdb/snapshot", method="POST"), timeout=300
    ).close()
    block = directory / "data/snapshots"
    found = [[file.stat().st_size for file in block.glob(files)] for files in ("*/*/chunks/*", "*/*/index")]
    return sum(found[0]), sum(found[1])


def _program(name: str) -> str:
    found = shutil.which(name)
    if not found:
        raise RuntimeError(f"{name} is not on PATH: apt-get download {name}, dpkg-deb -x, and its usr/bin to PATH")
    return found


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / _TICKS


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def _got(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as reply:
        return str(reply.read().decode())


def _answers(url: str) -> bool:
    try:
        return bool(_got(url))
    except OSError:
        return False


def _value(port: int, expr: str) -> float:
    """The one value that an expression has; 0 without any."""
    try:
        found = json.loads(_got(f"http://127.0.0.1:{port}/api/v1/query?query={quote(expr)}"))["data"]["result"]
    except OSError:
        return 0
    return sum(float(one["value"][1]) for one in found)


def _own(port: int, name: str) -> float:
    """What Prometheus shows of itself, over all labels."""
    lines = _got(f"http://127.0.0.1:{port}/metrics").splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if re.match(rf"{name}[{{ ]", line))


def _until(holds: Any, what: str) -> None:
    deadline = time.monotonic() + 300
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not after 300 s: {what}")
        time.sleep(1)
