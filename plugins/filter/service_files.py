# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: service_files
short_description: The files that a service reads when it starts
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Those of its supervisor, its unit, its secrets and its overlays, and the folders of its weights.
positional: _input
options:
  _input:
    description: A service, of C(services) of the host's slice.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show them
  ansible.builtin.debug:
    msg: "{{ fleet_slice.services | map('gb10.fleet.service_files') }}"
"""

RETURN = r"""
_value:
  description: The paths.
  type: list
  elements: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._joins.services import service_files


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"service_files": service_files}
