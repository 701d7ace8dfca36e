# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.vllm_catalogue_info: what a host says of an image's vLLM, in bounds."""

from typing import ClassVar

from ..module_utils._base.schema import Spec
from ..plugin_utils._asking import Answering


class ActionModule(Answering):
    FORM: ClassVar[Spec] = {
        "type": "map",
        "options": {
            "version": {"type": "str", "nullable": True, "default": None},
            "catalogue": {"type": "map", "required": True},
            "image_id": {"type": "str"},
        },
    }
