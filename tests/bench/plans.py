# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a plan of a large fleet takes, from the command to its last byte, and whether it always says the same."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .figures import Figure

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ("nemotron-3-nano-30b-a3b-nvfp4", "qwen3.6-27b-nvfp4")


def figures(directory: Path, hosts: int) -> Iterator[Figure]:
    """Two services on each of so many hosts: first run, second run, and a run with all keys in another order."""
    written = _inventory(hosts)
    runs = [
        _planned(directory / name, data) for name, data in (("a", written), ("b", written), ("c", _shuffled(written)))
    ]
    name = f"plan of {hosts} hosts with 2 services each"
    yield Figure(f"{name}: ansible-playbook plan.yml", runs[0][0], None, "s", "<= 60")
    yield Figure(f"{name}: different outputs of 3 runs", len({text for _seconds, text in runs}), None, "texts", "= 1")


def _inventory(hosts: int) -> dict[str, Any]:
    names = [f"spark-{number:03}" for number in range(1, hosts + 1)]
    services = {
        f"{recipe.partition('-')[0].replace('.', '-')}-{name}": {
            "recipe": recipe,
            "hosts": [name],
            "port": 8000 + port,
            "workload": {"max_model_len": 8192, "max_num_seqs": 4},
        }
        for name in names
        for port, recipe in enumerate(RECIPES)
    }
    return {
        "all": {
            "hosts": {name: {"ansible_host": f"{name}.lan"} for name in names},
            "vars": {"fleet_services": services},
        }
    }


def _shuffled(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    keys = list(value)
    random.Random(7).shuffle(keys)
    return {key: _shuffled(value[key]) for key in keys}


def _planned(directory: Path, inventory: dict[str, Any]) -> tuple[float, str]:
    """Seconds, and the plan as it was printed."""
    directory.mkdir(parents=True)
    (directory / "hosts.json").write_text(json.dumps(inventory), encoding="utf-8")
    words = [str(Path(sys.executable).parent / "ansible-playbook"), "plan.yml", "-i", str(directory)]
    began = time.monotonic()
    done = subprocess.run(
        [*words, "-e", "fleet_plan_format=json"],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_FORCE_COLOR": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.monotonic() - began
    start, end = done.stdout.index("\n{\n"), done.stdout.rindex("\n}\n")
    return seconds, done.stdout[start:end]
