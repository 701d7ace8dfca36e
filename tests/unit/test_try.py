# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""gb10.fleet.try and the command `gb10`: what is chosen, what is declared, and what is typed for a person."""

from __future__ import annotations

import http.server
import importlib.util
import json
import os
import subprocess
import sys
import threading
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.action import ask, init_try
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.recipe import load_all
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init import trying
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init.decide import Host, Proposal
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init.running import read_ours
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init.write import (
    FLEET,
    HOSTS,
    KEPT,
    kept_text,
    tried_texts,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.asked import request, streamed
from test_init import BARE

ROOT = Path(__file__).parents[2]
LIBRARY = load_all([ROOT / "recipes"])[0]
LAB = load_all([ROOT / "inventories/lab/recipes"])[0]
CABLE = {"cables": [["a:1", "b:1"]]}


def spark(address: str = "10.0.0.1", memory_kib: int = 127535084) -> Host:
    return Host(address, {**BARE, "memory_kib": memory_kib, "serving": [], "ours": []})  # type: ignore[typeddict-item]


def warnings(plan: Mapping[str, Any]) -> list[str]:
    return [row["rule"] for row in plan["findings"] if row["severity"] == "warning"]


# What is chosen ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory_kib", [127535084, 62800000])
def test_what_fits_best_plans_without_an_error_and_comes_soon(memory_kib: int) -> None:
    hosts = {"a": spark(memory_kib=memory_kib)}
    name = trying.best(hosts, {}, LIBRARY)
    plan = trying.planned({"recipe": name}, hosts, {}, LIBRARY)
    [row] = plan["summary"]
    assert row["fits"] == "yes" and not row["errors"]
    assert warnings(plan) == []
    assert (row["download_bytes"] or 0) <= 40 << 30
    assert (trying.spoken(plan) or 0) >= 30


def test_a_pair_gets_a_model_for_two() -> None:
    hosts = {"a": spark(), "b": spark("10.0.0.2")}
    name = trying.best(hosts, CABLE, LIBRARY)
    assert 2 in LIBRARY.recipes[name].data["host_counts"]
    assert not [
        one for one in trying.planned({"recipe": name}, hosts, CABLE, LIBRARY)["findings"] if one["hosts"] == []
    ]


@pytest.mark.parametrize("memory_kib", [127535084, 62800000])
def test_the_model_of_a_pair_is_none_that_a_plan_warns_of(memory_kib: int) -> None:
    hosts = {"a": spark(memory_kib=memory_kib), "b": spark("10.0.0.2", memory_kib)}
    name = trying.best(hosts, CABLE, LIBRARY)
    assert warnings(trying.planned({"recipe": name}, hosts, CABLE, LIBRARY)) == []


def test_no_recipe_for_three_machines_is_the_reason_given() -> None:
    three = {name: spark() for name in "abc"}
    assert "on 3 hosts; try 2 of them" in trying.none_fits(three, LIBRARY)
    assert "name a smaller model: -e model=ORG/NAME" in trying.none_fits({"a": spark(memory_kib=4 << 20)}, LIBRARY)


def test_where_nothing_fits_nothing_is_chosen() -> None:
    assert trying.best({"a": spark(memory_kib=4 << 20)}, {}, LIBRARY) == ""


def test_a_model_that_is_too_large_is_short_of_something() -> None:
    plan = trying.planned({"recipe": "qwen3-coder-next-fp8"}, {"a": spark(memory_kib=62800000)}, {}, LIBRARY)
    assert trying.shortage(plan).endswith(("GiB short", "too large"))
    assert trying.shortage(trying.planned({"recipe": "lab-tiny"}, {"a": spark()}, {}, LAB)) == ""


@pytest.mark.parametrize(
    ("model", "service", "problem"),
    [
        ("gpt-oss-20b", {"recipe": "gpt-oss-20b"}, ""),
        (LIBRARY.recipes["gemma-4-26b-a4b-it"].data["model"]["repository"], {"recipe": "gemma-4-26b-a4b-it"}, ""),
        ("some/thing", {"model": "some/thing"}, ""),
        ("gpt-os-20b", {}, 'write "gpt-oss-20b"'),
        ("/", {}, "no recipe"),
        ("a/b/c", {}, "no recipe"),
    ],
)
def test_a_model_is_a_recipe_or_of_the_hub(model: str, service: dict[str, str], problem: str) -> None:
    found, why = trying.named(model, LIBRARY)
    assert found == service
    assert problem in why and bool(why) == bool(problem)


def test_what_runs_keeps_its_port_and_is_named() -> None:
    running = [
        {"hosts": ["a"], "port": 8000, "recipe": "gpt-oss-20b", "served_name": "oss"},
        {"hosts": ["a"], "port": 8001, "model": "x/y"},
    ]
    assert trying.port_for(running, "fleet-try-1") == 8002
    for one in trying.running_words(running, "fleet-try-1"):
        assert one.endswith(": it goes on")


def ours(service: str, inventory: str, port: int, model: str = "m") -> dict[str, Any]:
    return {"service": service, "inventory": inventory, "port": port, "model": model}


def test_the_try_before_is_named_and_gives_its_place_and_what_is_kept_goes_on() -> None:
    hosts = {"a": spark(), "b": spark("10.0.0.2")}
    hosts["a"].reading["ours"] = [ours("chat", "home", 8000), ours("try-2", "fleet-try-1", 8001)]  # type: ignore
    hosts["b"].reading["ours"] = [ours("big", "", 8002), ours("try-2", "fleet-try-1", 0, "")]  # type: ignore
    found = trying.of_inventories(hosts)
    assert [*trying.running_words(found, "fleet-try-1")] == [
        "a serves m on port 8000: chat of the inventory home; it goes on, and keeps its memory",
        "a, b serves m on port 8001: the try before; this try takes its place",
        "b serves m on port 8002: big of another inventory; it goes on, and keeps its memory",
    ]
    assert trying.port_for(found, "fleet-try-1") == 8001
    assert trying.name_for(found, "fleet-try-1") == "try-2"
    assert trying.name_for(found, "home") == "chat"
    assert trying.name_for([], "fleet-try-1") == "chat"


def action_of(monkeypatch: pytest.MonkeyPatch, folder: Path, shown: list[str]) -> init_try.ActionModule:
    """The action, over one machine on which an inventory keeps `chat`."""
    reading = spark().reading | {
        "ours": [ours("chat", "home", 8000)],
        "halves": {},
        "seen": [],
        "ray": [],
        "beside": {},
    }
    monkeypatch.setattr(init_try, "read_hosts", lambda *_words: {"a": Host("10.0.0.1", reading)})  # type: ignore
    monkeypatch.setattr(init_try, "load_all", lambda _folders: (LAB, []))
    monkeypatch.setattr(init_try, "show", shown.append)
    action = init_try.ActionModule.__new__(init_try.ActionModule)
    action._task = SimpleNamespace(check_mode=False)
    options = {"folder": str(folder), "plan": None, "hosts": [{"user": "anna"}], "model": "lab-tiny"}
    action.decided = action.act(options, {"groups": {"all": ["a", "localhost"]}})  # type: ignore[attr-defined]
    return action


def test_a_try_beside_a_kept_service_has_a_name_a_port_and_an_inventory_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown: list[str] = []
    decided = action_of(monkeypatch, tmp_path, shown).decided  # type: ignore[attr-defined]
    assert any("chat of the inventory home; it goes on" in line for line in shown)
    assert decided["name"] == "try-2"
    declared = decided["variables"]["a"]
    assert declared["fleet_services"]["try-2"]["port"] == 8001
    assert declared["fleet_name"].startswith("fleet-try-") and declared["fleet_name"] in decided["texts"][FLEET]


def test_the_next_try_goes_by_the_names_of_the_one_before_until_that_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = action_of(monkeypatch, tmp_path, []).decided  # type: ignore[attr-defined]
    (tmp_path / FLEET).parent.mkdir(parents=True)
    for name, text in first["texts"].items():
        (tmp_path / name).write_text(text)
    again = action_of(monkeypatch, tmp_path, []).decided  # type: ignore[attr-defined]
    assert again["variables"] == first["variables"]
    with (tmp_path / FLEET).open("a") as file:
        file.write(f"{KEPT} /home/anna/mine\n")
    new = action_of(monkeypatch, tmp_path, []).decided  # type: ignore[attr-defined]
    assert new["variables"]["a"]["fleet_name"] != first["variables"]["a"]["fleet_name"]


def test_what_is_kept_is_read_of_its_unit_and_its_supervisors_file(tmp_path: Path) -> None:
    (tmp_path / "gb10-service-chat.service").write_text("[X-gb10]\nInventory=home\n")
    (tmp_path / "gb10-service-rank.service").write_text("[X-gb10]\nInventory=home\n")
    (tmp_path / "gb10-service-odd.service").write_text("")
    (tmp_path / "other.service").write_text("")
    endpoint = {"url": "http://10.0.0.1:8003/v1", "model": "oss"}
    (tmp_path / "chat.json").write_text(json.dumps({"ranks": 1, "endpoint": endpoint}))
    (tmp_path / "rank.json").write_text(json.dumps({"ranks": 2, "endpoint": None}))
    (tmp_path / "odd.json").write_text("{")
    found = sorted(read_ours(tmp_path, tmp_path), key=lambda one: str(one["service"]))
    assert found == [ours("chat", "home", 8003, "oss"), ours("odd", "", 0, ""), ours("rank", "home", 0, "")]


# What is declared -------------------------------------------------------------------------------------------------


def test_what_is_tried_is_an_inventory_and_can_be_kept() -> None:
    hosts = {"a": spark(memory_kib=62800000), "b": Host("", BARE | {"serving": [], "ours": []})}  # type: ignore[arg-type]
    services = {"chat": {"recipe": "gpt-oss-20b", "hosts": ["a", "b"], "port": 8000}}
    files = tried_texts(hosts, services, CABLE, "anna", "fleet-try-1")
    written = [text for name, text in files.items() if name.endswith(".yml")]
    assert all(text.startswith("---\n# gb10.fleet.try wrote this") for text in written)
    declared = {"fleet_name": "fleet-try-1", "fleet_fabric": CABLE, "fleet_services": services}
    assert yaml.safe_load(files[FLEET]) == declared
    assert yaml.safe_load(files[HOSTS])["all"]["hosts"]["b"] == {"ansible_connection": "local"}
    kept = yaml.safe_load(kept_text(Proposal(CABLE, {}, ["a cable"]), services, "fleet-try"))
    assert kept == {"fleet_fabric": CABLE, "fleet_services": services, "fleet_name": "fleet-try"}


# What is asked ----------------------------------------------------------------------------------------------------


class Answers(http.server.BaseHTTPRequestHandler):
    lines: tuple[str, ...] = ()
    status = 200
    seen: dict[str, Any]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).seen = {"body": body, "key": self.headers["Authorization"]}
        self.send_response(self.status)
        self.end_headers()
        for line in self.lines:
            self.wfile.write(f"{line}\n\n".encode())

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1/chat/completions"
    server.shutdown()
    server.server_close()


