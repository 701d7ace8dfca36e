# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Absence is no order: what becomes of services on a host that the inventory does not have there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.filter.internal import undeclared_services
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.subject import PreflightContext
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.service import Budget, Limits
from ansible_collections.gb10.fleet.plugins.module_utils._plan.choice import declared_and_retired
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.ranks import rank_unit
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.plan import units
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.registry import SUBJECTS
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.reading import read_units
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.undeclared import undeclared
from test_monitoring import LIBRARY, OF_RECIPES, inventory

RUN: dict[str, Any] = {
    "inventory": "mine",
    "placed": {"chat": ["titan"], "pair": ["spark-2", "spark-3"]},
    "hosts": ["titan", "spark-2", "spark-3"],
    "retire": [],
}


def on_titan(service: str, inventory: str = "mine", ranks: int = 1) -> dict[str, Any]:
    return {"titan": {"our_units": [{"unit": layout.unit(service), "inventory": inventory, "ranks": ranks}]}}


def former(service: str, inventory: str = "") -> dict[str, Any]:
    return {"titan": {"our_units": [{"unit": f"gb10-vllm-{service}.service", "inventory": inventory, "ranks": 1}]}}


OLD = layout.unit("old")
THE_GATEWAY = {"titan": {"our_units": [{"unit": layout.GATEWAY_UNIT, "inventory": "mine", "ranks": 1}]}}


@pytest.mark.parametrize(
    ("states", "run", "alive", "fate", "severity", "words"),
    [
        (on_titan("chat"), {}, (), None, None, ""),
        (on_titan("chat", ""), {}, (), None, None, ""),  # of a release that wrote no mark
        (on_titan("old"), {}, (), "gone", "error", "-e retire=old"),
        (on_titan("old", ""), {}, (), "gone", "error", "declare old again"),
        (on_titan("old"), {"retire": ["older"]}, (), "gone", "error", "-e retire=old"),
        (on_titan("old"), {"retire": ["old", "more"]}, (), "ordered", "warning", "will be removed: its unit"),
        (on_titan("pair"), {}, (), "moved", "warning", "it is declared on spark-2, spark-3"),
        (on_titan("pair"), {"hosts": ["titan", "spark-2"]}, (), "away", "error", "-l spark-2,spark-3,titan"),
        (on_titan("pair"), {}, ("titan", "spark-2"), "waiting", "warning", "left here until then"),
        # units as releases before 0.2.0 named them
        (former("chat"), {}, (), "renamed", "warning", "is replaced by gb10-service-chat.service"),
        (former("chat", "home"), {}, (), "taken", "error", "write fleet_name: home"),
        (former("old"), {}, (), "gone", "error", "-e retire=old"),
        (former("old"), {"retire": ["old"]}, (), "ordered", "warning", "will be removed: its unit"),
        (former("pair"), {}, (), "moved", "warning", "it is declared on spark-2, spark-3"),
        (on_titan("theirs", "home"), {"retire": ["theirs"]}, (), "foreign", "warning", "left alone"),
        (on_titan("theirs", "home"), {"shown": True}, (), "foreign", None, ""),  # try names it itself
        (on_titan("theirs", "home", ranks=2), {}, (), "joined", "error", "write fleet_name: home"),
        (on_titan("chat", "home"), {}, (), "taken", "error", "write fleet_name: home"),
        # the gateway, as any service
        (THE_GATEWAY, {"gateway": ["titan"]}, (), None, None, ""),
        (THE_GATEWAY, {}, (), "gone", "error", "-e retire=gateway"),
        (THE_GATEWAY, {"retire": ["gateway"]}, (), "ordered", "warning", "will be removed: its unit, its settings"),
        (THE_GATEWAY, {"gateway": ["spark-2"]}, (), "moved", "warning", "it is declared on spark-2"),
        (THE_GATEWAY, {"placed": {"gateway": ["titan"]}}, (), "gone", "error", "-e retire=gateway"),
        (THE_GATEWAY, {"gateway": ["titan"], "inventory": "other"}, (), "taken", "error", "was written by"),
        ({"titan": {"our_units": [{"unit": "other.service", "inventory": "", "ranks": 1}]}}, {}, (), None, None, ""),
        ({"titan": {"our_units": None}}, {}, (), None, None, ""),
    ],
)
def test_what_becomes_of_it(
    states: dict[str, Any], run: dict[str, Any], alive: tuple[str, ...], fate: str | None, severity: str, words: str
) -> None:
    about = RUN | run
    hosts = [*(alive or about["hosts"])]
    found = undeclared(states["titan"]["our_units"] or (), "titan", about | {"alive": hosts})
    assert [one.fate for one in found] == ([fate] if fate else [])
    found = {wanted: undeclared_services(states, about, hosts, wanted) for wanted in ("error", "warning")}
    assert [wanted for wanted, sentences in found.items() if sentences] == ([severity] if severity else [])
    assert words in " ".join(found["error"] + found["warning"])
    assert undeclared_services(states, {}, hosts) == []  # stage.yml decides nothing over them


