# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What hosts show, what is collected, and which alerts fire for what. On lab hosts: molecule/monitoring."""

from __future__ import annotations

import json
import math
import os
import random
import re
import resource
import shutil
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import data_table
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._engines.speed.served import least_share, totals
from ansible_collections.gb10.fleet.plugins.module_utils._on_host import textfile
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring import dashboards, prometheus
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring import plan as console
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring.rules import (
    EXPECTED,
    PACE,
    Forecast,
    alerts,
    recordings,
    rules,
)
from ansible_collections.gb10.fleet.plugins.plugin_utils._certificates import authority, new_key
from monitoring_queries import of_dashboards, of_page

NOW = datetime.now(UTC)
ROOT = Path(__file__).resolve().parents[2]
LIBRARY, OF_RECIPES = load_all([ROOT / "recipes"])
GPU = 'host="titan"'
SERIES = ENGINES["vllm"].spec.series
RECORDED = [*recordings([SERIES]), EXPECTED, PACE]
# Of a service that serves eight requests at once, one of them with 74 tokens a second.
ALONE: Any = {"decode": 74.0, "low": 48.1, "total": 74.0, "accepted": 1.0, "assumed": False, "ttft_high": 1.0}
SPEED: Any = {
    "alone": ALONE,
    "together": {**ALONE, "decode": 37.0, "low": 24.05, "total": 296.0, "requests": 8},
    **{"prompt": 2048, "pays": None, "full_s": 0.2, "own": None},
}
FORECASTS = [Forecast("chat", "titan", "k", SPEED, SERIES)]
LIMITS = {"first_token_s": 10, "preemptions_per_s": 0.1, "disk_gib": 20, "load_s": 1800}
# tests/tools/bootstrap brings it
PROMTOOL = shutil.which("promtool", path=f"{os.environ['PATH']}:{ROOT}/.venv/bin")
NEEDS_PROMTOOL = pytest.mark.skipif(not PROMTOOL and "CI" not in os.environ, reason="promtool is not there")
SHOWN = (ROOT / "tests/lab/vllm/stand_in/lib/vllm_stand_in/metrics.txt").read_text("utf-8")


def inventory(tmp_path: Path, monitoring: Any, **service: Any) -> dict[str, Any]:
    (tmp_path / "key").write_text("sk-0123456789abcdef0123\n")
    (tmp_path / "key").chmod(0o600)
    recipe = "nemotron-3-nano-30b-a3b-nvfp4"
    chat = {"recipe": recipe, "hosts": ["spark-2"], "port": 8000, "api_key_file": "key", "trust": ["code"], **service}
    of_fleet = {"fleet_services": {"chat": chat}, "fleet_monitoring": monitoring}
    hosts = {
        name: {"address": f"10.0.0.{at}", "variables": {"fleet_host": {}, **of_fleet}}
        for at, name in enumerate(("titan", "spark-2"), 1)
    }
    return {"hosts": hosts, "folder": str(tmp_path)}


def planned(tmp_path: Path, monitoring: Any, **service: Any) -> dict[str, Any]:
    return plan_fleet(inventory(tmp_path, monitoring, **service), LIBRARY, OF_RECIPES)


def rules_of(plan: dict[str, Any]) -> list[str]:
    return sorted({row["rule"] for row in plan["findings"] if row["severity"] == "error"})


# The plan ---------------------------------------------------------------------------------------------------------


def test_every_host_shows_and_one_collects(tmp_path: Path) -> None:
    plan = planned(tmp_path, {"host": "titan"})
    assert rules_of(plan) == []
    assert plan["monitoring"]["url"] == "http://127.0.0.1:9090/consoles/fleet.html"
    titan, spark = (plan["hosts"][name]["monitoring"] for name in ("titan", "spark-2"))
    assert sorted(spark["units"]) == ["gb10-metrics.service", "gb10-node-exporter.service"]
    assert {*titan["units"]} - {*spark["units"]} == {"gb10-prometheus.service", "gb10-alertmanager.service"}
    assert "prometheus" in plan["hosts"]["titan"]["needs"]["installs"]
    assert "prometheus" not in plan["hosts"]["spark-2"]["needs"]["installs"]
    written = json.loads(spark["files"]["/etc/gb10-fleet/metrics.json"]["content"])
    assert [one["name"] for one in written["services"]] == ["chat"]
    assert written["services"][0]["high_bytes"] > 20 << 30


def test_it_alerts_of_the_disk_where_drift_does(tmp_path: Path) -> None:
    declared = inventory(tmp_path, {"host": "titan"})
    for host in declared["hosts"].values():
        host["variables"]["fleet_drift"] = {"free": {"disk_gib": 7}}
    files = plan_fleet(declared, LIBRARY, OF_RECIPES)["hosts"]["titan"]["monitoring"]["files"]
    assert f"gb10_disk_free_bytes < {7 << 30}" in files[prometheus.RULES]["content"]


def test_no_load_is_long_that_a_recipe_gives_its_time(tmp_path: Path) -> None:
    # whose startup_limit_s is an hour
    recipe = "nemotron-3-super-120b-a12b-nvfp4"
    files = planned(tmp_path, {"host": "titan"}, recipe=recipe)["hosts"]["titan"]["monitoring"]["files"]
    found = read(files[prometheus.RULES]["content"])["groups"][-1]["rules"]
    assert {rule["for"] for rule in found if rule["alert"] == "Gb10ServiceLoadsLong"} == {"3600s"}


def test_its_ports_are_open_to_the_monitoring_host_alone(tmp_path: Path) -> None:
    hosts = planned(tmp_path, {"host": "titan"})["hosts"]
    for name in ("titan", "spark-2"):
        firewall = hosts[name]["firewall"]
        opened = [one for one in firewall["open"] if one["port"] == 9100]
        assert (firewall["state"], [one["from"] for one in opened]) == ("limited", [["10.0.0.1"]])
    listens = {(row["port"], row["address"]) for row in hosts["titan"]["listens"]}
    assert {(9100, "::"), (9090, "127.0.0.1"), (9093, "127.0.0.1")} <= listens


def test_a_gateways_service_lets_the_monitoring_host_in_too(tmp_path: Path) -> None:
    (tmp_path / "clients.yml").write_text("me: 0123456789abcdef0123456789abcdef\n")
    written = inventory(tmp_path, {"host": "titan", "addresses": ["10.0.0.7"]})
    for host in written["hosts"].values():
        host["variables"]["fleet_gateway"] = {"hosts": ["titan"], "keys_file": "clients.yml"}
    plan = plan_fleet(written, LIBRARY, OF_RECIPES)
    opened = plan["hosts"]["spark-2"]["firewall"]["open"]
    assert [one["from"] for one in opened if one["port"] == 8000] == [["10.0.0.1", "10.0.0.7"]]


def test_a_key_is_in_a_file_of_roots_and_in_no_configuration(tmp_path: Path) -> None:
    part = planned(tmp_path, {"host": "titan"})["hosts"]["titan"]["monitoring"]
    assert "sk-0123456789abcdef0123" not in json.dumps(part)
    path = "/etc/gb10-fleet/monitoring/secrets/key-chat"
    assert part["secrets"] == [{"source": str(tmp_path / "key"), "path": path, "unit": "gb10-prometheus.service"}]
    config = read(part["files"][prometheus.CONFIG]["content"])
    chat = next(one for one in config["scrape_configs"] if one["job_name"] == "service-chat")
    assert chat["authorization"]["credentials_file"] == "/run/credentials/gb10-prometheus.service/key-chat"
    assert chat["static_configs"][0]["targets"] == ["10.0.0.2:8000"]
    unit = part["files"]["/etc/systemd/system/gb10-prometheus.service"]["content"]
    assert f"LoadCredential=key-chat:{path}\n" in unit


def read(text: str) -> Any:
    return json.loads(text.partition("\n")[2])


