# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is said of a rank: one word, and a line with a remedy where something is wrong."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.causes import by_cause
from ansible_collections.gb10.fleet.plugins.module_utils._base.forms import forms
from ansible_collections.gb10.fleet.plugins.module_utils._base.reading import TakenBack
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.ranks import frozen, health, problems
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.service import idle_units, supervisor_status
from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.tables import (
    Stopped,
    end_table,
    machine_shown,
    status_of,
    status_text,
)
from drift_fleet import state_of
from unit.test_doctor import PLAN as PLANNED
from unit.test_doctor import each, put

GIB = 1 << 30
PLAN: dict[str, Any] = {
    "hosts": {},
    "services": {"pair": {"hosts": ["spark-2", "spark-3"], "speed": None}},
    "clients": [],
}
SUPERVISOR: dict[str, Any] = {
    "state": "serving",
    "since": "2026-11-21T19:00:00+00:00",
    "updated_at": "2026-11-21T21:03:00+00:00",
    "error": "",
    "last_end": "",
    "strikes": 0,
    "creep": "",
    "sick": "",
    "starts_left": 2,
    "ranks_seen": [{"rank": 1, "state": "serving"}],
    "tokens_per_s": 12.34,
    "running": 2,
    "waiting": 1,
    "kv_use": 0.25,
    "drains_until": None,
    "age_s": 4.0,
}


BACK = {"definition": "other", "of": "pair", "at": "2026-11-26 11:58 UTC", "why": "engine core failed"}


def rank(number: int = 0, *, active: str = "active", free: int = 20 * GIB, **changes: Any) -> dict[str, Any]:
    """A rank that serves, but for the changes: keys of the reading, or of what the supervisor says."""
    found = {
        "service": "pair",
        "rank": number,
        "ranks": 2,
        "unit": {"active": active, "result": "exit-code", "drop_ins": []},
        "supervisor": SUPERVISOR | {key: value for key, value in changes.items() if key in SUPERVISOR},
        "definition": "one",
        "wanted": "one",
        "start": "its start",
        "memory_floor_bytes": 6 * GIB,
        "memory": {"total": 120 * GIB, "available": free},
        "docker": True,
        "unproved": False,
        "taken_back": None,
        "pull": None,
        "starts": [],
    }
    return found | {key: value for key, value in changes.items() if key in found}


def shown(read: dict[str, Any]) -> dict[str, Any]:
    """A rank as its module gives it."""
    return read | {"health": health(read), "problems": [one.sentence() for one in problems(read)]}


def test_the_form_of_an_answer_keeps_what_is_judged() -> None:
    kept = forms("verify")["ranks"]["options"]["ranks"]["elements"]["options"]
    assert kept.keys() >= rank().keys()
    assert kept["taken_back"]["options"].keys() == TakenBack.__annotations__.keys()


