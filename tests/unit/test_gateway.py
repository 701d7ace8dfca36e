# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway: what is refused, whom it knows, where it sends requests, and what drift and status see of it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible.parsing.dataloader import DataLoader
from ansible_collections.gb10.fleet.plugins.module_utils._base import gb10, layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.subject import PreflightContext
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.client import Reply
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import Reading, compare
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.managed import managed_files
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify import gateway as proof
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.tables import status_of, status_text
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.text import as_text
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.firewall.ruleset import ruleset
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway import reading
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.clients import (
    client_problems,
    clients_map,
    first_key,
)
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.declared import GATEWAY as FORM
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.declared import PLACE
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.haproxy import quoted
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.subject import GATEWAY
from ansible_collections.gb10.fleet.plugins.modules import gateway_run
from bench.limits import without_limits
from drift_fleet import LIBRARY, OF_RECIPES, changed, readings

CONFIG, BODIES = f"{layout.GATEWAY}/haproxy.cfg", f"{layout.GATEWAY}/bodies.cfg"
MODELS_MAP = f"{layout.GATEWAY}/models.map"
KEYS = "anna: key-of-anna-0000001\nbert: key-of-bert-0000002\n"
ADDRESSES = {"titan": "10.0.0.1", "spark-2": "10.0.0.2", "spark-3": "10.0.0.3"}
A: dict[str, Any] = {"recipe": "lab-tiny", "hosts": ["titan"], "port": 8000, "served_name": "tiny"}
B = {**A, "hosts": ["spark-2"], "tls": "local"}
PAIR: dict[str, Any] = {"hosts": ["titan", "spark-3"], "address": "10.0.0.100"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of the inventory, with the keys of two clients and one key of services."""
    for name, text in (("clients.yml", KEYS), ("own.key", "key-of-all-services"), ("other.key", "key-of-another-one")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    return tmp_path


def plan_of(
    folder: Path, gateway: Any = None, services: Any = None, addresses: Any = None, host: Any = None
) -> dict[str, Any]:
    both = {"a": {**A, "api_key_file": "own.key"}, "b": {**B, "api_key_file": "own.key"}}
    variables = {
        "fleet_services": both if services is None else services,
        "fleet_host": {"memory_kib": 15728640, **(host or {})},
        **(
            {}
            if gateway == {}
            else {"fleet_gateway": {"hosts": ["titan"], "keys_file": "clients.yml", **(gateway or {})}}
        ),
    }
    hosts = {
        name: {"address": address, "variables": variables} for name, address in (ADDRESSES | (addresses or {})).items()
    }
    return plan_fleet({"hosts": hosts, "folder": str(folder)}, LIBRARY, OF_RECIPES)


def errors(plan: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["rule"], one["place"]) for one in plan["findings"] if one["severity"] == "error"]


def config(plan: dict[str, Any]) -> str:
    text: str = plan["hosts"]["titan"]["gateway"]["files"][CONFIG]["content"]
    return text


# The declaration --------------------------------------------------------------------------------------------------


def keyed(name: str, **others: Any) -> dict[str, Any]:
    return {**A, "api_key_file": f"{name}.key", **others}


@pytest.mark.parametrize(
    ("changes", "rule", "place"),
    [
        ({"gateway": {"hosts": ["titan", "sprk-2"]}}, "input-unknown-host", "fleet_gateway.hosts"),
        ({"gateway": {"hosts": ["titan", "titan"]}}, "input-host-twice", "fleet_gateway.hosts"),
        ({"gateway": {"hosts": []}}, "schema-range", "fleet_gateway.hosts"),
        ({"gateway": {"port": 8000}}, "input-port-twice", "fleet_gateway.port"),
        ({"gateway": {"redirect_port": 22}}, "input-port-twice", "fleet_gateway.redirect_port"),
        ({"gateway": {"port": 80}}, "input-port-twice", "fleet_gateway.redirect_port"),
        ({"gateway": {"tls": "none"}}, "input-gateway-tls", "fleet_gateway.tls"),
        ({"gateway": {"tls": {"certificate": "x.crt"}}}, "input-tls", "fleet_gateway.tls"),
        ({"gateway": {"name": "no name"}}, "schema-pattern", "fleet_gateway.name"),
        ({"gateway": {"keys_file": "away.yml"}}, "input-gateway-keys", "fleet_gateway.keys_file"),
        ({"gateway": {"keys_file": "own.key"}}, "input-gateway-keys", "fleet_gateway.keys_file"),
        ({"gateway": {"aliases": {"gpt-4o": "tiny2"}}}, "input-gateway-alias", "fleet_gateway.aliases.gpt-4o"),
        ({"gateway": {"aliases": {"tiny": "tiny"}}}, "input-gateway-alias", "fleet_gateway.aliases.tiny"),
        ({"gateway": {"addresses": ["titan.lan"]}}, "input-gateway-address", "fleet_gateway.addresses"),
        ({"gateway": {"address": "10.0.0.100"}}, "input-gateway-floating", "fleet_gateway.hosts"),
        ({"gateway": PAIR | {"address": "llm.home"}}, "input-gateway-floating", "fleet_gateway.address"),
        ({"gateway": PAIR | {"address": "10.0.0.2"}}, "input-gateway-floating", "fleet_gateway.address"),
        ({"gateway": PAIR | {"address": "fd00::9"}}, "input-gateway-floating", "fleet_gateway.addresses"),
        ({"gateway": PAIR | {"addresses": ["10.0.0.0/24"]}}, "input-gateway-floating", "fleet_gateway.addresses"),
        ({"addresses": {"titan": "titan.lan"}}, "input-gateway-address", "fleet_gateway.hosts"),
        ({"services": {"gateway": keyed("own")}}, "input-gateway-name", "fleet_services.gateway"),
        (
            {"services": {"a": keyed("own"), "b": keyed("other", port=8001)}},
            "input-gateway-key",
            "fleet_services.b.api_key_file",
        ),
        (
            {"services": {"a": keyed("own"), "b": {**A, "open": True, "port": 8001}}},
            "input-gateway-key",
            "fleet_services.b.api_key_file",
        ),
        (
            {"services": {"a": keyed("own", served_name="my model")}},
            "input-gateway-model",
            "fleet_services.a.served_name",
        ),
        (
            {"services": {"b": keyed("own", hosts=["spark-2"], listen="127.0.0.1")}},
            "input-gateway-listen",
            "fleet_services.b.listen",
        ),
    ],
)
def test_what_can_not_be_is_refused(folder: Path, changes: dict[str, Any], rule: str, place: str) -> None:
    assert errors(plan_of(folder, **changes)) == [(rule, place)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gateway": {"hosts": ["titan", "spark-3"], "name": "llm.home", "redirect_port": None, "queue": 0}},
        {"gateway": {"addresses": ["10.0.0.0/24", "fd00::5"]}, "addresses": {"titan": "titan.lan"}},
        {"services": {"a": keyed("own", listen="127.0.0.1")}},  # on the gateway's own host
        {"services": {"a": keyed("own"), "b": keyed("other", served_name="other", port=8001)}},
        {"services": {}},
    ],
)
def test_what_can_be_is_valid_for_haproxy(folder: Path, changes: dict[str, Any]) -> None:
    plan = plan_of(folder, **changes)
    assert errors(plan) == []
    require_valid(plan, folder)


def require_valid(plan: dict[str, Any], folder: Path) -> None:
    """By HAProxy itself, where this machine has it; another one than in PATH by HAPROXY."""
    program = os.environ.get("HAPROXY") or shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("this machine has no haproxy; molecule/gateway has one")
    place = folder / "gateway"
    (place / "keys").mkdir(parents=True)
    part = plan["hosts"]["titan"]["gateway"]
    for path, file in part["files"].items():
        text = file["content"]
        for theirs in (layout.GATEWAY_BODIES_STATUS, layout.GATEWAY_STATUS):
            text = text.replace(theirs, str(folder))
        text = text.replace(layout.GATEWAY, str(place))
        (place / Path(path).name).write_text(re.sub(r" +(user|group) haproxy\n| ssl .*", "", text))
    for key in part["backend_keys"]:
        (place / "keys" / Path(key["path"]).name).write_text(key["form"] % json.dumps("x"))
    (place / "clients.map").write_text(clients_map(KEYS))
    for name in ("haproxy.cfg", "bodies.cfg"):
        done = subprocess.run([program, "-c", "-f", place / name], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        warnings = [line for line in done.stderr.splitlines() if "[WARNING]" in line]
        assert [line for line in warnings if "could not resolve address" not in line] == []


def test_a_token_waits_for_no_other_and_what_may_be_sent_anew_is_small(folder: Path) -> None:
    """HAProxy holds small packets back for up to 200 ms, and copies its whole buffer, filled or not, for each request
    that it might have to send anew: not where it is as large as the largest body."""
    files = plan_of(folder)["hosts"]["titan"]["gateway"]["files"]
    gateway, bodies = ([line.strip() for line in files[path]["content"].splitlines()] for path in (CONFIG, BODIES))
    assert "option http-no-delay" in gateway and "option http-no-delay" in bodies
    assert [line for line in gateway if line.startswith("retry-on")] == ["retry-on conn-failure empty-response 503"]
    assert not [line for line in bodies if line.startswith(("retry-on", "retries"))]
    sizes = [int(line.split()[1]) for lines in (gateway, bodies) for line in lines if line.startswith("tune.bufsize")]
    assert sizes[0] <= 256 << 10 and sizes[1] > 32 << 20


def test_a_supervisors_word_is_that_of_the_gateway_within_a_second(folder: Path) -> None:
    """How fast HAProxy turns away from it and back, by its own numbers; test_gateway_real shows that it does."""
    content = plan_of(folder)["hosts"]["titan"]["gateway"]["files"][CONFIG]["content"]
    words = next(line.split() for line in content.splitlines() if "fastinter" in line)
    inter, fast, down, fall, rise = (
        int(words[words.index(word) + 1].removesuffix("ms"))
        for word in ("inter", "fastinter", "downinter", "fall", "rise")
    )
    assert inter + (fall - 1) * fast < 1000
    assert down + (rise - 1) * fast < 1000


def test_nobody_holds_a_connection_by_silence_or_by_their_number(folder: Path) -> None:
    """Each frontend that the network reaches, by TLS or not. tests/crowd has the crowd and a real HAProxy."""
    text = config(plan_of(folder))
    parts = dict(part.split("\n", 1) for part in re.split(r"^frontend ", text, flags=re.M)[1:])
    reached = {name: part for name, part in parts.items() if re.search(r"^ +bind :", part, re.M)}
    assert sorted(reached) == ["fleet", "plain"]
    for part in reached.values():
        assert "tcp-request connection track-sc0 src table _addresses" in part
        assert part.count("tcp-request connection reject if") == 3
        assert re.search(r"^ +maxconn \d+$", part, re.M)
    (silence,) = re.findall(r"timeout client (\S+)", text)
    assert silence == "30s"


def test_each_model_has_places_that_one_client_cannot_take(folder: Path) -> None:
    """Also while its requests wait for a rollout."""
    plan = plan_of(folder, gateway={"queue": 10})
    slots = plan["gateway"]["models"][0]["slots"]
    for name in ("a", "a_waits"):
        (part,) = re.findall(rf"^backend {name}\n((?: +.*\n)+)", config(plan), re.M)
        assert f"if {{ sc2_conn_cur gt {slots + 10} }}" in part and "set-priority-class sc2_conn_cur" in part


def test_a_clients_own_key_goes_no_further(folder: Path) -> None:
    """Each backend, also where requests wait, takes out a client's headers; an engine's own key comes after."""
    backends = [text.splitlines() for text in re.split(r"^backend ", config(plan_of(folder)), flags=re.MULTILINE)[1:]]
    engines = {name: [line.strip() for line in lines] for name, *lines in backends if not name.startswith("_")}
    assert {*engines} == {"a", "a_waits"}
    for lines in engines.values():
        taken_out = [lines.index(f"http-request del-header {word}") for word in ("Authorization", "X-Api-Key")]
        own = [at for at, line in enumerate(lines) if line.startswith("http-request set-header Authorization")]
        assert [at > max(taken_out) for at in own] == [True]


@pytest.mark.parametrize(
    ("name", "is_strict"), [("llm.home", True), ("titan", False), ("10.0.0.1", False), (None, False)]
)
def test_browsers_are_kept_to_tls_by_a_name_of_its_own_alone(folder: Path, name: str | None, is_strict: bool) -> None:
    """By a host's name other programs are reached, too."""
    plan = plan_of(folder, {"name": name} if name else None)
    assert ("Strict-Transport-Security" in config(plan)) == is_strict


def test_without_a_gateway_nothing_is_of_one(folder: Path) -> None:
    plan = plan_of(folder, gateway={})
    assert plan["gateway"] is None
    assert {json.dumps(host["gateway"]) for host in plan["hosts"].values()} == {"{}"}
    assert {host["firewall"]["state"] for host in plan["hosts"].values()} == {"open"}
    assert "gateway on" not in as_text(plan, [*plan["hosts"]])


# Clients ----------------------------------------------------------------------------------------------------------

CANARY = "canary-7f0e5c1d9a3b"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        f"- {CANARY}",
        CANARY,
        f"anna: {CANARY}\n  bert: {{",
        f'anna: "{CANARY} two words"',
        "anna: short",
        "anna: 1234567890123456789",
        "anna: null",
        f"anna: {CANARY}\nbert: {CANARY}",
        f"anna: {CANARY}\nanna: {CANARY}2",
        f"'{CANARY} #': {CANARY}",
        "7: 0123456789abcdef0",
        f"{CANARY}ffffffffffffffffffffffffffff: anna",
        f"0123456789abcdef0123456789abcdef: [{CANARY}]",
    ],
)
def test_a_file_that_can_not_work_is_named_without_a_key(text: str) -> None:
    found = [*client_problems(PLACE, "clients.yml", text)]
    assert found and all(one.severity == "error" for one in found)
    shown = " ".join(one.sentence() for one in found)
    assert CANARY not in shown and "0123456789abcdef" not in shown
    with pytest.raises(ValueError) as refused:
        clients_map(text)
    assert CANARY not in str(refused.value)


