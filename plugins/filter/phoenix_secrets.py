# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: phoenix_secrets
short_description: Phoenix' secrets as its unit reads them
version_added: 0.2.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Makes the variables of Phoenix' secret file from the key on the controller.
positional: _input
options:
  _input:
    description: The text of the file on the controller.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Write it
  ansible.builtin.copy:
    content: "{{ lookup('ansible.builtin.file', item.source) | gb10.fleet.phoenix_secrets }}"
    dest: "{{ item.path }}"
    mode: "0600"
  loop: "{{ fleet_slice.phoenix.secrets }}"
  no_log: true
"""

RETURN = r"""
_value:
  description: One variable a line.
  type: str
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.phoenix.declared import is_key
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.phoenix.plan import secrets_text


def phoenix_secrets(text: str) -> str:
    if not is_key(text):
        raise AnsibleFilterError(
            "the file of fleet_phoenix.secret_file holds no key that Phoenix takes; openssl rand -hex 32 makes one"
        )
    return secrets_text(text)


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"phoenix_secrets": phoenix_secrets}