def delta(**words: str) -> str:
    return "data: " + json.dumps({"choices": [{"delta": words}]})


def test_an_answer_is_read_word_by_word(endpoint: str) -> None:
    usage = "data: " + json.dumps({"choices": [], "usage": {"completion_tokens": 7}})
    Answers.status, Answers.lines = 200, (delta(reasoning="hm"), delta(content="A "), delta(content="box"), usage)
    Answers.lines += ("data: [DONE]", "data: nonsense")
    answer, first_s, last_s, tokens = streamed(endpoint, {"model": "m"}, "secret", None)
    assert (answer, tokens) == ("A box", 7)
    assert 0 < first_s <= last_s
    assert Answers.seen == {"body": {"model": "m"}, "key": "Bearer secret"}


@pytest.mark.parametrize(
    ("status", "lines", "why"),
    [(401, ("no key",), "HTTP 401: no key"), (200, (), "without a word"), (200, ("data: {",), "Expecting")],
)
def test_what_is_no_answer_is_refused(endpoint: str, status: int, lines: tuple[str, ...], why: str) -> None:
    Answers.status, Answers.lines = status, lines
    with pytest.raises(ValueError, match=why):
        streamed(endpoint, {}, "", None)


def test_a_question_goes_where_the_proof_goes() -> None:
    proof = {"body": {"model": "m", "messages": [{"role": "user", "content": "x"}], "max_tokens": 2, "seed": 1}}
    assert request(proof, "Why?", 9) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Why?"}],
        "max_tokens": 9,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert request({"body": {"model": "m", "input": "x"}}, "Why?", 9) is None