def test_a_gateway_knows_digests_alone() -> None:
    rows = dict(line.split() for line in clients_map(KEYS).splitlines())
    assert rows == {
        hashlib.sha256(f"key-of-{name}-000000{number}".encode()).hexdigest().upper(): name
        for number, name in enumerate(("anna", "bert"), 1)
    }
    assert first_key(KEYS) == "key-of-anna-0000001"


def test_the_clients_are_read_as_ansible_loads_them(tmp_path: Path) -> None:
    """Its loader gives a kind of str, which knows its file and may be decrypted."""
    (tmp_path / "clients.yml").write_text(KEYS)
    loaded = DataLoader().get_text_file_contents(str(tmp_path / "clients.yml"))
    assert first_key(loaded) == first_key(KEYS)
    assert [*client_problems(PLACE, "path", loaded)] == []


# Where requests go ------------------------------------------------------------------------------------------------


def test_services_of_one_model_share_its_requests(folder: Path) -> None:
    plan = plan_of(folder, gateway={"aliases": {"gpt-4o": "tiny"}, "queue": 7})
    lines = [line.strip() for line in config(plan).splitlines()]
    slots = plan["gateway"]["models"][0]["slots"] // 2
    first = f"server a 10.0.0.1:8000 maxconn {slots}"
    second = (
        f"server b 10.0.0.2:8000 maxconn {slots} ssl verify required ca-file @system-ca sni str(spark-2) "
        "verifyhost spark-2"
    )
    served = [line for line in lines if line.startswith("server ") and "nobody" not in line and "track" not in line]
    assert [line.rpartition(" port ")[2] for line in served if "bodies" not in line] == ["20000", "20000"]
    assert [line.removesuffix(" port 20000") for line in lines if line.startswith("server ")] == [
        "server medium /run/gb10-gateway-bodies/bodies.sock maxconn 192",
        "server largest /run/gb10-gateway-bodies/bodies.sock maxconn 32",
        first,
        second,
        # where requests wait, as long as none of them serves
        f"{first} track a/a",
        f"{second} track a/b",
        "server nobody 127.0.0.1:1 backup",
    ]
    assert any(line.endswith("if { queue gt 14 }") for line in lines)
    assert plan["hosts"]["titan"]["gateway"]["files"][MODELS_MAP]["content"] == "gpt-4o a\ntiny a\n"
    assert [row["services"] for row in plan["gateway"]["models"]] == [["a", "b"]]


