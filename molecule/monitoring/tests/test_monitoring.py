# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hosts that are watched by one of them: every query has an answer, a fault has an alert, nobody else reads."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._monitoring import console, dashboards
from ansible_collections.gb10.fleet.plugins.module_utils._monitoring.rules import recordings
from testinfra.host import Host

testinfra_hosts = ["ssh://spark-2"]

SSH_CONFIG = os.environ["GB10_LAB_DIR"] + "/ssh_config"
KEY = (Path(__file__).resolve().parents[2] / "services/vars/key.txt").read_text("utf-8").strip()
UNITS = ("gb10-metrics", "gb10-node-exporter", "gb10-prometheus", "gb10-alertmanager")


def asked(host: Host, expr: str) -> list[dict[str, Any]]:
    reply = json.loads(host.check_output(f"curl -sf 'http://127.0.0.1:9090/api/v1/query?query={quote(expr)}'"))
    found: list[dict[str, Any]] = reply["data"]["result"]
    return found


def titan() -> Host:
    return Host.get_host("ssh://titan", ssh_config=SSH_CONFIG, sudo=True)


def missing(host: Host, exprs: list[str], limit_s: float = 120) -> list[str]:
    """The queries that still have no answer after a while: rates need two samples, rules an evaluation."""
    deadline = time.monotonic() + limit_s
    while (left := [expr for expr in exprs if not asked(host, expr)]) and time.monotonic() < deadline:
        time.sleep(3)
    return left


def test_everything_runs_as_nobody_in_particular(host: Host) -> None:
    for name in UNITS:
        assert host.service(name).is_running
        assert host.service(name).is_enabled
    for name in ("prometheus", "prometheus-alertmanager", "prometheus-node-exporter"):
        assert not host.service(name).is_running
        assert not host.service(name).is_enabled
    users = {host.check_output(f"ps -o user= -p $(systemctl show -P MainPID {name})") for name in UNITS[1:]}
    assert "root" not in users


def test_every_query_of_dashboards_rules_and_page_has_an_answer(host: Host) -> None:
    # the lab's adapter counts no bytes of RDMA
    recorded = recordings([ENGINES["vllm"].spec.series])
    exprs = [expr for expr in dashboards.queries(recorded) if "infiniband" not in expr]
    exprs += [*console.queries(recorded), *recorded.values()]
    assert missing(host, exprs) == []


def test_the_page_shows_hosts_and_services(host: Host) -> None:
    page = host.check_output("curl -sf http://127.0.0.1:9090/consoles/fleet.html")
    assert "<td>titan</td><td>tiny</td><td>0</td><td>serving</td>" in page
    assert "<td>spark-2</td>" in page
    assert "None." in page


def test_the_key_is_in_no_argument_and_no_file_that_others_read(host: Host) -> None:
    assert KEY not in host.check_output("ps -eo args")
    readable = host.check_output("find /etc/gb10-fleet /etc/systemd/system /var/lib/gb10-* -type f -perm /044")
    assert KEY not in "".join(host.file(path).content_string for path in readable.splitlines())


def test_nobody_else_reaches_its_ports(host: Host) -> None:
    ask = "curl -s -m 5 -o /dev/null -w '%{http_code}' http://"
    assert host.run(f"{ask}10.77.0.11:9100/metrics").stdout == "200"
    assert titan().run(f"{ask}10.77.0.12:9100/metrics").stdout == "000"
    assert titan().run(f"{ask}10.77.0.12:9090/").stdout == "000"


def test_a_service_that_is_stopped_has_an_alert_with_its_command(host: Host) -> None:
    assert asked(host, 'ALERTS{alertstate="firing"}') == []
    titan().check_output("systemctl stop gb10-service-tiny")
    firing = 'ALERTS{alertname="Gb10ServiceDown",alertstate="firing"}'
    try:
        assert missing(host, [firing], 360) == []
        time.sleep(40)
        read = host.check_output("curl -sf http://127.0.0.1:9093/api/v2/alerts")
        assert [alert["labels"]["alertname"] for alert in json.loads(read)] == ["Gb10ServiceDown"]
        page = host.check_output("curl -sf http://127.0.0.1:9090/consoles/fleet.html")
        assert "ansible-playbook gb10.fleet.status -e service=tiny" in page
    finally:
        titan().check_output("systemctl start gb10-service-tiny")
