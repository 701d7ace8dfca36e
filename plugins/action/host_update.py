# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.host_update: what a host says of a step of its update, in bounds."""

from typing import ClassVar

from ..module_utils._base.schema import Spec
from ..module_utils._operations.update.form import FIGURES, SECONDS
from ..plugin_utils._asking import Answering, changes


class ActionModule(Answering):
    FORM: ClassVar[Spec] = changes(
        {
            "restart": {"type": "bool", "required": True},
            "units": {"type": "list", "required": True, "max": 1000, "elements": {"type": "str", "max": 300}},
            "seconds": SECONDS,
            "figures": FIGURES,
        }
    )
