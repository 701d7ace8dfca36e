# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: slower
short_description: Whether a new definition answers more slowly than the one that it replaces
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Compares the best of several answers to the same request. Differences that a busy host makes of it don't count.
positional: _input, after, least
options:
  _input:
    description: Seconds of the old one's answers; none where it did not serve.
    type: list
    elements: float
    required: true
  after:
    description: Seconds of the new one's.
    type: list
    elements: float
    required: true
  least:
    description: The part of the old one's speed that the new one has to reach.
    type: float
    required: true
"""

EXAMPLES = r"""
- name: Refuse one that is slower
  ansible.builtin.assert:
    that: not ([1.2, 1.1] | gb10.fleet.slower([1.3], 0.7))
"""

RETURN = r"""
_value:
  description: A sentence where it is too slow, else an empty text.
  type: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._operations.rollout.compare import slower


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"slower": slower}
