# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open WebUI and Hermes Agent as declared clients of the gateway: what is refused, given and proved."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.managed import Managed
from ansible_collections.gb10.fleet.plugins.module_utils._base.subject import Difference, DriftContext, PreflightContext
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank.client import Reply
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.questions import before_change, host_view
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.client import (
    ClientError,
    prove,
    read_client,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.tables import (
    end_table,
    status_of,
    status_text,
)
from ansible_collections.gb10.fleet.plugins.module_utils._plan.fleet import plan_fleet
from ansible_collections.gb10.fleet.plugins.module_utils._plan.text import as_text
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.clients.subject import CLIENTS
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.undeclared import undeclared
from drift_fleet import LIBRARY, OF_RECIPES

ADDRESSES = {"titan": "10.0.0.1", "spark-2": "10.0.0.2"}
CODER: dict[str, Any] = {
    "recipe": "qwen3.6-27b-nvfp4",  # with a parser of tools
    "hosts": ["titan"],
    "port": 8000,
    "served_name": "coder",
    "workload": {"max_model_len": 65536, "max_num_seqs": 4},
}
CHAT = {"kind": "open-webui", "host": "titan"}
AGENT = {"kind": "hermes", "host": "spark-2", "service": "coder"}
BARE_AGENT = {"kind": "hermes", "host": "titan"}
GATEWAY = {"hosts": ["titan"], "name": "llm.home", "keys_file": "clients.yml"}
KEYS = {"chat": "key-of-the-chat-00001", "agent": "key-of-the-agent-0001"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of the inventory."""
    for name, text in (("clients.yml", json.dumps(KEYS)), ("short.key", "short"), ("own.key", "password-of-the-owner")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    return tmp_path


def plan_of(folder: Path, clients: Any = None, coder: Any = None, gateway: Any = GATEWAY) -> dict[str, Any]:
    variables = {
        "fleet_services": {"coder": {**CODER, **(coder or {})}},
        "fleet_clients": {"chat": CHAT, "agent": AGENT} if clients is None else clients,
        **({"fleet_gateway": gateway} if gateway else {}),
    }
    hosts = {name: {"address": address, "variables": variables} for name, address in ADDRESSES.items()}
    return plan_fleet({"hosts": hosts, "folder": str(folder)}, LIBRARY, OF_RECIPES)


def client(plan: Mapping[str, Any], host: str) -> dict[str, Any]:
    (found,) = plan["hosts"][host]["clients"]
    return dict(found)


def errors(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(one["rule"], one["place"]) for one in plan["findings"] if one["severity"] == "error"]


def words(part: Mapping[str, Any]) -> list[str]:
    """Of `docker run`, out of the unit."""
    unit = part["files"][f"{layout.UNITS}/{part['unit']}"]["content"]
    (line,) = [one for one in unit.splitlines() if one.startswith("ExecStart=")]
    return shlex.split(line.removeprefix("ExecStart="))


@pytest.mark.parametrize(
    ("changes", "rule", "place"),
    [
        ({"clients": {"chat": {**CHAT, "kind": "x"}}}, "schema-choice", "fleet_clients.chat.kind"),
        ({"clients": {"chat": {**CHAT, "host": "titn"}}}, "input-unknown-host", "fleet_clients.chat.host"),
        ({"clients": {"chat": {**CHAT, "port": 8000}}}, "input-port-twice", "fleet_clients.chat.port"),
        ({"clients": {"chat": {**CHAT, "port": 443}}}, "input-port-twice", "fleet_clients.chat.port"),
        (
            {"clients": {"chat": CHAT, "agent": {**AGENT, "host": "titan", "port": 3000}}},
            "input-port-twice",
            "fleet_clients.agent.port",
        ),
        ({"clients": {"coder": {**CHAT, "key": "chat"}}}, "input-client-name", "fleet_clients.coder"),
        ({"clients": {"chat": {**CHAT, "service": "coder"}}}, "input-client-service", "fleet_clients.chat.service"),
        ({"clients": {"agent": {**AGENT, "service": "x"}}}, "input-client-service", "fleet_clients.agent.service"),
        ({"clients": {"agent": BARE_AGENT}}, "input-client-service", "fleet_clients.agent.service"),
        ({"clients": {"web": CHAT}}, "input-client-key", "fleet_clients.web.key"),
        ({"clients": {"chat": CHAT}, "gateway": None}, "input-client-gateway", "fleet_clients.chat"),
        (
            {"clients": {"chat": {**CHAT, "secret_file": "away"}}},
            "input-client-secret",
            "fleet_clients.chat.secret_file",
        ),
        (
            {"clients": {"chat": {**CHAT, "secret_file": "short.key"}}},
            "input-client-secret",
            "fleet_clients.chat.secret_file",
        ),
        (
            {"coder": {"workload": {"max_model_len": 32768, "max_num_seqs": 4}}},
            "input-client-context",
            "fleet_services.coder.workload.max_model_len",
        ),
        (
            {"coder": {"flags": {"enable-auto-tool-choice": None, "tool-call-parser": None}}},
            "input-client-tools",
            "fleet_services.coder.flags",
        ),
    ],
)
def test_what_can_not_be_is_refused(folder: Path, changes: dict[str, Any], rule: str, place: str) -> None:
    assert errors(plan_of(folder, **changes)) == [(rule, place)]


def test_a_gateway_that_can_not_be_is_named_alone(folder: Path) -> None:
    gateway = {"hosts": ["titan"], "keys_file": "away.yml"}
    assert errors(plan_of(folder, gateway=gateway)) == [("input-gateway-keys", "fleet_gateway.keys_file")]


def test_a_service_that_can_not_be_is_named_alone_and_hides_no_client_that_can_not(folder: Path) -> None:
    refused = {"coder": {"api_key_file": "away"}}
    assert errors(plan_of(folder, **refused)) == [("input-key-file", "fleet_services.coder.api_key_file")]
    clients = {"agent": {**AGENT, "service": "x"}}
    found = errors(plan_of(folder, clients=clients, **refused))
    assert sorted(rule for rule, _place in found) == ["input-client-service", "input-key-file"]


def test_each_reaches_the_gateway_by_name_and_trusts_its_ca(folder: Path) -> None:
    plan = plan_of(folder)
    assert errors(plan) == []
    for host in ADDRESSES:
        given = words(client(plan, host))
        assert "localhost" not in " ".join(given).replace("admin@localhost", "")
        assert given[given.index("--add-host") + 1] == "llm.home:10.0.0.1"
        assert "SSL_CERT_FILE=/run/gb10-certificates/ca-certificates.crt" in given
    assert "OPENAI_API_BASE_URL=https://llm.home/v1" in words(client(plan, "titan"))
    settings = json.loads(client(plan, "spark-2")["files"][f"{layout.client_folder('agent')}/config.yaml"]["content"])
    # what it may answer with leaves room for what it asks: else vLLM refuses each request
    own = {"provider": "custom:fleet", "default": "coder", "context_length": 65536, "max_tokens": 16384}
    assert settings["model"] == own
    assert settings["providers"]["fleet"]["base_url"] == "https://llm.home/v1"


def test_no_secret_is_in_the_plan_or_a_command(folder: Path) -> None:
    plan = plan_of(folder, {"chat": {**CHAT, "secret_file": "own.key"}, "agent": AGENT})
    text = json.dumps(plan) + as_text(plan, [*ADDRESSES])
    assert not [secret for secret in (*KEYS.values(), "password-of-the-owner") if secret in text]
    part = client(plan, "titan")
    secret = [one for one in CLIENTS.files([part]) if isinstance(one, Managed) and one.secret]
    texts = [one.rendered(Path(one.source).read_text()) for one in secret]
    assert texts[0] == "OPENAI_API_KEY='key-of-the-chat-00001'\n"
    assert texts[1].startswith("WEBUI_ADMIN_PASSWORD='password-of-the-owner'\nWEBUI_SECRET_KEY='")
    assert [(one.path, one.mode) for one in secret] == [(one["path"], "0600") for one in part["secrets"]]


@pytest.mark.parametrize(
    "text", ["", "a b c d e f g h i j", "x';rm -rf /;'aaaaaaaaaaaa", "key: [1", "web: key-of-web-000000001"]
)
def test_a_secret_that_can_not_be_is_refused_without_a_word_of_it(folder: Path, text: str) -> None:
    files = [*CLIENTS.files([client(plan_of(folder), "titan")])]
    for one in [file for file in files if isinstance(file, Managed) and file.secret]:
        with pytest.raises(ValueError) as refused:
            one.rendered(text)
        assert not text or text not in str(refused.value)


def test_ports_are_those_that_are_asked_for(folder: Path) -> None:
    plan = plan_of(folder)
    listens = {host: [(one["address"], one["port"]) for one in plan["hosts"][host]["listens"] if one["service"] in KEYS]
               for host in ADDRESSES}  # fmt: skip
    assert listens == {"titan": [("0.0.0.0", 3000)], "spark-2": [("127.0.0.1", 8642)]}
    assert "127.0.0.1:8642:8642" in words(client(plan, "spark-2"))
    opened = plan_of(folder, {"agent": {**AGENT, "listen": "10.0.0.2", "port": 9000}})
    assert "10.0.0.2:9000:8642" in words(client(opened, "spark-2"))


def test_their_images_come_as_the_services_do(folder: Path) -> None:
    digest = f"sha256:{'1' * 64}"
    image = {"reference": "mine/webui:1", "digest": digest, "source": {"archive": "/srv/webui.tar"}}
    plan = plan_of(folder, {"chat": {**CHAT, "image": image}})
    (found,) = [one for one in plan["hosts"]["titan"]["images"] if one["reference"] == "mine/webui:1"]
    assert (found["digest"], found["source"]["kind"]) == (digest, "archive")
    assert words(client(plan, "titan"))[-1] == "mine/webui:1"


def test_an_owners_setting_wins_and_is_one_word(folder: Path) -> None:
    env = {"ENABLE_SIGNUP": "true", "WEBUI_BANNERS": """[{"content": "50 % of $HOME"}]"""}
    unit = client(plan_of(folder, {"chat": {**CHAT, "env": env}}), "titan")
    assert "ENABLE_SIGNUP=true" in words(unit)
    # systemd reads %% as %, and $$ as $
    assert """WEBUI_BANNERS=[{"content": "50 %% of $$HOME"}]""" in words(unit)


@pytest.mark.parametrize(
    ("fates", "hosts", "retire"), [(["gone"], {}, []), (["ordered"], {}, ["chat"]), ([], {"chat": ["titan"]}, [])]
)
def test_one_that_is_declared_no_more_goes_by_order(
    fates: list[str], hosts: dict[str, list[str]], retire: list[str]
) -> None:
    run = {"inventory": "fleet", "placed": {}, "clients": hosts, "hosts": ["titan"], "retire": retire}
    units = [{"unit": layout.client_unit("chat"), "inventory": "fleet", "ranks": 1}]
    found = undeclared(units, "titan", run)
    assert [one.fate for one in found] == fates
    for one in found:
        assert one.container == "gb10-client-chat" and one.folders == (layout.client_folder("chat"),)


@pytest.mark.parametrize(
    ("listening", "ours", "taken"), [([], False, False), (["nginx"], False, True), (["docker-proxy"], True, False)]
)
def test_a_port_of_another_program_is_in_the_way(folder: Path, listening: list[str], ours: bool, taken: bool) -> None:
    part = client(plan_of(folder), "titan")
    state = {
        "listening": [{"port": 3000, "process": one} for one in listening],
        "our_units": [{"unit": part["unit"]}] if ours else [],
    }
    look = PreflightContext("titan", {"clients": [part]}, state)
    assert bool([*CLIENTS.obstacles(look)]) == taken


class Client:
    """A client that answers as Open WebUI 0.12 and Hermes 0.19 do, but for what is changed."""

    def __init__(self, **changes: Reply) -> None:
        chat = Reply(200, json.dumps({"choices": [{"message": {"content": "hello"}}]}))
        self.replies = {
            "/health": Reply(200, "{}"),
            "/api/v1/auths/signin": Reply(200, json.dumps({"token": "t"})),
            "/api/models": Reply(200, json.dumps({"data": [{"id": "coder"}]})),
            "/api/chat/completions": chat,
            "/v1/chat/completions": chat,
            "/v1/models": Reply(401, ""),
        } | {path.replace("_", "/"): reply for path, reply in changes.items()}
        self.asked: list[tuple[str, str]] = []

    def __call__(self, url: str, key: str, _timeout_s: float, _body: Any = None) -> Reply:
        path = "/" + url.split("/", 3)[3]
        self.asked.append((path, key))
        return self.replies[path]


def test_it_is_proved_as_its_people_use_it(folder: Path) -> None:
    plan = plan_of(folder)
    chat, agent = Client(), Client()
    assert prove(client(plan, "titan")["proof"], "password", chat) == "hello"
    assert chat.asked[-1] == ("/api/chat/completions", "t")
    assert prove(client(plan, "spark-2")["proof"], "its-own-key", agent) == "hello"
    assert agent.asked[-1] == ("/v1/chat/completions", "its-own-key")
    table = end_table(plan, [], [], {}, {}, {}, clients={"chat": "hello"})
    assert 'chat: admin@localhost signs in at http://titan:3000, and was answered: "hello"' in table


@pytest.mark.parametrize(
    ("host", "changes", "words_of"),
    [
        ("titan", {"_api_v1_auths_signin": Reply(400, "wrong")}, "can't sign in"),
        ("titan", {"_api_models": Reply(200, '{"data": []}')}, "lists no model, expected coder"),
        ("titan", {"_api_chat_completions": Reply(200, "[]")}, "expected an answer"),
        ("spark-2", {"_v1_models": Reply(200, "{}")}, "without its key"),
        ("spark-2", {"_v1_chat_completions": Reply(500, "no context")}, "500: no context"),
    ],
)
def test_what_it_does_not_do_is_reported(folder: Path, host: str, changes: dict[str, Reply], words_of: str) -> None:
    with pytest.raises(ClientError, match=words_of):
        prove(client(plan_of(folder), host)["proof"], "secret", Client(**changes))


UNIT_SHOWN = "ActiveState={}\nSubState=running\nResult=success\nNRestarts=0\nInvocationID=x\nDropInPaths=\n"


@pytest.mark.parametrize(
    ("active", "reply", "health", "problem"),
    [
        ("active", Reply(200, "{}"), "answers", ""),
        ("active", Reply(0, "refused"), "no answer", "/health gave no answer: refused"),
        ("activating", Reply(500, "no"), "no answer", "/health gave 500: no"),
        ("failed", Reply(200, "{}"), "failed", "its unit is failed"),
    ],
)
def test_status_shows_how_each_does(folder: Path, active: str, reply: Reply, health: str, problem: str) -> None:
    plan = plan_of(folder)
    shown = (0, UNIT_SHOWN.format(active), "")
    read = read_client(lambda _words: shown, client(plan, "titan"), lambda *_asked: reply)
    assert read["health"] == health
    assert len(read["problems"]) == bool(problem)
    table = status_text(status_of(plan, [], {}, {}, clients={"chat": read}))
    row = next(line for line in table.splitlines() if line.startswith("chat"))
    assert row.split()[:4] == ["chat", "open-webui", "titan", "http://titan:3000"] and row.endswith(health)
    assert problem in table and ("no problems" in table) == (not problem)


def test_drift_names_what_runs_of_another_image(folder: Path) -> None:
    plan = plan_of(folder)
    start = client(plan, "titan")["start"]
    running = {start["container"]: {"image": "sha256:1", "reference": "former"}}
    for present, found in (("sha256:1", []), ("sha256:2", ["client-image"])):
        state = {"running": running, "images": {start["image"]: {"id": present}}}
        view = DriftContext("titan", plan, {"titan": state})
        assert [one.rule for one in CLIENTS.differences(view) if isinstance(one, Difference)] == found


def test_a_host_whose_client_has_to_be_started_is_converged(folder: Path) -> None:
    plan = plan_of(folder)
    assert client(plan, "titan")["start"] in before_change(host_view(plan, "titan"))["before_change"]["services"]
