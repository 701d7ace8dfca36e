# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: slower_services
short_description: Which services answer more slowly than before
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - As P(gb10.fleet.slower#filter), of several services.
positional: _input, after, least
options:
  _input:
    description: Seconds of the answers before, by service.
    type: dict
    required: true
  after:
    description: Seconds of the answers now, by service.
    type: dict
    required: true
  least:
    description: The part of the earlier speed that each has to reach.
    type: float
    required: true
"""

EXAMPLES = r"""
- name: Show which are slower
  ansible.builtin.debug:
    msg: "{{ before | gb10.fleet.slower_services(after, 0.7) }}"
"""

RETURN = r"""
_value:
  description: One sentence a service that is too slow.
  type: list
  elements: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._operations.update.proof import slower_services


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"slower_services": slower_services}
