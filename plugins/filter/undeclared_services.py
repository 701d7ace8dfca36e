# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: undeclared_services
short_description: What to report of services on hosts that nobody declares there
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Those that the run removes, since it was asked to or they are declared on other hosts now, and those that another
    inventory wrote, are warnings. All others are errors.
positional: _input, removal, alive, severity
options:
  _input:
    description: Readings of M(gb10.fleet.host_info), by host.
    type: dict
    required: true
  removal:
    description: What decides over them, C(removal) of M(gb10.fleet.plan). Nothing is found where it is empty.
    type: dict
    required: true
  alive:
    description: The hosts that the run goes on with.
    type: list
    elements: str
    required: true
  severity:
    description: Which, those that refuse the run or those that are only shown.
    type: str
    choices: [error, warning]
    default: error
"""

EXAMPLES = r"""
- name: Show what would be removed
  ansible.builtin.debug:
    msg: "{{ {'titan': reading.state} | gb10.fleet.undeclared_services(fleet_plan.removal, ['titan'], 'warning') }}"
"""

RETURN = r"""
_value:
  description: One sentence each, with place and remedy; with the host's name where several are given.
  type: list
  elements: str
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._subjects.services.undeclared import findings, undeclared


def undeclared_services(
    states: Mapping[str, Any], removal: Mapping[str, Any], alive: Sequence[str], severity: str = "error"
) -> list[str]:
    if not removal:
        return []
    run = {**removal, "alive": alive}
    return [
        f"{host}: {finding.sentence()}" if len(states) > 1 else finding.sentence()
        for host, state in states.items()
        for finding in findings(undeclared(state["our_units"] or (), host, run), run)
        if finding.severity == severity
    ]


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"undeclared_services": undeclared_services}
