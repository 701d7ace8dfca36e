# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Any model in one line: `model: org/name` is planned, or its refusal has a reason and a remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.gb10.fleet.plugins.module_utils._base.sizes import GIB
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes.derive import derive
from unit.kv_cases import config
from unit.test_any_model import checkpoint, one, planned

NAMES = yaml.safe_load((Path(__file__).parents[1] / "data" / "names.yml").read_text("utf-8"))


def known(name: str) -> dict[str, Any]:
    row = NAMES[name]
    own = config(row["config"]) if isinstance(row["config"], str) else row["config"]
    hub = {key: value for key, value in row["hub"].items() if key != "gb"}
    weights = int(row["hub"]["gb"] * 10**9) if "gb" in row["hub"] else None
    return checkpoint({**own, **row.get("more", {})}, name, weights_bytes=weights, **hub)


def test_they_are_28() -> None:
    assert len(NAMES) == 28


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_planned_or_refused_with_a_remedy(name: str) -> None:
    row = NAMES[name]
    hosts = row.get("hosts", 1)
    more = {"trust": row["trust"]} if "trust" in row else {}
    plan = planned(one(name, hosts, **more), {name: known(name)}, hosts)
    errors = {finding["rule"]: finding for finding in plan["findings"] if finding["severity"] == "error"}
    assert {*errors} == ({row["refused"]} if "refused" in row else set()), errors
    if "refused" in row:
        assert errors[row["refused"]]["remedy"]
        return
    kv, wanted = plan["services"]["chat"]["kv"], row["expects"]
    recipe, _ = derive(known(name))
    assert recipe is not None and recipe["kind"] == wanted["kind"]
    assert kv["has_cache"] == (wanted["pool"] != "none")
    assert bool(kv["tokens"]) == (wanted["pool"] == "sized")
    if wanted["pool"] != "sized":
        assert (kv["bytes"] or 0) <= 8 * GIB
        assert plan["hosts"]["host-1"]["memory"]["chat"]["left"]["expected"] > 80 * GIB
