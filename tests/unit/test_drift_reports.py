"""Reports and history: the same findings for people, CI and Prometheus; since when, and what is new."""

from __future__ import annotations

import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ansible_collections.gb10.fleet.plugins.action import drift
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import Reading, compare
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.formats import junit, prometheus
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.history import EMPTY, NIGHTS, remember
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.report import report
from ansible_collections.gb10.fleet.plugins.plugin_utils._drift_page import page
from drift_fleet import changed, planned, readings

PLAN = planned()
FIRST, SECOND = "2026-11-20T03:00:00Z", "2026-11-21T03:00:00Z"
EVIL = '<script>alert("1")</script>\x07&'


def swappy(state: dict[str, Any]) -> None:
    state["sysctl"]["vm.swappiness"] = EVIL


DRIFTED = changed(PLAN, "titan", swappy)
ID = "titan: sysctl vm.swappiness: sysctl-live"


def remembered(history: Any, found: Any, now: str) -> tuple[dict[str, Any], list[str]]:
    return remember(history, compare(PLAN, found, now[:10]), found, now, 100)


def document(found: Any) -> dict[str, Any]:
    return report(compare(PLAN, found, "2026-11-21"), {}, SECOND)


def test_since_is_when_it_was_first_seen_and_new_is_reported_once() -> None:
    history, new = remembered(EMPTY, DRIFTED, FIRST)
    assert new == [ID]
    history, new = remembered(history, DRIFTED, SECOND)
    assert (history["since"], new) == ({ID: FIRST}, [])
    history, _ = remembered(history, readings(PLAN), SECOND)
    assert history["since"] == {}


def test_what_was_seen_on_a_host_that_is_silent_now_is_not_new_again() -> None:
    history, _ = remembered(EMPTY, DRIFTED, FIRST)
    history, _ = remembered(history, readings(PLAN) | {"titan": Reading(None, {}, "unreachable")}, SECOND)
    history, new = remembered(history, DRIFTED, SECOND)
    assert (history["since"], new) == ({ID: FIRST}, [])


def test_only_so_many_nights_are_kept_and_the_weights_days_last() -> None:
    def deep(state: dict[str, Any]) -> None:
        state["deep"]["good"] = ["gb10-lab/tiny/a.bin"]

    history, _ = remembered(EMPTY, changed(PLAN, "titan", deep), FIRST)
    for _ in range(NIGHTS + 3):
        history, _ = remembered(history, readings(PLAN), SECOND)
    assert len(history["nights"]) == NIGHTS
    assert history["read"]["titan"] == {"gb10-lab/tiny/a.bin": 100}
    assert json.loads(json.dumps(history)) == history


@pytest.mark.parametrize("found", [readings(PLAN), DRIFTED, readings(PLAN) | {"titan": Reading(None, {}, EVIL)}])
def test_junit_has_a_case_a_finding_and_is_xml(found: Any) -> None:
    found_document = document(found)
    root = ElementTree.fromstring(junit(found_document))
    assert [suite.get("name") for suite in root] == ["spark-2", "spark-3", "titan"]
    assert len(root.findall(".//failure")) == len(found_document["findings"])
    assert len(root.findall(".//error")) == len(found_document["unknown"])


def test_prometheus_counts_by_host_and_severity() -> None:
    text = prometheus(document(DRIFTED), 1_795_000_000, 1_795_000_000)
    assert 'gb10_drift_findings{host="titan",severity="warning"} 1\n' in text
    assert 'gb10_drift_findings{host="spark-2",severity="error"} 0\n' in text
    assert 'gb10_drift_verdict{verdict="drift"} 1\n' in text
    assert "gb10_drift_last_success_timestamp_seconds 1795000000\n" in text


class Outline(HTMLParser):
    """What a page loads, its headings, and whether each element that was opened is closed."""

    VOID = ("meta",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.headings: list[int] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "img", "iframe") or any(name in ("src", "onclick") for name, _ in attrs):
            self.loads.append(tag)
        if tag[0] == "h" and tag[1:].isdigit():
            self.headings.append(int(tag[1:]))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        return

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("found", [readings(PLAN), DRIFTED, readings(PLAN) | {"titan": Reading(None, {}, EVIL)}])
def test_the_page_is_whole_loads_nothing_and_shows_no_markup_of_a_host(found: Any) -> None:
    history, _ = remembered(EMPTY, found, SECOND)
    text = page(document(found), history["nights"])
    outline = Outline(text)
    assert (outline.loads, outline.open) == ([], [])
    assert "//" not in text  # no address, of whatever scheme
    assert "default-src 'none'" in text
    levels = outline.headings
    assert levels[0] == 1 and all(after <= before + 1 for before, after in itertools.pairwise(levels))


def luminance(colour: str) -> float:
    """WCAG 2's relative luminance of ``#rrggbb``."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_every_colour_of_text_is_read_easily_on_light_and_dark() -> None:
    style = page(document(readings(PLAN)), [])
    light, dark = (dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", part)) for part in style.split("@media (prefers")[:2])
    assert light.keys() == dark.keys()
    for palette in (light, dark):
        for text in palette.keys() - {"page", "band", "line"}:
            for ground in ("page", "band"):
                low, high = sorted(luminance(palette[name]) for name in (text, ground))
                assert (high + 0.05) / (low + 0.05) >= 4.5, (text, ground)  # level AA


def test_the_worst_host_comes_first() -> None:
    def worse(state: dict[str, Any]) -> None:
        state["engine"] = {"installed": True, "running": False}

    found = DRIFTED | {"spark-3": changed(PLAN, "spark-3", worse)["spark-3"]}
    text = page(document(found), [])
    order = re.findall(r'<h3 id="host-([^"]+)"', text)
    assert order == ["spark-3", "titan"] == re.findall(r'<a href="#host-([^"]+)"', text)


def test_what_could_not_be_read_is_not_called_as_declared() -> None:
    silent = readings(PLAN) | {"titan": Reading(None, {}, "unreachable")}
    assert "Nothing differs" in page(document(readings(PLAN)), [])
    assert "Nothing that could be read differs" in page(document(silent), [])


def test_a_folder_that_can_not_be_written_loses_no_finding(tmp_path: Path) -> None:
    """A sentence, and the check goes on."""
    history, _ = remembered(EMPTY, DRIFTED, FIRST)
    kept = history | {"last_success": 1}
    action = drift.ActionModule.__new__(drift.ActionModule)
    files = action._files(document(DRIFTED), kept, 100)
    assert drift._write(tmp_path / "reports", files) == ""
    assert json.loads((tmp_path / "reports" / "history.json").read_text()) == kept
    (tmp_path / "file").write_text("x")
    message = drift._write(tmp_path / "file", files)
    assert f"make {tmp_path / 'file'} a folder with room" in message
