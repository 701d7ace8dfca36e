# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.image_prune: what a host says of the images that it removed, in bounds."""

from ..plugin_utils._asking import Answering, changes


class ActionModule(Answering):
    FORM = changes({"removed": {"type": "list", "required": True, "max": 1000, "elements": {"type": "str"}}})
