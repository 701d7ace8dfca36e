# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two hosts that are watched by one of them: every query has an answer, a fault has an alert, nobody else reads."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring.rules import recordings
from fabric.fleet import FabricFleet
from testinfra.host import Host
from unit.monitoring_queries import of_dashboards, of_page

testinfra_hosts = ["ssh://spark-2"]
pytestmark = pytest.mark.story

SSH_CONFIG = os.environ["GB10_LAB_DIR"] + "/ssh_config"
KEY = (Path(__file__).resolve().parents[2] / "services/vars/key.txt").read_text("utf-8").strip()
READY = "http://127.0.0.1:9090/-/ready"
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
    # The lab's adapter counts no bytes of RDMA, its engine drafts no tokens, nothing here has verified a start, and no
    # gateway runs.
    without = ("infiniband", "spec_decode", "start_phase", "gb10_gateway")
    recorded = recordings([ENGINES["vllm"].spec.series])
    exprs = [*of_dashboards(recorded), *of_page(recorded), *recorded.values()]
    assert missing(host, [expr for expr in exprs if not any(word in expr for word in without)]) == []


def test_the_page_shows_hosts_and_services(host: Host) -> None:
    page = host.check_output("curl -sf http://127.0.0.1:9090/consoles/fleet.html")
    assert re.search("<td>titan</td><td>tiny</td><td>0</td><td><span[^>]*>serving</span></td>", page), page
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


@contextmanager
def seeded(causes: dict[str, tuple[Host, str, str]]) -> Iterator[None]:
    """By alert: where, what brings it about, and what ends it."""
    for host, begin, _ in causes.values():
        host.check_output(f"sh -c {shlex.quote(begin)}")
    try:
        yield
    finally:
        for host, _, end in causes.values():
            host.check_output(f"sh -c {shlex.quote(end)}")


def known(host: Host) -> list[tuple[str, str]]:
    """Name and host of the alerts that the Alertmanager has, each pair once."""
    shown = json.loads(host.check_output("amtool --alertmanager.url http://127.0.0.1:9093 alert --output json"))
    return sorted({(alert["labels"]["alertname"], alert["labels"]["host"]) for alert in shown})


def received(host: Host) -> list[tuple[str, str]]:
    """Receiver and name of each alert that has come over HTTP; those that end come when they like."""
    lines = host.run("cat /run/receivers/hooks").stdout.splitlines()
    messages = [json.loads(line) for line in lines]
    firing = [(path, body) for path, body in messages if body["status"] == "firing"]
    return [(path, body["groupLabels"]["alertname"]) for path, body in firing]


def fire_once(host: Host, *alerts: tuple[str, str], limit_s: float = 420) -> None:
    """All of them and no other, by name and host; whoever is to be told of one is told once."""
    firing = [f'ALERTS{{alertname="{name}",host="{of}",alertstate="firing"}}' for name, of in alerts]
    before = received(host)
    assert missing(host, firing, limit_s) == []
    deadline = time.monotonic() + 120
    while len(fresh := received(host)[len(before) :]) < 2 * len(alerts) and time.monotonic() < deadline:
        time.sleep(3)
    assert known(host) == sorted(alerts)
    wanted = [(path, name) for name, _ in alerts for path in ("/alerts", "/fleet?template=alertmanager")]
    assert sorted(fresh) == sorted(wanted)
    # mails go their own way, and may come later
    while not all(counts := [mailed(host, *alert) for alert in alerts]) and time.monotonic() < deadline:
        time.sleep(3)
    assert counts == [1] * len(alerts), host.check_output("tail -c 3000 /run/receivers/mails")


def mailed(host: Host, name: str, of: str) -> int:
    mails = host.run("cat /run/receivers/mails").stdout
    return len(re.findall(rf"^Subject: \[FIRING:\d\] {name} {of} ", mails, re.MULTILINE))


def nothing_fires(host: Host, limit_s: float = 300) -> None:
    deadline = time.monotonic() + limit_s
    while (found := asked(host, 'ALERTS{alertstate="firing"}')) or known(host):
        assert time.monotonic() < deadline, found
        time.sleep(3)


def test_nothing_has_fired_while_all_was_well(host: Host) -> None:
    assert asked(host, 'count_over_time(ALERTS{alertstate="firing"}[1h])') == []
    assert (known(host), received(host)) == ([], [])