# What a client at the gateway's own port may take; the other process has the gateway alone as client.
OF_ONE = ("client", "http-request", "tunnel")


def test_requests_of_a_held_model_wait_as_long_as_declared(folder: Path) -> None:
    config = plan_of(folder, gateway={"wait_s": 90})["hosts"]["titan"]["gateway"]["files"][CONFIG]["content"]
    waits = config.partition("_waits\n")[2]
    assert "    retries 90\n    timeout queue 90s\n" in waits
    assert "did not serve again within 90 s" in waits


def test_each_key_has_a_case() -> None:
    cases = Path(__file__).read_text("utf-8")
    assert [key for key in FORM["options"] if f'"{key}"' not in cases] == [], "write a case of these keys here"


def test_both_processes_wait_as_long(folder: Path) -> None:
    """A request goes through both: the shorter limit of two would hold for it, whatever the other says."""
    files = plan_of(folder)["hosts"]["titan"]["gateway"]["files"]
    texts = [files[path]["content"].partition("\nfrontend ")[0] for path in (CONFIG, BODIES)]
    found = [dict(re.findall(r"^ +timeout (\S+) (\S+)$", text, re.MULTILINE)) for text in texts]
    shared = [{name: value for name, value in one.items() if name not in OF_ONE} for one in found]
    assert shared[0] == shared[1]
    assert {*shared[0]} == {"connect", "http-keep-alive", "queue", "server"}


