# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuses, before any host is reached, options that would run a playbook of ours in a part that can't run alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import ExitCode
from ansible.plugins.callback import CallbackBase
from ansible.utils.display import Display
from ansible_collections.gb10.fleet.plugins.plugin_utils._run_options import refusal

_PLAYBOOKS = Path(__file__).resolve().parents[1]


class CallbackModule(CallbackBase):  # type: ignore[misc]  # ansible-core carries no types
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gb10_run_options"

    def v2_playbook_on_start(self, playbook: Any) -> None:
        options = context.CLIARGS
        tags, skipped = options.get("tags") or (), options.get("skip_tags") or ()
        start_at = options.get("start_at_task")
        if {*tags} <= {"all"} and not skipped and start_at is None:
            return
        plays = playbook.get_plays()
        ours = [play for play in plays if _file_of(play).parent == _PLAYBOOKS]
        if not ours:
            return
        parts = {tag for play in ours for tag in _tags_of(play)} - {"always"}
        if len(ours) < len(plays):
            # somebody's own playbook runs ours among others: its tags are its own
            foreign = {tag for play in plays if play not in ours for tag in _tags_of(play)}
            tags, skipped = ([word for word in words if word not in foreign] for words in (tags, skipped))
        sentence = refusal(f"gb10.fleet.{_file_of(ours[-1]).stem}", parts, tags, skipped, start_at)
        if sentence:
            Display().error(sentence)
            raise SystemExit(int(ExitCode.INVALID_CLI_OPTION))


def _file_of(play: Any) -> Path:
    return Path(play.get_path().rpartition(":")[0]).resolve()


def _tags_of(play: Any) -> set[str]:
    """Of all its tasks that are known before it runs, those of its roles among them."""
    return {tag for block in play.compile() for task in _tasks(block) for tag in task.tags}


def _tasks(block: Any) -> list[Any]:
    parts = (*block.block, *block.rescue, *block.always)
    return [task for part in parts for task in (_tasks(part) if hasattr(part, "block") else [part])]
