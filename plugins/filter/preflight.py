# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: preflight
short_description: What a host can't carry of its slice of the plan
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description: Compares what the plan needs of a host with a reading of M(gb10.fleet.host_info).
positional: _input, state, others, severity
options:
  _input:
    description: C(needs) of the host's slice of the plan.
    type: dict
    required: true
  state:
    description: The reading.
    type: dict
    required: true
  others:
    description: The readings of all hosts of the run, by name; without them services on several hosts are left alone.
    type: dict
  severity:
    description: Which problems, those that refuse the run or those that are only shown.
    type: str
    choices: [error, warning]
    default: error
"""

EXAMPLES = r"""
- name: Show what is in the way
  ansible.builtin.debug:
    msg: "{{ fleet_plan.plan.hosts.titan.needs | gb10.fleet.preflight(reading.state) }}"
"""

RETURN = r"""
_value:
  description: One sentence a problem, with place and remedy.
  type: list
  elements: str
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gb10.fleet.plugins.module_utils._preflight.needs import preflight


def preflight_sentences(needs: Any, state: Any, others: Any = None, severity: str = "error") -> list[str]:
    if not all(isinstance(given, Mapping) for given in (needs, state, others or {})):
        raise AnsibleFilterError(
            f"gb10.fleet.preflight takes maps, not {type(needs)}, {type(state)} and {type(others)}"
        )
    return [finding.sentence() for finding in preflight(needs, state, others) if finding.severity == severity]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"preflight": preflight_sentences}