def test_tls_is_believed_by_the_services_name(tmp_path: Path) -> None:
    part = planned(tmp_path, {"host": "titan"}, tls="local")["hosts"]["titan"]["monitoring"]
    config = read(part["files"][prometheus.CONFIG]["content"])
    chat = next(one for one in config["scrape_configs"] if one["job_name"] == "service-chat")
    assert (chat["scheme"], chat["tls_config"]["server_name"]) == ("https", "spark-2")


@pytest.mark.parametrize(
    ("monitoring", "service", "rules"),
    [
        ({"host": "titann"}, {}, ["input-unknown-host"]),
        ({"host": "titan", "port": 22}, {}, ["input-port-twice"]),
        ({"host": "spark-2", "port": 8000}, {}, ["input-port-twice"]),
        ({"host": "titan"}, {"port": 9100}, ["input-port-twice"]),
        ({"host": "titan", "addresses": ["titan.lan"]}, {}, ["input-monitoring-address"]),
        ({"host": "titan", "alerts": {"webhook_url_file": "none"}}, {}, ["input-monitoring-file"]),
        ({"host": "titan", "alerts": {"webhook_token_file": "empty"}}, {}, ["input-monitoring-file"]),
        ({"host": "titan", "alerts": {"email": {"to": "a@b"}}}, {}, ["schema-required"]),
        ({"host": "titan"}, {"listen": "127.0.0.1"}, ["input-monitoring-listen"]),
        ({"host": "spark-2"}, {"listen": "127.0.0.1"}, []),
        ({"hosts": "titan"}, {}, ["schema-unknown-key"]),
    ],
)
def test_what_can_not_be_is_refused(
    tmp_path: Path, monitoring: dict[str, Any], service: dict[str, Any], rules: list[str]
) -> None:
    found = rules_of(planned(tmp_path, monitoring, **service))
    assert found == rules


def test_without_it_what_an_earlier_declaration_left_goes(tmp_path: Path) -> None:
    part = planned(tmp_path, None)["hosts"]["titan"]["monitoring"]
    assert (part["units"], part["files"], part["packages"]) == ({}, {}, [])
    assert len(part["gone"]) == 4
    spark = planned(tmp_path, {"host": "titan"})["hosts"]["spark-2"]["monitoring"]
    assert [Path(path).stem for path in spark["gone"]] == ["gb10-prometheus", "gb10-alertmanager"]


def test_alerts_go_where_the_owner_wants(tmp_path: Path) -> None:
    for name in ("hook", "token", "ntfy", "password"):
        (tmp_path / name).write_text("https://example.org/x\n")
        (tmp_path / name).chmod(0o600)
    email = {"to": "me@example.org", "from": "fleet@example.org", "smarthost": "mail.example.org:587"}
    wanted = {
        "webhook_url_file": "hook",
        "webhook_token_file": "token",
        "ntfy_url_file": "ntfy",
        "email": {**email, "username": "fleet", "password_file": "password"},
    }
    part = planned(tmp_path, {"host": "titan", "alerts": wanted})["hosts"]["titan"]["monitoring"]
    owner = read(part["files"][prometheus.RECEIVERS]["content"])["receivers"][0]
    folder = "/run/credentials/gb10-alertmanager.service"
    assert [one["url_file"] for one in owner["webhook_configs"]] == [
        f"{folder}/webhook_url_file",
        f"{folder}/ntfy_url_file",
    ]
    token = {"authorization": {"credentials_file": f"{folder}/webhook_token_file"}}
    assert [one.get("http_config") for one in owner["webhook_configs"]] == [token, None]
    assert owner["email_configs"][0]["auth_password_file"] == f"{folder}/password_file"
    assert len([one for one in part["secrets"] if one["unit"] == "gb10-alertmanager.service"]) == 4


@pytest.mark.parametrize(("hosts", "services", "days", "gb"), [(1, 1, 30, 1), (4, 6, 30, 4), (200, 200, 30, 207)])
def test_the_disk_follows_from_what_is_collected(hosts: int, services: int, days: int, gb: int) -> None:
    assert prometheus.retention_bytes(hosts, services, days) // 10**9 == gb


# What a host shows ------------------------------------------------------------------------------------------------


def test_metrics_of_the_gpu_leave_out_what_the_chip_lacks() -> None:
    found = {one.name: one.value for one in textfile.gpu("37, 61, [N/A], 2411\n")}
    assert found == {
        "gb10_gpu_utilization_ratio": 0.37,
        "gb10_gpu_temperature_celsius": 61,
        "gb10_gpu_sm_clock_hertz": 2.411e9,
    }
    assert [*textfile.gpu("")] == []


STATUS = {
    "state": "serving",
    "memory_taken": 5 << 30,
    "starts_left": 2,
    "strikes": 0,
    "cache_drops": 3,
    "tokens_per_s": None,
    "creep": "it takes 45 GiB",
    "updated_at": "2026-11-23T09:00:00+00:00",
}
CHAT = {"name": "chat", "rank": 0, "high_bytes": 40 << 30}
NINE = 1795424400.0


def test_a_service_by_its_supervisors_words() -> None:
    found = {one.name: one.value for one in textfile.of_service(CHAT, STATUS, NINE + 7)}
    assert found["gb10_service_serving"] == found["gb10_service_creeps"] == 1
    assert (found["gb10_service_memory_bytes"], found["gb10_service_cache_drops"]) == (5 << 30, 3)
    assert found["gb10_service_status_age_seconds"] == 7
    assert "gb10_service_tokens_per_second" not in found
    states = [one for one in textfile.of_service(CHAT, STATUS, NINE) if one.name == "gb10_service_state"]
    assert [one.labels["state"] for one in states if one.value] == ["serving"]
    assert len(states) == 8


@pytest.mark.parametrize("status", [None, {}, {"state": 7, "strikes": "x", "updated_at": []}, {"starts_left": True}])
def test_a_service_without_a_readable_status_does_not_serve(status: Any) -> None:
    found = {one.name: one.value for one in textfile.of_service(CHAT, status, NINE)}
    assert found["gb10_service_serving"] == 0
    assert "gb10_service_strikes" not in found


def test_the_last_start_by_phase() -> None:
    starts = [{"phases": {"graphs": 9}}, {"phases": {"weights": 40.5, 7: "3", "graphs": "x"}}]
    found = {one.labels["phase"]: one.value for one in textfile.of_starts(CHAT, {"starts": starts})}
    assert found == {"weights": 40.5, "7": 3}
    for broken in (None, [], {}, {"starts": []}, {"starts": ["x"]}, {"starts": [{"phases": [1]}]}):
        assert [*textfile.of_starts(CHAT, broken)] == []


def test_the_last_drift_check() -> None:
    night = {"at": "2026-11-23T09:00:00Z", "hosts": {"titan": {"error": 2, "warning": 0}}}
    found = {(one.name, one.labels.get("severity")): one.value for one in textfile.of_drift({"nights": [night]})}
    assert found[("gb10_drift_checked_timestamp_seconds", None)] == NINE
    assert found[("gb10_drift_differences", "error")] == 2
    for broken in (None, {}, {"nights": []}, {"nights": ["x"]}, {"nights": [{"at": 1, "hosts": {"a": 3}}]}):
        assert [*textfile.of_drift(broken)] == []


