# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: service_starts
short_description: What decides whether the services of a host have to be started anew
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Of each service its unit, its container, the name of its image, and the files that it reads when it starts, those of
    its supervisor, its unit, its secrets and its overlays, and the folders of its weights.
positional: _input, program
options:
  _input:
    description: The services, C(services) of the host's slice.
    type: list
    elements: dict
    required: true
  program:
    description: The supervisor's files, C(supervisor.files) of the host's slice.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Look what has to be started
  gb10.fleet.service_start_info:
    services: "{{ fleet_slice.services | gb10.fleet.service_starts(fleet_slice.supervisor.files) }}"
"""

RETURN = r"""
_value:
  description: The services, as M(gb10.fleet.service_start_info) takes them.
  type: list
  elements: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.services import service_starts


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"service_starts": service_starts}
