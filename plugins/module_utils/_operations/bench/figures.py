# SPDX-License-Identifier: GPL-3.0-or-later
"""The figures of a benchmark that are compared, and the form of their values, for hosts too."""

from ..._base.schema import Spec

# figure: whether more of it is better.
BETTER = {"first token ms": False, "next token ms": False, "tokens/s": True}
_POSITIVE: Spec = {"type": "number", "min": 1e-9, "max": 1e12}
VALUES: Spec = {
    "type": "map",
    "required": True,
    "max": 1000,
    "values": {
        "type": "map",
        "options": {
            figure: {"type": "list", "required": True, "min": 1, "max": 1000, "elements": _POSITIVE}
            for figure in BETTER
        },
    },
}
