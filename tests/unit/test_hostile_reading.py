# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a host answers to status.yml, verify.yml and the fabric's check: that host alone fails, and in bounds."""

from __future__ import annotations

import copy
import importlib
import resource
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.action import (
    bench_load,
    fabric_bandwidth,
    fabric_info,
    gateway_info,
    image_prune,
    model_prune,
    observation_record,
    rank_info,
    service_ready,
    vllm_catalogue_info,
)
from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.hosts import fabric_addresses
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.tables import status_of, status_text
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.bandwidth import judge_bandwidth
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.judge import judge, summary
from ansible_collections.gb10.fleet.plugins.plugin_utils._asking import Asking
from ansible_collections.gb10.fleet.plugins.plugin_utils._benchmarking import Measuring
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_fabric_verify import GATES, PLANS, measured, readings
from test_hostile_answer import JSON, nested
from test_status import PLAN, rank

ROOT = Path(__file__).parents[2]
UNIT = {"sub": "running", "invocation": "x", "started": "2026-11-22", "restarts": 0}
STARTS = [{"began": "2026-11-21T18:58:30+00:00", "caches": "warm", "seconds": 90.0, "phases": {"weights": 60.0}}] * 3
RANK = {
    **rank(),
    "unit": rank()["unit"] | UNIT,
    "supervisor": {**rank()["supervisor"], "ready_s": 71.5},
    "endpoint": {"url": "http://127.0.0.1:8000", "model": "tiny", "key_file": None, "certificate": None},
    "starts": STARTS,
}
REPLY = {"ok": True, "answer": "Hello", "error": "", "fingerprint": "", "seconds": 0.25}
SERVICE = {
    "unit": RANK["unit"],
    "supervisor": RANK["supervisor"],
    "reply": REPLY,
    "memory_total_bytes": 1 << 37,
    "boot_log": [],
    "starts": STARTS,
    "log_tail": ["INFO"],
}
RESULT = measured(106.7) | {"message": "", "virtualization": "none"}
WITH_GATEWAY = {
    "services": {},
    "clients": [{"client": "chat", "kind": "open-webui", "host": "spark-2", "address": "http://spark-2:3000"}],
    "gateway": {"address": None, "models": [{"services": ["pair"], "model": "tiny"}]},
    "hosts": {"spark-2": {"gateway": {"servers": {"m-tiny": {"pair": "spark-2"}}}}},
}
GATEWAY = {
    "unit": SERVICE["unit"],
    "unread": ["/etc/gb10-fleet/gateway/clients.map"],
    "leftovers": ["/etc/gb10-fleet/gateway/keys/former.map"],
    "twins": [],
    "holds": {"m-tiny": "rollout-of-pair"},
    "address": None,
    "servers": {"m-tiny": {"pair": {"up": True, "status": "UP", "running": 1, "waiting": 0}}},
    "why": "",
    "problems": [],
}
CLIENT = {"client": "chat", "unit": SERVICE["unit"], "health": "answers", "problems": []}
PRUNED = {"changed": False, "removed": []}
BENCH = {
    "seen": {"image": "sha256:1", "kernel": "6.11", "driver": None, "model": "m"},
    "result": '{"completed": 4, "failed": 0, "total_output_tokens": 64, "median_ttft_ms": 1, "median_tpot_ms": 1, '
    '"output_throughput": 1, "duration": 4}',
    "seconds": 7.5,
    "before": {"busy": 0, "answered": 0, "prompted": 0},
    "after": {"busy": 0, "answered": 64, "prompted": 0},
}
# module -> its action and an answer as it should be
GOOD: dict[str, tuple[type[Asking], dict[str, Any]]] = {
    "fabric_info": (fabric_info.ActionModule, {"reading": readings()["spark-2"]}),
    "fabric_bandwidth": (fabric_bandwidth.ActionModule, {"result": RESULT}),
    "rank_info": (rank_info.ActionModule, {"ranks": [RANK]}),
    "service_ready": (service_ready.ActionModule, SERVICE),
    "image_prune": (image_prune.ActionModule, PRUNED),
    "model_prune": (model_prune.ActionModule, PRUNED),
    "observation_record": (observation_record.ActionModule, {"changed": False, "content": None}),
    "gateway_info": (gateway_info.ActionModule, {"gateway": GATEWAY, "clients": [CLIENT]}),
    "bench_load": (bench_load.ActionModule, BENCH),
    "vllm_catalogue_info": (vllm_catalogue_info.ActionModule, {"version": "0.33.0", "catalogue": {}}),
}
PROOF = {
    "startup_limit_s": 600,
    "expected": dict.fromkeys(("release", "kv_tokens", "kv_tokens_low", "kv_tokens_high")),
    "requested_bytes": None,
    "starts": {"image": "sha256:1", "model": "gb10-lab/tiny", "gb": None, "loader": "lazy"},
}
ARGUMENTS: dict[str, Any] = {
    "service": {"name": "tiny", "unit": "x", "container": {}, "status_file": "/x", "ranks": 1, "engine": "vllm"}
    | {"proof": PROOF},
    "kind": "boot",
    "load": {"service": "tiny", "engine": "vllm"},
    "point": {"name": "p", "prompt": 256, "answer": 16, "at_once": 1, "requests": 4},
    "copy": "/nonexistent/copy.json",
}