def test_an_alias_is_a_further_name_of_its_services(folder: Path) -> None:
    """HAProxy can't change a request's body, so that the engine has to know the name."""
    services = {"a": keyed("own"), "c": keyed("own", served_name="other", port=8001)}
    plans = [plan_of(folder, gateway={"aliases": aliases}, services=services) for aliases in ({}, {"gpt-4o": "tiny"})]
    words = [
        {one["name"]: one["container"]["arguments"] for one in plan["hosts"]["titan"]["services"]} for plan in plans
    ]
    assert words[0]["c"] == words[1]["c"]
    assert [word for word in words[1]["a"] if word not in words[0]["a"]] == ["gpt-4o"]
    name = words[1]["a"].index("--served-model-name")
    assert words[1]["a"][name + 1 : name + 3] == ["tiny", "gpt-4o"]


def test_no_secret_is_in_the_plan(folder: Path) -> None:
    text = json.dumps(plan_of(folder)) + as_text(plan_of(folder), [*ADDRESSES])
    assert not [word for word in ("key-of-anna", "key-of-bert", "key-of-all") if word in text]


@pytest.mark.parametrize("text", ["it's", "''", 'a "b" $c \\ #d %e'])
def test_a_word_is_one_word_for_haproxy(text: str) -> None:
    """Its quoting is that of a shell's single quotes."""
    echoed = subprocess.run(["sh", "-c", f"printf %s {quoted(text)}"], capture_output=True, text=True, check=True)
    assert echoed.stdout == text


# The packet filter ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "changes", "state", "opened"),
    [
        ("titan", {}, "limited", [(8000, ["10.0.0.1"]), (20000, ["10.0.0.1"])]),
        ("spark-2", {}, "limited", [(8000, ["10.0.0.1"]), (20000, ["10.0.0.1"])]),
        ("spark-3", {}, "open", []),
        (
            "spark-2",
            {"gateway": {"addresses": ["10.9.0.0/24"]}},
            "limited",
            [(8000, ["10.9.0.0/24"]), (20000, ["10.9.0.0/24"])],
        ),
        (
            "titan",
            {"host": {"firewall": {"state": "closed"}}},
            "closed",
            [(8000, ["10.0.0.1"]), (20000, ["10.0.0.1"]), (443, []), (80, [])],
        ),
        (
            "spark-2",
            {"host": {"firewall": {"allow": [{"port": 8000, "from": ["10.0.0.9"]}, {"port": 9100}]}}},
            "limited",
            [(8000, ["10.0.0.1"]), (20000, ["10.0.0.1"]), (8000, ["10.0.0.9"])],
        ),
    ],
)
def test_the_services_ports_are_the_gateways_alone(
    folder: Path, host: str, changes: dict[str, Any], state: str, opened: list[Any]
) -> None:
    plan = plan_of(folder, **changes)["hosts"][host]["firewall"]
    assert (plan["state"], [(one["port"], one["from"]) for one in plan["open"]]) == (state, opened)


# The floating address ---------------------------------------------------------------------------------------------


def test_one_of_several_gateways_has_the_floating_address(folder: Path) -> None:
    plan = plan_of(folder, PAIR)
    assert (plan["gateway"]["url"], plan["gateway"]["address"]) == ("https://10.0.0.100/v1", "10.0.0.100")
    part = plan["hosts"]["spark-3"]["gateway"]
    lines = [line.strip() for line in part["files"][reading.ADDRESS_CONFIG]["content"].splitlines()]
    assert {"priority 199", "nopreempt", "unicast_src_ip 10.0.0.3", "10.0.0.100/32 dev enP7s7"} <= {*lines}
    assert lines[lines.index("unicast_peer {") + 1 : lines.index("unicast_peer {") + 3] == ["10.0.0.1", "}"]
    assert (part["packages"], [*part["units"]]) == (["haproxy", "curl", "keepalived"], [*layout.GATEWAY_UNITS])
    assert "10.0.0.100" in part["tls"]["names"]
    # both have the same files but for this one, so that a client sees no difference
    other = plan["hosts"]["titan"]["gateway"]
    assert {path for path in part["files"] if part["files"][path] != other["files"][path]} == {reading.ADDRESS_CONFIG}
    assert (part["tls"], part["clients"]) == (other["tls"], other["clients"])
    alone = plan_of(folder)["hosts"]["titan"]["gateway"]
    assert (alone["address"], alone["packages"], [*alone["units"]]) == (None, ["haproxy"], [*UNITS])


@pytest.mark.parametrize("state", ["closed", "open"])
def test_gateways_alone_may_ask_for_it(folder: Path, state: str) -> None:
    rules = plan_of(folder, PAIR, host={"firewall": {"state": state}})["hosts"]["spark-3"]["firewall"]
    lines = [line.strip() for line in ruleset(rules, [22]).splitlines()]
    accepted = 'ip saddr { 10.0.0.1 } meta l4proto 112 accept comment "the other gateways"'
    refused = "counter drop" if state == "closed" else "meta l4proto 112 counter drop"
    assert lines.index(accepted) < lines.index(refused)
    assert not [line for line in lines if "None" in line]


