# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speeds in a drift check: what was measured is compared and kept, and what could not be measured ends nothing."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.action import bench_services, drift
from ansible_collections.gb10.fleet.plugins.module_utils._base.subject import Unknown
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.canary import (
    ROUNDS,
    night_points,
    slower_than,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.form import BETTER, BusyError
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.of_plan import bench_loads
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.sweep import Point
from ansible_collections.gb10.fleet.plugins.plugin_utils._asking import NoAnswerError
from drift_fleet import planned

PLAN = planned(fleet_drift={"benchmark": ["tiny"]})
SERVICE = "tiny"
HOST = PLAN["services"][SERVICE]["hosts"][0]
SEEN = {"image": "sha256:1", "kernel": "6.11", "driver": None, "model": "m"}
IDLE = {"busy": 0.0, "answered": 0.0, "prompted": 0.0}


def action(monkeypatch: pytest.MonkeyPatch, made: type[Any], options: dict[str, Any]) -> Any:
    found = made.__new__(made)
    found._task = SimpleNamespace(check_mode=False)
    monkeypatch.setattr(ActionBase, "run", lambda *_given, **_named: {})
    monkeypatch.setattr(found, "validate_argument_spec", lambda _spec: (None, options))
    return found


def measuring(
    monkeypatch: pytest.MonkeyPatch, each_ms: float = 10.0, busy: float = 0.0, problem: Exception | None = None
) -> Any:
    """The action of a host whose service answers so; problem: in the second round."""
    asked = 0

    def measure(_load: Any, point: Point, _variables: Any) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        if problem and asked > len(night_points(PLAN["services"][SERVICE]["kv"])):
            raise problem
        noise = 1 + asked % 3 / 1000
        figures = {name: noise * (1000 / each_ms if more else each_ms) for name, more in BETTER.items()}
        return {"seen": SEEN, "figures": figures, "shown": {}, "raw": {"of": point.name}}

    found = action(monkeypatch, bench_services.ActionModule, {"loads": bench_loads(PLAN, HOST, [SERVICE])})
    monkeypatch.setattr(found, "look", lambda *_: {"seen": SEEN, "before": IDLE | {"busy": busy}})
    monkeypatch.setattr(found, "measure", measure)
    return found


def on(measured: Any) -> dict[str, Any]:
    found: dict[str, Any] = measured.run(task_vars={"inventory_hostname": HOST})["services"]
    return found


def judged(monkeypatch: pytest.MonkeyPatch, folder: Path, answer: dict[str, Any] | None) -> list[Any]:
    compared = action(monkeypatch, drift.ActionModule, {})
    registered = {"drift_bench": {"services": answer}} if answer is not None else {}
    hostvars = SimpleNamespace(raw_get=lambda host: registered if host == HOST else {})
    found: list[Any] = compared._speeds(PLAN, {"speeds": str(folder), "service": ""}, hostvars, [*PLAN["hosts"]])
    return found


def test_a_night_after_the_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = on(measuring(monkeypatch))
    assert {one["round"] for one in first[SERVICE]["results"]} == {*range(ROUNDS + 1)}
    assert [one.severity for one in judged(monkeypatch, tmp_path, first)] == ["hint"]
    file = tmp_path / f"{SERVICE}-canary.json"
    kept = file.read_bytes()
    assert judged(monkeypatch, tmp_path, on(measuring(monkeypatch))) == []
    (slower,) = judged(monkeypatch, tmp_path, on(measuring(monkeypatch, each_ms=15)))
    assert (slower.severity, slower.host) == ("warning", HOST)
    assert file.read_bytes() == kept
    # what was damaged meanwhile is no run to compare with
    file.write_text(json.dumps({"name": 7}), "utf-8")
    compared = judged(monkeypatch, tmp_path, on(measuring(monkeypatch)))
    assert [one.severity for one in compared] == ["hint"]


def test_its_figures_are_what_an_update_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    def figures(each_ms: float) -> Any:
        found = measuring(monkeypatch, each_ms).run(task_vars={"inventory_hostname": HOST})
        assert found["unmeasured"] == []
        assert {len(values) for of in found["figures"][SERVICE].values() for values in of.values()} == {ROUNDS}
        return found["figures"]

    before = figures(10.0)
    assert slower_than(before, figures(12.0), 0.7) == []
    found = slower_than(before, figures(16.0), 0.7)
    assert len(found) == len(BETTER) * len(before[SERVICE])
    assert found[0].startswith(f"{SERVICE}: 512 tokens x 1: 16.0")
    # one that could not be measured again is not compared
    assert slower_than(before, {}, 0.7) == []


def test_it_asks_on_the_host_of_the_endpoint_alone_and_what_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    other = next(host for host in PLAN["hosts"] if host != HOST)
    assert [*bench_loads(PLAN, HOST, [SERVICE])] == [SERVICE]
    assert bench_loads(PLAN, other, [SERVICE]) == bench_loads(PLAN, HOST, []) == {}
    checked = measuring(monkeypatch)
    checked._task.check_mode = True
    assert on(checked) == {}


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"busy": 2.0}, {"busy": "2 requests of others run there, expected none: measure when nobody asks"}),
        ({"problem": BusyError("others were answered")}, {"busy": "others were answered"}),
        ({"problem": NoAnswerError("its answer")}, {"unknown": "its answer"}),
        ({"problem": AnsibleConnectionFailure("no route\nmore")}, {"unknown": "unreachable: no route"}),
    ],
)
def test_what_cant_be_measured_has_its_reason_and_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: dict[str, Any], expected: dict[str, str]
) -> None:
    answer = on(measuring(monkeypatch, **how))
    assert answer == {SERVICE: expected}
    (one,) = judged(monkeypatch, tmp_path, answer)
    ((kind, why),) = expected.items()
    assert isinstance(one, Unknown) == (kind == "unknown")
    assert why in (one.why if isinstance(one, Unknown) else one.found)
    assert [*tmp_path.iterdir()] == []


def test_a_host_that_did_not_answer_in_time_is_unknown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (one,) = judged(monkeypatch, tmp_path, None)
    assert (one.host, one.why) == (HOST, "not measured in time")
