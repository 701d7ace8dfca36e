# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the plan makes of fleet_phoenix. The real one: molecule/bench, by GB10_WHOLE=1."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.managed import Managed
from ansible_collections.gb10.fleet.plugins.module_utils._base.subject import DriftContext, PreflightContext
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.phoenix.plan import secrets_text
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.phoenix.subject import PHOENIX
from test_monitoring import LIBRARY, OF_RECIPES, inventory, rules_of

KEY = "0123456789abcdef" * 4
WORDS: dict[str, Any] = {"host": "titan", "listen": "10.0.0.1", "secret_file": "phoenix.key"}
UNIT, SOCKET = (f"/etc/systemd/system/gb10-phoenix{name}" for name in (".service", "-proxy.socket"))


def planned(tmp_path: Path, key: str = KEY, **words: Any) -> dict[str, Any]:
    (tmp_path / "phoenix.key").write_text(f"{key}\n")
    (tmp_path / "phoenix.key").chmod(0o600)
    written = inventory(tmp_path, None)
    for host in written["hosts"].values():
        host["variables"] |= {"fleet_phoenix": WORDS | words}
    return plan_fleet(written, LIBRARY, OF_RECIPES)


def test_one_host_keeps_traces_and_the_others_are_asked_for_what_was_left(tmp_path: Path) -> None:
    plan = planned(tmp_path, disk_gib=2.5)
    assert rules_of(plan) == []
    titan, spark = (plan["hosts"][name]["phoenix"] for name in ("titan", "spark-2"))
    assert (spark["units"], spark["files"], spark["tool"], len(spark["gone"])) == ({}, {}, "", 3)
    assert titan["units"] == {"gb10-phoenix.service": "started", "gb10-phoenix-proxy.socket": "started"}
    unit = titan["files"][UNIT]["content"]
    for line in ("PHOENIX_ENABLE_AUTH=true", "PHOENIX_DEFAULT_RETENTION_POLICY_DAYS=30", "CAPACITY_GIBIBYTES=2.5"):
        assert f"{line}\n" in unit
    assert "PrivateNetwork=true" in unit
    # it looks for a folder of its user's, who has none, and ends without
    assert "Environment=HOME=/var/lib/gb10-phoenix\n" in unit
    assert "python3-venv" in plan["hosts"]["titan"]["needs"]["installs"]
    assert plan["phoenix"]["url"] == "http://10.0.0.1:6006"
    assert {"port": 6006, "address": "10.0.0.1"}.items() <= next(
        row for row in plan["hosts"]["titan"]["listens"] if row["service"] == "phoenix"
    ).items()


def test_it_listens_where_it_is_asked_to_alone(tmp_path: Path) -> None:
    part = planned(tmp_path, listen="fd00::1", port=6007)["hosts"]["titan"]["phoenix"]
    assert "ListenStream=[fd00::1]:6007\n" in part["files"][SOCKET]["content"]
    assert part["url"] == "http://[fd00::1]:6007"


def test_its_key_is_in_no_part_of_the_plan(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    assert KEY not in json.dumps(plan)
    (secret,) = [
        one for one in PHOENIX.files(plan["hosts"]["titan"]["phoenix"]) if isinstance(one, Managed) and one.secret
    ]
    text = secret.rendered(f"{KEY}\n")
    values = dict(line.split("=", 1) for line in text.splitlines())
    assert values["PHOENIX_ADMIN_SECRET"] == KEY
    assert values["PHOENIX_SECRET"] != KEY and re.fullmatch("[0-9a-f]{66}", values["PHOENIX_SECRET"])


def test_what_is_installed_is_known_by_its_lock(tmp_path: Path) -> None:
    part = planned(tmp_path)["hosts"]["titan"]["phoenix"]
    (lock,) = [one for one in PHOENIX.files(part) if isinstance(one, Managed) and one.path.endswith("/.lock")]
    assert lock.content is not None and "\narize-phoenix==" in lock.content
    names = re.findall(r"^([\w.-]+)==", lock.content, re.MULTILINE)
    assert len(names) > 100
    assert lock.content.count("--hash=sha256:") > 2 * len(names)


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ({"host": "nobody"}, "input-unknown-host"),
        ({"listen": "10.0.0"}, "input-listen"),
        ({"secret_file": "none"}, "input-phoenix-secret"),
        ({"port": 22}, "input-port-twice"),
        ({"key": "short1"}, "input-phoenix-secret"),
        ({"key": "NOSMALLLETTER0123456789012345678901"}, "input-phoenix-secret"),
        ({"key": f"{KEY} {KEY}"}, "input-phoenix-secret"),
        ({"key": f"{KEY}$"}, "input-phoenix-secret"),
    ],
)
def test_what_can_not_be_is_refused(tmp_path: Path, words: dict[str, Any], rule: str) -> None:
    plan = planned(tmp_path, **words)
    assert rules_of(plan) == [rule]
    is_missing = "secret_file" in words  # kept: a new controller learns from the plan what the host has
    assert (plan["phoenix"] is None) != is_missing


