# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.image_prune: what a host says of the images that it removed, in bounds."""

from ..module_utils._base.forms import forms
from ..plugin_utils._asking import Answering


class ActionModule(Answering):
    FORM = forms("answers")["image_prune"]
