# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decisions stay as they are unless they are changed on purpose: `tests/tools/golden.py --renew`, and say so."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from tools.golden import DIGESTS, OF_FILES, digest, on_host, plans


@cache
def planned() -> dict[str, dict[str, Any]]:
    """All of them; seconds, which a run of other tests is not to wait for."""
    return dict(plans())


def test_every_entry_has_its_plan() -> None:
    known = json.loads(DIGESTS.read_text("utf-8"))
    differing = sorted(known.keys() ^ planned().keys())
    assert not differing, f"plans that came or went: {differing}; run: python tests/tools/golden.py --renew"
    changed = [name for name, plan in planned().items() if digest(plan) != known[name]]
    assert not changed, f"decided otherwise: {changed}; see it with tests/tools/golden.py --against CHECKOUT"


def test_what_hosts_run_changes_on_purpose() -> None:
    """A changed byte of the supervisor starts every service of every fleet anew."""
    assert on_host() == json.loads(OF_FILES.read_text("utf-8")), "if that is meant: tests/tools/golden.py --renew"


def test_without_a_gateway_nothing_of_one_is_anywhere() -> None:
    """None of the fleets whose plans are known to the byte declares one."""
    for plan in planned().values():
        assert plan["gateway"] is None and "clients" not in plan
        for host in plan["hosts"].values():
            assert host["gateway"] == {} and "clients" not in host and "haproxy" not in host["needs"]["installs"]


# What others reported against a recipe that is shipped, or what it leaves of a host; by the recipe and its hosts.
# Of these images the tag moves, and nobody has published which vLLM they hold.
_MOVING = {"R005", "R011"}
# These are images of single authors, with changes that nobody has published as files: the recipe names them.
_AUTHORS = _MOVING | {"recipe-left-out"}
WARNED = {
    "command-a-plus-w4a4 on 2": _AUTHORS | {"R091", "R160"},
    "deepseek-v4-flash-0731 on 2": {"R011"},
    "deepseek-v4-flash-vision-exp on 2": _MOVING,
    "deepseek-v4.1-flash on 4": _MOVING | {"R160"},
    "glm-5.2-nvfp4 on 8": _MOVING,
    "glm-5.3-flash-nvfp4 on 2": {"R011", "R160", "memory-tight"},
    "inkling-small-nvfp4 on 2": _AUTHORS | {"kv-fit"},
    "laguna-s-2.1-nvfp4 on 1": {"R061", "R064", "R074"},
    "mimo-v2.6-flash on 2": _AUTHORS,
    "mistral-small-4-119b-nvfp4 on 1": _AUTHORS,
    "minimax-m3-nvfp4 on 4": _MOVING | {"R160", "memory-drafter-unknown"},
    "qwen3.8-flash-next-nvfp4 on 1": _MOVING | {"R123", "R160", "X22"},
    "qwen3.8-flash-next-nvfp4-pair on 2": _MOVING | {"R074", "R123", "R160", "X22"},
    "diffusiongemma-26b-a4b-it-nvfp4 on 1": {"kv-dtype-unknown"},
    "nemotron-3-nano-omni-30b-a3b-nvfp4 on 1": {"kv-dtype-unknown"},
    "nemotron-3-super-120b-a12b-nvfp4 on 1": {"R078"},
    "qwen3-vl-235b-a22b-instruct-awq on 2": {"R158"},
    "qwen3-vl-235b-a22b-thinking-awq on 2": {"R158"},
    "qwen3.5-122b-a10b-int4-autoround on 2": {"L16"},
    "qwen3.5-397b-a17b-fp8 on 4": {"memory-tight", "R087", "R095", "R123"},
    "qwen3.6-35b-a3b-fp8 on 2": {"L16", "R091"},
    "qwen3.6-35b-a3b-fp8-dflash on 2": {"L16", "R091"},
    "qwen3.6-35b-a3b-nvfp4-dflash on 1": {"kv-dtype-unknown", "R070", "recipe-known-bad"},
    "step-3.7-flash-fp8 on 2": {"memory-tight"},
}


def test_a_shipped_recipe_warns_of_nothing_that_its_owner_has_to_mend() -> None:
    """Nobody wrote it who sees the plan. What is not pinned is in the lock after the first run."""
    warned = {
        name.removeprefix("recipes/"): found
        for name, plan in planned().items()
        if name.startswith("recipes/")
        and (found := {row["rule"] for row in plan["findings"] if row["severity"] == "warning"})
    }
    assert warned == WARNED
