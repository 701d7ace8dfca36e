# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is declared once for the fleet: one tuple, over which the plan runs without a name of any of them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import Finding, error
from ansible_collections.gb10.fleet.plugins.module_utils._base.place import Place
from ansible_collections.gb10.fleet.plugins.module_utils._engines.placed import Host
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fleet.subject import (
    Claims,
    DeclareContext,
    FleetPart,
    FleetSubject,
    PlanContext,
    Port,
    declare,
)
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.registry import FLEET_SUBJECTS, SUBJECTS
from drift_fleet import LIBRARY, OF_RECIPES, planned

UTILS = Path(__file__).parents[2] / "plugins" / "module_utils"
HOSTS = {name: Host(name, f"10.0.0.{number}", {}) for number, name in enumerate(("titan", "beast"), 1)}
SERVICE: dict[str, Any] = {"recipe": "lab-tiny", "hosts": ["titan"], "port": 8000}
CONTEXT = DeclareContext(Path("/inventory"), HOSTS, {}, ())


# The spine ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file",
    [
        "_operations/drift/questions.py",
        "_operations/pull/published.py",
        "_plan/declared.py",
        "_plan/declared_services.py",
        "_plan/fleet.py",
        "_plan/slices.py",
    ],
)
def test_the_spine_knows_no_fleet_subject_by_name(file: str) -> None:
    names = "|".join(subject.name.replace("_", ".") for subject in FLEET_SUBJECTS)
    assert re.findall(names, (UTILS / file).read_text("utf-8"), re.IGNORECASE) == []


@pytest.mark.parametrize(
    ("file", "name", "most"), [("_plan/fleet.py", "plan_fleet", 50), ("_plan/declared.py", "read_declaration", 20)]
)
def test_the_spine_does_not_grow_with_each_subject(file: str, name: str, most: int) -> None:
    body = ast.parse((UTILS / file).read_text("utf-8")).body
    (function,) = (one for one in body if isinstance(one, ast.FunctionDef) and one.name == name)
    assert (function.end_lineno or 0) - function.lineno < most


def test_what_is_declared_fits_on_a_few_pages() -> None:
    assert len((UTILS / "_plan" / "declared.py").read_text("utf-8").splitlines()) <= 400


def test_each_comes_after_those_that_it_builds_on() -> None:
    for number, subject in enumerate(FLEET_SUBJECTS):
        assert {*subject.after} <= {before.name for before in FLEET_SUBJECTS[:number]}


def test_each_is_a_subject_of_its_hosts_too() -> None:
    assert {subject.name for subject in FLEET_SUBJECTS} <= {subject.name for subject in SUBJECTS}
    plan = planned()
    for subject in FLEET_SUBJECTS:
        assert all(subject.name in host for host in plan["hosts"].values())
        if subject.spec is not None:
            assert plan[subject.name] == subject.nothing


# Declarations -------------------------------------------------------------------------------------------------------


class Gadget(FleetPart):
    pass


def gadget(name: str, **others: Any) -> FleetSubject:
    """One that takes a port of one host."""

    def claims(declared: Mapping[str, Any], _hosts: Mapping[str, Host]) -> Claims:
        return Claims([Port(declared["host"], declared["port"], Place(variable=f"fleet_{name}", option="port"))])

    spec: Any = {"type": "map", "options": {"host": {"type": "str"}, "port": {"type": "int"}}}
    return FleetSubject(name, lambda _declared, _context: (Gadget(), []), spec, claims=claims, **others)


def found(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(one.rule, one.place, one.found) for one in findings]