@pytest.mark.parametrize(
    ("found", "word", "rule", "remedy"),
    [
        (rank(), "serving", None, ""),
        (rank(1, ranks_seen=[]), "serving", None, ""),
        (rank(unproved=True), "serving", "rank-unproved", "gb10.fleet.rollout -e service=pair"),
        (rank(definition=None), "not there", "rank-missing", "run site.yml"),
        (rank(active="inactive"), "stopped", "rank-stopped", "ansible-playbook gb10.fleet.restart -e service=pair"),
        (rank(active="failed", error="3 starts did not last"), "failed", "rank-failed", "gb10.fleet.restart -e"),
        (rank(supervisor=None), "starting", None, ""),
        (rank(active="inactive", docker=False), "stopped", "rank-docker", "run site.yml"),
        (rank(active="failed", docker=False), "failed", "rank-docker", "run site.yml"),
        (rank(supervisor=None, active="failed"), "failed", "rank-failed", "journalctl -u gb10-service-pair"),
        (rank(state="waiting", error="spark-3 is not there"), "waiting", "rank-waits", "the rank that it names"),
        (rank(state="loading"), "loading", None, ""),
        (
            rank(state="draining", active="deactivating", running=3, drains_until="T"),
            "draining",
            "rank-draining",
            "wait, until T at the longest; to cut them off: systemctl kill gb10-service-pair.service",
        ),
        (rank(1, state="draining", drains_until=None), "draining", "rank-draining", "wait; to cut"),
        (rank(age_s=61.0), "frozen", "rank-frozen", "systemd ends it after two minutes"),
        (rank(age_s=60.0), "serving", None, ""),
        (rank(age_s=None), "serving", None, ""),  # of an older release
        (rank(state="preparing", error="port 8000 can't be had"), "preparing", "rank-obstacle", "it starts by itself"),
        (rank(state="loading", last_end="rank 1 died"), "loading", "rank-restarts", "2 more starts are left"),
        (rank(1, state="loading", last_end="rank 1 died", starts_left=None), "loading", "rank-restarts", "wait"),
        (rank(ranks_seen=[{"rank": 1, "state": "waiting"}]), "serving", "rank-apart", "the rank that it names"),
        (rank(strikes=2), "serving", "rank-strikes", "the group restarts by itself"),
        (rank(creep="it takes 45 GiB"), "serving", "rank-creep", "gb10.fleet.restart -e"),
        (rank(wanted="other"), "serving", "rank-other", "gb10.fleet.rollout -e service=pair"),
        (rank(wanted="other", taken_back=BACK), "serving", "rank-taken-back", "change what is declared, then: "),
        (rank(wanted="third", taken_back=BACK), "serving", "rank-other", "gb10.fleet.rollout"),
        (
            rank(wanted="third", taken_back=BACK | {"start": "its start"}),
            "serving",
            "rank-taken-back",
            "change what is",
        ),
        (rank(wanted="one", taken_back=BACK | {"definition": "one"}), "serving", None, ""),
        (rank(free=2 * GIB), "serving", "rank-memory", "lower max_model_len"),
    ],
)
def test_a_rank(found: dict[str, Any], word: str, rule: str | None, remedy: str) -> None:
    assert health(found) == word
    findings = [*problems(found)]
    assert [problem.rule for problem in findings] == ([rule] if rule else [])
    assert all(remedy in problem.remedy for problem in findings)


def test_the_table_has_a_row_a_rank_and_a_line_a_problem() -> None:
    worker = rank(1, state="waiting", error="no word from the head", tokens_per_s=None, running=None, kv_use=None)
    text = status_text(status_of(PLAN, ["pair"], {("spark-2", "pair"): rank(), ("spark-3", "pair"): worker}, {}))
    head_row, worker_row = text.splitlines()[1:3]
    assert head_row.split() == [
        *("pair", "0", "spark-2", "serving", "2", "h", "03", "min", "12.3", "2", "+", "1", "25%", "20.0", "GiB")
    ]
    assert worker_row.split()[3:] == ["waiting", "2", "h", "03", "min", "-", "-", "-", "20.0", "GiB"]
    assert "spark-3: pair, rank 1: no word from the head" in text


@pytest.mark.parametrize(
    ("running", "kv_use", "cell"),
    [(1, 0, "12.3 of about 74 "), (4, 0, "12.3 of about 200 "), (4, 0.5, "12.3 of about 33 "), (0, 0, "12.3  ")],
)
def test_the_rate_has_what_is_expected_of_these_requests(running: int, kv_use: float, cell: str) -> None:
    """A full pool takes 200 ms a step."""
    speed = {"alone": {"total": 74.0, "accepted": 1.0}, "together": {"requests": 16, "total": 540.0}}
    plan = PLAN | {"services": {"pair": {"hosts": ["spark-2"], "speed": speed | {"own": None, "full_s": 0.2}}}}
    ranks = {("spark-2", "pair"): rank(running=running, kv_use=kv_use)}
    assert cell in status_text(status_of(plan, ["pair"], ranks, {})).splitlines()[1]


