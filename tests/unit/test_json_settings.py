"""A JSON file that others also write: our keys land, theirs stay, and the same said otherwise is no change."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._host.settings.json_settings import (
    changed_keys,
    merged,
    parsed,
    written,
)
from ansible_collections.gb10.fleet.plugins.modules import json_settings
from hypothesis import given
from hypothesis import strategies as st

KEYS = st.sampled_from("abc")
MAPS = st.recursive(
    st.dictionaries(KEYS, st.integers()), lambda maps: st.dictionaries(KEYS, maps | st.integers()), max_leaves=6
)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"mtu": 1500, "runtimes": {"own": {"path": "own"}}}),
        ({"mtu": 9000}, {"mtu": 9000, "runtimes": {"own": {"path": "own"}}}),
        ({"mtu": None}, {"runtimes": {"own": {"path": "own"}}}),
        ({"absent": None}, {"mtu": 1500, "runtimes": {"own": {"path": "own"}}}),
        ({"runtimes": {"nvidia": {}}}, {"mtu": 1500, "runtimes": {"own": {"path": "own"}, "nvidia": {}}}),
        ({"runtimes": {"own": None}}, {"mtu": 1500, "runtimes": {}}),
        ({"mtu": {"a": 1}}, {"mtu": {"a": 1}, "runtimes": {"own": {"path": "own"}}}),
    ],
)
def test_merged(settings: dict[str, Any], expected: dict[str, Any]) -> None:
    assert merged({"mtu": 1500, "runtimes": {"own": {"path": "own"}}}, settings) == expected


@given(MAPS, MAPS)
def test_once_is_enough_and_the_owners_order_stays(current: dict[str, Any], settings: dict[str, Any]) -> None:
    once = merged(current, settings)
    assert written(merged(once, settings)) == written(once)
    assert [key for key in once if key in current] == [key for key in current if key in once]


def test_changed_keys() -> None:
    assert changed_keys({"a": 1, "b": {"c": 1}, "d": 4}, {"a": 1, "b": {"c": 2}, "e": 5}) == ["b", "d", "e"]


@pytest.mark.parametrize(
    ("text", "message"),
    [('{"a": 1,\n "b" 2}', "line 2, column 6"), ("[1]", "a list at the top"), ("nonsense", "line 1, column 1")],
)
def test_a_file_that_is_no_json_map_is_named_with_the_place(text: str, message: str) -> None:
    with pytest.raises(FleetError, match=message) as caught:
        parsed("/etc/docker/daemon.json", text)
    assert caught.value.findings[0].place == "/etc/docker/daemon.json"


def run(capsys: pytest.CaptureFixture[str], **arguments: Any) -> dict[str, Any]:
    with patch_module_args(arguments), pytest.raises(SystemExit):
        json_settings.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def test_the_module_through_its_states(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    path = tmp_path / "daemon.json"
    wanted = {"path": str(path), "settings": {"live-restore": True}, "mode": "0600"}
    checked = run(capsys, **wanted, _ansible_check_mode=True)
    assert (checked["changed"], path.exists()) == (True, False)
    assert run(capsys, **wanted)["changed_keys"] == ["live-restore"]
    assert json.loads(path.read_text()) == {"live-restore": True}
    assert path.stat().st_mode & 0o777 == 0o600
    assert run(capsys, **wanted)["changed"] is False
    path.write_text('{ "live-restore":true,"bip":"10.0.0.1/24" }')
    assert run(capsys, **wanted)["changed"] is False
    assert "bip" in path.read_text()


def test_a_file_that_its_program_refuses_is_not_placed(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    path = tmp_path / "daemon.json"
    path.write_text("{}")
    result = run(capsys, path=str(path), settings={"a": 1}, validate=["sh", "-c", "echo bad $0 >&2; exit 1", "%s"])
    assert result["failed"]
    assert "refuses the new file" in result["msg"]
    assert path.read_text() == "{}"


def test_the_diff_shows_a_mode(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    path = tmp_path / "daemon.json"
    path.write_text("{}")
    path.chmod(0o600)
    result = run(capsys, path=str(path), settings={}, mode="0644", _ansible_check_mode=True)
    assert result["changed"] is True
    diff = result["diff"][-1]
    assert (diff["before_header"], diff["before"], diff["after"]) == (str(path), {"mode": "0600"}, {"mode": "0644"})
