# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: split_services
short_description: What is to be said of services one of whose hosts is missing
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - They are left as they are, and all else on their other hosts goes on.
positional: _input, alive
options:
  _input:
    description: The host's slice of the plan.
    type: dict
    required: true
  alive:
    description: The hosts that the run goes on with.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show it
  ansible.builtin.debug:
    msg: "{{ fleet_slice | gb10.fleet.split_services(ansible_play_hosts) }}"
"""

RETURN = r"""
_value:
  description: One sentence each.
  type: list
  elements: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._joins.hosts import split_services


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"split_services": split_services}
