# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: gateway_clients
short_description: What a gateway knows its clients by
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Digests of their keys with their names, so that who reads the gateway's files has no key.
positional: _input
options:
  _input:
    description: The owner's file, one line a client with its name and key, as YAML.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Write it
  ansible.builtin.copy:
    content: "{{ lookup('ansible.builtin.file', 'secrets/clients.yml') | gb10.fleet.gateway_clients }}"
    dest: /etc/gb10-fleet/gateway/clients.map
    mode: "0600"
  no_log: true
"""

RETURN = r"""
_value:
  description: A map of HAProxy's, one line a client.
  type: str
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.gateway.clients import clients_map


def gateway_clients(text: str) -> str:
    try:
        return clients_map(text)
    except ValueError as problem:
        raise AnsibleFilterError(f"the gateway's file of clients can't be used: {problem}") from None


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"gateway_clients": gateway_clients}
