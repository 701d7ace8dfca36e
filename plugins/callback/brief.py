# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
name: brief
type: stdout
short_description: The plays and results of a run, a line a play
version_added: 0.2.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Prints the name of each play, the words of this collection, and what failed as Ansible's own callback does.
    Tasks that went well are no lines, and there is no recap.
  - The command C(gb10) uses it. For a run of your own write C(ANSIBLE_STDOUT_CALLBACK=gb10.fleet.brief).
extends_documentation_fragment:
  - ansible.builtin.default_callback
  - ansible.builtin.result_format_callback
"""

from typing import Any

from ansible.plugins.callback.default import CallbackModule as Default

from ..plugin_utils._screen import show


class CallbackModule(Default):  # type: ignore[misc]  # ansible-core carries no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "gb10.fleet.brief"

    def v2_playbook_on_play_start(self, play: Any) -> None:
        self._play = play
        show(f"… {play.get_name().strip()}")

    def v2_runner_on_ok(self, result: Any) -> None:
        self._handle_warnings(dict(result.result))

    def _nothing(self, *_words: object, **_named: object) -> None:
        """What goes well is no line."""

    v2_playbook_on_task_start = _nothing
    v2_playbook_on_handler_task_start = _nothing
    v2_playbook_on_cleanup_task_start = _nothing
    v2_playbook_on_include = _nothing
    v2_playbook_on_stats = _nothing
    v2_runner_item_on_ok = _nothing
    v2_runner_item_on_skipped = _nothing
    v2_runner_on_skipped = _nothing
    v2_runner_retry = _nothing