@pytest.mark.parametrize(
    "answer",
    [
        "x" * 4000,
        "ab cd " * 800,
        "\x1b[2J\x9b31m\x0b\x0c\x1c\x85\u2028\u202e" * 90,
        "\u4e2d" * 900,
        "\U0001f600 " * 400,
    ],
)
def test_an_answer_takes_few_lines_and_no_terminal_obeys_it(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    shown: list[str] = []
    service = {"name": "chat", "proof": {"url": "", "certificate": None, "request": {"path": "/", "body": {}}}}
    options = {"service": service | {"key": None}, "question": "?", "spoken": None, "endpoint": "", "end": []}
    action = ask.ActionModule.__new__(ask.ActionModule)
    action._task = SimpleNamespace(check_mode=False)
    monkeypatch.setattr(ask, "request", lambda *_words: {})
    monkeypatch.setattr(ask, "show", shown.append)
    monkeypatch.setattr(action, "ask", lambda *_words: {"answer": answer, "first_s": 1.0, "speed": None})
    returned = action.act(options, {})["answer"]
    assert all(letter.isprintable() for letter in returned)
    cells = [
        sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in line) for line in shown[1].split("\n")
    ]
    assert max(cells) <= 118 and len(cells) <= 6


# gb10 -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gb10() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gb10", ROOT / "cli" / "gb10.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def inventory(folder: Path, name: str) -> None:
    (folder / name / "group_vars/all").mkdir(parents=True)
    (folder / name / "hosts.yml").write_text("all:\n  hosts:\n    titan: {ansible_host: titan.local} # NVIDIA\n")
    (folder / name / "group_vars/all/fleet.yml").write_text(
        "fleet_services:\n  chat:\n    recipe: x\n    port: 1\n  embed: {}\nfleet_name: x\n"
    )