def test_another_accounts_file_takes_no_memory_and_ends_nothing(tmp_path: Path) -> None:
    """The nightly check's history belongs to its own account, and a program of root's reads it (security 17)."""
    history, file, large = tmp_path / "history.json", tmp_path / "gb10.prom", tmp_path / "large"
    plan = {"textfile": str(file), "floor_bytes": 6, "guard_bytes": 3, "services": [], "interfaces": [], "paths": []}

    def shown() -> str:
        textfile.write({**plan, "drift": str(history)})
        return file.read_text()

    night = '{"nights": [{"at": "2026-11-23T09:00:00Z", "hosts": {%s}}]}'
    for content in (
        night % '"titan": {"error": 1%s}' % ("0" * 400),
        night % r'"\ud800": {"error": 1}',
        "[" * 200_000,
        '{"nights": [{"at": "0001-01-01T00:00:00", "hosts": {}}]}',
    ):
        history.write_text(content)
        assert "gb10_memory_floor_bytes 6" in shown()
    with large.open("wb") as sparse:
        sparse.truncate(600 << 20)
    for target in (large, Path("/dev/zero")):
        history.unlink()
        history.symlink_to(target)
        assert "gb10_drift" not in shown()
    history.unlink()
    os.mkfifo(history)
    assert "gb10_drift" not in shown()
    history.unlink()
    with history.open("wb") as sparse:
        sparse.truncate(600 << 20)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "gb10_drift" not in shown()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_every_unit_of_the_monitoring_has_a_limit_of_memory(tmp_path: Path) -> None:
    files = planned(tmp_path, {"host": "titan"})["hosts"]["titan"]["monitoring"]["files"]
    units = {path: file["content"] for path, file in files.items() if path.endswith(".service")}
    assert len(units) == 4
    assert all(re.search(r"^MemoryMax=\d+M$", text, re.MULTILINE) for text in units.values())


def test_the_text_is_what_a_node_exporter_reads() -> None:
    sample = textfile.Sample("gb10_x", 1.5, {"path": 'a"b\\c\nd'})
    assert textfile.text([sample]) == '# TYPE gb10_x gauge\ngb10_x{path="a\\"b\\\\c\\nd"} 1.5\n'


def test_a_host_is_read_whatever_it_lacks(tmp_path: Path) -> None:
    file = tmp_path / "gb10.prom"
    plan = {
        "textfile": str(file),
        "floor_bytes": 6,
        "guard_bytes": 3,
        "services": [{**CHAT, "status_file": str(tmp_path / "none.json")}],
        "interfaces": ["lo", "none0"],
        "paths": [str(tmp_path), "/nowhere/yet"],
        "drift": str(tmp_path / "none"),
    }
    textfile.write(plan)
    text = file.read_text()
    assert 'gb10_fabric_link{device="none0"} 0\n' in text
    assert f'gb10_disk_free_bytes{{path="{tmp_path}"}}' in text
    assert 'gb10_disk_free_bytes{path="/nowhere/yet"}' in text
    assert [*tmp_path.iterdir()] == [file]


def test_the_gateways_certificate_is_watched(tmp_path: Path) -> None:
    file, certificate = tmp_path / "gb10.prom", tmp_path / "tls.crt"
    plan = {"textfile": str(file), "floor_bytes": 6, "guard_bytes": 3, "services": [], "interfaces": [], "paths": []}
    plan |= {"drift": str(tmp_path / "none")}
    watched = {"socket": str(tmp_path / "none.sock"), "certificate": str(certificate), "services": ["chat"]}
    for text, there in ((b"", False), (b"no certificate", False), (authority(new_key(), "home", NOW, 30), True)):
        certificate.write_bytes(text)
        textfile.write({**plan, "gateway": watched})
        shown = file.read_text()
        assert "gb10_gateway_serving 0" in shown and "gb10_gateway_queue" not in shown
        ends = re.search(r"^gb10_gateway_certificate_ends_timestamp_seconds (\d+)$", shown, re.MULTILINE)
        assert bool(ends) is there
        assert ends is None or abs(int(ends[1]) - NOW.timestamp() - 30 * 86400) < 2 * 86400


# Rules and dashboards ---------------------------------------------------------------------------------------------


def test_an_engines_series_are_those_that_it_shows() -> None:
    shown = {*re.findall(r"^# TYPE (\S+) (?:\w+)$", SHOWN, re.MULTILINE)}
    # those of drafts are there with drafts alone
    assert {series for name, series in SERIES.items() if not name.startswith("draft_")} <= shown


def test_what_is_asked_for_is_recorded() -> None:
    """No dashboard, alert or page asks for a series of ours that nobody makes."""
    asked = "\n".join(
        [*of_dashboards(RECORDED), *of_page(RECORDED), *(alert.expr for alert in alerts(LIMITS, RECORDED))]
    )
    made_by_rules = {rule.get("record") for of in rules([SERIES], LIMITS, FORECASTS)["groups"] for rule in of["rules"]}
    assert {*re.findall(r"gb10:[\w:]+", asked)} <= made_by_rules
    made = {one.name for one in textfile.of_service(CHAT, STATUS | {"tokens_per_s": 1, "ready_s": 80}, NINE)}
    made |= {one.name for one in textfile.of_starts(CHAT, {"starts": [{"phases": {"weights": 1}}]})}
    made |= {one.name for one in textfile.gpu("1,1,1,1")}
    made |= {"gb10_memory_floor_bytes", "gb10_memory_guard_bytes", "gb10_fabric_link", "gb10_disk_free_bytes"}
    made |= {"gb10_drift_differences", "gb10_drift_checked_timestamp_seconds", "gb10_machine_ill"}
    made |= {"gb10_gateway_certificate_ends_timestamp_seconds"}
    stat = "# pxname,svname,qcur,qtime,act,dreq,hrsp_5xx\na,BACKEND,1,2,1,0,0\n"
    made |= {one.name for one in textfile.of_gateway(stat, ["a"])}
    made |= {"gb10_gpu_held_back", "gb10_gpu_programs", "gb10_kernel_lines"}
    assert {*re.findall(r"gb10_\w+", asked)} <= made


def test_without_series_of_an_engine_nothing_asks_for_requests() -> None:
    text = json.dumps(rules([], LIMITS)) + console.page("home", LIMITS, [])
    text += "".join(dashboards.as_text(board) for board in dashboards.boards([]))
    assert "gb10:" not in text


def test_the_page_has_each_alerts_whole_sentence() -> None:
    """With its value: by the condition, as the series of a firing alert is 1."""
    rows = [row for row in console.page("home", LIMITS, RECORDED).splitlines() if "alertname=" in row]
    asked = alerts(LIMITS, RECORDED)
    assert len(rows) == len(asked)
    for alert, row in zip(asked, rows, strict=True):
        assert alert.expr.replace("\\", "\\\\").replace('"', '\\"') in row
        assert row.count(".Value") == alert.summary.count("$value") + alert.command.count("$value")
        assert row.count(".Labels.") == alert.summary.count("$labels.") + alert.command.count("$labels.")
    assert "only {{ .Value | humanize1024 }}B of memory are left" in "".join(rows)


def test_what_no_engine_reports_is_neither_shown_nor_waited_for() -> None:
    reported = recordings([ENGINES["llama.cpp"].spec.series])
    assert [*reported] == [
        "gb10:requests_running",
        "gb10:requests_waiting",
        "gb10:prompt_tokens:rate5m",
        "gb10:generated_tokens:rate5m",
        "gb10:tokens_a_step",
    ]
    left_out = {alert.name for alert in alerts(LIMITS, RECORDED)} - {alert.name for alert in alerts(LIMITS, reported)}
    of_speed = {"Gb10SlowerThanTwins", "Gb10SlowerThanForecast"}
    assert left_out == {"Gb10KvFull", "Gb10Preemptions", "Gb10FirstTokenSlow"} | of_speed
    titles = {panel.title for board in dashboards.boards(reported) for panel in board.panels}
    assert "Tokens a second" in titles
    assert "KV pool in use" not in titles
    assert not [expr for expr in of_page(reported) if "kv_use" in expr]
    both = recordings([SERIES, ENGINES["llama.cpp"].spec.series])
    assert [*both] == RECORDED[:-2]
    assert " or sum by (host, service) (llamacpp:requests_processing)" in both["gb10:requests_running"]


