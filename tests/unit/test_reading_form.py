# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer is checked once, at the door. What fails afterwards is our own fault, named so, and ends one subject."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, NotRequired, TypedDict

import pytest
import yaml
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.action import doctor, drift
from ansible_collections.gb10.fleet.plugins.module_utils._base import faults
from ansible_collections.gb10.fleet.plugins.module_utils._base.reading import Answer, State
from ansible_collections.gb10.fleet.plugins.module_utils._base.schema import check
from ansible_collections.gb10.fleet.plugins.module_utils._base.typed import Limits, spec_of
from ansible_collections.gb10.fleet.plugins.module_utils._host.probe.parts import bounded_run, printable
from ansible_collections.gb10.fleet.plugins.module_utils._operations.doctor.bundle import as_text as bundle_text
from ansible_collections.gb10.fleet.plugins.module_utils._operations.doctor.text import as_text as doctor_text
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift import compare as comparison
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import Reading, compare
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.formats import junit, prometheus
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.history import EMPTY, remember
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.questions import (
    before_change,
    host_view,
    questions,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.report import as_json, as_text, report
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.unconverged import unconverged
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.form import PARTS, forms, taken
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.state import ALWAYS, BEFORE_CHANGE, READS, read_state
from ansible_collections.gb10.fleet.plugins.plugin_utils._drift_page import page
from drift_fleet import NOT_DEEP, answer_of, planned, readings, taken_of

ROOT = Path(__file__).resolve().parents[2]
TODAY, NOW = "2026-11-21", "2026-11-21T03:00:00Z"
# A group with a secret, a cable, a gateway with a certificate, readers: no part of a reading is empty.
PAIR = {"recipe": "lab-tiny", "hosts": ["spark-2", "spark-3"], "port": 8001, "served_name": "pair"}
TINY = {"recipe": "lab-tiny", "hosts": ["titan"], "port": 8000}
with tempfile.NamedTemporaryFile("w", suffix=".yml") as KEYS:
    KEYS.write("me: 0123456789abcdef0123456789abcdef\n")
    KEYS.flush()
    PLAN = planned(
        fleet_services={"tiny": TINY, "pair": PAIR},
        fleet_gateway={"hosts": ["titan"], "keys_file": KEYS.name, "addresses": ["10.0.0.5"]},
    )
HOST = "titan"
ANSWER = answer_of(PLAN, HOST)
OTHERS = {host: taken_of(PLAN, host, answer_of(PLAN, host)) for host in PLAN["hosts"] if host != HOST}
OURS = "fault of this collection"


def test_a_spec_is_made_of_a_type() -> None:
    class Row(TypedDict):
        name: str
        number: int | None
        maybe: NotRequired[float]
        words: Annotated[list[str], Limits(default=[])]
        of_names: dict[str, bool]

    spec = spec_of(Row)
    good = {"name": "x", "number": None, "words": ["a"], "of_names": {"b": True}}
    assert check(spec, good, "row") == (good, [])
    assert check(spec, {key: good[key] for key in ("name", "number", "of_names")}, "row")[0]["words"] == []
    for wrong in ({"name": None}, {"name": "\ud800"}, {"number": 1 << 70}, {"maybe": float("nan")}, {"words": [5]}):
        assert check(spec, good | wrong, "row")[1], wrong
    with pytest.raises(TypeError, match="no spec of"):
        spec_of(tuple[str, int])


def test_each_part_that_is_read_has_its_form() -> None:
    assert {*PARTS} == {*ALWAYS, *READS, *BEFORE_CHANGE}
    assert {*Answer.__annotations__} == {*PARTS}
    assert {*State.__annotations__} == {*PARTS, "asked_between"}


@pytest.mark.parametrize("host", sorted(PLAN["hosts"]))
def test_an_honest_answer_is_taken_whole(host: str) -> None:
    assert taken_of(PLAN, host, answer_of(PLAN, host)).unknown == {}


@pytest.mark.parametrize("before", [False, True])
def test_what_this_machine_answers_is_taken_whole(before: bool) -> None:
    """By the real readers; what they can't read here has its reason already."""
    view = host_view(PLAN, HOST)
    ask = before_change(view) | {"deep": NOT_DEEP} if before else questions(view, NOT_DEEP)
    ask |= {"reach": []}
    state, unknown = read_state(bounded_run(5), PLAN["hosts"][HOST]["needs"]["paths"], ask=copy.deepcopy(ask))
    sent = json.loads(json.dumps(printable(state)))
    found, why = taken(sent, unknown, forms(ask))
    assert why == unknown
    assert {name: found[name] for name in found if name not in unknown}.keys() <= sent.keys()


def test_a_part_that_is_missing_is_no_clean_one() -> None:
    answer = {name: value for name, value in ANSWER.items() if name != "units"}
    reading = taken_of(PLAN, HOST, answer | {"sysctl": None})
    assert reading.unknown == dict.fromkeys(("sysctl", "units"), f"{UNREAD}it is missing")
    assert compare(PLAN, {HOST: reading}, TODAY).verdict == "unknown"


UNREAD = "its answer is not what this collection reads: "


# Whatever a host answers ------------------------------------------------------------------------------------------


def leaves(value: Any, *above: Any) -> Iterator[tuple[Any, ...]]:
    """Every place of an answer; of entries that are alike, as of files, two."""
    yield above
    seen: dict[str, int] = {}
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        alike = key if above == () else f"{type(item).__name__} {sorted(item) if isinstance(item, dict) else ''}"
        seen[alike] = seen.get(alike, 0) + 1
        if seen[alike] <= 2 or (isinstance(value, dict) and str(key).isidentifier()):
            yield from leaves(item, *above, key)


def bent(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    answer = dict(ANSWER)
    answer[path[0]] = copy.deepcopy(answer[path[0]])
    place: Any = answer
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return answer


def shown(found: dict[str, Reading]) -> tuple[comparison.Result, str]:
    """All that a drift check does with readings, up to the last byte."""
    result = compare(PLAN, found, TODAY)
    history, _new = remember(EMPTY, result, found, NOW, 20000)
    document = report(result, history["since"], NOW)
    files = [as_json(document), junit(document), prometheus(document, 1, 1), page(document, history["nights"])]
    text = as_text(document)
    for made in (*files, text, json.dumps(history)):
        made.encode()
    assert "\x1b" not in text
    return result, text


def examined(found: dict[str, Reading]) -> dict[str, Any]:
    """All that a doctor does with readings, up to the last byte; what it shows of all other hosts."""
    hosts = doctor._from_hosts(PLAN, found)
    text = doctor_text(hosts, [], [], 200)
    text.encode()
    assert "\x1b" not in text and OURS not in text
    for one in hosts:
        if one.bundle is not None:
            bundle_text(one.bundle).encode()
    return {one.host: (one.verdict, one.findings) for one in hosts if one.host != HOST}


GOOD = shown(OTHERS | {HOST: taken_of(PLAN, HOST, ANSWER)})[0]
OF_OTHERS = [one for one in GOOD.differences if one.host != HOST]
ALONE = examined(OTHERS | {HOST: taken_of(PLAN, HOST, ANSWER)})
# Every type of JSON, and texts and numbers that are no words and no sizes.
VALUES: list[Any] = [
    None, True, 0, -1, 7.5, 10**400, 1e308, float("nan"), "", "\ud800", "\x1b[2J\u2028", "a\nb", "9" * 5000,
    [], [None], ["x"], {}, {"\x1b[2J": {"x": None}},
]  # fmt: skip


def require_others_judged(reading: Reading, why: Any) -> comparison.Result:
    found = OTHERS | {HOST: reading}
    result, text = shown(found)
    assert OURS not in text, (why, text)
    assert [one for one in result.differences if one.host != HOST] == OF_OTHERS, why
    assert {one.host for one in result.unknown} <= {HOST}, why
    assert examined(found) == ALONE, why
    return result


@pytest.mark.parametrize("part", sorted({*ANSWER} - {"asked_between"}))
def test_a_part_of_another_form_is_not_known_and_all_else_is(part: str) -> None:
    result = require_others_judged(taken_of(PLAN, HOST, ANSWER | {part: {"\x1b[2J": {"x": None}}}), part)
    # maps with keys that are not asked for are answers, too
    if result.unknown:
        assert [(one.part, one.why.startswith(UNREAD)) for one in result.unknown] == [(part, True)]


FORMS = forms(questions(host_view(PLAN, HOST), NOT_DEEP))


@pytest.mark.parametrize("value", VALUES, ids=lambda value: ascii(value)[:14])
def test_no_value_at_any_place_ends_what_is_judged_of_others(value: Any) -> None:
    """What is refused is not known; what is taken is judged, up to the last byte that is shown."""
    by_part: dict[str, list[Any]] = {}
    for part, *path in (path for path in leaves(ANSWER) if path):
        answer = bent((part, *path), value)
        _found, unknown = taken(answer, {}, {part: FORMS[part]})
        if unknown:
            assert unknown.keys() == {part} and len(ascii(unknown[part])) < 500
        else:
            by_part.setdefault(part, []).append((path, answer[part]))
    # as many at once as there are parts, since each comparison of a fleet costs a tenth of a second
    for number in range(max(map(len, by_part.values()), default=0)):
        together = {part: found[number] for part, found in by_part.items() if number < len(found)}
        answer = ANSWER | {part: changed for part, (_path, changed) in together.items()}
        require_others_judged(taken_of(PLAN, HOST, answer), [(part, path) for part, (path, _) in together.items()])


# Our own slip -----------------------------------------------------------------------------------------------------


def slip(_view: Any) -> Iterator[Any]:
    yield from ()
    raise KeyError("uptime")


def with_slip(monkeypatch: pytest.MonkeyPatch, part: str = "kernel settings") -> None:
    monkeypatch.setitem(comparison._OF_HOST, part, slip)  # type: ignore[arg-type]


def test_a_slip_of_ours_ends_its_subject_alone_and_is_named_as_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    sick = bent(("units", next(iter(ANSWER["units"])), "active"), "failed")
    found = OTHERS | {HOST: taken_of(PLAN, HOST, sick)}
    with_slip(monkeypatch)
    result, text = shown(found)
    assert [one.rule for one in result.differences] == ["unit-active"]
    assert {(one.host, one.part) for one in result.unknown} == {(host, "kernel settings") for host in found}
    assert text.count("a fault of this collection, not of the host: KeyError: 'uptime'") == len(found)
    assert "its answer" not in text
    assert yaml.safe_load((ROOT / "galaxy.yml").read_text())["issues"] in text
    assert result.verdict == "drift"
    assert "in slip" in result.faults[0].trace and "raise KeyError" in result.faults[0].trace
    # with nothing else to say, it is no clean fleet
    clean = compare(PLAN, OTHERS | {HOST: taken_of(PLAN, HOST, ANSWER)}, TODAY)
    assert (clean.verdict, comparison.EXIT_CODES[clean.verdict]) == ("unknown", 1)


def test_the_place_of_a_slip_is_the_innermost_line_of_ours() -> None:
    def judge() -> Iterator[Any]:
        yield from comparison._of_host(None)  # type: ignore[arg-type]

    (fault,) = faults.guarded("titan", "x", judge)
    assert isinstance(fault, faults.Fault)
    assert "plugins/module_utils/_operations/drift/compare.py, _of_host, line" in fault.slip
    assert fault.as_dict() == {"host": "titan", "part": "x", "why": fault.why}
    hostile = faults.fault_of(ValueError("\x1b[2J" + "x" * 5000), "titan", "x")
    assert "\x1b" not in hostile.why + hostile.trace and len(hostile.why) < 600


def run_drift(monkeypatch: pytest.MonkeyPatch, folder: Path) -> tuple[dict[str, Any], str, list[str]]:
    """The action on these readings: its result, what it shows, and what only -vvv shows."""
    action = drift.ActionModule.__new__(drift.ActionModule)
    action._task = SimpleNamespace(check_mode=False)
    hosts = [*PLAN["hosts"]]
    options = {"plan": PLAN, "hosts": hosts, "service": "", "folder": str(folder), "format": "text", "speeds": ""}
    monkeypatch.setattr(ActionBase, "run", lambda *_given, **_named: {})
    monkeypatch.setattr(action, "validate_argument_spec", lambda _spec: (None, options))
    texts: list[str] = []
    traces: list[str] = []
    monkeypatch.setattr(drift, "show", texts.append)
    monkeypatch.setattr(drift.Display(), "vvv", lambda text, host=None: traces.append(text))
    monkeypatch.setattr(action, "_note", texts.append)
    answers = {
        host: {"drift_reading": {"state": one.state, "unknown": one.unknown, "why": ""}}
        for host, one in (OTHERS | {HOST: taken_of(PLAN, HOST, ANSWER)}).items()
    }
    found = action.run(task_vars={"hostvars": SimpleNamespace(raw_get=answers.get)})
    return found, "\n".join(texts), traces


def test_a_check_without_a_slip_is_clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found, _text, traces = run_drift(monkeypatch, tmp_path)
    assert (found["verdict"], found["exit_code"], traces) == ("clean", 0, [])


@pytest.mark.parametrize("name", ["junit", "page", "remember", "as_text", "prometheus"])
def test_a_slip_in_a_report_keeps_no_other_from_being_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    def fails(*_given: Any) -> str:
        raise TypeError("'bool' object is not iterable")

    monkeypatch.setattr(drift, name, fails)
    found, text, traces = run_drift(monkeypatch, tmp_path)
    assert found["exit_code"] == 1
    assert OURS in text and "everything is as declared: 3 hosts" in text
    assert any("in fails" in trace for trace in traces)
    made = {path.name for path in tmp_path.iterdir()} - {".gitignore"}
    assert len(made) == (5 if name in ("remember", "as_text") else 4)


def test_a_slip_ends_one_part_of_a_doctors_look(monkeypatch: pytest.MonkeyPatch) -> None:
    found = OTHERS | {HOST: taken_of(PLAN, HOST, ANSWER)}
    whole = {one.host: one for one in doctor._from_hosts(PLAN, found)}
    monkeypatch.setattr(doctor, "together", lambda *_given: 1 / 0)
    with_slip(monkeypatch)
    broken = {one.host: one for one in doctor._from_hosts(PLAN, found)}
    for host, one in broken.items():
        assert one.findings == whole[host].findings
        assert one.verdict == ("stops you" if whole[host].verdict == "stops you" else "could not look")
        assert {fault.part for fault in one.faults} == {"kernel settings", "what hosts share"}
    assert f"not judged: titan: kernel settings: a {OURS}" in doctor_text([*broken.values()], [], [], 200)


def test_a_slip_is_a_reason_to_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    traces: list[str] = []
    answers = {host: {"state": one.state, "unknown": {}} for host, one in readings(PLAN).items()}
    found = unconverged(PLAN, answers, {}, traces.append)  # type: ignore[arg-type]
    assert OURS in found[HOST][0] and "its answer" not in found[HOST][0]
    assert any("Traceback" in trace for trace in traces)
