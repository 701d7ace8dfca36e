#!/usr/bin/python
# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: peer_key
short_description: By which keys other hosts of the fleet know this one
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Returns the host's SSH host key, and the public key by which it reads from other hosts of the fleet. The private key
    is made on the host if it is not there, and never leaves it.
options:
  reads:
    description: Whether the host reads from others, so needs a key.
    type: bool
    default: true
attributes:
  check_mode:
    description: Reports whether a key would be made.
    support: full
  diff_mode:
    description: A key is not shown.
    support: none
"""

EXAMPLES = r"""
- name: Read by which keys this host is known
  gb10.fleet.peer_key:
  register: identity
"""

RETURN = r"""
host_key:
  description: The host's own SSH key of type ed25519.
  returned: always
  type: str
public_key:
  description: The key by which it reads from others; empty if there is none yet, or it needs none.
  returned: always
  type: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gb10.fleet.plugins.module_utils._transfer.access import ACCOUNT, KEY

HOST_KEY = Path("/etc/ssh/ssh_host_ed25519_key.pub")


def main() -> None:
    module = AnsibleModule(argument_spec={"reads": {"type": "bool", "default": True}}, supports_check_mode=True)
    key = Path(KEY)
    to_be_made = module.params["reads"] and not key.exists()
    if not HOST_KEY.exists():
        module.fail_json(msg=f"{HOST_KEY}: there is no such file; expected sshd's key; make it with ssh-keygen -A")
    if to_be_made and not module.check_mode:
        key.parent.mkdir(parents=True, exist_ok=True)
        module.run_command(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", ACCOUNT, "-f", KEY], check_rc=True)
    public = key.with_suffix(".pub")
    module.exit_json(
        changed=to_be_made,
        host_key=HOST_KEY.read_text().strip(),
        public_key=public.read_text().strip() if public.exists() else "",
    )


if __name__ == "__main__":
    main()
