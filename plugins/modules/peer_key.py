#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: peer_key
short_description: Return a host's SSH keys and addresses for peer access
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Returns the host's SSH host key, and the public key that it uses to read from other hosts of the fleet. The private
    key is made on the host if it is not there, and never leaves it.
  - Returns its own addresses on the way to the hosts that it reads from. Nothing is sent for that.
options:
  reads:
    description: By host that this host reads from, its addresses. A host that reads from none needs no key.
    type: dict
    default: {}
attributes:
  check_mode: {description: Reports whether a key would be made., support: full}
  diff_mode: {description: A key is not shown., support: none}
"""

EXAMPLES = r"""
- name: Read the keys that identify this host
  gb10.fleet.peer_key:
    reads:
      titan: [192.168.100.10, 10.0.0.11]
  register: identity
"""

RETURN = r"""
host_key: {description: The host's own SSH key of type ed25519., returned: always, type: str}
public_key:
  description: The key that it uses to read from other hosts; empty if there is none yet, or it needs none.
  returned: always
  type: str
addresses:
  description: Its own addresses towards the hosts that it reads from.
  returned: always
  type: list
  elements: str
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._stores.peers.reading import HOST_KEY, local
from ..module_utils._stores.transfer.access import ACCOUNT, KEY


def main() -> None:
    module = AnsibleModule(argument_spec={"reads": {"type": "dict", "default": {}}}, supports_check_mode=True)
    key = Path(KEY)
    to_be_made = bool(module.params["reads"]) and not key.exists()
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
        addresses=local(address for ends in module.params["reads"].values() for address in ends),
    )


if __name__ == "__main__":
    main()