def test_a_machine_has_its_row_and_its_illness_with_what_helps() -> None:
    figures = {"use_percent": 96.0, "clock_mhz": 702.0, "power_w": 20.0, "heat_c": 48.0}
    starts = [{"days_ago": float(ago), "cut_off": ago > 0, "why": ""} for ago in (5, 3, 0)]
    hot = put("sensors", "heat_c", {"zone 0": 61.4, "mlx5 1 1": 55.0})
    ill = each(put("gpu", "figures", figures), put("health", "boots", starts), hot)
    for change, cells, rules in (
        (ill, ["answers", "96", "702", "20", "48", "61", "3,", "2", "cut", "off"], ["AC power", "partnerdiag"]),
        (put("gpu", "why", "nvidia-smi ended with 15: GPU is lost"), ["silent"], ["GPU is lost"]),
        (each(*(put(part, None) for part in ("gpu", "health", "sensors"))), ["none", *"------"], []),
    ):
        state = copy.deepcopy(state_of(PLANNED, "titan"))
        change(state)
        row, problems = machine_shown(PLANNED, "titan", state)  # type: ignore[arg-type]
        assert " ".join(row.values()).split()[: len(cells) + 1] == ["titan", *cells]
        assert len(problems) == len(rules) and all(word in " ".join(problems) for word in rules)
        text = status_text(status_of(PLAN, [], {}, {}, {}, {}, {"titan": problems}, {"titan": row}))
        assert text.splitlines()[0].split()[:2] == ["machine", "GPU"] and all(word in text for word in rules)


def test_a_host_that_can_not_be_asked_has_its_row() -> None:
    text = status_text(
        status_of(PLAN, ["pair"], {("spark-2", "pair"): rank()}, {"spark-3": ("unreachable", "no \n route")})
    )
    assert "unreachable" in text.splitlines()[2]
    assert "spark-3: unreachable: no route" in text


ROLL = "{0}, rank 0: goes by another declaration; ansible-playbook gb10.fleet.rollout -e service={0} [rank-other]"


def test_a_command_names_one_service() -> None:
    """Found in a lab: -e service=chat-b, chat-a, pair."""
    services = ["chat-a", "chat-b", "pair"]
    found = by_cause([("titan", ROLL.format(name)) for name in services], services)
    assert [one.text for one in found] == [ROLL.format(name) for name in services]
    more = [f"code-{number}" for number in range(5)]
    (folded,) = by_cause([("titan", ROLL.format(name)) for name in more], more)
    assert folded.text == "code-0, code-1, code-2 and 2 more" + ROLL.format("NAME").removeprefix("NAME")


@pytest.mark.parametrize(
    "text", ["sudo rm /etc/x/{0}.key", "systemctl restart gb10-service-{0}", "-l {0},{0}", "-l {0}"]
)
def test_whatever_is_typed_names_one(text: str) -> None:
    found = by_cause([("titan", text.format(name)) for name in ("chat", "code")], ["chat", "code"])
    assert [one.text for one in found] == [text.format("chat"), text.format("code")]


def test_each_hosts_own_name_is_one_cause() -> None:
    found = by_cause([(host, f"ansible-playbook doctor.yml -l {host}") for host in ("titan", "spark-2")])
    assert [one.text for one in found] == ["ansible-playbook doctor.yml -l HOST"]


def test_three_hundred_stopped_hosts_are_three_paragraphs_and_three_rows() -> None:
    hosts = [f"spark-{number:03}" for number in range(1, 302)]
    here = {
        host: {"services": [{"name": f"chat-{host}", "memory_bytes": GIB, "key": None, "tls": None}]} for host in hosts
    }
    kv = {"tokens": None, "context": None, "bytes": None}
    services = {
        f"chat-{host}": {"hosts": [host], "speed": None, "kv": kv, "endpoint": "e", "served_name": "m"}
        for host in hosts
    }
    plan = {"gateway": None, "clients": [], "services": services, "hosts": here}
    causes: list[tuple[Stopped, str]] = [
        ("unreachable", "ssh: connect to host {0}.lan port 22: No route to host"),
        (
            "refused",
            "{0}: /: {1} GiB free; expected 80 GiB [disk-short]\n{0}: memory: 64 GiB; expected 120 GiB [memory]",
        ),
        ("failed", "gb10-service-chat-{0} does not run"),
    ]
    stopped = {
        host: (causes[number % 3][0], causes[number % 3][1].format(host, number))
        for number, host in enumerate(hosts[:300])
    }
    last = (hosts[-1], f"chat-{hosts[-1]}")
    proof = {last: {"state": "serving", "answer": "", "comparison": "", "problems": []}}
    status = status_text(status_of(plan, [*services], {last: rank()}, stopped))
    end = end_table(plan, [*services], hosts, proof, {}, stopped)
    for text, column in ((status, 3), (end, -1)):
        rows, below = text.split("\n\n")
        assert len(rows.splitlines()) == 1 + 1 + 3
        assert sorted(line.split()[column if column < 0 else 5] for line in rows.splitlines()[2:]) == [
            *("failed", "refused", "unreachable")
        ]
        assert rows.count("100 hosts") == rows.count("100 services") == 3
        paragraphs = [line for line in below.splitlines() if not line.startswith((" ", "spark-"))]
        assert [line.split(":")[0] for line in paragraphs] == ["100 hosts"] * 4
        assert "refused: HOST: /: 1 to 298 GiB free" in below
        assert all(below.count(host) for host in hosts[:300])