def test_dashboards_lie_in_rows_without_overlapping() -> None:
    for board in dashboards.boards(RECORDED):
        model = json.loads(dashboards.as_text(board))
        taken = set()
        for panel in model["panels"]:
            place = panel["gridPos"]
            columns, rows = (range(place[at], place[at] + place[of]) for at, of in (("x", "w"), ("y", "h")))
            cells = {(x, y) for x in columns for y in rows}
            assert not cells & taken
            assert place["x"] + place["w"] <= 24
            taken |= cells
        assert len({panel["id"] for panel in model["panels"]}) == len(model["panels"])


def test_a_grafana_finds_them_and_what_they_ask(tmp_path: Path) -> None:
    part = planned(tmp_path, {"host": "titan", "listen": "::1", "port": 9091})["hosts"]["titan"]["monitoring"]["files"]
    folder = "/etc/gb10-fleet/monitoring/grafana"
    (source,) = json.loads(part[f"{folder}/datasources/gb10-fleet.yml"]["content"])["datasources"]
    assert (source["url"], source["type"], source["uid"]) == ("http://[::1]:9091", "prometheus", "gb10-fleet")
    (provider,) = json.loads(part[f"{folder}/dashboards/gb10-fleet.yml"]["content"])["providers"]
    boards = [path for path in part if path.startswith(f"{provider['options']['path']}/")]
    assert len(boards) == len([*dashboards.boards(RECORDED)])
    asked = {
        target["datasource"]["uid"]
        for path in boards
        for panel in json.loads(part[path]["content"])["panels"]
        for target in panel["targets"]
    }
    assert asked == {source["uid"]}


