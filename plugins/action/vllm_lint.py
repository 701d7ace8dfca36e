# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.vllm_lint: the catalogue lies on the controller, so nothing runs on the host."""

from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase

from ..module_utils import api


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    _requires_connection = False
    supports_raw_params = True  # `ansible localhost -m gb10.fleet.vllm_lint -a @launch.json`

    def run(self, tmp: str | None = None, task_vars: dict[str, object] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        launch = dict(self._task.args)
        raw = launch.pop("_raw_params", None)
        if raw is not None:
            launch = {**self._from_file(str(raw)), **launch}
        return result | {"changed": False, "findings": api.lint(launch)}

    def _from_file(self, raw: str) -> dict[str, Any]:
        """The map in the file that ``@name`` names."""
        if not raw.startswith("@"):
            raise AnsibleActionFail(
                f"gb10.fleet.vllm_lint takes options, or @file with a map in JSON or YAML, not {raw}"
            )
        try:
            loaded = self._loader.load_from_file(raw[1:])
        except AnsibleError as error:
            raise AnsibleActionFail(f"gb10.fleet.vllm_lint: {raw[1:]}: {error}") from error
        if not isinstance(loaded, dict):
            raise AnsibleActionFail(f"gb10.fleet.vllm_lint: {raw[1:]} holds no map of options")
        return loaded
