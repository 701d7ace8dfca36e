# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: client_secret
short_description: A secret of a client of the gateway, as its container reads it
version_added: 0.2.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Makes the variables of one of a client's secret files from the file on the controller, which is the gateway's file
    of keys or the client's own secret.
positional: _input, secret
options:
  _input:
    description: The text of the file on the controller.
    type: str
    required: true
  secret:
    description: One of C(secrets) of a client in the host's slice.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Write it
  ansible.builtin.copy:
    content: "{{ lookup('ansible.builtin.file', item.source) | gb10.fleet.client_secret(item) }}"
    dest: "{{ item.path }}"
    mode: "0600"
  loop: "{{ fleet_slice.clients | map(attribute='secrets') | flatten }}"
  no_log: true
"""

RETURN = r"""
_value:
  description: One variable a line.
  type: str
"""

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.clients.subject import secret_text


def client_secret(text: str, secret: Mapping[str, Any]) -> str:
    try:
        return secret_text(secret, text)
    except ValueError as problem:
        raise AnsibleFilterError(f"{secret['source']} can't be used: {problem}") from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"client_secret": client_secret}
