# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Behind a gateway a service's own port is closed: a run warns before, and screens name the URL that works."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._base.ranks import front_of
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.artifact import of_plan
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.tables import end_table
from ansible_collections.gb10.fleet.plugins.module_utils._plan.preflight.needs import obstacles
from ansible_collections.gb10.fleet.plugins.module_utils._plan.text import as_text
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.reading import read_units
from drift_fleet import planned, state_of

OPEN = planned()
HEAD = "titan"
SERVICE = OPEN["hosts"][HEAD]["services"][0]
NAME, URL = SERVICE["name"], OPEN["services"][SERVICE["name"]]["endpoint"]
LOCAL = SERVICE["supervisor"]["endpoint"]["url"]
PORT = urlsplit(LOCAL).port
FRONT = {
    "hosts": [HEAD], "address": None, "url": "https://llm.home/v1", "clients": "/x/secrets/clients.yml",
    "ca": "/x/ca.crt", "addresses": ["10.0.0.1"], "queue": 4,
    "models": [{"model": "tiny", "aliases": [], "services": [NAME], "slots": 2, "context": 512}],
}  # fmt: skip


def behind() -> Any:
    """The plan with a gateway before the service."""
    plan = copy.deepcopy(OPEN)
    plan["gateway"] = FRONT
    plan["hosts"][HEAD]["services"][0]["supervisor"]["readiness"] = {"address": "10.0.0.1", "port": 20000}
    return plan


@pytest.mark.parametrize(
    ("readiness", "rank", "endpoint", "asked"),
    [(None, 0, LOCAL, LOCAL), ({"address": "10.0.0.1", "port": 20000}, 0, LOCAL, None), (None, 1, None, None)],
)
def test_a_run_warns_before_it_closes_an_open_endpoint(
    tmp_path: Path, readiness: Any, rank: int, endpoint: str | None, asked: str | None
) -> None:
    file = {"ranks": 2, "rank": rank, "readiness": readiness, "endpoint": endpoint and {"url": endpoint}}
    (tmp_path / f"{NAME}.json").write_text(json.dumps(file))
    (tmp_path / layout.unit(NAME)).touch()
    [unit] = read_units(tmp_path, tmp_path)
    assert (unit["ranks"], unit.get("asked")) == (2, asked)
    for plan, warns in ((OPEN, False), (behind(), bool(asked))):
        state = copy.deepcopy(state_of(OPEN, HEAD)) | {"our_units": [unit]}
        found = [one for one in obstacles(HEAD, plan["hosts"][HEAD], state) if one.rule == "service-endpoint-closes"]
        assert [f"http://{HEAD}:{PORT}, which" in one.found for one in found] == [True] * warns


@pytest.mark.parametrize(
    ("url", "warns"),
    [
        (LOCAL, False),
        (LOCAL.replace("http:", "https:"), True),
        (LOCAL.replace(f":{PORT}", ":8009"), True),
        ("http://[::1", False),
        ("http://127.0.0.1:99999999", False),
        ("x\x1b[31m", False),
    ],
)
def test_a_run_warns_before_an_endpoint_moves(url: str, warns: bool) -> None:
    """Another port or TLS closes the old one just the same. Its own host's loopback is no address for clients."""
    unit = {"unit": layout.unit(NAME), "inventory": "x", "ranks": 1, "unproved": False, "asked": url}
    state = copy.deepcopy(state_of(OPEN, HEAD)) | {"our_units": [unit]}
    found = [one for one in obstacles(HEAD, OPEN["hosts"][HEAD], state) if one.rule == "service-endpoint-closes"]
    assert len(found) == warns
    assert all(f"clients that ask http://{HEAD}:{PORT}" in one.expected and "\x1b" not in one.found for one in found)
    assert not any("127.0.0.1" in one.sentence() for one in found)


def test_screens_name_the_url_that_works() -> None:
    plan = behind()
    assert front_of(plan, NAME) == FRONT and front_of(OPEN, NAME) is None
    proof = {"state": "serving", "answer": "hello", "comparison": "", "problems": []}
    shown = end_table(plan, [NAME], [HEAD], {(HEAD, NAME): proof}, {}, {}, proved=[HEAD])
    assert URL not in shown and "https://llm.home/v1/models" in shown and SERVICE["key"]["source"] not in shown
    assert URL in end_table(OPEN, [NAME], [HEAD], {(HEAD, NAME): proof}, {}, {})
    stats = of_plan(plan, [NAME])["ansible_stats"]["data"]["gb10_fleet"]["services"]
    assert stats[NAME]["endpoint"] == FRONT["url"]
    page = as_text(plan, [HEAD], 120)
    assert (
        f"endpoint   {URL}" not in page and "API key    of a client of the gateway, in /x/secrets/clients.yml" in page
    )