@pytest.mark.parametrize(
    ("here", "rules"),
    [
        ((True, False), []),
        ((False, True), []),
        ((False, False), [("titan", "gateway-address")]),
        ((True, True), [("spark-3", "gateway-address")]),
        ((False, None), []),  # who knows what the other one has
    ],
)
def test_who_has_it_is_looked_at(folder: Path, here: tuple[bool | None, bool | None], rules: list[Any]) -> None:
    plan = plan_of(folder, PAIR)
    found = readings(plan)
    for host, has in zip(PAIR["hosts"], here, strict=True):
        found |= {host: Reading((found[host].state or {}) | {"gateway_address": has}, {})}
    assert [(one.host, one.rule) for one in compare(plan, found, "2026-11-22").differences] == rules


def test_a_unit_of_an_address_that_is_gone_is_left_over(tmp_path: Path) -> None:
    unit = tmp_path / layout.GATEWAY_ADDRESS_UNIT
    unit.touch()
    assert reading.leftovers([], str(tmp_path / "none"), str(tmp_path)) == [str(unit)]
    assert reading.leftovers([str(unit)], str(tmp_path / "none"), str(tmp_path)) == []
    assert (reading.has_address("127.0.0.1"), reading.has_address("192.0.2.1")) == (True, False)


# Its files as one set ---------------------------------------------------------------------------------------------

UNITS = (layout.GATEWAY_UNIT, layout.GATEWAY_BODIES_UNIT)
HAPROXY = """#!/bin/sh
for file; do :; done
grep -n refused "$file" && { echo "[ALERT] config : parsing [$file:2] : unknown keyword 'refused'" >&2; exit 1; }
certificate=$(sed -n 's/^crt //p' "$file")
test -z "$certificate" || cat "$certificate" > /dev/null
"""
SYSTEMCTL = """#!/bin/sh
case "$1" in
is-active) grep -qs "$3" "$0.stopped" && exit 3; exec test -e "$0.$1" ;;
is-*) exec test -e "$0.$1" ;;
esac
echo "$1:$2" >> "$0.done"
touch "$0.is-active" "$0.is-enabled" "$0.read"
"""


class Titan:
    """A gateway's host, with a HAProxy that refuses one word and a systemctl that notes what it is asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.gateway, self.systemctl, self._capsys = folder / "gateway", folder / "systemctl", capsys
        self.gateway.mkdir()
        for name, text in (("haproxy", HAPROXY), ("systemctl", SYSTEMCTL)):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        self.refusal = ""
        monkeypatch.setattr(gateway_run, "refused", lambda *_: self.refusal)
        monkeypatch.setattr(layout, "GATEWAY", str(self.gateway))
        monkeypatch.setattr(layout, "GATEWAY_READ", f"{self.systemctl}.read")
        monkeypatch.setattr(gateway_run, "CONFIG", f"{self.gateway}/haproxy.cfg")
        monkeypatch.setattr(gateway_run, "BODIES_CONFIG", f"{self.gateway}/bodies.cfg")
        monkeypatch.setattr(gateway_run, "_STAGED", f"{self.gateway}/staged")
        for module in (gateway_run, reading):
            monkeypatch.setattr(module, "PROGRAM", str(folder / "haproxy"))

    def is_stopped(self, unit: str) -> None:
        Path(f"{self.systemctl}.stopped").write_text(unit)

    def run(
        self, word: str = "one", key: str | None = "key", name: str = "a.map", check: bool = False, bodies: str = "x"
    ) -> dict[str, Any]:
        text = f"# the gateway\n{word}\ncrt {self.gateway}/tls.crt\n"
        arguments = {
            "plan": {
                "units": dict.fromkeys(UNITS, "started"),
                "readiness": {"tiny": {"chat": ["10.0.0.3", 20000], "away": ["10.0.0.4", 20000]}},
                "tls": {
                    "certificate": {"path": f"{self.gateway}/tls.crt"},
                    "key": {"path": f"{self.gateway}/keys/{name}"},
                    "ca": None,
                    "names": ["llm.home"],
                },
                "files": {
                    f"{self.gateway}/haproxy.cfg": {"mode": "0644", "content": text},
                    f"{self.gateway}/bodies.cfg": {"mode": "0644", "content": f"# large bodies\n{bodies}\n"},
                },
            },
            "secrets": {f"{self.gateway}/tls.crt": "certificate", f"{self.gateway}/keys/{name}": key},
            "_ansible_check_mode": check,
            "_ansible_diff": True,
        }
        with patch_module_args(arguments), pytest.raises(SystemExit):
            gateway_run.main()
        result: dict[str, Any] = json.loads(self._capsys.readouterr().out)
        return result

    def files(self) -> dict[str, str]:
        return {
            str(file.relative_to(self.gateway)): file.read_text() for file in self.gateway.rglob("*") if file.is_file()
        }

    def of_both(self, *words: str) -> list[str]:
        return [f"{word}:{unit}" for word in words for unit in UNITS]

    def done(self) -> list[str]:
        noted = Path(f"{self.systemctl}.done")
        return noted.read_text().split() if noted.exists() else []


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Titan:
    return Titan(tmp_path, monkeypatch, capsys)


def test_the_files_come_as_one_set_and_only_what_differs(place: Titan) -> None:
    assert place.run(check=True, key=None)["did"] == ["enable", "start"] and place.files() == {}
    first = place.run()
    assert (first["changed"], len(first["changed_files"]), place.done()) == (
        True,
        4,
        place.of_both("enable", "reload-or-restart"),
    )
    assert place.run()["changed"] is False
    mode = (place.gateway / "keys" / "a.map").stat().st_mode & 0o777
    assert (mode, "key" in json.dumps(first["diff"]).replace("keys/", "")) == (0o600, False)
    other = place.run("two", key="changed")
    assert (other["did"], sorted(Path(file).name for file in other["changed_files"])) == (
        ["reload"],
        ["a.map", "haproxy.cfg"],
    )


@pytest.mark.parametrize("is_there", [False, True])
def test_a_certificate_that_clients_refuse_is_not_brought(place: Titan, is_there: bool) -> None:
    """Of tests/unit/test_tls.py is why they would: here one of a clock that was ahead."""
    if is_there:
        place.run()
    before, done = place.files(), place.done()
    place.refusal = "clients refuse its certificate: certificate is not yet valid"
    result = place.run("two")
    assert result["failed"] and "not yet valid" in result["msg"] and "set the clock" in result["msg"]
    assert (place.files(), place.done()) == (before, done)


def test_services_of_silent_supervisors_are_not_lost(place: Titan, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade of the gateway's host alone: HAProxy would ask supervisors of the release before, and find nobody."""
    place.run()
    before, done = place.files(), place.done()
    rows = "# pxname,svname,status,scur,qcur,last_chk\ntiny,chat,UP,0,0,\ntiny,away,DOWN,0,0,\n"
    monkeypatch.setattr(reading, "ask", lambda _command: rows)
    monkeypatch.setattr(gateway_run, "_PATIENCE_S", 0)
    monkeypatch.setattr(gateway_run, "reaches", lambda *_place: False)
    result = place.run("two")
    assert "serves chat at 10.0.0.3:20000, where no supervisor says" in result["msg"]
    assert "too (no -l)" in result["msg"]
    assert (place.files(), place.done()) == (before, done)
    monkeypatch.setattr(gateway_run, "reaches", lambda *_place: True)
    assert place.run("two")["did"] == ["reload"]


