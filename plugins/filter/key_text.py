# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: key_text
short_description: An API key's file on a host, as its engine reads it
version_added: 0.2.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Makes the text of a service's file with its API key from the file on the controller.
positional: _input, form
options:
  _input:
    description: The text of the file on the controller.
    type: str
    required: true
  form:
    description: The form of the file, C(key.form) of a service in the host's slice.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Write it
  ansible.builtin.copy:
    content: "{{ lookup('ansible.builtin.file', item.key.source) | gb10.fleet.key_text(item.key.form) }}"
    dest: "{{ item.key.path }}"
    mode: "0600"
  loop: "{{ fleet_slice.services | selectattr('key') }}"
  no_log: true
"""

RETURN = r"""
_value:
  description: The text of the file on the host.
  type: str
"""

from collections.abc import Callable

from ansible_collections.gb10.fleet.plugins.module_utils._managed import keyed


def key_text(text: str, form: str) -> str:
    return keyed(form)(text)


class FilterModule:
    def filters(self) -> dict[str, Callable[[str, str], str]]:
        return {"key_text": key_text}