def _waits(_seconds: float) -> None:
    raise AnsibleActionFail("it is asked again")


def ask(monkeypatch: pytest.MonkeyPatch, module: str, answer: Any) -> dict[str, Any]:
    """What the action makes of an answer; AnsibleActionFail with what it says of it."""
    action = GOOD[module][0].__new__(GOOD[module][0])
    action._task = SimpleNamespace(action=f"gb10.fleet.{module}", args=ARGUMENTS, check_mode=False)
    monkeypatch.setattr(ActionBase, "run", lambda *_given, **_named: {})
    monkeypatch.setattr(action, "validate_argument_spec", lambda _spec: (None, ARGUMENTS))
    given = answer if callable(answer) else lambda *_given, **_named: dict(answer)
    monkeypatch.setattr(action, "_execute_module", given)
    monkeypatch.setattr(service_ready.time, "sleep", _waits)
    found: dict[str, Any] = action.run(task_vars={"inventory_hostname": "spark-2"})
    return found


def use(module: str, found: dict[str, Any]) -> None:
    """What is done with it later, with the other hosts' answers: none of it may fail."""
    if module == "fabric_info":
        both = readings() | {"spark-2": found["reading"]}
        fabric_addresses(both)
        alone = judge("spark-3", PLANS["spark-3"], readings())
        for host in both:
            summary(PLANS[host], judge(host, PLANS[host], both), None)
        assert alone == []
    elif module == "fabric_bandwidth":
        summary(PLANS["spark-2"], judge_bandwidth("spark-2", GATES, found["result"]), found["result"])
    elif module == "rank_info":
        ranks = {("spark-2", one["service"]): one for one in found["ranks"]}
        status_text(status_of(PLAN, ["pair"], ranks, {}))
    elif module == "gateway_info":
        gateways = {"spark-2": found["gateway"]} if found["gateway"] else {}
        status_text(
            status_of(WITH_GATEWAY, [], {}, {}, gateways, clients={one["client"]: one for one in found["clients"]})
        )


