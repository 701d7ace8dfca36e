# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.vllm_catalogue_info: what a host says of an image's vLLM, in bounds."""

from ..module_utils._base.forms import forms
from ..plugin_utils._asking import Answering


class ActionModule(Answering):
    FORM = forms("answers")["vllm_catalogue_info"]
