# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.client_info: what a host says of the gateway's clients, in bounds."""

from ansible_collections.gb10.fleet.plugins.module_utils._operations.verify.answer import CLIENTS
from ansible_collections.gb10.fleet.plugins.plugin_utils._asking import Answering


class ActionModule(Answering):
    FORM = CLIENTS
