# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.update_info: what a host says of its updates, in bounds."""

from ..module_utils._base.forms import forms
from ..module_utils._operations.update.form import SHARED
from ..plugin_utils._asking import Answering


class ActionModule(Answering):
    FORM = forms("update", **SHARED)["updates"]