def test_all_well_is_reported_too() -> None:
    both = {("spark-2", "pair"): rank(), ("spark-3", "pair"): rank(1)}
    assert status_text(status_of(PLAN, ["pair"], both, {})).endswith("no problems")


def began(at: str, seconds: float, **phases: float) -> dict[str, Any]:
    return {"began": at, "caches": None, "seconds": seconds, "phases": phases}


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        (began("2026-11-21T18:58:30+00:00", 91, weights=60, graphs=20), "started in 91 s: weights 60, graphs 20 s"),
        (began("2026-11-21T17:58:30+00:00", 91, weights=60), ""),  # it has started again by itself since
        (began("0000-00-00T99:99:99+00:00", 91, weights=60), ""),
    ],
)
def test_the_last_start_is_below_the_table_by_phase(last: dict[str, Any], shown: str) -> None:
    usual = began("2026-11-20T18:58:30+00:00", 40, weights=20)
    text = status_text(status_of(PLAN, ["pair"], {("spark-2", "pair"): rank(starts=[usual, last])}, {}))
    assert ("pair on spark-2: " + shown in text) if shown else ("started in" not in text)
    slow = status_text(
        status_of(PLAN, ["pair"], {("spark-2", "pair"): rank(starts=[usual, usual, last | {"seconds": 91}])}, {})
    )
    assert ("its last start took 91 s, 60 of them weights; the median of 2 before is 40" in slow) == bool(shown)
    assert "started in" not in status_text(
        status_of(PLAN, ["pair"], {("spark-2", "pair"): rank(state="loading", starts=[last])}, {})
    )


def test_the_end_of_a_run_has_a_row_for_each_rank() -> None:
    planned = {
        "kv": {"tokens": None, "context": None, "bytes": None},
        "endpoint": "http://spark-2:8000/v1",
        "served_name": "m",
        "hosts": ["spark-2", "spark-3"],
    }
    here = {"services": [{"name": "pair", "memory_bytes": GIB, "key": {"source": "/site/pair.key"}, "tls": None}]}
    plan = {"gateway": None, "clients": [], "services": {"pair": planned}, "hosts": {"spark-2": here, "spark-3": here}}
    proof = {("spark-2", "pair"): {"state": "serving", "answer": "Hello", "comparison": "", "problems": []}}
    looks = {("spark-2", "pair"): shown(rank(unproved=True)), ("spark-3", "pair"): shown(rank(1, state="waiting"))}
    text = end_table(plan, ["pair"], ["spark-2", "spark-3"], proof, looks, {})
    assert [line.split()[-1] for line in text.splitlines()[1:3]] == ["serving", "waiting"]
    assert "pair: clients send the key in /site/pair.key" in text
    asked = 'ask it yourself: curl -H "Authorization: Bearer $(cat /site/pair.key)" http://spark-2:8000/v1/models'
    assert text.count("curl") == 1 and asked in text
    decode = {"what": "decode", "value": 61.4, "conditions": "1 request"}
    planned |= {
        "speed": {"alone": {"decode": 66.2}},
        "measured": [decode, {**decode, "conditions": "8 requests", "value": 300}],
    }
    with_speed = end_table(plan, ["pair"], ["spark-2", "spark-3"], proof, looks, {})
    wanted = "pair: tokens a second of one request: about 66 are forecast, others report 61; gb10.fleet.ask shows yours"
    assert wanted in with_speed.splitlines() and "tokens a second" not in text
    # of a rank that serves all the same; one that does not stops its host, and is named by that
    assert text.split("\n\n")[-1].startswith("spark-2: pair, rank 0: a rollout was cut off")
    # nothing happened to a service whose run was refused
    stopped = {"spark-2": ("refused", "port 8000 is taken"), "spark-3": ("unreachable", "no route")}
    text = end_table(plan, ["pair"], ["spark-2", "spark-3", "titan"], {}, {}, stopped, {("titan", "old"): "removed"})
    assert [line.split()[-1] for line in text.splitlines()[1:4]] == ["refused", "unreachable", "removed"]
    assert text.endswith("spark-2: refused: port 8000 is taken\nspark-3: unreachable: no route")
    text = end_table(plan, ["pair"], ["spark-2", "spark-3"], {}, {}, {"spark-2": ("failed", "no room")})
    assert [line.split()[-1] for line in text.splitlines()[1:3]] == ["failed", "asked"]
    # it serves, whatever went wrong afterwards
    text = end_table(plan, ["pair"], ["spark-2", "spark-3"], proof, looks, {"spark-2": ("failed", "no room")})
    assert [line.split()[-1] for line in text.splitlines()[1:3]] == ["serving", "waiting"]


