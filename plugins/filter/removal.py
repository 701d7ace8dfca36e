# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: removal
short_description: What is against the removal of hosts from a fleet
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Errors for a host that others need, such as one with a rank of their group, their gateway, their monitoring, or what
    they take images and models from; and where the owner has not named the hosts. Warnings for what he has to know.
positional: _input, leaving, named, check
options:
  _input:
    description: The plan, as M(gb10.fleet.plan) returns it.
    type: dict
    required: true
  leaving:
    description: The hosts that are to be removed.
    type: list
    elements: str
    required: true
  named:
    description: The hosts that the owner has named, with commas between.
    type: str
    required: true
  check:
    description: Whether nothing will be changed, so that none have to be named.
    type: bool
    required: true
"""

EXAMPLES = r"""
- name: Refuse to remove a host that others need
  gb10.fleet.findings:
    errors: "{{ (fleet_plan.plan | gb10.fleet.removal(ansible_play_hosts_all, remove, ansible_check_mode)).errors }}"
"""

RETURN = r"""
_value:
  description: C(errors) and C(warnings), one sentence each, with place and remedy.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._operations.undo.dependents import removal


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"removal": removal}
