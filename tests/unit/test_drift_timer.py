# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the journal gets of a night, from what ansible-playbook said. The program as a whole: molecule/drift_timer."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "roles" / "drift_timer" / "files" / "gb10_drift.py"
SPEC = importlib.util.spec_from_file_location("gb10_drift", PROGRAM)
assert SPEC and SPEC.loader
gb10_drift = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(gb10_drift)

CLEAN = "drift: everything is as declared: 1 host"
BROKEN = [
    "[WARNING]: Failed to parse inventory with 'yaml' plugin: YAML parsing failed",
    "[WARNING]: Unable to parse /srv/site/hosts.yml as an inventory source",
    "[WARNING]: Unable to parse /srv/site as an inventory source",
    "[ERROR]: No inventory was parsed, please check your configuration and options.",
]


@pytest.mark.parametrize(
    ("code", "status", "lines", "expected"),
    [
        (0, "successful", ["", CLEAN, "PLAY RECAP"], (0, CLEAN)),
        (2, "failed", ["drift: not everything is as declared: 1 host, 1 error"],
         (2, "drift: not everything is as declared: 1 host, 1 error")),
        (1, "failed", ["drift: unknown: 1 unknown"], (1, "drift: unknown: 1 unknown")),
        (4, "failed", [CLEAN], (1, CLEAN)),  # an exit code that is none of ours
        (254, "timeout", [CLEAN], (1, "drift: unknown: the check ran out of time")),
        (1, "failed", BROKEN, (1, "drift: unknown: Unable to parse /srv/site/hosts.yml as an inventory source: "
                                  "No inventory was parsed, please check your configuration and options.")),
        (2, "failed", ["fatal: [titan]: FAILED! => no"], (1, "drift: unknown: fatal: [titan]: FAILED! => no")),
        (0, "successful", [], (1, "drift: unknown: ansible-playbook had no output")),
    ],
)  # fmt: skip
def test_a_night_in_one_line(code: int, status: str, lines: list[str], expected: tuple[int, str]) -> None:
    assert gb10_drift.outcome(code, status, lines) == expected


def test_each_night_that_is_not_clean_is_news_and_the_first_clean_one_after_it(tmp_path: Path) -> None:
    nights = [(0, CLEAN), (2, "drift: a"), (2, "drift: a"), (1, "drift: unknown: b"), (0, CLEAN), (0, CLEAN)]
    assert [gb10_drift.is_news(*night, tmp_path) for night in nights] == [False, True, True, True, True, False]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[Path, list[Any]]]:
    """A file with a URL, and what was sent there."""
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            got.append((self.headers["Content-Type"], self.headers["Title"], body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    listening = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    (tmp_path / "url").write_text(f"http://127.0.0.1:{listening.server_port}/x\n")
    yield tmp_path / "url", got
    listening.shutdown()
    listening.server_close()


def test_a_line_goes_to_each_way(server: tuple[Path, list[Any]]) -> None:
    url, got = server
    assert gb10_drift.send({"ntfy_url_file": str(url), "webhook_url_file": str(url)}, "drift: ä", "gb10") == []
    assert got[0] == ("text/plain; charset=utf-8", "gb10", "drift: ä")
    assert json.loads(got[1][2]) == {"text": "gb10: drift: ä"}


def test_a_way_that_fails_keeps_no_other_back_and_shows_no_url(
    server: tuple[Path, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bad").write_text("http://127.0.0.1:1/secret-topic")
    (tmp_path / "worse").write_text("secret-topic")
    url, got = server

    def missing(*_given: object, **_more: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "/usr/sbin/sendmail")

    monkeypatch.setattr(gb10_drift.subprocess, "run", missing)
    ways = {"mail": "me@here", "webhook_url_file": str(tmp_path / "bad"), "ntfy_url_file": str(url)}
    failed = gb10_drift.send(ways, "x", "y") + gb10_drift.send({"ntfy_url_file": str(tmp_path / "worse")}, "x", "y")
    assert [one.split(":")[0] for one in failed] == ["mail", "webhook_url_file", "ntfy_url_file"]
    assert not any("secret" in one for one in failed)
    assert len(got) == 1


def test_a_check_that_did_not_run_is_itself_sent(
    server: tuple[Path, list[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, got = server
    (tmp_path / "settings").write_text(json.dumps({"notify": {"ntfy_url_file": str(url)}}))
    monkeypatch.setattr(sys, "argv", ["gb10_drift.py", str(tmp_path / "settings"), "--did-not-run"])
    with pytest.raises(SystemExit) as ended:
        gb10_drift.main()
    assert ended.value.code == 0
    assert "did not run to its end" in got[0][2]


def test_a_page_that_was_not_drawn_is_one_line_and_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "fleet page.html"
    given: list[tuple[str, str]] = []

    def ran(lines: list[str], text: str = "", status: str = "failed") -> str:
        def run(_settings: object, playbook: str, options: str) -> tuple[int, str, list[str]]:
            given.append((playbook, options))
            if text:
                page.write_text(text)
            return 2, status, lines

        monkeypatch.setattr(gb10_drift, "_run", run)
        return str(gb10_drift.draw({"page": str(page), "folder": "/reports", "seconds": 9}))

    assert ran([], "drawn") == ""
    assert given[0] == ("gb10.fleet.status", f"-e 'page={page}' -e drift_folder=/reports/reports")
    assert ran(["", "page: found it, which is no page of gb10.fleet"]).startswith("page: found it")
    assert ran([], status="timeout") == "it ran out of time"
    assert "Unable to parse /srv/site/hosts.yml" in ran(BROKEN)


def test_a_machine_without_systemd_is_refused_before_a_change(tmp_path: Path) -> None:
    """Its check ended with 0 and four changes, though no run could have made them."""
    root = PROGRAM.parents[3]
    own = {"__drift_timer_systemd": str(tmp_path / "run"), "drift_timer_folder": str(tmp_path)}
    own |= {"ansible_become": False, "ansible_python_interpreter": sys.executable}
    words = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "localhost,", "-c", "local", "--check"]
    words += ["playbooks/drift_timer.yml", "-e", json.dumps(own)]
    done = subprocess.run(words, cwd=root, check=False, capture_output=True, text=True)
    assert done.returncode != 0 and "found no systemd" in done.stdout + done.stderr, done.stdout + done.stderr
    assert "drift_timer_host=HOST" in done.stdout + done.stderr and "changed=0" in done.stdout