@pytest.mark.parametrize(
    ("written", "age"),
    [
        (None, "none"),
        (b"{", "none"),
        (b"[]", "none"),
        (b"{}", "none"),
        (b"\xff", "none"),
        (b'{"state": "serving"}', None),
        (b'{"state": "serving", "updated_at": 7}', None),
        (b'{"state": "serving", "updated_at": "2026-11-22T08:00:00"}', None),
        (b'{"state": "serving", "updated_at": "9999-11-22T08:00:00+00:00"}', 0.0),
    ],
)
def test_what_a_supervisor_reports_has_an_age(tmp_path: Path, written: bytes | None, age: Any) -> None:
    file = tmp_path / "status.json"
    if written is not None:
        file.write_bytes(written)
    found = supervisor_status(str(file))
    assert (found["age_s"] if found else "none") == age


@pytest.mark.parametrize(
    ("events", "state", "seen"), [("frozen 0", "S (sleeping)", False), ("frozen 0", "T (stopped)", True),
                                  ("frozen 0", "t (tracing stop)", False), ("frozen 1", "S (sleeping)", True)]
)  # fmt: skip
@pytest.mark.parametrize("version", ["0:", "1:name=systemd"])
def test_a_unit_that_runs_and_does_nothing_is_named(
    tmp_path: Path, version: str, events: str, state: str, seen: bool
) -> None:
    units = tmp_path / "groups" / "system.slice"
    for number, unit, shown in ((7, "gb10-gateway.service", "S (sleeping)"), (8, "gb10-gateway.service", state),
                                (9, "ssh.service", "T (stopped)"), (10, "docker-1.scope", "T (stopped)")):  # fmt: skip
        folder = tmp_path / "proc" / str(number)
        folder.mkdir(parents=True)
        (folder / "status").write_text(f"Name:\ta\nState:\t{shown}\n")
        (folder / "cgroup").write_text(f"{version}:/system.slice/{unit}\n")
        (units / unit).mkdir(parents=True, exist_ok=True)
    (units / "gb10-gateway.service" / "cgroup.events").write_text(f"populated 1\n{events}\n")
    (tmp_path / "proc" / "11").mkdir()  # it has just ended
    found = [*frozen(idle_units(str(tmp_path / "proc"), str(tmp_path / "groups")))]
    assert [finding.place for finding in found] == ["unit gb10-gateway.service"] * seen
    both = {(host, "pair"): rank() for host in ("spark-2", "spark-3")}
    text = status_text(status_of(PLAN, ["pair"], both, {}, frozen={"spark-2": [each.sentence() for each in found]}))
    assert ("systemctl kill --signal=KILL gb10-gateway.service" in text) is seen
    assert text.endswith("no problems") is not seen