def promtool(*words: str) -> None:
    done = subprocess.run([str(PROMTOOL), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@NEEDS_PROMTOOL
def test_prometheus_takes_the_configuration_and_the_rules(tmp_path: Path) -> None:
    part = planned(tmp_path, {"host": "titan"}, tls="local")["hosts"]["titan"]["monitoring"]
    config = part["files"][prometheus.CONFIG]["content"]
    (tmp_path / "rules.yml").write_text(part["files"][prometheus.RULES]["content"])
    promtool("check", "rules", str(tmp_path / "rules.yml"))
    (tmp_path / "prometheus.yml").write_text(config.replace(prometheus.RULES, "rules.yml"))
    promtool("check", "config", "--syntax-only", str(tmp_path / "prometheus.yml"))


# A minute a sample. What thirty clean minutes look like, and what each seeded cause changes of them.
CLEAN = {
    'up{job="host",host="titan"}': "1x30",
    'up{job="service",host="titan",service="chat"}': "1x30",
    'gb10_service_serving{host="titan",service="chat",rank="0"}': "1x30",
    'gb10_service_state{host="titan",service="chat",rank="0",state="serving"}': "1x30",
    'gb10_service_state{host="titan",service="chat",rank="0",state="loading"}': "0x30",
    'gb10_service_state{host="titan",service="chat",rank="0",state="stopped"}': "0x30",
    'gb10_service_status_age_seconds{host="titan",service="chat",rank="0"}': "5x30",
    'gb10_service_creeps{host="titan",service="chat",rank="0"}': "0x30",
    'node_memory_MemAvailable_bytes{job="host",host="titan"}': "9e9x30",
    'gb10_memory_floor_bytes{job="host",host="titan"}': "6e9x30",
    f"gb10_gpu_utilization_ratio{{{GPU}}}": "0.97x30",
    f"gb10_gpu_sm_clock_hertz{{{GPU}}}": "2400e6x30",
    f"gb10_gpu_power_watts{{{GPU}}}": "48x30",
    f"gb10_gpu_temperature_celsius{{{GPU}}}": "64x30",
    # the clock was set by a second, as NTP does
    'node_time_seconds{job="host",host="titan"}': "90000+60x30",
    'node_boot_time_seconds{job="host",host="titan"}': "40000x5 40001x30",
    'gb10_fabric_link{host="titan",device="enp1s0f0np0"}': "1x30",
    'gb10_disk_free_bytes{host="titan",path="/var/lib/gb10-fleet"}': "9e11x30",
    'gb10_drift_differences{host="titan",of="spark-2",severity="error"}': "0x30",
    'gb10_drift_checked_timestamp_seconds{host="titan"}': "0x30",
    'gb10_gpu_programs{host="titan"}': "1x60",
    'gb10_kernel_lines{host="titan",kind="xid-gone"}': "0x30",
    'node_infiniband_symbol_error_total{host="titan",device="mlx5_0"}': "7x30",
    'node_thermal_zone_temp{host="titan",zone="0"}': "62x30",
    'node_textfile_mtime_seconds{host="titan",file="/run/gb10-metrics/gb10.prom"}': "0+60x30",
    'gb10_gateway_serving{host="titan"}': "1x30",
    'gb10_gateway_queue{host="titan",service="chat"}': "0x30",
    'gb10_gateway_queue_seconds{host="titan",service="chat"}': "70x30",  # of earlier requests
    'gb10_gateway_refused{host="titan",service="chat"}': "3x30",
    'gb10_gateway_responses{host="titan",service="chat",code="5xx"}': "40x30",
    'gb10_gateway_responses{host="titan",service="chat",code="2xx"}': "0+60x30",
    'gb10_gateway_certificate_ends_timestamp_seconds{host="titan"}': "9e6x30",
    'vllm:num_requests_waiting{host="titan",service="chat"}': "0x30",
    'vllm:kv_cache_usage_perc{host="titan",service="chat"}': "0.99x30",
    'vllm:num_preemptions_total{host="titan",service="chat"}': "0x30",
    'vllm:time_to_first_token_seconds_bucket{host="titan",service="chat",le="5"}': "0+10x30",
    'vllm:time_to_first_token_seconds_bucket{host="titan",service="chat",le="60"}': "0+10x30",
    'vllm:time_to_first_token_seconds_bucket{host="titan",service="chat",le="+Inf"}': "0+10x30",
}
MEMORY = {
    **{"MemTotal": "130e9", "MemFree": "100e9", "Buffers": "1e9", "Cached": "20e9", "AnonPages": "4e9", "Slab": "1e9"},
    **{"PageTables": "1e8", "KernelStack": "1e8", "SwapCached": "0", "Percpu": "1e8"},
}
CLEAN |= {f'node_memory_{name}_bytes{{job="host",host="titan"}}': f"{size}x60" for name, size in MEMORY.items()}
HELD = 'gb10_gpu_held_back{host="titan",reason="power"}'
SERVICE = 'host="titan",service="chat"'
RANK = f'{SERVICE},rank="0"'
AWAY = {f"gb10_service_serving{{{RANK}}}": "0x30", f'gb10_service_state{{{RANK},state="serving"}}': "0x30"}
CAUSES: list[tuple[str, dict[str, str]]] = [
    ("Gb10ServiceDown", {**AWAY, f'up{{job="service",{SERVICE}}}': "0x30"}),
    ("Gb10StartsUsedUp Gb10ServiceDown", {**AWAY, f'gb10_service_state{{{RANK},state="stopped"}}': "1x30"}),
    # a load of twenty minutes
    ("", {**AWAY, f'gb10_service_state{{{RANK},state="loading"}}': "1x20"}),
    ("Gb10ServiceLoadsLong", {**AWAY, f'gb10_service_state{{{RANK},state="loading"}}': "1x60"}),
    ("Gb10StatusOld", {f"gb10_service_status_age_seconds{{{RANK}}}": "60+60x30"}),
    ("Gb10MemoryLow", {'node_memory_MemAvailable_bytes{job="host",host="titan"}': "9e9x3 5e9x30"}),
    ("Gb10GatewayDown", {'gb10_gateway_serving{host="titan"}': "1x3 0x30"}),
    ("Gb10GatewayQueueSlow", {f"gb10_gateway_queue{{{SERVICE}}}": "12x30"}),
    ("", {f"gb10_gateway_queue{{{SERVICE}}}": "12x30", f"gb10_gateway_queue_seconds{{{SERVICE}}}": "2x30"}),
    ("Gb10GatewayRefuses", {f"gb10_gateway_refused{{{SERVICE}}}": "3+2x30"}),
    ("Gb10GatewayRefuses", {f'gb10_gateway_responses{{{SERVICE},code="5xx"}}': "40+3x30"}),
    ("", {f"gb10_gateway_refused{{{SERVICE}}}": "3x9 5x30"}),  # a client or two was too fast
    ("Gb10GatewayCertificateEnds", {'gb10_gateway_certificate_ends_timestamp_seconds{host="titan"}': "9e5x30"}),
    ("Gb10MemoryCreep", {f"gb10_service_creeps{{{RANK}}}": "1x30"}),
    ("Gb10GpuSlow", {f"gb10_gpu_sm_clock_hertz{{{GPU}}}": "799e6x30"}),
    ("Gb10GpuSlow", {f"gb10_gpu_sm_clock_hertz{{{GPU}}}": "702e6x30"}),
    ("Gb10GpuSlow", {f"gb10_gpu_power_watts{{{GPU}}}": "19.5x30"}),
    # a GPU that has nothing to do saves power, and a minute of it is no state
    ("", {f"gb10_gpu_sm_clock_hertz{{{GPU}}}": "799e6x30", f"gb10_gpu_utilization_ratio{{{GPU}}}": "0.1x30"}),
    ("", {f"gb10_gpu_sm_clock_hertz{{{GPU}}}": "2400e6x13 799e6x2 2400e6x15"}),
    ("Gb10GpuHot", {f"gb10_gpu_temperature_celsius{{{GPU}}}": "91x30"}),
    ("", {f"gb10_gpu_temperature_celsius{{{GPU}}}": "91x8 80x22"}),
    ("Gb10GpuSilent", {f"gb10_gpu_temperature_celsius{{{GPU}}}": "64x2 _x30"}),
    # its metrics are missing as well: that is another alert
    (
        "Gb10HostSilent",
        {f"gb10_gpu_temperature_celsius{{{GPU}}}": "64x2 _x30", 'up{job="host",host="titan"}': "1x3 0x30"},
    ),
    ("Gb10HostRestarts", {'node_boot_time_seconds{job="host",host="titan"}': "40000x3 90200x4 90600x30"}),
    ("", {'node_boot_time_seconds{job="host",host="titan"}': "40000x3 90200x30"}),  # an update
    ("Gb10GpuHeldBack", {HELD: "1x30", f"gb10_gpu_sm_clock_hertz{{{GPU}}}": "1404e6x30"}),
    ("", {HELD: "1x30"}),  # of a healthy one under load
    ("Gb10GpuSlow", {HELD: "1x30", f"gb10_gpu_sm_clock_hertz{{{GPU}}}": "513e6x30"}),
    ("Gb10KernelWarns", {'gb10_kernel_lines{host="titan",kind="xid-gone"}': "0x8 1x30"}),
    ("", {'gb10_kernel_lines{host="titan",kind="corrected"}': "0+3x30"}),
    # of a healthy host, in a burst (vllm-project/vllm issue 56824), and of one that froze
    ("", {'gb10_kernel_lines{host="titan",kind="out-of-memory"}': "0x8 55x30"}),
    ("Gb10KernelWarns", {'gb10_kernel_lines{host="titan",kind="out-of-memory"}': "0x8 202x30"}),
    ("Gb10KernelWarns", {'gb10_kernel_lines{host="titan",kind="adapter"}': "0x8 1x30"}),
    ("", {'gb10_kernel_lines{host="titan",kind="network"}': "0x8 2x30"}),
    ("Gb10KernelWarns", {'gb10_kernel_lines{host="titan",kind="network"}': "0x8 30x30"}),
    (
        "Gb10MemoryLeaked",
        {'gb10_gpu_programs{host="titan"}': "0x60", 'node_memory_MemFree_bytes{job="host",host="titan"}': "2e10x60"},
    ),
    ("", {'node_memory_MemFree_bytes{job="host",host="titan"}': "2e10x60"}),  # an engine holds it
    ("Gb10FabricDamaged", {'node_infiniband_symbol_error_total{host="titan",device="mlx5_0"}': "0x3 900x30"}),
    ("Gb10MachineHot", {'node_thermal_zone_temp{host="titan",zone="0"}': "99x30"}),
    ("Gb10MachineIll", {'gb10_machine_ill{host="titan",of="spark-2",rule="drive-worn"}': "1x30"}),
    ("Gb10LinkDown", {'gb10_fabric_link{host="titan",device="enp1s0f0np0"}': "1x3 0x30"}),
    ("Gb10DiskFull", {'gb10_disk_free_bytes{host="titan",path="/var/lib/gb10-fleet"}': "9e9x30"}),
    ("Gb10Drift", {'gb10_drift_differences{host="titan",of="spark-2",severity="error"}': "2x30"}),
    ("Gb10DriftUnchecked", {'gb10_drift_checked_timestamp_seconds{host="titan"}': "-200000x30"}),
    ("Gb10HostSilent", {'up{job="host",host="titan"}': "1x3 0x30"}),
    ("Gb10MetricsOld", {'node_textfile_mtime_seconds{host="titan",file="/run/gb10-metrics/gb10.prom"}': "0x30"}),
    ("Gb10MetricsOld", {'node_textfile_mtime_seconds{host="titan",file="/run/gb10-metrics/gb10.prom"}': "60x2 _x30"}),
    ("Gb10EndpointSilent", {f'up{{job="service",{SERVICE}}}': "0x30"}),
    ("Gb10KvFull", {f"vllm:num_requests_waiting{{{SERVICE}}}": "3x30"}),
    ("Gb10Preemptions", {f"vllm:num_preemptions_total{{{SERVICE}}}": "0+60x30"}),
    ("Gb10FirstTokenSlow", {f'vllm:time_to_first_token_seconds_bucket{{{SERVICE},le="5"}}': "0x30"}),
]


def test_the_alert_of_the_kernel_counts_as_doctor_does() -> None:
    """What healthy machines have too is named from the same count on."""
    (alert,) = (one for one in alerts(LIMITS, RECORDED) if one.name == "Gb10KernelWarns")
    counted = {
        kind: int(most)
        for kinds, most in re.findall(r'kind=~?"([^"]+)"}\[1d\]\) > (\d+)', alert.expr)
        for kind in kinds.split("|")
    }
    assert counted == {name: row["most"] for name, row in data_table("kernel_lines").items() if "most" in row}
    (at_once,) = re.findall(r'kind!~"([^"]+)"}\[1h\]\) > 0', alert.expr)
    assert {*at_once.split("|")} == counted.keys()


def rules_show(
    folder: Path,
    series: dict[str, str],
    ask: str,
    at: str,
    shown: list[dict[str, Any]],
    forecasts: Sequence[Forecast] = FORECASTS,
    limits: Mapping[str, Any] = LIMITS,
) -> None:
    """promtool finds these samples of the query at that time, with series in its own notation, a value a minute."""
    (folder / "rules.yml").write_text(json.dumps(rules([forecasts[0].series], limits, forecasts)))
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [{"expr": ask, "eval_time": at, "exp_samples": shown}],
            }
        ],
    }
    (folder / "test.yml").write_text(json.dumps(test))
    promtool("test", "rules", str(folder / "test.yml"))


@NEEDS_PROMTOOL
def test_a_queue_that_is_empty_is_shown_as_empty(tmp_path: Path) -> None:
    """All waits are in vLLM's first bucket, which ends at 0.3 s."""
    name = "vllm:request_queue_time_seconds"
    waits = {f'{name}_bucket{{{SERVICE},le="{end}"}}': "0+60x30" for end in ("0.3", "0.5", "+Inf")}
    waits |= {f"{name}_count{{{SERVICE}}}": "0+60x30", f"{name}_sum{{{SERVICE}}}": "0+0.0625x30"}
    shown = [{"labels": f"gb10:queue_seconds:mean5m{{{SERVICE}}}", "value": 0.0625 / 60}]
    rules_show(tmp_path, waits, "gb10:queue_seconds:mean5m", "15m", shown)