@pytest.mark.parametrize(
    ("typed", "runs"),
    [
        ("init", "-i localhost, gb10.fleet.init"),
        ("try spark-1 spark-2 -e model=x", "-i localhost, gb10.fleet.try -e host=spark-1,spark-2 -e model=x"),
        ("up -K", "-i mine gb10.fleet.site -K"),
        ("status -i other", "gb10.fleet.status -i other"),
        ("ask Why not", "-i mine gb10.fleet.ask -e question='Why not'"),
        ("remove -l titan -e remove=titan", "-i mine gb10.fleet.remove -l titan -e remove=titan"),
    ],
)
def test_gb10_is_a_line_of_ansible_playbook(gb10: ModuleType, tmp_path: Path, typed: str, runs: str) -> None:
    inventory(tmp_path, "mine")
    inventory(tmp_path, "fleet-try")
    assert " ".join(gb10.line(typed.split(), tmp_path, {})) == runs


@pytest.mark.parametrize(
    ("typed", "why"),
    [("up", "no inventory is here: gb10 init"), ("fly", "knows no 'fly'"), ("plan titan", "takes no 'titan'")],
)
def test_gb10_refuses_in_a_sentence(gb10: ModuleType, tmp_path: Path, typed: str, why: str) -> None:
    with pytest.raises(gb10.CannotError, match=why):
        gb10.line(typed.split(), tmp_path, {})