@pytest.mark.parametrize("is_there", [False, True])
def test_what_haproxy_refuses_leaves_every_file_and_the_gateway_as_they_were(place: Titan, is_there: bool) -> None:
    if is_there:
        place.run()
    before, done = place.files(), place.done()
    result = place.run("refused", key="changed", name="b.map")
    assert result["failed"] and f"parsing [{place.gateway}/haproxy.cfg:2]" in result["msg"]
    assert (place.files(), place.done()) == (before, done)
    result = place.run("two", bodies="refused")
    assert result["failed"] and f"parsing [{place.gateway}/bodies.cfg:2]" in result["msg"]
    assert (place.files(), place.done()) == (before, done)


def test_each_of_its_two_units_is_looked_at(place: Titan) -> None:
    """systemctl answers yes for several where it holds for one."""
    place.run()
    place.is_stopped(layout.GATEWAY_BODIES_UNIT)
    assert place.run(check=True)["did"] == ["start"]


def test_what_is_not_needed_goes(place: Titan) -> None:
    place.run()
    (place.gateway / "staged").mkdir()
    (place.gateway / "staged" / "haproxy.cfg").touch()  # of a run that was cut off
    found = reading.leftovers([str(place.gateway / "haproxy.cfg")], str(place.gateway))
    assert [Path(file).name for file in found] == ["bodies.cfg", "a.map", "haproxy.cfg", "tls.crt"]
    result = place.run(name="b.map")
    assert (result["changed"], {*place.files()}) == (True, {"haproxy.cfg", "bodies.cfg", "tls.crt", "keys/b.map"})
    assert not (place.gateway / "staged").exists()


