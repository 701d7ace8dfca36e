# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.fabric_bandwidth: what a host says of its measurements, in bounds."""

from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.answer import BANDWIDTH
from ansible_collections.gb10.fleet.plugins.plugin_utils._asking import Answering


class ActionModule(Answering):
    FORM = BANDWIDTH
