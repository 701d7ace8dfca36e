# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's callback of this name, for its own playbooks: Ansible loads what lies beside a playbook unasked."""

from __future__ import annotations

import gc

from ansible import constants as C  # noqa: N812 - as Ansible calls it
from ansible_collections.gb10.fleet.plugins.callback import fleet_table

# What a run has loaded lives until its end: to look for garbage in it, again and again, took a tenth of a plan.
gc.freeze()
gc.set_threshold(100_000, 20, 20)


class CallbackModule(fleet_table.CallbackModule):
    # where a configuration enables the collection's, that is loaded already
    CALLBACK_NEEDS_ENABLED = fleet_table.CallbackModule.CALLBACK_NAME in C.CALLBACKS_ENABLED