def test_every_alert_has_a_cause_that_is_tried() -> None:
    tried = {name for names, _ in CAUSES for name in names.split()} | {name for _, _, name, _ in SPEEDS if name}
    assert {alert.name for alert in alerts(LIMITS, RECORDED)} == tried


@NEEDS_PROMTOOL
@pytest.mark.parametrize(("names", "changed"), [("", {}), *CAUSES])
def test_each_alert_fires_for_its_cause_alone(tmp_path: Path, names: str, changed: dict[str, str]) -> None:
    seeded, expected = CLEAN | changed, {*names.split()}
    last = "50m" if names == "Gb10ServiceLoadsLong" else "15m"
    if names == "Gb10ServiceLoadsLong":
        seeded = {name: values.replace("x30", "x60") for name, values in seeded.items()}
    ask = 'count by (alertname) (ALERTS{alertstate="firing"})'
    shown = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(expected)]
    rules_show(tmp_path, seeded, ask, last, shown)


TIMED = LIMITS | {"timer_host": "titan"}
CHECKED = 'gb10_drift_checked_timestamp_seconds{host="%s"}'


@NEEDS_PROMTOOL
@pytest.mark.parametrize(
    ("shown", "limits", "fires"),
    [
        ({}, TIMED, True),
        ({CHECKED % "spark-2": "0x3000"}, TIMED, True),  # of another host
        ({CHECKED % "titan": "0x100"}, TIMED, True),
        ({CHECKED % "titan": "0x3000"}, TIMED, False),
        ({}, LIMITS, False),  # nobody has declared a timer
        ({}, LIMITS | {"timer_host": ""}, False),
    ],
)
def test_a_night_without_any_check_is_missed(
    tmp_path: Path, shown: dict[str, str], limits: dict[str, Any], fires: bool
) -> None:
    ask = 'count by (alertname) (ALERTS{alertstate="firing",alertname="Gb10DriftMissing"})'
    expected = [{"labels": '{alertname="Gb10DriftMissing"}', "value": 1}] if fires else []
    rules_show(tmp_path, shown or {"up": "1x3000"}, ask, "32h", expected, limits=limits)


def test_the_host_of_the_timer_is_one_that_is_collected(tmp_path: Path) -> None:
    for name, wrong in (("titan", []), ("laptop", ["input-unknown-host"])):
        given = inventory(tmp_path, {"host": "titan"})
        for host in given["hosts"].values():
            host["variables"]["fleet_drift"] = {"timer_host": name}
        plan = plan_fleet(given, LIBRARY, OF_RECIPES)
        assert rules_of(plan) == wrong
        text = json.dumps(plan["hosts"]["titan"]["monitoring"]["files"]) if not wrong else "drift_timer_host=titan"
        assert "drift_timer_host=titan" in text


@pytest.mark.parametrize("free", [0, 20])
def test_no_limit_takes_alerts_away(free: float) -> None:
    assert len(alerts(TIMED | {"disk_gib": free}, RECORDED)) == len(alerts(LIMITS, RECORDED)) + 1


DAY = 144
# Of an ill machine: two days of health first.
DAYS = 3
KERNEL = 'gb10_kernel_lines{host="titan",kind="%s"}'
STEP_S = 600


