# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.bundle_files: what a host lacks of a bundle goes to it over Ansible's own connection."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._base.findings import FleetError
from ..module_utils._base.layout import BUNDLE
from ..module_utils._base.sizes import size
from ..module_utils._operations.bundle.folder import Bundle
from ..module_utils._operations.bundle.sources import apt_files
from ..plugin_utils._bundle_key import trusted_key
from ..plugin_utils._screen import show

# What lies on the host twice at a time, in the account's own folder and in ours: so many bytes or files.
_MOST_BYTES = 1 << 30
_MOST_FILES = 200


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        given = self._task.args
        try:
            folders = [Path(folder) for folder in given["folders"]]
            bundle = Bundle.of(folders, trusted_key(Path(given["inventory"])))
        except FleetError as problem:
            raise AnsibleActionFail(str(problem)) from None
        files = {name: {**bundle.manifest["files"][path], "path": path} for name, path in given["files"].items()}
        written = apt_files() if any(name.endswith(".deb") for name in files) else {}
        arguments = {"files": files, "written": written, "folder": given.get("folder") or BUNDLE}
        result: dict[str, Any] = self._module(arguments, task_vars)
        if result.get("failed") or self._task.check_mode:
            return result
        missing, done = result["missing"], 0
        whole = sum(files[name]["bytes"] for name in missing)
        host = (task_vars or {}).get("inventory_hostname", "")
        for batch in _batches(missing, files):
            arrived = {name: self._send(bundle, files[name]["path"]) for name in batch}
            answer = self._module({**arguments, "arrived": arrived, "files": {n: files[n] for n in batch}}, task_vars)
            if answer.get("failed"):
                return answer
            done += sum(files[name]["bytes"] for name in batch)
            show(f"{host}: bundle, {size(done)} of {size(whole)}")
        return result

    def _send(self, bundle: Bundle, path: str) -> list[str]:
        """The pieces of a file on the host, in the account's own folder of this task."""
        shell, sent = self._connection._shell, []
        for part in bundle.parts(path):
            remote = shell.join_path(shell.tmpdir, part.path.replace("/", "_"))
            self._transfer_file(str(bundle.place(part)), remote)
            sent.append(remote)
        return sent

    def _module(self, arguments: dict[str, object], task_vars: dict[str, object] | None) -> dict[str, Any]:
        # the folder outlives the call, for what is sent between two of them
        if self._connection._shell.tmpdir is None:
            self._make_tmp_path()
        result: dict[str, Any] = self._execute_module(
            module_name="gb10.fleet.bundle_files", module_args=arguments, task_vars=task_vars
        )
        return result


def _batches(names: Sequence[str], files: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    batch: list[str] = []
    for name in names:
        if batch and (len(batch) == _MOST_FILES or sum(files[item]["bytes"] for item in (*batch, name)) > _MOST_BYTES):
            yield batch
            batch = []
        batch.append(name)
    if batch:
        yield batch
