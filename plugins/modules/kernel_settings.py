#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: kernel_settings
short_description: Set sysctl values, read-ahead and swap in the running kernel
version_added: 0.1.0
description:
  - Compares the live values of sysctl keys, of the NVMe disks' read-ahead and of swap with the wanted values, and sets
    the values that differ.
  - Notes what the kernel said before the first change, for M(gb10.fleet.host_removal), and writes no other file that
    lasts. Files below C(/etc) hold the values for the next boot.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  sysctl:
    description:
      - Keys with dots and their values. A key that this kernel does not have is an error, before anything is set.
      - The kernel zeroes one of C(vm.dirty_bytes) and C(vm.dirty_ratio) when the other is written. Such a pair is
        refused.
    type: dict
    default: {}
  read_ahead_kb:
    description: Read-ahead of each NVMe disk, in KiB. If it is not given, the value stays.
    type: int
  swap:
    description:
      - V(false) switches all swap off, V(true) switches on the swap of C(/etc/fstab) if none is active.
      - If it is not given, the value stays.
    type: bool
"""

EXAMPLES = r"""
- name: Set the running kernel
  gb10.fleet.kernel_settings:
    sysctl:
      vm.swappiness: 1
      vm.dirty_bytes: 268435456
    read_ahead_kb: 8192
    swap: false
"""

RETURN = r"""
changes:
  description: The differences, each name with the value that it has now.
  returned: always
  type: dict
  sample: {vm.swappiness: "1", nvme0n1/queue/read_ahead_kb: "8192", swap: "off"}
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.findings import FleetError
from ..module_utils._host.settings.kernel_settings import Wanted, before_us, contradictions, read_live, write_live
from ..module_utils._operations.undo import record


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "sysctl": {"type": "dict", "default": {}},
            "read_ahead_kb": {"type": "int"},
            "swap": {"type": "bool"},
        },
        supports_check_mode=True,
    )
    wanted = Wanted(**module.params)
    try:
        if found := contradictions(wanted.sysctl):
            raise FleetError(*found)
        live = read_live(wanted.sysctl)
        differing = wanted.differing(live)
        if not module.check_mode:
            record.remember("kernel", before_us(wanted, live))
            write_live(wanted, differing, module.run_command)
    except FleetError as error:
        module.fail_json(msg=str(error), findings=[finding.as_dict() for finding in error.findings])
    before = {name: live[name] for name in differing}
    module.exit_json(changed=bool(differing), changes=differing, diff={"before": before, "after": differing})


if __name__ == "__main__":
    main()
