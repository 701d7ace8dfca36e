# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.gateway_info: what a host says of its gateway and clients of it, in bounds."""

from ..module_utils._base.forms import forms
from ..plugin_utils._asking import Answering


class ActionModule(Answering):
    FORM = forms("verify")["gateway"]
