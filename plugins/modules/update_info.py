#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: update_info
short_description: Read the package and firmware updates available on a host
version_added: 0.1.0
description:
  - Asks apt (C(apt-get --simulate dist-upgrade)) and fwupd, by the package lists and metadata that the host has, and
    reads what can be put back and the record of an update that was cut off.
options:
  units:
    description: Units of services. Whether they run or would at boot is read also.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Read what an update would change
  gb10.fleet.update_info:
    units: "{{ fleet_slice.services | map(attribute='unit') }}"
  become: true
  register: found
"""

RETURN = r"""
updates:
  description:
    - C(steps), each with C(action) (install, upgrade or remove), C(package), C(have) and C(version). C(kept_back) and
      C(held) are packages. C(firmware) is the offered firmware, null without fwupd. C(lost) has packages that can't be
      rolled back, C(record) the record of a running update.
  returned: success
  type: dict
"""

from functools import partial

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.probe.parts import UnreadableError
from ..module_utils._host.probe.system import wait_for_boot
from ..module_utils._operations.update.look import read_updates


def main() -> None:
    module = AnsibleModule(
        argument_spec={"units": {"type": "list", "elements": "str", "default": []}}, supports_check_mode=True
    )
    run = partial(module.run_command, handle_exceptions=False, environ_update={"LC_ALL": "C"})
    try:
        wait_for_boot(run)
        found = read_updates(run, module.params["units"])
    except (OSError, ValueError, UnreadableError) as error:
        module.fail_json(msg=f"what an update would change can't be read: {error}")
    module.exit_json(changed=False, updates=found)


if __name__ == "__main__":
    main()
