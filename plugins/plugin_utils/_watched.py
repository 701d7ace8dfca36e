# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a long module in the background of its host and shows, while it works, what it writes to its progress file."""

import json
import secrets
import shlex
import time
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils._base import worded
from ..module_utils._base.place import Place
from ..module_utils._base.staging import progress_line
from ._screen import fitted, is_brief, is_first, show

_LOOK_SECONDS = 3
_LIMIT_SECONDS = 7 * 24 * 3600
# A line every ten seconds or so is enough for hours of work. On the short screen they get rarer, to one in ten minutes.
_LOOKS_A_LINE, _LOOKS_AT_MOST = 3, 200
# How often a job's process is missed before it is lost: one that has just ended is about to give its result.
_MISSED = 2


class ProgressLines:
    """Which looks at a job are worth a line: new steps and notes at once, what has changed since then now and then.

    is_short: a step that another host has shown is no line of this one.
    """

    def __init__(self, is_short: bool = False) -> None:
        self._is_short, self._pause = is_short, _LOOKS_A_LINE
        self._shown: dict[str, Any] = {}
        self._looks = 0
        self._notes = 0

    def lines(self, status: dict[str, Any]) -> Iterator[str]:
        """stand: what ``Progress`` wrote, nothing if it did not yet."""
        self._looks += 1
        notes = status.get("notes", [])
        yield from notes[self._notes :]
        self._notes = max(self._notes, len(notes))
        is_new = status.get("what") != self._shown.get("what")
        moved = any(status.get(key) != self._shown.get(key) for key in ("message", "done", "total"))
        if status and (is_new or (moved and self._looks >= self._pause)):
            self._shown, self._looks = status, 0
            is_others = self._is_short and is_new and not is_first(status["what"])
            if self._is_short:
                self._pause = _LOOKS_A_LINE if is_new and not is_others else min(4 * self._pause, _LOOKS_AT_MOST)
            if not is_others:
                yield progress_line(status)


class WatchedAction(ActionBase):  # type: ignore[misc]  # ansible-core ships no types
    """The module of the action's own name, asked first what there is to do (``examine_only``), then run and watched.

    A run without work costs one module call.
    """

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        variables = task_vars or {}
        self._task.args = {**self._task.args, "present_hosts": variables.get("ansible_play_hosts", [])}
        examined = self._module({"examine_only": True}, task_vars)
        if examined.get("failed") or not examined.get("changed") or self._task.check_mode:
            return examined
        result = self._watch(variables.get("inventory_hostname", ""), task_vars)
        warnings = [*examined.get("warnings", ()), *result.get("warnings", ())]
        return result | ({"warnings": warnings} if warnings else {})

    def _watch(self, host: str, task_vars: dict[str, object] | None) -> dict[str, Any]:
        file = f"/run/gb10-fleet-progress-{secrets.token_hex(8)}"
        self._shell(f": > {file}")
        try:
            before: dict[str, Any] = {}
            job, missed, progress = self._start({"progress_file": file}, task_vars), 0, ProgressLines(is_brief())
            while not job.get("finished") and not job.get("failed"):
                time.sleep(_LOOK_SECONDS)
                status, alive = self._look(file, before.get("pid"))
                for line in progress.lines(status):
                    self._show(fitted(f"{host}: {line}"))
                before, missed = status or before, 0 if alive else missed + 1
                job = self._poll(job, task_vars)
                if missed == _MISSED:
                    return job if job.get("finished") else _lost(host, before["what"])
            return job
        finally:
            self._shell(f"rm -f {file}")

    def _look(self, file: str, pid: int | None) -> tuple[dict[str, Any], bool]:
        """The job's status, nothing as long as it has none, and whether its process was still there."""
        alive = f"test -d /proc/{pid} || echo gone" if pid else ":"
        output = self._shell(f"touch -c {file}; cat {file}; echo; {alive}").strip()
        status, _, end = output.rpartition("\n") if output.endswith("gone") else (output, "", "")
        return json.loads(status) if status.startswith("{") else {}, not end

    def _start(self, more: dict[str, object], task_vars: dict[str, object] | None) -> dict[str, Any]:
        # The way of ansible-core's own gather_facts: async_val is what its async wrapper reads.
        self._task.async_val = _LIMIT_SECONDS
        try:
            return self._module(more, task_vars, wrap_async=True)
        finally:
            self._task.async_val = 0

    def _poll(self, job: dict[str, Any], task_vars: dict[str, object] | None) -> dict[str, Any]:
        arguments = {"jid": job["ansible_job_id"], "_async_dir": str(PurePosixPath(job["results_file"]).parent)}
        answer = self._execute_module("ansible.legacy.async_status", arguments, task_vars=task_vars)
        if not answer.get("finished"):
            return job
        self._execute_module("ansible.legacy.async_status", {**arguments, "mode": "cleanup"}, task_vars=task_vars)
        return {key: value for key, value in answer.items() if key not in ("results_file", "started", "ansible_job_id")}

    def _show(self, line: str) -> None:
        show(line)

    def _module(self, more: dict[str, object], task_vars: dict[str, object] | None, **how: object) -> dict[str, Any]:
        arguments = {**self._task.args, **more}
        result: dict[str, Any] = self._execute_module(module_args=arguments, task_vars=task_vars, **how)
        return result

    def _shell(self, command: str) -> str:
        answer = self._low_level_execute_command(f"/bin/sh -c {shlex.quote(command)}", sudoable=True)
        return str(answer.get("stdout", ""))


def _lost(host: str, what: str) -> dict[str, Any]:
    """The result of a job that was killed: Ansible's wrapper, killed with it, would never give it."""
    finding = worded.host_error("job-lost", Place(host=host, thing=what))
    return {"failed": True, "msg": finding.sentence(), "findings": [finding.as_dict()]}