def test_gb10_takes_what_was_tried_and_an_inventory_of_ansibles_own(gb10: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "ansible.cfg").touch()
    assert gb10.line(["plan"], tmp_path, {}) == ["gb10.fleet.plan"]
    inventory(tmp_path, "fleet-try")
    assert gb10.line(["plan"], tmp_path, {}) == ["-i", "fleet-try", "gb10.fleet.plan"]


@pytest.mark.parametrize(
    ("version", "has_collection", "why"),
    [("2.16.3", True, "ansible-core 2.16.3; gb10 needs 2.19"), ("", True, "not here"), ("2.21.5", False, "collection")],
)
def test_gb10_needs_a_new_ansible_and_the_collection(
    gb10: ModuleType, version: str, has_collection: bool, why: str
) -> None:
    gb10.check("2.19.0b1", True)
    with pytest.raises(gb10.CannotError, match=why):
        gb10.check(version, has_collection)


def test_every_verb_is_a_playbook_and_the_command_stays_thin(gb10: ModuleType) -> None:
    for verb in gb10.VERBS:
        assert (ROOT / "playbooks" / f"{gb10._PLAYBOOKS.get(verb, verb)}.yml").is_file()
    assert len((ROOT / "cli" / "gb10.py").read_text().splitlines()) <= 200


def test_words_are_completed(gb10: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text("Host spark-3f1c.local sp*\n  User anna\n")
    inventory(tmp_path, "mine")
    recipes = ROOT / "recipes"
    assert {"init", "try", "up"} <= {*gb10.offered([], tmp_path, recipes)}
    assert [*gb10.offered(["try"], tmp_path, recipes)] == ["titan", "spark-3f1c.local"]
    assert [*gb10.offered(["up", "-l"], tmp_path, recipes)] == ["titan", "spark-3f1c.local"]
    assert "model=gpt-oss-20b" in gb10.offered(["try", "-e"], tmp_path, recipes)
    assert "gpt-oss-20b" in gb10.offered(["try", "-e", "model", "="], tmp_path, recipes)
    assert [*gb10.offered(["status", "-e", "service", "="], tmp_path, recipes)] == ["chat", "embed"]


def test_bash_takes_the_completion(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "cli" / "gb10.py", "--completion"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shell = f'gb10() {{ {sys.executable} {ROOT}/cli/gb10.py "$@"; }}\n{text}\n'
    shell += 'COMP_WORDS=(gb10 sta) COMP_CWORD=1; _gb10; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "status"


def test_a_question_with_braces_arrives_as_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    action = object.__new__(ask.ActionModule)
    action._task = SimpleNamespace(check_mode=False)
    answer = {"answer": "hi", "first_s": 0.1, "speed": None}
    monkeypatch.setattr(
        action, "ask", lambda _module, given, *_rest: asked.append(given["body"]) or answer, raising=False
    )
    monkeypatch.setattr(ask, "show", asked.append)
    proof = {"url": "", "certificate": None, "request": {"path": "/x", "body": {"model": "m", "messages": []}}}
    options = {"service": {"name": "chat", "proof": proof, "key": None}, "question": None, "spoken": None}
    typed = "What do {{ 7*7 }}, {% raw %} and {# this #} mean?"
    action.act({**options, "endpoint": None, "end": []}, {"question": typed})
    assert asked[0]["messages"][-1]["content"] == typed and typed in asked[1]
    [task] = yaml.safe_load((ROOT / "playbooks/ask.yml").read_text())[1]["tasks"]
    assert "question" not in task["gb10.fleet.ask"]  # there Ansible would read it as a template


def test_a_reader_that_ends_first_is_no_fault() -> None:
    """As `gb10 --help | head -1`."""
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, ROOT / "cli/gb10.py", "--help"]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writer)
    assert done.stderr == ""
