# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A release of the supervisor: it lies beside the ones before, and a service takes it at its next start."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gb10.fleet.plugins.action import host_info
from ansible_collections.gb10.fleet.plugins.filter.internal import FUNCTIONS as FILTERS
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.services import changed_services, service_starts
from ansible_collections.gb10.fleet.plugins.module_utils._plan.preflight.needs import obstacles
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services import supervisors
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.starts import read_starts
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.state import (
    ALWAYS,
    JUDGED,
    NOT_BEFORE_CHANGE,
    UNASKED,
)
from ansible_collections.gb10.fleet.plugins.modules import supervisor_cleanup
from drift_fleet import planned
from test_drift_compare import put
from test_unconverged import reading

ROOT = Path(__file__).resolve().parents[2]
OLD, NEW = "rank-000000000001", "rank-000000000002"


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    for cached in (supervisors.program, supervisors.language):
        cached.cache_clear()


def released(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    """As if the next release had a comment more in a file of the supervisor."""
    shipped = supervisors.shipped
    more = f"/rank/{file}"
    monkeypatch.setattr(
        supervisors, "shipped", lambda path: shipped(path) + ("# more\n" if path.endswith(more) else "")
    )
    for cached in (supervisors.program, supervisors.language):
        cached.cache_clear()


def services(plan: Any) -> dict[tuple[str, str], Any]:
    return {(host, one["name"]): one for host, part in plan["hosts"].items() for one in part["services"]}


def test_a_changed_supervisor_alone_starts_nothing_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    before = planned()
    released(monkeypatch, "judge.py")
    after = planned()
    was, now = services(before), services(after)
    assert was.keys() == now.keys() and was
    for key, one in now.items():
        changed = [path for path, file in one["files"].items() if was[key]["files"].get(path) != file]
        assert changed == [layout.supervisor_file(one["name"])]
        assert one["definition"] == was[key]["definition"]
        result = {"item": one["name"], "changed": True, "changed_files": changed}
        read = {one["name"]: {"newer": "", "other_image": False}}
        assert changed_services([one], [{"results": [result]}], read) == []
        [start] = service_starts([one])
        assert not [path for path in start["files"] if path.startswith(layout.LIBRARY) or path in changed]
    folders = [{*plan["hosts"]["titan"]["supervisor"]["files"]} for plan in (before, after)]
    assert not folders[0] & folders[1]  # the one that runs keeps its files


def test_a_group_starts_anew_where_its_supervisors_would_not_understand_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    was = services(planned())
    released(monkeypatch, "wire.py")
    for key, one in services(planned()).items():
        assert (one["definition"] == was[key]["definition"]) == (one["ranks"] == 1)


def test_a_changed_unit_changes_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    was = services(planned())
    monkeypatch.setattr("ansible_collections.gb10.fleet.plugins.module_utils._plan.ranks.OWN_OOM_SCORE_ADJ", -400)
    now = services(planned())
    assert not [key for key, one in now.items() if one["definition"] == was[key]["definition"]]


def test_a_service_finds_the_supervisor_that_its_host_has() -> None:
    plan = planned()
    mine = plan["hosts"]["titan"]
    one = mine["services"][0]
    unit = one["files"][f"{layout.UNITS}/{one['unit']}"]["content"]
    assert f"EnvironmentFile={layout.supervisor_file(one['name'])}\n" in unit
    folder = one["files"][layout.supervisor_file(one["name"])]["content"].split("PYTHONPATH=")[1].strip()
    assert {f"{folder}/gids.py", f"{folder}/gb10_rank/supervise.py"} <= {*mine["supervisor"]["files"]}


FORMER_UNIT = f"WorkingDirectory={layout.LIBRARY}\nExecStart=/usr/bin/python3 -m gb10_rank.supervise /x\n"


@pytest.mark.parametrize(
    ("texts", "processes", "gone"),
    [
        ([], [], ["gb10_rank", "gids.py", OLD, NEW]),
        ([f"PYTHONPATH={layout.LIBRARY}/{NEW}\n"], [], ["gb10_rank", "gids.py", OLD]),
        (
            [f"PYTHONPATH={layout.LIBRARY}/{NEW}\n"],
            [("/", f"A=b\0PYTHONPATH={layout.LIBRARY}/{OLD}\0")],
            ["gb10_rank", "gids.py"],
        ),
        ([FORMER_UNIT], [], [OLD, NEW]),
        ([], [(layout.LIBRARY, "PATH=/bin\0")], [OLD, NEW]),
        # another program's folder in the library
        ([f"WorkingDirectory={layout.LIBRARY}/peer\n"], [], ["gb10_rank", "gids.py", OLD, NEW]),
    ],
)
def test_a_supervisor_goes_when_nothing_uses_it(texts: list[str], processes: list[Any], gone: list[str]) -> None:
    there = ["memory_guard.py", "gb10_rank", "gids.py", NEW, OLD, "peer"]
    assert supervisors.unused(there, texts, processes) == sorted(gone)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("LIBRARY", "UNITS", "SERVICES", "SECRETS"):
        monkeypatch.setattr(layout, name, str(tmp_path / name))
        (tmp_path / name).mkdir()
    monkeypatch.setattr(supervisors, "_processes", list)
    for folder in (OLD, NEW):
        (tmp_path / "LIBRARY" / folder / "gb10_rank").mkdir(parents=True)
        (tmp_path / "LIBRARY" / folder / "gids.py").touch()
    (tmp_path / "LIBRARY" / "gids.py").touch()
    (tmp_path / "SERVICES" / "chat.supervisor").write_text(f"PYTHONPATH=/usr/local/lib/gb10-fleet/{NEW}\n")
    return tmp_path


def cleaned(capsys: pytest.CaptureFixture[str], *, check: bool = False, files: tuple[str, ...] = ()) -> list[str]:
    with patch_module_args({"_ansible_check_mode": check, "files": [*files]}), pytest.raises(SystemExit):
        supervisor_cleanup.main()
    found = json.loads(capsys.readouterr().out)
    assert found["changed"] == bool(found["removed"])
    return [Path(path).name for path in found["removed"]]


def test_a_host_keeps_what_it_uses(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cleaned(capsys, check=True) == ["gids.py", OLD]
    assert (host / "LIBRARY" / OLD).is_dir()
    assert cleaned(capsys) == ["gids.py", OLD]
    assert [path.name for path in (host / "LIBRARY").iterdir()] == [NEW]
    assert cleaned(capsys) == []


def test_what_a_run_brings_stays_on_a_host_without_services(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Found in the lab: it was removed, and the next check of drift missed it."""
    (host / "SERVICES" / "chat.supervisor").unlink()
    assert cleaned(capsys, files=(f"/usr/local/lib/gb10-fleet/{NEW}/gids.py",)) == ["gids.py", OLD]


def test_a_way_back_keeps_its_supervisor(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = host / "SECRETS" / ".way-back" / "chat"
    kept.mkdir(parents=True)
    (kept / "3").write_text(f"PYTHONPATH=/usr/local/lib/gb10-fleet/{OLD}\n")
    assert cleaned(capsys) == ["gids.py"]


# Before a run ------------------------------------------------------------------------------------------------------

PLAN = planned()
RANK = layout.rank_file("tiny")


def running(*changes: Any) -> Any:
    state = copy.deepcopy(reading(PLAN, "titan")["state"])
    state["starts"]["tiny"] |= {"took_s": 754.0}
    for change in changes:
        change(state)
    return state


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ([], ""),
        ([put("files", layout.supervisor_file("tiny"), "sha256", "0" * 64)], ""),
        ([put("files", RANK, "sha256", "0" * 64)], RANK),
        ([put("files", RANK, {"kind": "absent"})], RANK),
        ([put("starts", "tiny", "newer", "/etc/x")], "/etc/x"),
        ([put("starts", "tiny", "other_image", True)], PLAN["hosts"]["titan"]["services"][0]["container"]["image"]),
        ([put("files", RANK, "sha256", "0" * 64), put("starts", "tiny", "runs", False)], ""),
    ],
)
def test_a_restart_is_announced_with_its_length(change: list[Any], why: str) -> None:
    state = running(*change)
    found = [
        one.sentence() for one in obstacles("titan", PLAN["hosts"]["titan"], state) if one.rule == "service-restarts"
    ]
    assert len(found) == bool(why)
    assert all(f"for {why}; its last start took 12 min 34 s" in one and "-e service=tiny" in one for one in found)


def judged(state: Any, *retry: str) -> list[str]:
    """The warnings of site.yml, of all that its first reading keeps for them."""
    action = host_info.ActionModule.__new__(host_info.ActionModule)
    action._loader = SimpleNamespace(get_text_file_contents=lambda _path: "x")
    mine = PLAN["hosts"]["titan"]
    kept = action._parted(state, {}, mine, "00")["state"]
    found: list[str] = FILTERS["preflight"](mine, "titan", kept, {}, "warning", retry=retry)
    return [one for one in found if "[service-restarts]" in one]


def brings(part: str, *names: str) -> Any:
    return lambda state: state.update({part: [*names]})


ONE = PLAN["hosts"]["titan"]["services"][0]
CHANGES = {
    "nothing": ([], ""),
    "its supervisor": ([put("files", layout.supervisor_file("tiny"), "sha256", "0" * 64)], ""),
    "a file": ([put("files", RANK, "sha256", "0" * 64)], RANK),
    "a file that is to go": ([put("files", RANK, {"kind": "absent"})], RANK),
    "a file that can't be read": ([put("files", RANK, {"kind": "unreadable", "why": "x"})], ""),
    "an image that is brought": ([brings("images_changing", ONE["container"]["image"])], ONE["container"]["image"]),
    "an image of others": ([brings("images_changing", "x:1")], ""),
    "a model that is brought": ([brings("models_changing", "gb10-lab/tiny")], "gb10-lab/tiny"),
    "a model of others": ([brings("models_changing", "gb10-lab/tin")], ""),
    "nothing could be read": ([lambda state: state.update(dict.fromkeys(JUDGED))], ""),
    "a part that could not be read": ([lambda state: state.update(files=None, json=None)], ""),
}


@pytest.mark.parametrize(("change", "why"), CHANGES.values(), ids=CHANGES)
def test_site_names_what_it_restarts_before(change: list[Any], why: str) -> None:
    found = judged(running(*change))
    assert len(found) == bool(why) and all(f"for {why}; its last start took" in one for one in found)
    assert judged(running(*change), "tiny") == []  # asked for by name


def test_what_is_judged_is_kept_of_the_first_reading() -> None:
    """Found by a lab: parts that a judgement asks for were not in what it got, so that it never had a word to say."""
    asked = set[str]()
    for file in (ROOT / "plugins/module_utils/_subjects").rglob("*.py"):
        asked |= {*re.findall(r'look\.part\("(\w+)"\)|look\.state\.get\("(\w+)"\)', file.read_text())}
    names = {name for pair in asked for name in pair if name} - {*NOT_BEFORE_CHANGE}
    # of servers that don't answer, whom only a drift check asks
    assert names - {"models"} <= {*ALWAYS, *UNASKED, *JUDGED, "images"}


def test_a_restart_whose_length_nobody_knows_names_its_limit() -> None:
    state = running(put("files", RANK, {"kind": "absent"}), put("starts", "tiny", "took_s", None))
    [found] = [one for one in obstacles("titan", PLAN["hosts"]["titan"], state) if one.rule == "service-restarts"]
    assert "a start may take 30 min 00 s" in found.found


def test_a_host_knows_how_long_the_last_start_took(tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text('{"ready_s": 12.5}')
    one = {"name": "a", "unit": "u", "container": "c", "image": "i", "started": str(tmp_path / "started"), "files": []}
    unit = "Id=x\nLoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nNeedDaemonReload=no"
    [read] = read_starts(lambda words: (0, unit if words[0] == "systemctl" else "", ""), [one]).values()
    assert read["took_s"] == 12.5
