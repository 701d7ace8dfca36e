# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rulebooks for ansible-rulebook: each alert starts what its own advice names, and no label reaches a command but a
plain name. tests/events runs them by the real program."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
EDA = ROOT / "extensions/eda"
ALERTS = yaml.safe_load((ROOT / "data/alerts.yml").read_text())
alerts = runpy.run_path(str(EDA / "plugins/event_filter/alerts.py"))["main"]
# Their advice puts load on a machine, or sets its clock, which a person decides. The doctor looks first.
MEASURED = {"Gb10SlowerThanTwins", "Gb10SlowerThanForecast", "Gb10GpuHot", "Gb10HostRestarts"}


def rules(name: str) -> list[dict[str, Any]]:
    [rulebook] = yaml.safe_load((EDA / f"rulebooks/{name}.yml").read_text())
    assert isinstance(rulebook["rules"], list)
    return rulebook["rules"]


def advised(alert: str) -> str:
    """The first playbook of its advice, with the words of data/alerts.yml filled in."""
    command = ALERTS["alerts"][alert]["command"]
    command = re.sub(r"%\((\w+)\)s", lambda found: ALERTS["words"].get(found[1], ""), command)
    found = re.search(r"ansible-playbook (?:gb10\.fleet\.)?(\w+)", command)
    assert found, command
    return found[1]


@pytest.mark.parametrize(
    ("rulebook", "rule"), [(name, rule) for name in ("look", "heal") for rule in rules(name)], ids=lambda x: str(x)[:40]
)
def test_an_alert_starts_what_its_own_advice_names(rulebook: str, rule: dict[str, Any]) -> None:
    action = rule["action"]["run_playbook"]
    assert action["name"] == "gb10.fleet.from_alert"
    started = action["extra_vars"]["run"]
    named = re.findall(r"Gb10\w+", rule["condition"])
    assert named
    assert {alert: advised(alert) for alert in named if alert not in MEASURED} == {
        alert: started for alert in named if alert not in MEASURED
    }
    assert (started == "restart") == (rulebook == "heal")


def test_each_alert_that_a_look_explains_has_a_rule() -> None:
    """Left out are those whose advice is a decision of a person, or a line of ssh."""
    looks = {alert for rule in rules("look") for alert in re.findall(r"Gb10\w+", rule["condition"])}
    explained = {
        alert
        for alert, row in ALERTS["alerts"].items()
        if "ansible-playbook" in re.sub(r"%\((\w+)\)s", lambda found: ALERTS["words"].get(found[1], ""), row["command"])
        and advised(alert) in ("doctor", "drift", "status", "why")
    }
    assert looks - MEASURED == explained


def message(**labels: object) -> dict[str, Any]:
    return {"payload": {"alerts": [{"status": "firing", "labels": {"alertname": "Gb10GpuSilent", **labels}}]}}


def test_a_message_becomes_an_event_for_each_firing_alert() -> None:
    firing = message(host="titan")["payload"]["alerts"]
    more = message(alertname="Gb10Drift", host="titan", of="spark-2.lan")["payload"]["alerts"]
    creep = message(alertname="Gb10MemoryCreep", host="titan", service="chat")["payload"]["alerts"]
    ended = [{"status": "resolved", "labels": firing[0]["labels"]}]
    assert alerts({"payload": {"alerts": [*firing, *more, *ended, *creep]}, "meta": {}}) == [
        {"alert": "Gb10GpuSilent", "host": "titan", "service": ""},
        {"alert": "Gb10Drift", "host": "spark-2.lan", "service": ""},
        {"alert": "Gb10MemoryCreep", "host": "titan", "service": "chat"},
    ]


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"payload": None},
        {"payload": []},
        {"payload": {"alerts": {"status": "firing"}}},
        {"payload": {"alerts": [None, 7, "firing", {"status": "firing"}, {"status": "firing", "labels": []}]}},
        message(),
        message(host=["titan"]),
        message(host=""),
        message(host="all"),
        message(host="ungrouped"),
        message(host="all,!titan"),
        message(host="~.*"),
        message(host="@/etc/passwd"),
        message(host="-e"),
        message(host="titan\n"),
        message(host="{{ lookup('pipe', 'id') }}"),
        message(host="x" * 254),
        message(host="titan", of="*"),
        message(host="titan", service="a b"),
        message(host="titan", service={"a": 1}),
        message(host="titan", alertname="Gb10GpuSilent; id"),
        message(host="titan", alertname="Watchdog"),
        message(host="titan", alertname=None),
    ],
)
def test_nothing_else_of_a_message_is_passed_on(event: dict[str, Any]) -> None:
    assert alerts(event) == []
