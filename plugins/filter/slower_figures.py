# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: slower_figures
short_description: Which services were measured slower than before
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Figure by figure, where all of the difference's interval is beyond what is tolerated.
positional: _input, after, least
options:
  _input:
    description: What M(gb10.fleet.bench_services) returned as C(figures) before.
    type: dict
    required: true
  after:
    description: The same, now. A service that is not there is not compared.
    type: dict
    required: true
  least:
    description: The part of the earlier speed that each figure has to reach.
    type: float
    required: true
"""

EXAMPLES = r"""
- name: Show which are slower
  ansible.builtin.debug:
    msg: "{{ before | gb10.fleet.slower_figures(after, 0.7) }}"
"""

RETURN = r"""
_value:
  description: One sentence a figure that is too slow.
  type: list
  elements: str
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.canary import slower_than


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"slower_figures": slower_than}