# Of a service that used up its starts while it crept; a file of its own, since nobody writes it any more.
STOPPED = {"state": "stopped", "creep": "it takes more", "starts_left": 0, "updated_at": "2026-11-01T00:00:00Z"}
NIGHT = "{'nights': [{'at': datetime.now(timezone.utc).isoformat(), 'hosts': {'titan': {'error': 2, 'warning': 0}}}]}"
HISTORY = "/var/lib/gb10-fleet/drift/history.json"


def test_each_cause_has_its_alert_with_a_command(host: Host) -> None:
    status = "/run/gb10-fleet/tiny/status.json"
    night = f"import json; from datetime import datetime, timezone; json.dump({NIGHT}, open('{HISTORY}', 'w'))"
    low = "sed 's/^MemAvailable:.*/MemAvailable:    1024000 kB/' /proc/meminfo > /run/meminfo"
    nothing = (titan(), "true", "true")
    causes = {
        "Gb10ServiceDown": (
            titan(),
            f"systemctl stop gb10-service-tiny; mkdir -p {status.rpartition('/')[0]}; "
            f"echo {shlex.quote(json.dumps(STOPPED))} > {status}",
            f"rm {status}; systemctl start gb10-service-tiny",
        ),
        "Gb10StartsUsedUp": nothing,
        "Gb10MemoryCreep": nothing,
        "Gb10StatusOld": nothing,
        "Gb10Drift": (host, f'mkdir -p {HISTORY.rpartition("/")[0]}; python3 -c "{night}"', f"rm {HISTORY}"),
        "Gb10MemoryLow": (host, f"{low}; mount --bind /run/meminfo /proc/meminfo", "umount /proc/meminfo"),
    }
    with seeded(causes):
        fire_once(host, *((name, "titan" if of is not host else "spark-2") for name, (of, _, _) in causes.items()))
        page = host.check_output("curl -sf http://127.0.0.1:9090/consoles/fleet.html")
        assert "ansible-playbook gb10.fleet.status -e service=tiny" in page
        assert all(name in page for name in causes)
    nothing_fires(host)


@pytest.mark.whole
def test_silence_has_its_alert_too(host: Host) -> None:
    nft = "nft add table inet seeded; nft add chain inet seeded out '{ type filter hook output priority 0; }'"
    causes = {
        "Gb10MetricsOld": (titan(), "systemctl kill -s STOP gb10-metrics", "systemctl kill -s CONT gb10-metrics"),
        "Gb10EndpointSilent": (
            host,
            f"{nft}; nft add rule inet seeded out tcp dport 8000 reject",
            "nft delete table inet seeded",
        ),
        "Gb10HostSilent": (host, "systemctl stop gb10-node-exporter", "systemctl start gb10-node-exporter"),
    }
    with seeded(causes):
        fire_once(host, ("Gb10MetricsOld", "titan"), ("Gb10EndpointSilent", "titan"), ("Gb10HostSilent", "spark-2"))
    nothing_fires(host)
    with seeded({"Gb10MetricsOld": (titan(), "systemctl stop gb10-metrics", "systemctl start gb10-metrics")}):
        assert missing(host, ['ALERTS{alertname="Gb10MetricsOld",host="titan",alertstate="firing"}'], 240) == []
    nothing_fires(host)


REQUESTED = ("Gb10KvFull", "Gb10Preemptions", "Gb10FirstTokenSlow")
# What a load that is too much for its pool shows, which the stand-in never has by itself; by each request.
OVERLOAD = {"vllm:num_preemptions_total": 5, "vllm:time_to_first_token_seconds_bucket +Inf": 1}
FULL = {"vllm:kv_cache_usage_perc": 0.97, "vllm:num_requests_waiting": 3}


def request(shown: dict[str, float]) -> str:
    """A shell line on the host of the service. shown: by how much which series grow."""
    body = json.dumps({"prompt": "Gutenberg printed", "max_tokens": 4, "vllm_xargs": shown})
    words = ["curl", "-skfo", "/dev/null", "-H", "Content-Type: application/json", "-H", f"Authorization: Bearer {KEY}"]
    return shlex.join([*words, "-d", body, "https://127.0.0.1:8000/v1/completions"])


def again_and_again(unit: str, line: str) -> tuple[str, str]:
    """What begins to do so, every five seconds, and what ends it."""
    loop = f"while sleep 5; do {line}; done"
    return f"systemd-run --quiet --collect --unit {unit} sh -c {shlex.quote(loop)}", f"systemctl stop {unit}"