@pytest.mark.parametrize(
    ("retire", "words"),
    [
        (["old"], []),
        (["odl"], ['no host of this run has odl: nothing is removed; write "old"']),
        (["old", "caht"], ["no host of this run has caht"]),
        ([], []),
    ],
)
def test_what_is_nowhere_can_not_be_removed(retire: list[str], words: list[str]) -> None:
    states = on_titan("old") | {"spark-2": {"our_units": None}}
    found = undeclared_services(states, RUN | {"retire": retire}, ["titan", "spark-2"], "retired")
    assert [part in one for part, one in zip(words, found, strict=True)] == [True] * len(words)


def test_all_that_was_written_for_it_goes() -> None:
    [one] = undeclared(on_titan("old")["titan"]["our_units"], "titan", RUN)
    assert one.files == (
        f"/etc/systemd/system/{layout.unit('old')}",
        "/etc/gb10-fleet/services/old.json",
        "/etc/gb10-fleet/services/old.supervisor",
        "/etc/gb10-fleet/services/old.taken-back",
        "/etc/gb10-fleet/secrets/old.key",
        "/etc/gb10-fleet/secrets/old.yaml",
        "/etc/gb10-fleet/secrets/old.tls.key",
        "/etc/gb10-fleet/secrets/old.group",
        "/etc/gb10-fleet/secrets/old.tls.crt",
        "/etc/gb10-fleet/secrets/old.trace-headers",
    )
    assert one.folders == ("/var/cache/gb10-fleet/old", "/etc/gb10-fleet/secrets/.way-back/old")


def test_what_goes_on_under_another_unit_keeps_its_files() -> None:
    [one] = undeclared(former("chat")["titan"]["our_units"], "titan", RUN)
    assert one.files == ("/etc/systemd/system/gb10-vllm-chat.service", "/etc/gb10-fleet/secrets/chat.yaml")
    assert one.container == "gb10-vllm-chat"
    assert one.folders == ()


@pytest.mark.parametrize("name", ["", "..", "-rf"])
def test_a_unit_whose_name_is_no_services_leads_to_no_folder(name: str) -> None:
    assert undeclared(on_titan(name)["titan"]["our_units"], "titan", RUN | {"retire": [name]}) == []


def test_an_order_against_what_is_declared_is_a_mistake() -> None:
    plan = {"services": {"chat": {"hosts": ["titan"]}}}
    [finding] = declared_and_retired(plan, ["chat", "old"])
    assert "take it out of fleet_services" in finding.remedy