def test_a_port_is_taken_once_on_each_host() -> None:
    subjects = (gadget("one"), gadget("two"), gadget("three"))
    written = {
        "fleet_one": {"host": "titan", "port": 22},
        "fleet_two": {"host": "titan", "port": 80},
        "fleet_three": {"host": "titan", "port": 80},
    }
    declared, findings = declare(subjects, written, CONTEXT, {("titan", 22): "sshd"})
    assert [*declared.declared] == ["two"]
    assert found(findings) == [
        ("input-port-twice", "fleet_one.port", "port 22 of titan is already that of sshd"),
        ("input-port-twice", "fleet_three.port", "port 80 of titan is already that of fleet_two.port"),
    ]
    assert declare(subjects, {**written, "fleet_three": {"host": "beast", "port": 80}}, CONTEXT, {})[1] == []


def test_a_port_of_one_that_is_refused_is_free() -> None:
    def refuse(_declared: Any, _context: DeclareContext) -> Iterator[Finding]:
        yield error("no", "fleet_one", found="no")

    subjects = (gadget("one", decide=refuse), gadget("two"))
    written = {key: {"host": "titan", "port": 80} for key in ("fleet_one", "fleet_two")}
    declared, findings = declare(subjects, written, CONTEXT, {})
    assert [*declared.declared] == ["two"] and [one.rule for one in findings] == ["no"]


@pytest.mark.parametrize(
    ("written", "seen", "refused"),
    [
        (None, None, []),
        ({"host": "titan", "port": 80}, {"host": "titan", "port": 80}, []),
        ({"host": "titan", "prot": 80}, None, ["one"]),
        ({"host": "titan", "port": 22}, None, ["one"]),
    ],
)
def test_one_sees_what_it_builds_on(written: Any, seen: Any, refused: list[str]) -> None:
    contexts: list[DeclareContext] = []

    def decide(_declared: Any, context: DeclareContext) -> Iterator[Finding]:
        contexts.append(context)
        yield from ()

    subjects = (gadget("one"), gadget("two", after=["one"], decide=decide), gadget("three", decide=decide))
    others = {f"fleet_{name}": {"host": "beast", "port": port} for name, port in (("two", 1), ("three", 2))}
    declare(subjects, {"fleet_one": written, **others}, CONTEXT, {("titan", 22): "sshd"})
    assert [one.fleet for one in contexts] == [{"one": seen}, {}]
    assert [one.refused for one in contexts] == [refused or ()] * 2


# All of them together -------------------------------------------------------------------------------------------------

TAKES: dict[str, Any] = {
    "fleet_gateway": {"hosts": ["titan"], "keys_file": "clients.yml", "port": 9100, "redirect_port": None},
    "fleet_clients": {"chat": {"kind": "open-webui", "host": "titan", "port": 9100}},
    "fleet_monitoring": {"host": "titan"},
    "fleet_phoenix": {"host": "titan", "listen": "10.0.0.1", "secret_file": "phoenix.key", "port": 9100},
}