def test_a_key_that_the_vault_had_is_judged_when_it_is_there() -> None:
    with pytest.raises(ValueError, match="no key that Phoenix takes"):
        secrets_text("short")


def test_whoever_has_its_port_is_named_before_a_change(tmp_path: Path) -> None:
    part = planned(tmp_path)["hosts"]["titan"]
    for process, rules in (("nginx", ["phoenix-port-taken"]), ("systemd", [])):
        state = {"listening": [{"port": 6006, "local": False, "process": process, "container": ""}]}
        assert [one.rule for one in PHOENIX.obstacles(PreflightContext("titan", part, state))] == rules


def test_units_that_nobody_asks_for_are_drift(tmp_path: Path) -> None:
    plan = planned(tmp_path)
    for host, found in (("spark-2", ["phoenix-undeclared"]), ("titan", [])):
        state = {"our_units": [{"unit": "gb10-phoenix.service", "inventory": plan["inventory"], "ranks": 1}]}
        differences = PHOENIX.differences(DriftContext(host, plan, {host: state}))
        assert [one.rule for one in differences if hasattr(one, "rule")] == found


@pytest.mark.parametrize(
    ("file", "header", "expected"),
    [
        ("phoenix.key.spans", "eyJ.a-system-key.x", []),
        ("phoenix.key.spans", "", []),  # not there yet: the run makes it before it starts the service
        ("own", KEY, ["service-tracing-administrator"]),
        ("other.spans", "", ["input-tracing-headers"]),
    ],
)
def test_no_traced_container_is_phoenix_administrator(
    tmp_path: Path, file: str, header: str, expected: list[str]
) -> None:
    """And its remedy, typed as it is printed, is the second row."""
    plan = planned(tmp_path)
    assert plan["hosts"]["titan"]["phoenix"]["spans"] == str(tmp_path / "phoenix.key.spans")
    assert plan["hosts"]["spark-2"]["phoenix"]["spans"] == ""
    if header:
        (tmp_path / file).write_text(f"Authorization: Bearer {header}\n")
        (tmp_path / file).chmod(0o600)
    written = inventory(tmp_path, None)
    for host in written["hosts"].values():
        host["variables"] |= {"fleet_phoenix": WORDS}
        host["variables"]["fleet_services"]["chat"]["tracing"] = {
            "endpoint": "http://10.0.0.1:6006",
            "headers_file": file,
        }
    errors = [one for one in plan_fleet(written, LIBRARY, OF_RECIPES)["findings"] if one["severity"] == "error"]
    assert [one["rule"] for one in errors] == expected
    assert all(
        "headers_file: phoenix.key.spans and" in one["remedy"]
        for one in errors
        if one["rule"] == expected[0] and header
    )


def test_its_key_for_spans_is_made_before_a_service_starts_with_it() -> None:
    site = (Path(__file__).resolve().parents[2] / "playbooks" / "site.yml").read_text("utf-8")
    assert site.index("role: gb10.fleet.phoenix") < site.index("role: gb10.fleet.services")
