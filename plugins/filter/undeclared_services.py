# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: undeclared_services
short_description: Units of ours on a host that no service has
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Each with all files that were written for it.
positional: _input, services
options:
  _input:
    description: Paths of unit files on the host.
    type: list
    elements: str
    required: true
  services:
    description: The services, C(services) of the host's slice.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what is left over
  ansible.builtin.debug:
    msg: "{{ ['/etc/systemd/system/gb10-vllm-old.service'] | gb10.fleet.undeclared_services(fleet_slice.services) }}"
"""

RETURN = r"""
_value:
  description: C(unit), its name, and C(files), all that were written for it.
  type: list
  elements: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._joins.services import undeclared_services


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"undeclared_services": undeclared_services}
