# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of `status.yml -e page=FILE`: what it shows, what it never writes over, and how it looks in a browser."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.tables import machine_shown, status_of
from ansible_collections.gb10.fleet.plugins.plugin_utils._status_page import keep, last_night, page
from drift_fleet import state_of
from unit.test_doctor import PLAN
from unit.test_status import rank

GIB = 1 << 30
CHROMIUM = shutil.which("chromium")
NIGHT: Any = {
    "at": "2026-11-27T03:00:00Z",
    "verdict": "drift",
    "hosts": {"titan": {"verdict": "drift", "error": 1, "warning": 2, "hint": 0}},
}


def shown(plan: Any = PLAN, night: Any = NIGHT, stopped: Any = None, **changes: Any) -> str:
    """The page of a fleet where titan serves, but for the changes of its rank."""
    states = {host: state_of(plan, host) for host in plan["hosts"] if host not in (stopped or {})}
    machines, problems = {}, {}
    for host, state in states.items():
        machines[host], problems[host] = machine_shown(plan, host, state)
    ranks = {("titan", "tiny"): rank(**{"ranks": 1, "service": "tiny", **changes})} if "titan" in states else {}
    status = status_of(plan, [*plan["services"]], ranks, stopped or {}, {}, {}, problems, machines)
    return page(plan, [*plan["hosts"]], status, states, night, "2026-11-27 08:00 UTC")


class Tags(HTMLParser):
    """Each element that was opened has to be closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags(text: str) -> Tags:
    parser = Tags()
    parser.feed(text)
    assert not parser.open
    return parser


def test_services_hosts_memory_versions_and_the_last_check() -> None:
    text = shown()
    tags(text)
    assert "1 of 1 services answer" in text and "✓ serving" in text
    assert "http://titan.lan:8000/v1" in text and "gb10-lab/tiny" in text
    assert re.search(r"kernel [\d.]+-\d+-nvidia, driver 580\.82\.09", text)
    assert "✗ 1 errors, 2 warnings, 0 hints" in text and "ansible-playbook drift.yml" in text
    assert re.search(r'aria-label="memory: [\d.]+ GiB of [\d.]+ GiB in use"', text)


def test_what_is_wrong_comes_first_with_its_remedy() -> None:
    text = shown(active="failed", supervisor=None)
    assert "0 of 1 services answer" in text and "✗ not serving" in text
    assert text.index("journalctl -u gb10-service-tiny") < text.index("<h2>Services</h2>")


def test_a_host_that_does_not_answer_is_named() -> None:
    text = shown(stopped={"titan": ("unreachable", "no route")})
    assert "✗ not read" in text and "titan: unreachable: no route" in text


def test_a_host_that_serves_nothing_is_there_and_not_called_unread() -> None:
    status = status_of(PLAN, [], {}, {})
    text = page(PLAN, [], status, {}, NIGHT | {"hosts": {"spark-2": NIGHT["hosts"]["titan"]}}, "now")
    assert text.count("serves nothing") == 2 and "not read" not in text and ">titan" not in text
    assert "✗ 1 errors, 2 warnings, 0 hints" in text


def test_the_parts_of_the_bar_lie_within_it() -> None:
    plan = copy.deepcopy(PLAN)
    plan["hosts"]["titan"]["services"][0]["memory_bytes"] = 500 * GIB
    for each in (PLAN, plan):
        parts = [attributes for tag, attributes in tags(shown(each)).seen if tag == "rect"]
        assert parts
        assert all(int(part["x"] or 0) >= 0 and int(part["x"] or 0) + int(part["width"] or 0) <= 1000 for part in parts)


def test_words_of_hosts_are_text_and_nothing_is_loaded() -> None:
    evil = '<script src="//evil"></script><img src=x onerror=alert(1)>'
    text = shown(error=evil, state="waiting")
    assert "<script" not in text and "<img" not in text and "&lt;script" in text
    found = tags(text).seen
    assert not [tag for tag, _attributes in found if tag in ("script", "img", "link", "iframe", "form")]
    assert not [
        name for _tag, attributes in found for name in attributes if name in ("src", "href") or name.startswith("on")
    ]
    assert "default-src 'none'" in text


def test_the_forecast_and_the_last_benchmark() -> None:
    plan = copy.deepcopy(PLAN)
    points = [{"requests": 4, "decode": [5.0]}, {"requests": 1, "decode": [30.0, 32.0]}]
    own = {"record": {"runs": [{"at": "2026-11-20T03:00:00Z", "points": points}]}}
    plan["services"]["tiny"]["speed"] = {"alone": {"low": 28.4, "high": 35.6}, "own": own}
    text = shown(plan, tokens_per_s=None)
    assert "forecast: 28 to 36 tokens a second of one request" in text
    assert "last benchmark, 2026-11-20: 31 tokens a second each, 1 at once" in text


def test_a_key_is_not_on_the_page() -> None:
    plan = copy.deepcopy(PLAN)
    plan["hosts"]["titan"]["services"][0]["key"] = {"source": "/home/me/.fleet/keys/tiny.key", "path": "/x", "form": ""}
    assert "keys/tiny" not in shown(plan)


def test_a_page_is_written_and_written_again(tmp_path: Path) -> None:
    file = tmp_path / "new" / "fleet.html"
    (tmp_path / "new").mkdir()
    file.touch()
    assert keep(file, shown()) == ""
    assert keep(file, shown(night=None)) == ""
    assert "No drift check is kept here" in file.read_text("utf-8")


@pytest.mark.parametrize("content", [b"all: {}\n", b"<!DOCTYPE html>\n<html></html>", b"\xff\xfe"])
def test_a_file_of_the_owner_is_never_written_over(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "hosts.yml"
    file.write_bytes(content)
    found = f"page: found {file}, which is no page of gb10.fleet; expected a new file or an earlier page"
    assert keep(file, shown()) == f"{found}; choose another name"
    assert file.read_bytes() == content


def test_a_folder_in_its_place_is_named(tmp_path: Path) -> None:
    assert keep(tmp_path, shown()).startswith(f"page: found {tmp_path}, Is a directory; expected")
    (tmp_path / "file").write_text("")
    assert "could not be written (File exists)" in keep(tmp_path / "file" / "fleet.html", shown())


def test_the_last_check_is_the_newest_that_is_kept(tmp_path: Path) -> None:
    assert last_night(tmp_path) is None
    (tmp_path / "history.json").write_text("half of it {")
    assert last_night(tmp_path) is None and (tmp_path / "history.json").exists()


@pytest.mark.skipif(CHROMIUM is None, reason="no browser here")
def test_a_browser_draws_a_hundred_hosts(tmp_path: Path) -> None:
    plan = copy.deepcopy(PLAN)
    mine = plan["hosts"]["titan"]
    plan["hosts"] |= {f"spark-{number:03}": {**mine, "services": []} for number in range(99)}
    assert keep(tmp_path / "fleet.html", shown(plan)) == ""
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=400,900", "--hide-scrollbars"]
    command = [CHROMIUM or "", *options, f"--screenshot={tmp_path}/shot.png", f"{tmp_path}/fleet.html"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    assert (tmp_path / "shot.png").stat().st_size > 10_000
