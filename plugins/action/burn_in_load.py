# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.burn_in_load: what a host says of a minute of load, in bounds."""

from ..module_utils._base.forms import forms
from ..plugin_utils._asking import Answering


class ActionModule(Answering):
    FORM = forms("burn_in")["minute"]
