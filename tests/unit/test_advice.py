# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Advice is judged like state: a text of ours that sends a host into its next boot is judged, or names the judgement.

Read are the texts of the data, all strings of the programs, and all messages of playbooks and roles.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base import worded
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import host_warning
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import data_file, data_table
from ansible_collections.gb10.fleet.plugins.module_utils._base.subject import PreflightContext
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.burn_in import burn_in_verdict
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import compare
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.tables import machine_shown
from ansible_collections.gb10.fleet.plugins.module_utils._plan.preflight.needs import obstacles
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.system.next_boot import judged
from drift_fleet import changed
from unit.test_doctor import GROUP, bare, each, looked, put
from unit.test_health import waits
from unit.test_machine_health import ILLS, LINES

ROOT = Path(__file__).resolve().parents[2]
# Each text with one of these that has four words or more is looked at.
WIDE = re.compile(
    r"\brestart\b|\breboot\b|power(?:s|ed)? (?:\w+ ){0,2}off|poweroff|AC power|unplug|site\.yml|fwupdmgr update|"
    r"Dashboard|(?i:cold start|power.?cycle|shut (?:it |this host |the machine )down|kexec|(?:switch|turn) \w+ off)"
)
JUDGES = re.compile(
    r"restart-known-bad|doctor(?:\.yml)? .*(?:judges|lets it)|reboot does not help|\{UNLESS\}|\{POWER_BOTH\}"
)
# Words that send nothing into its next boot, with why.
KINDS = {
    r"[\w.]*site\.yml": "it judges each host in its preflight, before its first change",
    r"fwupdmgr update|DGX Dashboard": "what comes is not known before; doctor and update judge it once it is there",
    r"(?:systemctl|docker)(?: --\S+)? (?:try-)?restart\b|gb10\.fleet\.restart|restart the services": "not the host",
    r"--restart=|restart of nftables|on_creep.*|`restart: true`": "not the host",
    r"(?:unplug|pull) the (?:cable|plug)": "a cable of the fabric",
    r"after a reboot|until a restart|last -x reboot|next restart|after power was off": "says when, and advises nothing",
}
LISTED = {
    "it may ask for power off and on": "what was expected of an update's firmware; update judges the boot before it",
    "a restart takes it back, too": "the host can't be reached, so that doctor can't look",
    "only that brings the memory back": "of doctor and drift, which judge it",
    " or restart this host": "written only where `refused` finds nothing",
    "systemctl (?:reboot|poweroff)": "the pattern of the judgement",
    "systemctl +(?:restart|stop|kill)": "the pattern of watchdogs",
    "sudo systemctl reboot --no-block": "of the way out of `restart-known-bad` itself",
}


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)
    elif isinstance(value, str):
        yield " ".join(value.split())


def of_program(text: str) -> Iterator[str]:
    """Strings but for docstrings and descriptions; a value that is put in is {its name}."""
    tree = ast.parse(text)
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in (
            "DOCUMENTATION",
            "EXAMPLES",
            "RETURN",
        ):
            silent.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
                for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts | silent:
            yield node.value