@pytest.mark.whole
def test_what_lasts_ten_minutes_has_its_alert(host: Host) -> None:
    lab = FabricFleet(Path(os.environ["GB10_LAB_DIR"]))
    spark_3 = Host.get_host("ssh://spark-3", ssh_config=SSH_CONFIG, sudo=True)
    nights = "{'nights': [{'at': '2026-11-01T03:00:00+00:00', 'hosts': {}}]}"
    begin, end = again_and_again("overload", request(OVERLOAD))
    emptied = {series: -value for series, value in FULL.items()}
    causes = {
        "overload": (titan(), f"{request(FULL)}; {begin}", f"{end}; {request(emptied)}"),
        "Gb10DriftUnchecked": (
            spark_3,
            f"mkdir -p {HISTORY.rpartition('/')[0]}; echo {shlex.quote(nights.replace(chr(39), chr(34)))} > {HISTORY}",
            f"rm {HISTORY}",
        ),
        # no room where what is brought to a host lies
        "Gb10DiskFull": (
            host,
            "mkdir -p /var/lib/gb10-fleet; mount -t tmpfs -o size=1m none /var/lib/gb10-fleet",
            "umount /var/lib/gb10-fleet",
        ),
    }
    lab.lab("cable", "pull", "spark-2:1")
    try:
        with seeded(causes):
            fire_once(
                host,
                *((name, "titan") for name in REQUESTED),
                *(("Gb10LinkDown", name) for name in ("spark-2", "spark-3")),
                ("Gb10DriftUnchecked", "spark-3"),
                ("Gb10DiskFull", "spark-2"),
                limit_s=1200,
            )
    finally:
        lab.lab("cable", "plug", "spark-2:1")
    nothing_fires(host, 900)


# A service of spark-3 that loads, as its supervisor shows it, every five seconds.
LOADING = """\
printf '{"state": "loading", "starts_left": 2, "updated_at": "%s"}' $(date -uIs) > /run/slow.new
mv /run/slow.new /run/slow.json"""
METRICS = "/etc/gb10-fleet/metrics.json"
LOADS = """\
import json
plan = json.load(open("/run/metrics.json"))
plan["services"] = [{"name": "slow", "rank": 0, "high_bytes": 9000000000, "status_file": "/run/slow.json"}]
json.dump(plan, open(PLAN, "w"))
""".replace("PLAN", repr(METRICS))


@pytest.mark.whole
def test_nothing_fires_for_half_an_hour_but_of_a_service_that_loads_for_longer(host: Host) -> None:
    spark_3 = Host.get_host("ssh://spark-3", ssh_config=SSH_CONFIG, sudo=True)
    begin, end = again_and_again("slow", LOADING)
    busy, idle = again_and_again("busy", request({"vllm:time_to_first_token_seconds_bucket 0.25": 1}))
    causes = {
        "Gb10ServiceLoadsLong": (
            spark_3,
            f"cp -p {METRICS} /run/metrics.json; {begin}; sleep 7; python3 -c {shlex.quote(LOADS)}; "
            "systemctl restart gb10-metrics",
            f"cp -p /run/metrics.json {METRICS}; systemctl restart gb10-metrics; {end}",
        ),
        # an owner restarts a service and uses it
        "nothing": (titan(), f"systemctl restart gb10-service-tiny; {busy}", idle),
    }
    notified, began = received(host), time.monotonic()
    with seeded(causes):
        while time.monotonic() < began + 1800:
            assert asked(host, 'ALERTS{alertstate="firing"}') == [], time.monotonic() - began
            assert (known(host), received(host)) == ([], notified)
            time.sleep(15)
        fire_once(host, ("Gb10ServiceLoadsLong", "spark-3"))
    nothing_fires(host)


@pytest.mark.whole
def test_a_boot_of_the_monitoring_host_loses_nothing(host: Host) -> None:
    before = time.time()
    fleet = FabricFleet(Path(os.environ["GB10_LAB_DIR"]))
    fleet.lab("power", "cycle", "spark-2")
    fleet.wait_for_ssh("spark-2", 300)
    again = Host.get_host("ssh://spark-2", ssh_config=SSH_CONFIG, sudo=True)
    # they begin once the network is up, and Prometheus answers once it has read what it kept
    begun = " && ".join(f"systemctl is-active -q {name}" for name in UNITS)
    again.check_output(f"timeout 120 sh -c 'until {begun} && curl -sfo /dev/null {READY}; do sleep 1; done'")
    assert missing(again, ['up{host="titan",job="host"} == 1', 'up{host="titan",job="service"} == 1']) == []
    assert asked(again, f'up{{host="titan",job="host"}} @ {before:.0f}')
    assert asked(again, 'ALERTS{alertstate="firing"}') == []
