# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: update_stopped
short_description: Why an update ends with a step
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Names the hosts that have not proved themselves, what became of them, and the reason of each.
positional: _input, failed, gone
options:
  _input:
    description: The step, of RV(gb10.fleet.update#module:steps).
    type: dict
    required: true
  failed:
    description: Reasons, by host.
    type: dict
    required: true
  gone:
    description: Hosts of the step that are no longer in the run.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Go on only when these hosts have proved themselves
  ansible.builtin.assert:
    that: update_step | gb10.fleet.update_stopped(reasons, gone) == ''
"""

RETURN = r"""
_value:
  description: A line for all, and one for each host; empty where all have proved themselves.
  type: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._operations.update.page import stopped


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"update_stopped": stopped}