def of_tasks(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for one in value:
            yield from of_tasks(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from strings(one) if key in ("msg", "fail_msg", "success_msg") else of_tasks(one)


def texts() -> Iterator[tuple[str, str]]:
    """All that our own files may tell a person to do, with the file. What doctor and drift find is judged by itself."""
    for path in sorted((ROOT / "plugins").rglob("*.py")):
        program = path.read_text("utf-8")
        for text in of_program(program) if WIDE.search(program) else ():
            for line in text.splitlines() if "causes" in path.name else [text]:
                yield str(path.relative_to(ROOT)), line
    for path in [*(ROOT / "playbooks").rglob("*.yml"), *(ROOT / "roles").rglob("*.yml")]:
        for text in of_tasks(yaml.safe_load(path.read_text("utf-8"))):
            yield str(path.relative_to(ROOT)), text
    for alert in yaml.safe_load((ROOT / "data" / "alerts.yml").read_text("utf-8"))["alerts"].values():
        yield "data/alerts.yml", " ".join(alert["command"].split())


ADVISED = sorted({(path, text) for path, text in texts() if WIDE.search(text) and text.count(" ") >= 3})


def unjudged(text: str) -> bool:
    """Whether words of it on a restart are left without those that need none."""
    left = re.sub("|".join(KINDS), "", text)
    is_known = JUDGES.search(text) or any(words in text for words in LISTED)
    return bool(WIDE.search(left)) and not is_known


def test_a_text_that_restarts_a_host_names_the_judgement_or_its_reason() -> None:
    assert len(ADVISED) > 90
    assert [pair for pair in ADVISED if unjudged(pair[1])] == []
    for words in LISTED:
        assert any(words in text for _path, text in ADVISED), words


ROWS = {
    **{name: row["remedy"] for name, row in worded.rows().items() if "remedy" in row},
    **{row["id"]: row["remedy"] for row in data_file("known_bad")},
    **{name: row["remedy"] for name, row in data_table("kernel_lines").items()},
}


@pytest.mark.parametrize(
    "name", [name for name, text in ROWS.items() if WIDE.search(re.sub("|".join(KINDS), "", text))]
)
def test_each_row_that_restarts_a_host_is_known_to_the_judgement(name: str) -> None:
    """What is not taken for a restart would pass unjudged."""
    state = copy.deepcopy(bare(GROUP, "spark-2"))
    waits()(state)
    look = PreflightContext("spark-2", GROUP["hosts"]["spark-2"], state)
    one = judged(look, host_warning(name, "x", found="y", remedy=ROWS[name]))
    assert one.remedy.startswith("mend `restart-known-bad` of this host first; then ") or name == "restart-known-bad"
    assert judged(look, one) == one


def test_what_restarts_no_host_passes_as_it_is() -> None:
    state = copy.deepcopy(bare(GROUP, "spark-2"))
    waits()(state)
    look = PreflightContext("spark-2", GROUP["hosts"]["spark-2"], state)
    for remedy in ("sudo systemctl restart gb10-gpu.service", "docker restart x", "run site.yml", "unplug the cable"):
        one = host_warning("x", "x", found="y", remedy=remedy)
        assert judged(look, one) is one


def test_doctor_preflight_and_drift_judge_alike() -> None:
    slow = put("gpu", "figures", {"use_percent": 96, "clock_mhz": 1404, "power_w": 31})
    ill = each(waits(), slow, put("gpu", "held_back", ["SW Power Cap"]))
    state = copy.deepcopy(bare(GROUP, "spark-2"))
    ill(state)
    found = [
        *looked(GROUP, "spark-2", ill).findings,
        *obstacles("spark-2", GROUP["hosts"]["spark-2"], state),
        *compare(GROUP, changed(GROUP, "spark-2", ill), "2026-11-01").differences,  # type: ignore[arg-type]
    ]
    mine = [one.remedy for one in found if one.rule == "gpu-held-back"]
    assert len(mine) == 3 and all(remedy.startswith("mend `restart-known-bad`") for remedy in mine)


# Whatever sends this host into its next boot, by a list of its own.
BOOTS = re.compile(
    r"(?i)reboot --no|poweroff --no|power (?:\w+ ){0,2}off|restart (?:this|the) (?:host|machine)|AC power|cold start"
    r"|power.?cycle"
)
SEEN_UNDER_LOAD = {"wrong": 2.0, "tflops": 20.0, "gb_s": 231.0}


@pytest.mark.parametrize("name", ["nothing else", *ILLS, *(kind for _line, kind in LINES if kind)])
def test_an_illness_is_reported_with_a_judged_remedy(name: str) -> None:
    """Doctor, drift, preflight, status and a burn-in, beside a next boot that is known to fail."""
    kernel = put("health", "lines", {name: {"count": 900, "today": 900, "last": "x"}})
    ill = ILLS[name][0] if name in ILLS else kernel if name in data_table("kernel_lines") else lambda _state: None
    both = each(ill, waits())
    state = copy.deepcopy(bare(GROUP, "spark-2"))
    both(state)
    minutes: Any = [{"by": "x", "rows": [[96.0, 702.0, 20.0, 48.0]] * 60, "figures": SEEN_UNDER_LOAD}]
    burned = burn_in_verdict(GROUP, "spark-2", copy.deepcopy(bare(GROUP, "spark-2")), state, minutes, 1)
    gone = burn_in_verdict(GROUP, "spark-2", state, None, minutes, 2)
    remedies = [one.remedy for one in looked(GROUP, "spark-2", both).findings]
    remedies += [one.remedy for one in compare(GROUP, changed(GROUP, "spark-2", both), "2026-11-01").differences]  # type: ignore[arg-type]
    remedies += [one.remedy for one in obstacles("spark-2", GROUP["hosts"]["spark-2"], state)]
    sentences = [*machine_shown(GROUP, "spark-2", state)[1], *burned["found"], *gone["found"]]
    advised = [text for text in (*remedies, *sentences) if BOOTS.search(text)]
    assert advised
    assert [
        text for text in advised if not re.search("mend `restart-known-bad`|don't restart this host yet", text)
    ] == []
