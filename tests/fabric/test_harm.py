# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No network change locks the owner out: each harmful one ends with SSH back and the old bytes in place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .fleet import FabricFleet
from .harm import CATALOGUE
from .stories import Story, run_harms

HOSTS = [f"spark-{number}" for number in range(1, 7)]


@pytest.fixture(scope="module")
def stories(fleet: FabricFleet) -> dict[str, Story]:
    """As many changes at once as there are hosts, then the next ones on the same hosts: they are as they were."""
    fleet.up(HOSTS)
    found: dict[str, Story] = {}
    catalogue = [harm for harm in CATALOGUE if fleet.renderer in harm.renderers]
    for first in range(0, len(catalogue), len(HOSTS)):
        harms = dict(zip(HOSTS, catalogue[first : first + len(HOSTS)], strict=False))
        found |= {harms[host].name: story for host, story in run_harms(fleet, harms).items()}
    return found


def test_each_is_refused_by_name(stories: dict[str, Story]) -> None:
    rules = {harm.name: harm.rule for harm in CATALOGUE}
    messages = {name: story.message for name, story in stories.items()}
    assert {name: text for name, text in messages.items() if f"[{rules[name]}]" not in text} == {}


@pytest.mark.parametrize("what", ["files", "links", "addresses", "routes"])
def test_all_is_as_before(stories: dict[str, Story], what: str) -> None:
    found = {name: (story.before[what], story.after[what]) for name, story in stories.items()}
    for name, (before, after) in found.items():
        assert after == before, name


def test_when_ssh_is_back_is_reported(stories: dict[str, Story], record_property: Any) -> None:
    """Counted from the start of the play, whose first tasks take some seconds themselves.

    That it comes back is a condition of the stories. The figures are no test: on a busy machine connections time out
    also where nothing was changed.
    """
    back = {name: round(story.back_after) for name, story in stories.items()}
    away = {name: round(story.back_after - min(story.lost)) for name, story in stories.items() if story.lost}
    record_property("ssh_back_after_s", back)
    print("\nSSH back after [s]:", json.dumps(back), "\nof it without SSH [s]:", json.dumps(away))


def test_what_cuts_ssh_really_did(stories: dict[str, Story]) -> None:
    """Else the catalogue would prove nothing."""
    cuts = {harm.name for harm in CATALOGUE if harm.cuts}
    assert {name for name, story in stories.items() if name in cuts and not story.back_after} == set()
