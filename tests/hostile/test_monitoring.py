# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""titan collects the fleet's metrics, and one host is taken over: what is open, where secrets are, what it can do."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from lab.fixtures import eventually

from .conftest import ADDRESSES, HOSTS, VERBOSE, Owner
from .search import HELD, places, secrets_of
from .test_canaries import PLAYBOOKS
from .test_scan import SCAN, listed

COLLECTS, TAKEN = "titan", "spark-2"
PAGE = "http://127.0.0.1:9090"
# To whoever collects, in turn: our metrics with commands for labels, and series without end.
EXPORTER = textwrap.dedent("""\
    import http.server
    WORDS = ["titan; touch /var/tmp/taken-over", 'titan\\\\" or vector(0) or x{a=\\\\"', "<script>x</script>", "titan"]
    SERIES = "".join(f'gb10_drift_differences{{of="{word}"}} 7\\n' for word in WORDS)
    SERIES += "".join(f'gb10_service_up{{service="{word}",rank="0",host="titan"}} 0\\n' for word in WORDS)
    class Hostile(http.server.BaseHTTPRequestHandler):
        asked = 0
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            Hostile.asked += 1
            text = SERIES if Hostile.asked % 2 else "".join(f"node_x{n}_{Hostile.asked} 1\\n" for n in range(250_000))
            self.wfile.write(text.encode())
        def log_message(self, *words):
            pass
    http.server.ThreadingHTTPServer(("", 9100), Hostile).serve_forever()
    """)


@pytest.fixture(scope="module")
def plan(owner: Owner) -> Iterator[dict[str, Any]]:
    """Of the fleet with monitoring, whose receivers are secrets; without it again afterwards."""
    for name, text in (
        ("ntfy", "https://ntfy.invalid/canary-ntfy-0123456789abcdef"),
        ("mail", "canary-mail-0123456789"),
    ):
        owner.secrets[name] = text
        owner.encrypt(owner.inventory / "secrets" / name, f"{text}\n")
    mail = {"to": "a@example.org", "from": "b@example.org", "smarthost": "127.0.0.1:2525"}
    alerts = {"ntfy_url_file": "secrets/ntfy", "email": {**mail, "username": "b", "password_file": "secrets/mail"}}
    declared = {"host": COLLECTS, "addresses": [ADDRESSES[COLLECTS]], "alerts": alerts}
    owner.declare({"fleet_monitoring": declared})
    owner.converge(*VERBOSE)
    yield owner.plan()
    owner.declare()
    owner.converge()


def asked(owner: Owner, expr: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        owner.fleet.root(COLLECTS, f"curl -sf '{PAGE}/api/v1/query?query={quote(expr)}'")
    )["data"]["result"]
    return found


@pytest.mark.parametrize("host", HOSTS)
def test_from_the_lan(owner: Owner, plan: dict[str, Any], host: str) -> None:
    """Nobody but the monitoring host reaches the exporters, and its page is its own."""
    found = owner.fleet.lab("net", "--", sys.executable, "-c", SCAN, ADDRESSES[host])
    ports = {int(port) for port in found.stdout.split()}
    assert ports == listed(owner, plan, host) - {9090, 9093}  # on loopback alone
    assert ports.isdisjoint({9090, 9093, 9100})


def test_no_secret_is_seen_outside_of_its_files(owner: Owner, plan: dict[str, Any]) -> None:
    eventually(lambda: len(asked(owner, 'up{job="host"} == 1')) == len(HOSTS), "all hosts are collected")
    for playbook in PLAYBOOKS:
        owner.play(playbook, *VERBOSE)
    held = [one["path"] for one in plan["hosts"][COLLECTS]["monitoring"]["secrets"]]
    assert len(held) == 4  # of two services, and of two receivers
    assert set(owner.fleet.root(COLLECTS, f"stat -c %a:%U {' '.join(held)}").split()) == {"600:root"}
    assert places(owner, secrets_of(owner), [*HELD, *held]) == []


def test_whatever_a_taken_host_reports_takes_nothing_from_others(owner: Owner, plan: dict[str, Any]) -> None:
    owner.fleet.root(TAKEN, "systemctl stop gb10-node-exporter")
    owner.fleet.lab(
        "exec", TAKEN, "--", "systemd-run", "--quiet", "--unit", "hostile-metrics", "python3", "-c", EXPORTER
    )
    try:
        refused = f'min_over_time(up{{host="{TAKEN}"}}[5m]) == 0'
        eventually(lambda: bool(asked(owner, refused)), "an answer without end was refused")
        eventually(lambda: bool(asked(owner, f'gb10_drift_differences{{host="{TAKEN}"}} == 7')), "words were taken")
        of = {one["metric"].get("of") for one in asked(owner, 'gb10_drift_differences{of!=""}')}
        assert of <= set(HOSTS)
        shown = json.dumps([asked(owner, f'{{__name__=~"gb10_.*",host="{TAKEN}"}}'), alerts(owner)])
        assert "taken-over" not in shown and "script" not in shown and "vector" not in shown
        page = owner.fleet.root(COLLECTS, f"curl -sf {PAGE}/consoles/fleet.html")
        assert all(host in page for host in HOSTS) and "taken-over" not in page and "<script>x" not in page
        assert {one["metric"]["host"] for one in asked(owner, 'up{job="host"} == 1')} >= set(HOSTS) - {TAKEN}
        shown = owner.fleet.root(COLLECTS, "systemctl show -p MemoryMax -p MemoryPeak -p NRestarts gb10-prometheus")
        unit = dict(line.split("=", 1) for line in shown.splitlines())
        assert unit["MemoryMax"].isdigit() and unit["NRestarts"] == "0"
        # "[not set]" where the host's systemd counts none
        assert not unit["MemoryPeak"].isdigit() or int(unit["MemoryPeak"]) < int(unit["MemoryMax"])
    finally:
        owner.fleet.root(TAKEN, "systemctl stop hostile-metrics; systemctl start gb10-node-exporter", check=False)


def alerts(owner: Owner) -> object:
    """All that is waiting or fires, with the words that an owner gets."""
    return json.loads(owner.fleet.root(COLLECTS, f"curl -sf {PAGE}/api/v1/alerts"))["data"]["alerts"]
