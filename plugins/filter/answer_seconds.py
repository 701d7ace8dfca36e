# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: answer_seconds
short_description: How long services took to answer, by their names
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Of the registered result of a loop of M(gb10.fleet.service_ready).
options:
  _input:
    description: The registered result.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show it
  ansible.builtin.debug:
    msg: "{{ asked | gb10.fleet.answer_seconds }}"
"""

RETURN = r"""
_value:
  description: Seconds of each answer, by service.
  type: dict
"""

from collections.abc import Callable, Mapping
from typing import Any


def answer_seconds(registered: Mapping[str, Any]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for one in registered["results"]:
        if "seconds" in one:
            found.setdefault(one["service"], []).append(one["seconds"])
    return found


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"answer_seconds": answer_seconds}
