# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.service_certificates: makes files on the controller, reaches no host."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._base.gb10 import fact
from ..module_utils._base.own_files import unwritten
from ..plugin_utils._documented import OnController
from ..plugin_utils._made_certificates import Made


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        names = ("ca_days", "certificate_days", "renewed_days")
        made = Made(Path(options["ca"]), datetime.now(UTC), **{name: fact("tls", name) for name in names})
        try:
            written = made.bring(options["inventory"], options["services"], dry=self._task.check_mode)
        except OSError as error:
            expected = "a folder of yours beside the inventory, where a certificate can be kept"
            remedy = "make it writable, or name a certificate of yours with tls in the service"
            raise AnsibleActionFail(unwritten(error, Path(options["ca"]).parent, expected, remedy)) from error
        return {"changed": bool(written), "made": written}
