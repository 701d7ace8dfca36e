# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: drift_exit
type: aggregate
short_description: Set the exit code of a drift check
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Ends C(ansible-playbook drift.yml) with 0 if everything is as declared, with 2 if not, and with 1 if that could not
    be known. Ansible's own exit codes know only failed and unreachable hosts.
  - Does nothing in other playbooks. It ends the process, so list it last.
notes:
  - This collection's playbooks bring it. For playbooks of your own write C(callbacks_enabled = gb10.fleet.drift_exit).
"""

from typing import Any

from ansible.plugins.callback import CallbackBase

from ..plugin_utils._screen import show

MARK = "drift_check"
UNKNOWN = 1


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core carries no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gb10.fleet.drift_exit"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._is_check = False
        self._code: int | None = None

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._is_check = self._is_check or MARK in play.get_vars()

    def v2_runner_on_ok(self, result: Any) -> None:
        if result.task.resolved_action == "gb10.fleet.drift":
            self._code = result.result["exit_code"]

    def v2_playbook_on_stats(self, stats: object) -> None:
        if self._is_check and self._code is None:
            show("drift: unknown: nothing was compared, for the reasons above")
            self._code = UNKNOWN
        if self._code:
            raise SystemExit(self._code)
