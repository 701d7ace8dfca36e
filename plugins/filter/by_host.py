# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: by_host
short_description: What several hosts have registered, by host
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Hosts that have registered nothing, or not that key, are left out.
positional: _input, hosts, name, key
options:
  _input:
    description: C(hostvars).
    type: dict
    required: true
  hosts:
    description: The hosts to look at.
    type: list
    elements: str
    required: true
  name:
    description: The registered variable.
    type: str
    required: true
  key:
    description: The key of the result; empty for all of it.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Show each host's public key
  ansible.builtin.debug:
    msg: "{{ hostvars | gb10.fleet.by_host(ansible_play_hosts, 'identity', 'public_key') }}"
"""

RETURN = r"""
_value:
  description: The values, by host.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.hosts import by_host


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"by_host": by_host}