def test_of_two_runs_at_once_the_second_one_waits(place: Titan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both use one folder to show HAProxy what it is to go by, and each removes it."""
    held: list[bool] = []
    require = gateway_run._require_valid

    def valid(*given: Any) -> None:
        look = f"import fcntl, os; fcntl.flock(os.open({str(place.gateway)!r}, 0), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        held.append(subprocess.run([sys.executable, "-c", look], capture_output=True, check=False).returncode != 0)
        require(*given)

    monkeypatch.setattr(gateway_run, "_require_valid", valid)
    place.run()
    assert held == [True]


# Drift and status -------------------------------------------------------------------------------------------------


def down(state: dict[str, Any]) -> None:
    state["gateway"]["servers"]["a"]["b"] = {
        "up": False,
        "status": "DOWN, Connection refused",
        "running": 0,
        "waiting": 0,
    }


def at(path: str, **other: Any) -> Callable[[dict[str, Any]], None]:
    return lambda state: state["files"][path].update(other)


@pytest.mark.parametrize(
    ("change", "rule", "place"),
    [
        (down, "gateway-server", "server b of the gateway"),
        (lambda state: state["gateway"]["servers"].pop("a"), "gateway-server", "server a of the gateway"),
        (lambda state: state["gateway"].update(unread=["x"]), "gateway-unread", "unit gb10-gateway.service"),
        (
            lambda state: state["gateway"].update(holds={"a": "rollout-of-a"}),
            "gateway-held",
            "model of a at the gateway",
        ),
        (
            lambda state: state["units"]["gb10-gateway.service"].update(active="failed"),
            "unit-active",
            "unit gb10-gateway.service",
        ),
        (
            lambda state: state["units"]["gb10-gateway-bodies.service"].update(active="failed"),
            "unit-active",
            "unit gb10-gateway-bodies.service",
        ),
        (at(CONFIG, sha256="0" * 64), "file-content", f"file {CONFIG}"),
        (at(BODIES, sha256="0" * 64), "file-content", f"file {BODIES}"),
        (
            lambda state: state["gateway"].update(leftovers=[f"{layout.GATEWAY}/keys/b.map"]),
            "gateway-leftover",
            f"file {layout.GATEWAY}/keys/b.map",
        ),
        (at(f"{layout.GATEWAY}/clients.map", same=False), "file-content", f"file {layout.GATEWAY}/clients.map"),
        (at(f"{layout.GATEWAY}/keys/a.map", same=False), "file-content", f"file {layout.GATEWAY}/keys/a.map"),
        (at(f"{layout.GATEWAY}/keys/a.map", mode="0644"), "file-access", f"file {layout.GATEWAY}/keys/a.map"),
        (
            lambda state: state["certificates"][f"{layout.GATEWAY}/tls.crt"].update(days_left=5.0),
            "certificate-ending",
            f"file {layout.GATEWAY}/tls.crt",
        ),
        (
            lambda state: state["listening"].append(
                {"port": 8404, "local": False, "process": "haproxy", "container": ""}
            ),
            "port-undeclared",
            "port 8404",
        ),
    ],
)
def test_each_difference_is_reported(
    folder: Path, change: Callable[[dict[str, Any]], None], rule: str, place: str
) -> None:
    plan = plan_of(folder)
    assert compare(plan, readings(plan), "2026-11-22").differences == ()
    found = compare(plan, changed(plan, "titan", change), "2026-11-22")
    assert (rule, place) in [(one.rule, one.place) for one in found.differences]


def test_what_is_secret_is_shown_to_nobody(folder: Path) -> None:
    files = {one.path: one for one in managed_files(plan_of(folder)["hosts"]["titan"])}
    own = [one for path, one in files.items() if path.startswith(f"{layout.GATEWAY}/") and one.source]
    assert len(own) == 4 and all(one.secret and one.content is None for one in own)
    assert files[f"{layout.GATEWAY}/keys/a.map"].rendered("a-key\n") == 'key {"key": "a-key"}\n'


STAT = """\
# pxname,svname,qcur,scur,status,last_chk,
fleet,FRONTEND,,3,OPEN,,
a,a,0,2,UP,L7OK,
a,b,0,0,DOWN,"L4CON, refused",
a,BACKEND,1,3,UP,,
"""


def test_servers_are_read_of_haproxys_statistics() -> None:
    assert reading.servers_of(STAT) == {
        "a": {
            "a": {"up": True, "status": "UP", "running": 2, "waiting": 0},
            "b": {"up": False, "status": "DOWN, L4CON, refused", "running": 0, "waiting": 0},
            "BACKEND": {"up": True, "status": "UP", "running": 3, "waiting": 1},
        }
    }


def test_files_that_changed_since_the_last_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "GATEWAY_READ", str(tmp_path / "read"))
    monkeypatch.setattr(reading, "PROGRAM", str(tmp_path / "haproxy"))
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch()
    assert reading.unread([str(old)]) is None  # it has read nothing yet
    (tmp_path / "read").touch()
    since = old.stat().st_ctime_ns
    os.utime(tmp_path / "read", ns=(since, since))
    assert reading.unread([str(old), str(tmp_path / "none")]) == []
    os.utime(tmp_path / "read", ns=(since - 1, since - 1))
    new.touch()
    os.utime(new, ns=(0, 0))  # as of a package, whose files are as old as their build
    assert reading.unread([str(old), str(new)]) == [str(old), str(new)]


def test_status_shows_each_model_and_what_is_wrong(folder: Path) -> None:
    plan = plan_of(folder)
    read = {"unit": {"active": "active"}, "unread": [], "servers": reading.servers_of(STAT), "why": "", "holds": {}}
    part = plan["hosts"]["titan"]["gateway"]
    found = [one.sentence() for one in proof.problems("titan", part, read)]
    text = status_text(status_of(plan, [], {}, {}, {"titan": {**read, "problems": found}}))
    assert re.search(r"titan +active +tiny +1 of 2 +2 \+ 1", text)
    assert "b on spark-2 gets no requests: DOWN, L4CON, refused" in text
    held = {**read, "holds": {"a": "rollout-of-a"}}
    assert [one.rule for one in proof.problems("titan", part, held)] == ["gateway-held", "gateway-server"]
    stopped = {**read, "unit": {"active": "failed"}}
    assert [one.rule for one in proof.problems("titan", part, stopped)] == ["gateway-down"]


@pytest.mark.parametrize(
    ("listening", "ours", "taken"),
    [
        ([], False, False),
        ([(443, "nginx")], False, True),
        ([(80, "haproxy")], False, True),  # the owner's own
        ([(80, "haproxy"), (443, "haproxy")], True, False),
        ([(443, "nginx")], True, True),
        ([(8443, "nginx")], False, False),
    ],
)
def test_a_port_of_another_program_is_in_the_way(folder: Path, listening: list[Any], ours: bool, taken: bool) -> None:
    state = {
        "listening": [{"port": port, "process": process} for port, process in listening],
        "our_units": [{"unit": "gb10-gateway.service", "inventory": "x"}] if ours else [],
    }
    found = [one.rule for one in GATEWAY.obstacles(PreflightContext("titan", plan_of(folder)["hosts"]["titan"], state))]
    assert found == (["gateway-port-taken"] if taken else [])


def test_requests_that_wait_are_named_before_a_change(folder: Path) -> None:
    state = {"gateway": {"holds": {"a": "rollout-of-a"}}}
    (found,) = GATEWAY.obstacles(PreflightContext("titan", plan_of(folder)["hosts"]["titan"], state))
    assert (found.rule, found.severity) == ("gateway-held", "warning")
    assert "systemctl reload gb10-gateway.service" in found.remedy


# The proof --------------------------------------------------------------------------------------------------------

MODELS = json.dumps({"data": [{"id": "tiny"}]})
CHAT = json.dumps({"choices": [{"message": {"content": "hello"}}]})


@pytest.mark.parametrize(
    ("replies", "words"),
    [
        ({}, ""),
        ({"/v1/models": Reply(200, "<html>")}, "no list of models"),
        ({"/v1/models": Reply(200, '{"data": []}')}, "lists nothing, expected tiny"),
        ({"unkeyed": Reply(200, MODELS)}, "without a client's key it gave 200"),
        ({"/v1/chat/completions": Reply(404, "no such model")}, "a request for tiny gave 404"),
        ({"/v1/chat/completions": Reply(200, "{}")}, "came back without an answer"),
        ({"shown": Reply(0, "certificate is not yet valid")}, "certificate is not yet valid; set the clock"),
    ],
)
def test_it_is_proved_as_a_client_sees_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, replies: dict[str, Reply], words: str
) -> None:
    usual = {
        "/health": Reply(200, "ok"),
        "/v1/models": Reply(200, MODELS),
        "/v1/chat/completions": Reply(200, CHAT),
        "unkeyed": Reply(401, ""),
    }

    def fetch(url: str, key: str, _timeout_s: float, _body: Any = None, **_others: Any) -> Reply:
        path = url.removeprefix("https://127.0.0.1:443")
        return (usual | replies)[path if key == "right" or path == "/health" else "unkeyed"]

    monkeypatch.setattr(proof, "fetch", fetch)
    monkeypatch.setattr(proof, "trusting", lambda _file: None)
    refused = replies["shown"].text if "shown" in replies else ""
    asked: list[Any] = []
    monkeypatch.setattr(proof, "refused_at", lambda *about: asked.append(about) or refused)
    wanted = plan_of(folder)["hosts"]["titan"]["gateway"]["proof"]
    if words:
        with pytest.raises(proof.GatewayError, match=re.escape(words)):
            proof.prove(wanted, "right")
    else:
        assert proof.prove(wanted, "right") == {"tiny": "hello"}
    ((_address, port, *about),) = asked
    assert (port, *about[:2]) == (443, f"{layout.GATEWAY}/tls.crt", layout.trusted_ca(folder.name))
    assert about[2][:2] == ["titan", "10.0.0.1"]


def test_a_model_of_other_hosts_that_is_down_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each host's death each run of the gateway's host ended with an error about it (first week, 14)."""
    ok = Reply(200, CHAT)
    replies = {"big": Reply(404, "away"), "tiny": ok}
    monkeypatch.setattr(proof, "fetch", lambda url, _k, _t, body=None, **_o: replies[body["model"]] if body else ok)
    monkeypatch.setattr(proof, "trusting", lambda _file: None)
    monkeypatch.setattr(proof, "refused_at", lambda *_about: "")
    monkeypatch.setattr(proof, "_require_keys", lambda _ask: None)
    monkeypatch.setattr(proof, "_require_models", lambda *_both: None)
    requests = [{"model": name, "example": {"path": "/v1/chat/completions", "body": {"model": name}, "answers": PLACES}}
                for name in replies]  # fmt: skip
    wanted = {"port": 443, "certificate": "", "ca": None, "names": [], "models": [], "requests": requests}
    assert proof.prove(wanted, "right", ["big"]) == {"tiny": "hello"}
    for elsewhere in ([], ["tiny"]):
        with pytest.raises(proof.GatewayError, match="a request for big gave 404"):
            proof.prove(wanted, "right", elsewhere)


PLACES = [["choices", 0, "message", "content"]]
MAC, ADDRESS = bytes.fromhex("fa7c262f62c6"), socket.inet_aton("10.77.0.9")
REPLY = bytes(12) + bytes.fromhex("0806" "0001" "0800" "0604" "0002") + MAC + ADDRESS + bytes(10)  # fmt: skip


@pytest.mark.parametrize(
    ("frame", "found"),
    [
        (REPLY, {MAC}),
        (REPLY.replace(b"\x06\x04\x00\x02", b"\x06\x04\x00\x01"), set()),  # it asks
        (REPLY.replace(ADDRESS, socket.inet_aton("10.77.0.8")), set()),
        (REPLY.replace(b"\x08\x06", b"\x08\x00"), set()),
        (REPLY[:25], set()),
        (b"", set()),
    ],
)
def test_who_answers_for_an_address_is_seen(frame: bytes, found: set[bytes]) -> None:
    assert reading.answerer(frame, ADDRESS) == found


def test_status_names_a_machine_that_has_the_floating_address_too(folder: Path) -> None:
    part = {**plan_of(folder)["hosts"]["titan"]["gateway"], "address": "10.77.0.9"}
    read = {"unit": {"active": "active"}, "unread": [], "servers": reading.servers_of(STAT), "why": "", "holds": {}}
    (found,) = [
        one for one in proof.problems("titan", part, {**read, "twins": [MAC.hex(":")]})
        if one.rule == "gateway-address-twice"
    ]  # fmt: skip
    assert "fa:7c:26:2f:62:c6 also answers for the address 10.77.0.9" in found.sentence()


def test_the_floating_address_is_announced_again_and_again() -> None:
    assert "vrrp_garp_master_refresh 10" in gb10.filled(
        "keepalived.conf", host="a", interface="e", group=1, port=1, priority=1, here="h", others="", address="x"
    )


def test_what_the_limits_cost_is_measured_without_all_of_them(folder: Path) -> None:
    text = plan_of(folder)["hosts"]["titan"]["gateway"]["files"][CONFIG]["content"]
    left = re.sub(r"^ *#.*\n", "", without_limits(text), flags=re.MULTILINE)
    assert "conn_cur" in text and not re.search("stick-table|conn_cur|req_rate|gpt0|gpc0|track-sc", left)
    assert {*left.splitlines()} < {*text.splitlines()}
