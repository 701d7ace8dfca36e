# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No secret of an inventory gets into git unnoticed. Git itself is asked."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init.decide import Proposal
from ansible_collections.gb10.fleet.plugins.module_utils._operations.init.write import IGNORE, texts
from ansible_collections.gb10.fleet.plugins.plugin_utils._git import secrets_in_git
from ansible_collections.gb10.fleet.plugins.plugin_utils._kept_secret import make_changing

KEY = "anna: 0123456789abcdef\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    run(tmp_path, "git init -q")
    return tmp_path


def run(folder: Path, command: str) -> str:
    own = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=True, env=own)
    return done.stdout


def write(site: Path, name: str, text: str = KEY) -> Path:
    path = site / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def findings(*paths: Path) -> list[tuple[str, str, str]]:
    return [(one.rule, one.found, one.remedy) for one in secrets_in_git(map(str, paths))]


@pytest.mark.parametrize("name", ["secrets/clients.yml", "mine/secrets/a b.yml", "otlp", "group_vars/all/it's.key"])
def test_the_remedy_as_typed_keeps_it_out(site: Path, name: str) -> None:
    path = write(site, name)
    [(rule, found, remedy)] = findings(path)
    assert rule == "secret-in-git" and name in found
    run(site, remedy)
    assert findings(path) == []
    assert name not in run(site, "git add -A; git ls-files -z")


def test_what_git_keeps_is_named_until_it_is_taken_out(site: Path) -> None:
    path = write(site, "secrets/clients.yml")
    write(site, ".gitignore", "/secrets/\n")
    run(site, "git add -f secrets/clients.yml")
    [(_rule, found, remedy)] = findings(path)
    assert found.startswith("git keeps secrets/clients.yml")
    command, _then, rest = remedy.partition("; then ")
    assert "the history" in rest
    run(site, command)
    assert findings(path) == [] and path.read_text() == KEY


@pytest.mark.parametrize(
    "make",
    [
        lambda site: write(site, "vault", "$ANSIBLE_VAULT;1.1;AES256\n31\n"),
        lambda site: write(site, "tls/llm.crt", "-----BEGIN CERTIFICATE-----\nx\n"),
        lambda site: site / "missing",
    ],
)
def test_what_is_no_secret_may_lie_in_git(site: Path, make: Callable[[Path], Path]) -> None:
    assert findings(make(site)) == []


def test_a_certificate_with_its_key_is_a_secret(site: Path) -> None:
    text = "-----BEGIN CERTIFICATE-----\nx\n-----BEGIN PRIVATE KEY-----\nx\n"
    assert len(findings(write(site, "tls/llm.pem", text))) == 1


def test_without_a_repository_nothing_is_asked(tmp_path: Path) -> None:
    assert findings(write(tmp_path, "secrets/clients.yml")) == []


def test_a_repository_runs_no_program_of_its_settings(site: Path) -> None:
    run(site, f"git config core.fsmonitor 'touch {site}/ran'")
    findings(write(site, "secrets/clients.yml"))
    assert not (site / "ran").exists()


def test_what_init_writes_ignores_secrets_and_checks(site: Path) -> None:
    (site / IGNORE).write_text(texts({}, Proposal({}, {}), "", take_over=False)[IGNORE])
    secret = write(site, "secrets/clients.yml")
    make_changing(site / ".fleet/drift")
    write(site, ".fleet/drift/history.json")
    assert findings(secret) == []
    assert run(site, "git add -A; git ls-files").split() == [IGNORE]


def test_the_folder_of_checks_ignores_itself(site: Path) -> None:
    make_changing(site / "drift")
    write(site, "drift/history.json")
    assert run(site, "git status --porcelain") == ""
