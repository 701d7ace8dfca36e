# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.service_certificates: makes files on the controller, reaches no host."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import fact
from ansible_collections.gb10.fleet.plugins.module_utils._base.own_files import unwritten
from ansible_collections.gb10.fleet.plugins.modules.service_certificates import DOCUMENTATION
from ansible_collections.gb10.fleet.plugins.plugin_utils._argument_spec import documented
from ansible_collections.gb10.fleet.plugins.plugin_utils._made_certificates import Made


class ActionModule(ActionBase):  # type: ignore[misc]  # ansible-core carries no types
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result: dict[str, Any] = super().run(tmp, task_vars)
        _checked, options = self.validate_argument_spec(documented(DOCUMENTATION))
        names = ("ca_days", "certificate_days", "renewed_days")
        made = Made(Path(options["ca"]), datetime.now(UTC), **{name: fact("tls", name) for name in names})
        try:
            written = made.bring(options["inventory"], options["services"], dry=self._task.check_mode)
        except OSError as error:
            expected = "a folder of yours beside the inventory, where a certificate can be kept"
            remedy = "make it writable, or name a certificate of yours with tls in the service"
            raise AnsibleActionFail(unwritten(error, Path(options["ca"]).parent, expected, remedy)) from error
        except FleetError as problem:
            raise AnsibleActionFail(str(problem)) from None
        return result | {"changed": bool(written), "made": written}
