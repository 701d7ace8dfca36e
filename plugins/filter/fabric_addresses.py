# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fabric_addresses
short_description: Every address that hosts have on their fabric
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Addresses come without their prefix length.
positional: _input
options:
  _input:
    description: By host the C(reading) that M(gb10.fleet.fabric_info) returned.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show whom to ask
  ansible.builtin.debug:
    msg: "{{ {'spark-2': probe.reading} | gb10.fleet.fabric_addresses }}"
"""

RETURN = r"""
_value:
  description: The addresses.
  type: list
  elements: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.hosts import fabric_addresses


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"fabric_addresses": fabric_addresses}
