# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.findings: what was found, in its own words and once."""

from typing import Any

from ..plugin_utils._documented import OnController
from ..plugin_utils._screen import refusal, show, warn


class ActionModule(OnController):
    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        for sentence in options["warnings"]:
            warn(f"{variables.get('inventory_hostname', '')}: {sentence}")
        if options["shown"]:
            show(options["shown"])
        errors = options["errors"]
        if errors:
            raise refusal("\n".join(errors), "refused, as named above: nothing was changed here")
        return {"changed": False}
