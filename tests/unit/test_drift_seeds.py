# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The suite in tests/drift, which no gate runs, names tasks of the roles: they are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from drift.seeds import SEEDS, Seed

ROLES = Path(__file__).resolve().parents[2] / "roles"


def names(tasks: list[dict[str, Any]]) -> Iterator[str]:
    """Of the tasks that change something: not of those that bring others in."""
    for task in tasks:
        if not {"ansible.builtin.include_tasks", "ansible.builtin.import_tasks"} & task.keys():
            yield task["name"]
        for part in ("block", "rescue", "always"):
            yield from names(task.get(part, []))


NAMES = {name for file in ROLES.glob("*/tasks/*.yml") for name in names(yaml.safe_load(file.read_bytes()) or [])}


@pytest.mark.parametrize("seed", [seed for seed in SEEDS if seed.owned], ids=lambda seed: seed.name)
def test_the_tasks_of_a_seed_are_there(seed: Seed) -> None:
    assert {seed.task, *seed.perhaps} <= NAMES


def test_the_names_of_seeds_are_different() -> None:
    assert len({seed.name for seed in SEEDS}) == len(SEEDS)
