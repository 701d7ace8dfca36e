# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of the real SDK asks gb10-mcp: it looks, it proposes, and nothing that it writes runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 600
# In the environment of the SDK: calls of tools as JSON on stdin, answers on stdout.
CLIENT = """\
import asyncio, json, os, sys
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

async def main():
    server = StdioServerParameters(command=sys.executable, args=[sys.argv[1]], env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        tools = [[tool.name, tool.annotations.read_only_hint] for tool in (await client.list_tools()).tools]
        answers = []
        for name, words in json.load(sys.stdin):
            answer = await client.call_tool(name, words)
            answers.append([answer.is_error, "".join(part.text for part in answer.content)])
        print(json.dumps([tools, answers]))

asyncio.run(main())
"""
PLUGIN = "plugin: ansible.builtin.constructed\n"
FLEET = "group_vars/all/fleet.yml"
Ask = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdk")
    pip = [str(folder / "venv/bin/pip"), "install", "-q", "mcp>=2,<3", "ansible-core>=2.19"]
    for words in ([sys.executable, "-m", "venv", str(folder / "venv")], pip):
        subprocess.run(words, check=True, timeout=LIMIT_S)
    return folder / "venv/bin/python"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "group_vars/all").mkdir(parents=True)
    (folder / ".fleet").mkdir()
    (folder / ".fleet/key.yml").write_text("canary-key\n")
    (folder / "hosts.yml").write_text("all: {hosts: {titan: {ansible_host: 10.0.0.11}}}\n")
    (folder / "group_vars/all/connection.yml").write_text("ansible_become_password: canary-password\n")
    (folder / FLEET).write_text("fleet_services: {}\n")
    (folder / "linked.yml").symlink_to("/etc/hostname")
    return folder


@pytest.fixture
def ask(python: Path, mine: Path) -> Ask:
    def asked(*calls: tuple[str, dict[str, Any]]) -> list[Any]:
        own = {"GB10_INVENTORY": str(mine), "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections")}
        ended = subprocess.run(
            [python, "-c", CLIENT, ROOT / "cli/gb10_mcp.py"],
            check=True,
            input=json.dumps(calls),
            env=os.environ | own,
            text=True,
            stdout=subprocess.PIPE,
            timeout=LIMIT_S,
        )
        found = json.loads(ended.stdout)
        assert isinstance(found, list)
        return found

    return asked


def propose(text: str, file: str = FLEET, reason: str = "more room") -> tuple[str, dict[str, Any]]:
    return "propose", {"file": file, "text": text, "reason": reason}


def test_it_looks(ask: Ask) -> None:
    tools, answers = ask(("plan", {}), ("inventory", {}), ("explain", {"rule": "build-unpinned"}))
    assert [name for name, is_read_only in tools if not is_read_only] == ["propose"]
    assert [is_error for is_error, _ in answers] == [False] * 3
    assert "no findings" in answers[0][1] and answers[0][1].endswith("exit code 0")
    assert "fleet_services: {}" in answers[1][1] and "canary" not in answers[1][1] and "linked" not in answers[1][1]
    assert "build-unpinned" in answers[2][1]


def test_a_proposal_is_a_diff_that_a_person_applies(ask: Ask, mine: Path) -> None:
    text = "fleet_services: {}\nfleet_firewall: true\n"
    [[is_error, shown]] = ask(propose(text))[1]
    assert not is_error and "schema-type" in shown and "+fleet_firewall: true" in shown
    assert (mine / FLEET).read_text() == "fleet_services: {}\n"
    [kept] = (mine / ".fleet/proposed").iterdir()
    assert kept.read_text().startswith("more room\n\n--- a/")
    subprocess.run(["git", "apply", kept.relative_to(mine)], cwd=mine, check=True)
    assert (mine / FLEET).read_text() == text


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (propose("fleet_services: {}\n"), "already"),
        (propose("a: 1\n", "../other.yml"), "expected hosts.yml"),
        (propose("a: 1\n", "/etc/cron.d/x.yml"), "expected hosts.yml"),
        (propose("a: 1\n", ".fleet/key.yml"), "expected hosts.yml"),
        (propose("a: 1\n", "plugin.yml"), "expected hosts.yml"),
        (propose("a: 1\n", "group_vars/all/run.sh"), "expected hosts.yml"),
        (propose("a: 1\n", "linked.yml"), "expected hosts.yml"),
        (propose("a: [\n"), "is no YAML"),
        (propose('a: \'{{ lookup("pipe", "id") }}\'\n'), "new template"),
        (propose("a: \"\\u007b\\u007b lookup('pipe', 'id') }}\"\n"), "new template"),
        (propose("{'{% for x in y %}': 1}\n"), "new template"),
        (propose("a: !unsafe '{{ x }}'\n"), "new template"),
        (propose(f"{PLUGIN}compose: {{x: lookup('pipe', 'id')}}\n", "recipes/x.yml"), "a plugin"),
        (propose(f"{PLUGIN}compose: {{x: lookup('pipe', 'id')}}\n", "hosts.yml"), "a plugin"),
        (propose('{"\\u0070lugin": constructed}\n', "hosts.yml"), "a plugin"),
        (propose("<<: {plugin: constructed}\n", "hosts.yml"), "a plugin"),
        (propose("!x {plugin: constructed}\n", "hosts.yml"), "a map"),
        (propose("ansible_become_password: (not shown)\n", "group_vars/all/connection.yml"), "a person"),
        (propose("a: " + "x" * 300_000 + "\n"), "at most"),
        (("drift", {"host": "all,!titan"}), "pattern"),
        (("status", {"service": "x -e a=b"}), "pattern"),
        (("why", {"service": "{{ 1 }}"}), "pattern"),
        (("explain", {"rule": "nobody-knows-it"}), "has no row of"),
    ],
)
def test_all_else_is_refused(ask: Ask, mine: Path, call: tuple[str, dict[str, Any]], words: str) -> None:
    before = {path: path.read_text() for path in mine.rglob("*") if path.is_file()}
    [[is_error, shown]] = ask(call)[1]
    assert is_error and words in shown and "canary" not in shown
    assert {path: path.read_text() for path in mine.rglob("*") if path.is_file()} == before