def month(changed: dict[str, list[float | None]], days: int = 30) -> dict[str, str]:
    """Thirty healthy days of a machine, six samples an hour, from the figures that owners report: 41 degrees, 4 W and
    208 MHz at rest, 60 to 78 degrees, 40 to 60 W and 2.1 to 2.5 GHz under load; one restart for an update."""
    at = range(days * DAY)
    loaded = [(step // 6) % 24 in range(8, 20) and step % 7 != 0 for step in at]
    boots = [-86_400.0 if step < 9 * DAY else 9.0 * DAY * STEP_S - 30 for step in at]
    found: dict[str, list[float | None]] = {
        f"gb10_gpu_utilization_ratio{{{GPU}}}": [0.96 if busy else 0.0 for busy in loaded],
        # now and then it is seen in the second after its work, which still counts as use
        f"gb10_gpu_sm_clock_hertz{{{GPU}}}": [
            2.1e9 + step % 5 * 1e8 if loaded[step] and step % 11 else 208e6 for step in at
        ],
        f"gb10_gpu_power_watts{{{GPU}}}": [40.0 + step % 21 if loaded[step] else 4.0 for step in at],
        f"gb10_gpu_temperature_celsius{{{GPU}}}": [60.0 + step % 19 if loaded[step] else 41.0 for step in at],
        'node_time_seconds{host="titan"}': [float(step * STEP_S) for step in at],
        'node_boot_time_seconds{host="titan"}': [boot + step % 2 for step, boot in enumerate(boots)],
        'up{job="host",host="titan"}': [1.0 for _ in at],
        'node_textfile_mtime_seconds{host="titan",file="/run/gb10-metrics/gb10.prom"}': [
            step * STEP_S - 9.0 for step in at
        ],
        # a healthy one: under load the driver caps its power for hours, and some errors are corrected
        HELD: [float(busy) for busy in loaded],
        'gb10_gpu_programs{host="titan"}': [1.0 for _ in at],
        KERNEL % "xid-gone": [0.0 for _ in at],
        KERNEL % "corrected": [float(step // 12) for step in at],
        # at each start of an engine, in a burst of 16 each third day, and a reset of Wi-Fi a day
        KERNEL % "out-of-memory": [float(step // DAY * 13 + step // (3 * DAY) * 16) for step in at],
        KERNEL % "network": [float(step // DAY) for step in at],
        'node_thermal_zone_temp{host="titan",zone="0"}': [50.0 + step % 31 if loaded[step] else 45.0 for step in at],
        'node_infiniband_symbol_error_total{host="titan",device="mlx5_0"}': [float(step // 500) for step in at],
        **{
            f'node_memory_{name}_bytes{{job="host",host="titan"}}': [0.2 * float(size) for _ in at]
            for name, size in MEMORY.items()
        },
    }
    return {name: " ".join("_" if one is None else f"{one:g}" if abs(one) < 1e5 else f"{one:.0f}" for one in values)
            for name, values in (found | changed).items()}  # fmt: skip


def ill(series: str, day: int, value: float | None, days: int = 1) -> dict[str, list[float | None]]:
    words = month({}, DAYS)[series].split()
    values: list[float | None] = [float(word) for word in words]
    values[day * DAY : (day + days) * DAY] = [value] * (days * DAY)
    return {series: values}


def falls(day: int) -> dict[str, list[float | None]]:
    series = f"gb10_gpu_sm_clock_hertz{{{GPU}}}"
    usual: list[float | None] = [float(word) for word in month({}, DAYS)[series].split()]
    return {
        series: [
            640e6 if at >= day * DAY and at % 3 == 0 and one and one > 1e9 else one for at, one in enumerate(usual)
        ]
    }


BOOTS = 'node_boot_time_seconds{host="titan"}'
# The first of fourteen hard stops in four days, each after about seven hours.
STOPS: list[float | None] = [2 * DAY * STEP_S + at // 41 * 41 * STEP_S - 30.0 for at in range(DAY)]


@NEEDS_PROMTOOL
@pytest.mark.parametrize(
    ("changed", "day", "names"),
    [
        ({}, None, ""),
        (ill(f"gb10_gpu_temperature_celsius{{{GPU}}}", 2, 92.0), 2, "Gb10GpuHot"),
        (ill(f"gb10_gpu_temperature_celsius{{{GPU}}}", 2, None), 2, "Gb10GpuSilent"),
        (ill(f"gb10_gpu_sm_clock_hertz{{{GPU}}}", 2, 702e6), 2, "Gb10GpuSlow"),
        (ill(f"gb10_gpu_sm_clock_hertz{{{GPU}}}", 2, 1404e6), 2, "Gb10GpuHeldBack"),
        (ill(KERNEL % "xid-gone", 2, 3.0), 2, "Gb10KernelWarns"),
        (ill(KERNEL % "out-of-memory", 2, 230.0), 2, "Gb10KernelWarns"),
        # ten minutes each half hour, as of a GX10 (dredyson.com): never ten minutes without a fast one
        (falls(2), 2, "Gb10GpuSlow"),
        (ill('node_thermal_zone_temp{host="titan",zone="0"}', 2, 97.0), 2, "Gb10MachineHot"),
        (
            {'gb10_machine_ill{host="titan",of="titan",rule="drive-worn"}': [None] * (2 * DAY + 18) + [1.0] * DAY},
            2,
            "Gb10MachineIll",
        ),
        ({BOOTS: [float(word) for word in month({}, DAYS)[BOOTS].split()[: 2 * DAY]] + STOPS}, 2, "Gb10HostRestarts"),
    ],
)
def test_thirty_healthy_days_are_silent_and_an_illness_is_found_in_its_time(
    tmp_path: Path, changed: dict[str, list[float | None]], day: int | None, names: str
) -> None:
    """Of a healthy machine no alert is due at any time; of an ill one its own, within the first day."""
    (tmp_path / "rules.yml").write_text(json.dumps(rules([], LIMITS)))
    ask = 'count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[%s]))'
    until = (day or 29) * 24 * 60 + (19 * 60 if day else 0)
    tests = [("30d", f"{until}m", names)] + ([(f"{day}d", f"{day * 24 * 60 - 10}m", "")] if day else [])
    lasts = DAYS if day else 30
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "10m",
        "tests": [
            {
                "interval": "10m",
                "input_series": [{"series": name, "values": values} for name, values in month(changed, lasts).items()],
                "promql_expr_test": [
                    {
                        "expr": ask % span,
                        "eval_time": at,
                        "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in expected.split()],
                    }
                    for span, at, expected in tests
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(json.dumps(test))
    promtool("test", "rules", str(tmp_path / "test.yml"))


# By hand: FLEET_DAYS=100 pytest -k fleet_of_eight; half a minute of processor time.
FLEET_DAYS = int(os.environ.get("FLEET_DAYS", "1"))
STEP_MINUTES, HOUR = 2, 30
WORK = ("num_requests_running", "kv_cache_usage_perc", "generation_tokens_total", "prompt_tokens_total")


def worked(days: int, machines: int, slow_from: float = 1.0) -> dict[str, str]:
    """Days of machines that serve the same: idle a third of the time, one to twenty requests, short and long ones,
    prompts from none to two thirds of the time, noise, and one sample of a hundred far off. slow_from: the part of the
    days after which the first machine has the clock of the low-power state."""
    found = {}
    for machine in range(machines):
        chance = random.Random(machine)
        usual = 0.85 * (1 + 0.03 * math.sin(machine))  # what it reaches of the forecast
        generated = prompted = left = 0.0
        requests, depth, prompts = 0, 0.002, 0.0
        rows: list[tuple[float, ...]] = []
        for at in range(days * 1440 // STEP_MINUTES):
            if left <= 0:
                left = chance.expovariate(1 / 40)
                requests = 0 if chance.random() < 0.3 else chance.choice([1, 1, 1, 2, 3, 4, 6, 8, 12, 20])
                depth, prompts = chance.choice([0.002, 0.005, 0.02, 0.05]), chance.choice([0, 0, 0.02, 0.1, 0.3, 0.7])
            left -= STEP_MINUTES
            running = max(0, requests + chance.choice([-1, 0, 0, 1])) if requests else 0
            factor = (
                usual * math.exp(chance.gauss(0, 0.03)) * (chance.uniform(0.3, 0.8) if chance.random() < 0.01 else 1)
            )
            if machine == 0 and at * STEP_MINUTES > slow_from * days * 1440:
                factor *= 0.578
            use = min(1.0, depth * running)
            rate = running / (running / (74 * min(running, 8) ** (2 / 3)) + 0.2 * use) if running else 0.0
            generated += 60 * STEP_MINUTES * rate * factor * (1 - prompts)
            prompted += 60 * STEP_MINUTES * 2048 * 1.2 * usual * (prompts if running else 0)
            rows.append((running, round(use, 4), round(generated), round(prompted)))
        for name, values in zip(WORK, zip(*rows, strict=True), strict=True):
            found[f'vllm:{name}{{host="h{machine}",service="s{machine}"}}'] = " ".join(f"{one:.12g}" for one in values)
    return found


def slower(series: dict[str, str], days: int) -> dict[str, float]:
    """The machines of which `Gb10SlowerThan...` is due, each with the day: what the recording rule and both alerts come
    to, computed here since promtool needs an hour for 100 days."""
    total, power, most = totals(SPEED)
    least, prompts_s = least_share(SPEED, accepted_known=False), SPEED["prompt"] / SPEED["alone"]["ttft_high"]
    paces = []
    for machine in range(8):
        running, use, *counters = (
            [float(one) for one in series[f'vllm:{name}{{host="h{machine}",service="s{machine}"}}'].split()]
            for name in WORK
        )
        generated, prompted = (
            [(after - before) / 240 for before, after in zip(one, one[2:], strict=False)] for one in counters
        )
        expected = [
            now / (now / (total * min(now, most) ** power) + SPEED["full_s"] * part) if now else 0.0
            for now, part in zip(running, use, strict=True)
        ]
        found: list[float | None] = [None] * (HOUR + 2)
        for at in range(HOUR + 2, len(running)):
            busy = sum(now >= 1 for now in running[at - HOUR + 1 : at + 1]) / HOUR
            prompts = sum(prompted[at - HOUR - 1 : at - 1]) / HOUR / prompts_s
            if busy < 0.5 or prompts > 0.15:
                found.append(None)
                continue
            answers = sum(generated[at - HOUR - 1 : at - 1]) / (sum(expected[at - HOUR + 1 : at + 1]) / busy) / least
            found.append((answers + prompts) / busy)
        paces.append(found)
    due: dict[str, float] = {}
    held = [0] * 8
    for at, each in enumerate(zip(*paces, strict=True)):
        known = [pace for pace in each if pace is not None]
        for machine, pace in enumerate(each):
            below = min(1.2, 0.75 * statistics.median(known)) if len(known) > 1 else 1.0
            held[machine] = held[machine] + STEP_MINUTES if pace is not None and pace < below else 0
            if held[machine] > 30:
                due.setdefault(f"h{machine}", at * STEP_MINUTES / 1440)
    assert min(sum(pace is not None for pace in found) for found in paces) > 30 * days  # each has hours that are judged
    return due


@NEEDS_PROMTOOL
@pytest.mark.parametrize("slow_from", [1.0, 0.5])
def test_a_fleet_of_eight_is_left_alone_and_its_slow_machine_is_named(tmp_path: Path, slow_from: float) -> None:
    series = worked(FLEET_DAYS, 8, slow_from)
    due = slower(series, FLEET_DAYS)
    assert [*due] == (["h0"] if slow_from < 1 else [])
    assert all(FLEET_DAYS / 2 < day < FLEET_DAYS / 2 + 1 for day in due.values())
    if FLEET_DAYS > 2 or not due:
        return
    # and so by Prometheus
    made = rules([SERIES], LIMITS, [Forecast(f"s{machine}", f"h{machine}", "k", SPEED, SERIES) for machine in range(8)])
    asked = {"Gb10SlowerThanTwins", "Gb10SlowerThanForecast", EXPECTED, PACE}
    asked |= {"gb10:requests_running", "gb10:kv_use:ratio", "gb10:generated_tokens:rate5m", "gb10:prompt_tokens:rate5m"}
    for group in made["groups"]:
        group["rules"] = [rule for rule in group["rules"] if rule.get("alert", rule.get("record")) in asked]
    (tmp_path / "rules.yml").write_text(json.dumps(made))
    ask = f'count by (host) (count_over_time(ALERTS{{alertstate="firing"}}[{FLEET_DAYS}d]))'
    shown = [{"labels": f'{{host="{host}"}}', "value": 1} for host in due]
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": f"{STEP_MINUTES}m",
        "tests": [
            {
                "interval": f"{STEP_MINUTES}m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [{"expr": ask, "eval_time": f"{FLEET_DAYS * 1440 - 4}m", "exp_samples": shown}],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(json.dumps(test))
    promtool("test", "rules", str(tmp_path / "test.yml"))


# Machines, two hours of their service, a value a minute, the alert of the first, and of which others.
def served(
    rate: float,
    running: str = "1x120",
    prompts: float = 0,
    kv: float = 0.002,
    drafts: tuple[float, float] | None = None,
) -> dict[str, str]:
    """rate, prompts: tokens a second. kv: use of the pool. drafts: steps and accepted drafts a second."""
    found = {
        "vllm:num_requests_running": running,
        "vllm:kv_cache_usage_perc": f"{kv}x120",
        "vllm:generation_tokens_total": f"0+{60 * rate:g}x120",
        "vllm:prompt_tokens_total": f"0+{60 * prompts:g}x120",
    }
    for name, each in zip(("drafts", "accepted_tokens"), drafts or (), strict=False):
        found[f"vllm:spec_decode_num_{name}_total"] = f"0+{60 * each:g}x120"
    return found


WELL, SICK = served(72), served(42.7)
NOISY = {**WELL, "vllm:generation_tokens_total": "0+4320x80 345600+600x10 351600+4320x30"}
FORECAST, TWINS = "Gb10SlowerThanForecast", "Gb10SlowerThanTwins"
SPEEDS: list[tuple[str, list[dict[str, str]], str, int]] = [
    ("a machine that is well", [WELL], "", 0),
    ("in the low-power state", [SICK], FORECAST, 1),
    ("slow with four requests", [served(105, "4x120")], FORECAST, 1),
    ("well with four requests", [served(190, "4x120")], "", 0),
    ("more requests than it works on at once", [served(280, "40x120")], "", 0),
    ("ten minutes in which something else ran", [NOISY], "", 0),
    ("idle", [served(0, "0x120")], "", 0),
    ("a request now and then", [served(1, "0x55 1x5 0x55 1x5")], "", 0),
    # a step reads the whole pool, for 200 ms: 8 * 1 / (8 / 296 + 0.2) tokens a second
    ("full of long requests", [served(34, "8x120", kv=1.0)], "", 0),
    ("slow and full of long requests", [served(19, "8x120", kv=1.0)], FORECAST, 1),
    ("an hour of prompts", [served(3, prompts=1500)], "", 0),
    ("one of eight is slow", [SICK, *[WELL] * 7], TWINS, 1),
    ("all of eight are slow: the forecast is off", [SICK] * 8, "", 0),
    ("one of two is slow", [served(40), served(74)], TWINS, 1),
    ("eight under different loads", [served(72), served(190, "4x120"), served(250, "8x120"), *[WELL] * 5], "", 0),
    ("eight faster than forecast, one of them slow", [served(55), *[served(95)] * 7], TWINS, 1),
]


@NEEDS_PROMTOOL
@pytest.mark.parametrize(("fleet", "name", "many"), [row[1:] for row in SPEEDS], ids=[row[0] for row in SPEEDS])
def test_a_slow_machine_is_called_by_forecast_or_twins(
    tmp_path: Path, fleet: list[dict[str, str]], name: str, many: int
) -> None:
    series, forecasts = {}, []
    for at, host in enumerate(fleet):
        labels = f'{{host="h{at}",service="s{at}"}}'
        series |= {f"{metric}{labels}": values for metric, values in host.items()}
        forecasts.append(Forecast(f"s{at}", f"h{at}", "k", SPEED, SERIES))
    ask = 'count by (alertname, host) (ALERTS{alertstate="firing"})'
    shown = [{"labels": f'{{alertname="{name}", host="h{at}"}}', "value": 1} for at in range(many)]
    rules_show(tmp_path, series, ask, "119m", shown, forecasts)


@NEEDS_PROMTOOL
@pytest.mark.parametrize(("rate", "accepted", "alerts_of"), [(44, 0.2, 0), (44, 1.0, 1), (80, 1.0, 0)])
def test_few_accepted_drafts_are_no_slow_machine(tmp_path: Path, rate: float, accepted: float, alerts_of: int) -> None:
    """Forecast for two tokens a step, as nobody has seen: the engine says how many it accepts."""
    alone = {**ALONE, "accepted": 2.0, "assumed": True, "low": 0.7 * 48.1}
    drafting: Any = {**SPEED, "alone": alone, "together": None, "pays": 1.2}
    steps = rate / (1 + accepted)
    labels = '{host="titan",service="chat"}'
    host = served(rate, drafts=(steps, steps * accepted))
    series = {f"{metric}{labels}": values for metric, values in host.items()}
    shown = [{"labels": f'{{alertname="{FORECAST}"}}', "value": 1}] * alerts_of
    forecasts = [Forecast("chat", "titan", "k", drafting, SERIES)]
    rules_show(tmp_path, series, 'count by (alertname) (ALERTS{alertstate="firing"})', "119m", shown, forecasts)


@NEEDS_PROMTOOL
@pytest.mark.parametrize(
    ("engine", "shows"),
    [
        ("vllm", {"num_requests_running": "4x120", "kv_cache_usage_perc": "0.5x120"}),
        ("sglang", {"num_running_reqs": "4x120", "token_usage": "0.5x120", "spec_accept_length": "3x120"}),
        ("llama.cpp", {"requests_processing": "4x120"}),
    ],
)
def test_each_engine_has_its_expected_rate(tmp_path: Path, engine: str, shows: dict[str, str]) -> None:
    """74 tokens a second times the power two thirds of the requests, less what half of the pool takes."""
    of, labels = ENGINES[engine].spec, '{host="titan", service="chat"}'
    prefix = of.series["running"].partition(":")[0]
    drafting: Any = {**SPEED, "pays": 1.2, "alone": {**ALONE, "accepted": 2.0, "assumed": True}}
    speed = drafting if "spec_accept_length" in shows else SPEED
    alone, steps = (2.0, 1.5) if speed is drafting else (1.0, 1.0)
    plain = 74 * 4 ** (2 / 3)
    rate = 4 / (4 / plain + (0 if engine == "llama.cpp" else 0.5 * 0.2 / alone)) * steps
    series = {f"{prefix}:{metric}{labels}": values for metric, values in shows.items()}
    forecasts = [Forecast("chat", "titan", "k", speed, of.series, of.counts_at_end)]
    ask = f"round({EXPECTED}, 0.1)"
    rules_show(tmp_path, series, ask, "60m", [{"labels": labels, "value": round(rate, 1)}], forecasts)
    names = [rule.get("record") for of in rules([of.series], LIMITS, forecasts)["groups"] for rule in of["rules"]]
    assert (PACE in names) == (engine == "vllm")


def test_each_label_that_an_alert_shows_is_a_plain_word_of_its_form() -> None:
    shown = set(re.findall(r"\$labels\.(\w+)", json.dumps(rules([SERIES], LIMITS))))
    forms_of = data_table("prometheus_labels")
    assert shown - {"host", "of", "service"} <= forms_of.keys()
    assert not any(re.fullmatch(form, "a word; another") for form in forms_of.values())


def test_an_alert_names_a_command_that_there_is() -> None:
    playbooks = {path.name for path in ROOT.glob("*.yml")} | {
        f"gb10.fleet.{path.stem}" for path in (ROOT / "playbooks").glob("*.yml")
    }
    for alert in alerts(LIMITS, RECORDED):
        named = re.findall(r"ansible-playbook (\S+)", alert.command)
        assert {*named} <= playbooks, alert.name
        assert named or alert.command.startswith("ssh {{ $labels.host }} "), alert.name