@pytest.mark.parametrize(
    ("unit", "content", "inventory"),
    [
        (
            OLD,
            rank_unit("old", "Old", limits=Limits(3600, 300, 60, 60, 3, Budget(3, 600)), inventory="mine").encode(),
            "mine",
        ),
        (layout.GATEWAY_UNIT, units("mine", floats=False)[layout.GATEWAY_UNIT].encode(), "mine"),
        (OLD, b"[Unit]\nDescription=of an earlier release\n", ""),
        (OLD, b"", ""),
        (OLD, b"\xff\xfe[X-Gb10Fleet]\nInventory=a b\n", ""),
    ],
)
def test_a_unit_names_its_inventory(tmp_path: Path, unit: str, content: bytes, inventory: str) -> None:
    (tmp_path / unit).write_bytes(content)
    (tmp_path / layout.unit("folder")).mkdir()
    (tmp_path / "ssh.service").touch()
    (tmp_path / "gb10-drift.service").touch()
    (tmp_path / layout.EXPORTER_UNIT).touch()
    found = {one["unit"]: one["inventory"] for one in read_units(tmp_path, tmp_path)}
    assert found == {unit: inventory, layout.unit("folder"): "", layout.EXPORTER_UNIT: ""}


@pytest.mark.parametrize(
    ("content", "ranks"),
    [(b'{"ranks": 2}', 2), (b'{"ranks": 1}', 1), (b"{}", 1), (b"[", 1), (b'{"ranks": "x"}', 1), (None, 1)],
)
def test_the_ranks_of_a_service_are_in_its_supervisors_file(tmp_path: Path, content: bytes | None, ranks: int) -> None:
    (tmp_path / layout.unit("old")).touch()
    if content is not None:
        (tmp_path / "old.json").write_bytes(content)
    [found] = read_units(tmp_path, tmp_path)
    assert found == {"unit": layout.unit("old"), "inventory": "", "ranks": ranks, "unproved": False}


# What one inventory alone declares on a host, and a run of another one meets as `undeclared` or refuses.
OF_AN_INVENTORY = {"services", "gateway", "monitoring", "phoenix", "peer_access"}


def whole(tmp_path: Path, name: str, lost: tuple[str, ...] = ()) -> dict[str, Any]:
    """The slice of titan in a plan of all that can be declared for it, by the name of the inventory.

    lost: files of the owner's that the plan does not find.
    """
    declared = inventory(tmp_path, {"host": "titan"}, hosts=["titan"])
    key = "0123456789abcdef" * 4
    for file, text in (("phoenix.key", key), ("clients.yml", f"someone: sk-{key}")):
        (tmp_path / file).write_text(f"{text}\n")
        (tmp_path / file).chmod(0o600)
    for host in declared["hosts"].values():
        host["variables"] |= {
            "fleet_name": name,
            "fleet_gateway": {"hosts": ["titan"], "keys_file": "clients.yml"},
            "fleet_phoenix": {"host": "titan", "listen": "10.0.0.1", "secret_file": "phoenix.key"},
        }
    for missing in lost:
        (tmp_path / missing).unlink()
    plan = plan_fleet(declared, LIBRARY, OF_RECIPES)
    assert len([row for row in plan["findings"] if row["severity"] == "error"]) == len(lost)
    found: dict[str, Any] = plan["hosts"]["titan"]
    return found


def test_what_is_the_hosts_alone_is_the_same_in_every_inventory(tmp_path: Path) -> None:
    """Two that share a host would write it in turns. An inventory's own CA has its name, so that both are there."""
    mine, theirs = (whole(tmp_path, name) for name in ("mine", "theirs"))
    assert mine["memory_guard"]["enabled"]
    assert {part for part in mine if mine[part] != theirs[part]} == OF_AN_INVENTORY | {"tls", "needs"}
    assert mine["tls"]["path"] != theirs["tls"]["path"]


def test_units_that_two_inventories_ask_for_are_refused(tmp_path: Path) -> None:
    mine, theirs = (whole(tmp_path, name) for name in ("mine", "theirs"))
    for name in ("monitoring", "phoenix"):
        [subject] = [one for one in SUBJECTS if one.name == name]
        for part, rules in ((mine, set()), (theirs, {f"{name}-foreign"})):
            units = [unit for unit in part[name]["units"] if unit.endswith(".service")]
            state = {"our_units": [{"unit": unit, "inventory": part[name]["inventory"], "ranks": 1} for unit in units]}
            found = [*subject.obstacles(PreflightContext("titan", mine, state))]
            assert {one.rule for one in found} == rules
            assert all("was written by the inventory theirs" in one.found for one in found)
