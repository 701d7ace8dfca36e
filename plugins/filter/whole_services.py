# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: whole_services
short_description: The slice of a host with the services whose hosts are all there
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - The ranks of a service start, serve and end together; without one of its hosts it is left as it is, and all else on
    its other hosts goes on.
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
- name: Leave the others as they are
  ansible.builtin.set_fact:
    fleet_slice: "{{ (fleet_slice | gb10.fleet.whole_services(ansible_play_hosts)).slice }}"
"""

RETURN = r"""
_value:
  description: C(slice), and C(left_out), one sentence for each service that is left as it is.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._host.joins.hosts import whole_services


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"whole_services": whole_services}
