# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: changed_services
short_description: The services of a host that have to start anew
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - All of them, where the supervisor's program changed.
positional: _input, results, program, read, brought
options:
  _input:
    description: The services, C(services) of the host's slice.
    type: list
    elements: dict
    required: true
  results:
    description:
      - Registered results of loops over services, or over a service and something of its own, and of
        M(gb10.fleet.service_credentials).
    type: list
    elements: dict
    required: true
  program:
    description: Whether the supervisor's program changed.
    type: bool
    required: true
  read:
    description: C(services) of M(gb10.fleet.service_start_info).
    type: dict
    required: true
  brought:
    description: The models of which this run brings files, C(repository) of M(gb10.fleet.model_snapshots).
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Show what starts anew
  ansible.builtin.debug:
    msg: "{{ fleet_slice.services | gb10.fleet.changed_services([written_files], false, starts.services) }}"
"""

RETURN = r"""
_value:
  description: The services' names.
  type: list
  elements: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.services import changed_services


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"changed_services": changed_services}
