# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.model_prune: what a host says of the models that it removed, in bounds."""

from ..module_utils._base.schema import Spec
from ..plugin_utils._asking import Answering, changes

_REMOVED: Spec = {
    "type": "map",
    "options": {
        "repository": {"type": "str", "required": True},
        "revision": {"type": "str", "required": True},
        "bytes": {"type": "int", "required": True, "min": 0, "max": 1 << 62},
    },
}


class ActionModule(Answering):
    FORM = changes({"removed": {"type": "list", "required": True, "max": 1000, "elements": _REMOVED}})
