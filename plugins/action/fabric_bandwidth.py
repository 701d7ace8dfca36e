# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.fabric_bandwidth: what a host says of its measurements, in bounds."""

from ..module_utils._subjects.fabric.answer import BANDWIDTH
from ..plugin_utils._asking import Answering


class ActionModule(Answering):
    FORM = BANDWIDTH
