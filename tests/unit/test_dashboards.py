# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Grafana reads of the dashboards, by the types that it publishes itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.registry import ENGINES
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring import dashboards
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.monitoring.rules import recordings
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard as grafana

BOARDS = [*dashboards.boards([*recordings([engine.spec.series for engine in ENGINES.values()])])]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each value that is no container, with the way to it."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        yield path, value
    else:
        for key, part in parts:
            yield from leaves(part, f"{path}/{key}")


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_grafanas_own_types_lose_nothing_of_a_dashboard(board: dashboards.Dashboard) -> None:
    """What they don't know they drop."""
    register_default_plugins()
    model = json.loads(dashboards.as_text(board))
    read = json.loads(json.dumps(grafana.Dashboard.from_json(model), cls=JSONEncoder))
    assert {*leaves(model)} - {*leaves(read)} == set()


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_what_is_shown_as_a_word_is_asked_of_this_moment(board: dashboards.Dashboard) -> None:
    """Over a range a rank that has started again would be shown as stopped, and as serving beside it."""
    for panel in json.loads(dashboards.as_text(board))["panels"]:
        for target in panel["targets"]:
            assert target["instant"] is (panel["type"] == "stat")
            assert target["range"] is not target["instant"]


def test_a_state_is_a_word_and_the_worst_comes_first() -> None:
    board = next(board for board in BOARDS if board.name == "gb10-fleet")
    serving = json.loads(dashboards.as_text(board))["panels"][0]
    (mapping,) = serving["fieldConfig"]["defaults"]["mappings"]
    shown = {value: (row["text"], row["color"]) for value, row in mapping["options"].items()}
    assert shown == {"0": ("not serving", "red"), "1": ("serving", "green")}
    assert serving["targets"][0]["expr"].startswith("sort(")
