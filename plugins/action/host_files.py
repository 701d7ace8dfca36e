# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.host_files: reads the files of this collection that the host is to have."""

import hashlib
from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils._base.managed import content_of


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        files = self._task.args.get("files") or {}
        read = {path: {"mode": file["mode"], "content": content_of(file)} for path, file in files.items()}
        arguments = {**self._task.args, "files": read}
        result |= self._execute_module("gb10.fleet.host_files", arguments, task_vars=task_vars)
        programs = {path for path, file in files.items() if "source" in file}
        diffs = result.get("diff") or []
        return result | {"diff": [brief(diff) if diff.get("after_header") in programs else diff for diff in diffs]}


def brief(diff: dict[str, Any]) -> dict[str, Any]:
    """The diff of a program of this collection: that it is another one, without its text."""
    texts = {key: diff[key] for key in ("before", "after") if isinstance(diff.get(key), str) and diff[key]}
    return diff | {
        key: f"{len(text.splitlines())} lines, sha256 {hashlib.sha256(text.encode()).hexdigest()[:12]}\n"
        for key, text in texts.items()
    }