@pytest.mark.parametrize("module", GOOD)
def test_an_answer_as_it_should_be_is_taken(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    answer = GOOD[module][1]
    found = ask(monkeypatch, module, answer | {"invocation": {"module_args": {}}, "ansible_facts": {"evil": 1}})
    assert "ansible_facts" not in found
    assert not found["changed"]
    # three that return what they make of it
    if module not in ("service_ready", "bench_load", "rank_info"):
        assert {**found, **answer} == found
    use(module, found)


def paths(value: Any, *above: str | int) -> Iterator[tuple[str | int, ...]]:
    """Every place of an answer."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*above, key)
        yield from paths(item, *above, key)


def put(answer: dict[str, Any], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(answer)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


NO_VALUES: list[Any] = [
    *({}, [], ["x"], 5, -1, 10**400, 1e308, float("nan"), "x\x1b[2J", "\ud800", "9" * 5000),
    *(True, {"\x1b": {"x": None}}, None),
]


@pytest.mark.parametrize("module", GOOD)
@pytest.mark.parametrize("value", NO_VALUES, ids=lambda value: repr(value)[:12])
def test_no_value_at_any_place_ends_the_check_of_others(
    monkeypatch: pytest.MonkeyPatch, module: str, value: Any
) -> None:
    for path in paths(GOOD[module][1]):
        try:
            found = ask(monkeypatch, module, put(GOOD[module][1], path, value))
        except AnsibleActionFail as refused:
            assert 0 < len(refused.message) <= 5000
            assert "\x1b" not in refused.message
            assert "fault of this collection" not in refused.message, path
        else:
            use(module, found)


HOSTILE: dict[str, Any] = {
    "nothing": {},
    "33 levels": {"deep": nested(33)},
    "5,000 levels": {"deep": nested(5000)},
    "a text of 33 MiB": {"text": "x" * (33 << 20)},
    "a failure": {"failed": True, "msg": "x\x1b[2J" * 10000},
    "a failure of a list": {"failed": True, "msg": ["x"] * 1000},
    "a traceback": {"failed": "yes", "module_stderr": "Traceback" * 100000},
    "facts": {"ansible_facts": {"ansible_connection": "local"}},
}
# It costs seconds, and all modules' actions share what refuses it (`test_hostile_answer` has one without end).
LARGE: dict[str, Any] = {"9 million values": {"list": [0] * (9 << 20)}}


CASES = [*((module, name) for module in GOOD for name in HOSTILE), *(("rank_info", name) for name in LARGE)]


@pytest.mark.parametrize(("module", "name"), CASES)
def test_a_hostile_reading_is_refused_in_bounds(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    answer = (HOSTILE | LARGE)[name]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if isinstance(answer, dict) and "failed" not in answer:  # in the place of what is read of it
        answer = dict.fromkeys(GOOD[module][1], next(iter(answer.values()), None))
        if module == "observation_record":
            answer["changed"] = 7
    with pytest.raises(AnsibleActionFail) as refused:
        ask(monkeypatch, module, answer)
    assert 0 < len(refused.value.message) <= 5000
    assert "\x1b" not in refused.value.message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < (600 << 10)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(GOOD)), st.data())
def test_any_reading_is_refused_or_can_be_used(
    monkeypatch: pytest.MonkeyPatch, module: str, data: st.DataObject
) -> None:
    path = data.draw(st.sampled_from([*paths(GOOD[module][1])]))
    try:
        found = ask(monkeypatch, module, put(GOOD[module][1], path, data.draw(JSON)))
    except AnsibleActionFail as refused:
        assert "\x1b" not in refused.message
        assert "fault of this collection" not in refused.message
    else:
        use(module, found)


def test_a_slip_in_what_is_done_with_an_answer_is_no_fault_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_given: Any) -> str:
        raise KeyError("uptime")

    monkeypatch.setattr(rank_info, "rank_shown", fails)
    with pytest.raises(AnsibleActionFail, match="a fault of this collection, not of the host: KeyError: 'uptime'"):
        ask(monkeypatch, "rank_info", GOOD["rank_info"][1])


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "10.0.0.256/24", "-I/24", "fe80::1/64", "10.0.0.1/24\n", "$(id)/24", "10.0.0.1/245"]
)
def test_no_other_host_is_sent_to_what_is_no_address(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    answer = copy.deepcopy(GOOD["fabric_info"][1])
    next(iter(answer["reading"]["links"].values()))["addresses"] = [address]
    with pytest.raises(AnsibleActionFail):
        ask(monkeypatch, "fabric_info", answer)


def test_a_host_that_claims_anothers_address_makes_no_cable_a_wrong_one() -> None:
    """Whose the other end is stays true."""
    both = readings()
    claims = {f"x{number}": link for number, link in enumerate(both["spark-3"]["links"].values())}
    every = {**both, "titan": {**copy.deepcopy(both["spark-2"]), "links": claims}}
    assert [finding for host in both for finding in judge(host, PLANS[host], every)] == []


# Asks as `bench_load` does, beside what test_bench_owner.py shows.
# Its answer has more parts than one form: test_hostile_answer.py.
BY_ANOTHER = {"bench_owner": Measuring, "host_info": Asking}
READ = ("playbooks/status.yml", "playbooks/bench.yml", "roles/verify/tasks/*.yml", "roles/fabric/tasks/verify.yml")
READ += ("roles/fabric/tasks/bandwidth.yml",)


def tasks(found: Any) -> Iterator[dict[str, Any]]:
    for one in found:
        yield from (one,) if any(key.startswith("gb10.fleet.") for key in one) else ()
        for part in ("tasks", "block", "rescue", "always"):
            yield from tasks(one.get(part, ()))


def test_no_task_that_asks_a_host_waits_or_takes_without_end() -> None:
    """Silence ends by the task's own limit; what a host sends is bounded by the task's action."""
    files = [path for pattern in READ for path in sorted(ROOT.glob(pattern))]
    every = [task for path in files for task in tasks(yaml.safe_load(path.read_bytes()))]
    found = [task for task in every if task.get("delegate_to") != "localhost"]
    names = {key.rpartition(".")[2] for task in found for key in task if key.startswith("gb10.fleet.")}
    here = set()
    for name in names:
        action = importlib.import_module(f"ansible_collections.gb10.fleet.plugins.action.{name}").ActionModule
        if not action._requires_connection:
            here.add(f"gb10.fleet.{name}")
            continue
        assert issubclass(action, Asking), name
        if name in BY_ANOTHER:
            assert issubclass(action, BY_ANOTHER[name]), name
            continue
        assert name in GOOD, name
    missing = [task["name"] for task in found if "timeout" not in task and not here & task.keys()]
    assert missing == []
    assert {f"gb10.fleet.{name}" for name in GOOD} == {
        f"gb10.fleet.{name}" for name in names - BY_ANOTHER.keys()
    } - here