@pytest.mark.parametrize(("first", "second"), [*combinations(TAKES, 2)])
def test_no_two_take_the_same_port_of_a_host(tmp_path: Path, first: str, second: str) -> None:
    """Port 9100 is the node exporter's, too, which no declaration names."""
    for name, text in (("clients.yml", "chat: key-of-the-chat-0001\n"), ("phoenix.key", "1a" * 16)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    variables = {"fleet_services": {}, first: TAKES[first], second: TAKES[second]}
    if "fleet_clients" in (first, second) and "fleet_gateway" not in (first, second):
        variables["fleet_gateway"] = {**TAKES["fleet_gateway"], "port": 443}
    hosts = {"titan": {"address": "10.0.0.1", "variables": variables}}
    plan = plan_fleet({"hosts": hosts, "folder": str(tmp_path)}, LIBRARY, OF_RECIPES)
    errors = [one for one in plan["findings"] if one["severity"] == "error"]
    assert [one["rule"] for one in errors] == ["input-port-twice"]
    assert errors[0]["place"].startswith(second) and first in errors[0]["found"] and "9100" in errors[0]["found"]


# What owners write in many places ------------------------------------------------------------------------------------

FILES = {
    "fleet_gateway.keys_file": {"fleet_gateway": {"hosts": ["titan"], "keys_file": "FILE"}},
    "fleet_clients.chat.secret_file": {
        "fleet_clients": {"chat": {"kind": "open-webui", "host": "titan", "secret_file": "FILE"}}
    },
    "fleet_monitoring.alerts.webhook_url_file": {
        "fleet_monitoring": {"host": "titan", "alerts": {"webhook_url_file": "FILE"}}
    },
    "fleet_phoenix.secret_file": {"fleet_phoenix": {"host": "titan", "listen": "10.0.0.1", "secret_file": "FILE"}},
    "fleet_services.a.api_key_file": {"fleet_services": {"a": {**SERVICE, "api_key_file": "FILE"}}},
    "fleet_services.a.tracing.headers_file": {
        "fleet_services": {"a": {**SERVICE, "tracing": {"endpoint": "https://traces.lan", "headers_file": "FILE"}}}
    },
    "titan: fleet_host.container_engine.registries.r.password_file": {
        "fleet_host": {"container_engine": {"registries": [{"name": "r", "username": "me", "password_file": "FILE"}]}}
    },
}


def errors_of(variables: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """What was found, by its place."""
    hosts = {"titan": {"address": "10.0.0.1", "variables": {"fleet_services": {}, **variables}}}
    plan = plan_fleet({"hosts": hosts, "folder": str(folder)}, LIBRARY, OF_RECIPES)
    return {one["place"]: one["found"] for one in plan["findings"] if one["severity"] == "error"}


@pytest.mark.parametrize("place", FILES)
@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("none", "no file FILE"),
        (".", "FILE is no file"),
        ("/proc/self/mem", "FILE can't be read: Input/output error"),
        ("/dev/zero", "FILE is no file"),
        ("long", "FILE has more than"),
    ],
)
def test_a_file_that_can_not_be_read_is_named(tmp_path: Path, place: str, file: str, found: str) -> None:
    """Whatever is wrong with it, and whoever declares it: no traceback."""
    (tmp_path / "long").write_bytes(b"a" * ((1 << 20) + 1))
    variables = json.loads(json.dumps(FILES[place]).replace("FILE", file))
    assert errors_of(variables, tmp_path)[place].startswith(found.replace("FILE", str(tmp_path / file)))


LISTENS: dict[str, Any] = {
    "fleet_clients.chat": {"fleet_clients": {"chat": {"kind": "open-webui", "host": "titan", "listen": "LISTEN"}}},
    "fleet_monitoring": {"fleet_monitoring": {"host": "titan", "listen": "LISTEN"}},
    "fleet_phoenix": {"fleet_phoenix": {"host": "titan", "listen": "LISTEN", "secret_file": "none"}},
    "fleet_services.a": {"fleet_services": {"a": {**SERVICE, "listen": "LISTEN"}}},
}


@pytest.mark.parametrize("place", LISTENS)
@pytest.mark.parametrize(
    ("listen", "is_wrong"),
    [("10.0.0", True), ("300.0.0.1", True), (":", True), ("fd00", True), ("10.0.0.1", False), ("::1", False)],
)
def test_what_is_no_address_is_refused(tmp_path: Path, place: str, listen: str, is_wrong: bool) -> None:
    variables = json.loads(json.dumps(LISTENS[place]).replace("LISTEN", listen))
    assert (f"{place}.listen" in errors_of(variables, tmp_path)) == is_wrong


def test_what_nobody_declares_is_nowhere() -> None:
    context = PlanContext("site", HOSTS, {}, {"titan": 0, "beast": 0}, {"free": {"disk_gib": 1}})
    parts: dict[str, FleetPart] = {}
    for subject in FLEET_SUBJECTS:
        parts[subject.name], problems = subject.plan(
            None, PlanContext(**{**vars(context), "fleet": {name: parts[name] for name in subject.after}})
        )
        part = parts[subject.name]
        assert [*problems, *part.sources, part.callers] == [""]
        for host in HOSTS:
            assert [*part.apis(host), *part.listens(host), *part.images(host)] == []
