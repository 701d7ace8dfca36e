# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages apt is asked to install, and what check mode makes of one that the host's lists don't have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.action.host_packages import ActionModule

INSTALLED = {"rc": 0, "stdout": "nft install installed 1.1\nperftest hold installed 4\n", "stderr": ""}
# dpkg-query ends well for a package of which only the settings are left.
SETTINGS = {"rc": 0, "stdout": "nft install installed 1.1\nperftest deinstall config-files 4\n", "stderr": ""}
NONE = {"rc": 1, "stdout": "", "stderr": "dpkg-query: no packages found matching nft"}
NO_DPKG = {"rc": 127, "stdout": "", "stderr": "sh: 1: dpkg-query: not found"}
DONE = {"changed": True, "stdout": "Setting up perftest"}
NOT_LISTED = {"failed": True, "msg": "No package matching 'nft' is available"}
LOCKED = {"failed": True, "msg": "Failed to lock apt for exclusive operation"}
TORN = {"failed": True, "msg": "apt-get failed: E: Sub-process /usr/bin/dpkg returned an error code (1)",
        "stdout": "Setting up netplan.io\ndpkg: error processing package netplan.io (--configure):\n"}  # fmt: skip
BOTH = ["nft", "perftest"]


@pytest.mark.parametrize(
    ("shown", "apt", "check", "assume", "asked", "changed", "failed"),
    [
        (INSTALLED, None, False, True, None, False, False),
        (INSTALLED, None, True, True, None, False, False),
        (SETTINGS, DONE, False, True, ["perftest"], True, False),
        (NONE, DONE, False, True, BOTH, True, False),
        (NO_DPKG, LOCKED, False, True, BOTH, False, True),
        (NONE, LOCKED, True, True, BOTH, False, True),
        (NONE, NOT_LISTED, False, True, BOTH, False, True),
        (NONE, TORN, False, True, BOTH, False, True),
        (NONE, NOT_LISTED, True, True, BOTH, True, False),
        (NONE, NOT_LISTED, True, False, BOTH, False, True),
    ],
)
def test_apt_is_asked_for_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
    shown: dict[str, Any],
    apt: dict[str, Any] | None,
    check: bool,
    assume: bool,
    asked: list[str] | None,
    changed: bool,
    failed: bool,
) -> None:
    calls: list[dict[str, Any]] = []
    action = ActionModule.__new__(ActionModule)
    options = {"name": BOTH, "assume_available": assume, "start_services": check}
    monkeypatch.setattr(ActionBase, "run", lambda *_given, **_named: {})
    monkeypatch.setattr(action, "validate_argument_spec", lambda _spec: (None, options))
    monkeypatch.setattr(action, "_task", SimpleNamespace(check_mode=check), raising=False)
    monkeypatch.setattr(action, "_low_level_execute_command", lambda _command: shown)
    monkeypatch.setattr(action, "_execute_module", lambda _name, given, task_vars: calls.append(given) or apt)
    result = action.run()
    assert [call["name"] for call in calls] == ([asked] if asked else [])
    assert [call.get("policy_rc_d") for call in calls] == ([None if check else 101] if asked else [])
    assert (result.get("changed", False), result.get("failed", False)) == (changed, failed)
    assert result["missing"] == (asked or [])
    if apt is TORN:
        assert "netplan.io" in result["msg"] and "sudo dpkg --configure -a" in result["msg"]
