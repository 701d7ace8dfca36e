#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: fabric_hotplug
short_description: Turn ConnectX-7 hot-plug off, or restore it
version_added: 0.1.0
description:
  - DGX OS takes the ConnectX-7 off the PCI bus while no cable is seen, if C(/etc/nvidia/cx7-hotplug-enabled) is
    there. V(off) gives that file the name that NVIDIA's own guide gives it, C(cx7-hotplug-disabled). It takes effect
    when the machine is started the next time.
  - V(keep) gives the file its name back if this module has taken it away, and touches nothing else.
options:
  state: {description: The wanted state., type: str, choices: ["off", keep], required: true}
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
"""

EXAMPLES = r"""
- name: Keep the adapter while a peer is switched off
  gb10.fleet.fabric_hotplug:
    state: "off"
"""

RETURN = r"""
restart_needed: {description: Whether the machine must restart for it., returned: success, type: bool}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base import layout
from ..module_utils._subjects.fabric.hotplug import DISABLED, MARKER


def main() -> None:
    module = AnsibleModule(
        argument_spec={"state": {"type": "str", "choices": ["off", "keep"], "required": True}}, supports_check_mode=True
    )
    marker, disabled, record = Path(MARKER), Path(DISABLED), Path(layout.HOTPLUG)
    off = module.params["state"] == "off"
    source, target = (marker, disabled) if off else (disabled, marker)
    changed = source.exists() if off else record.exists()
    if changed and not module.check_mode:
        try:
            if off:
                record.parent.mkdir(parents=True, exist_ok=True)
                record.touch()
            if source.exists():
                source.replace(target)
            if not off:
                record.unlink()
        except OSError as error:
            why = f"{error.filename or target}: {error.strerror}"
            module.fail_json(msg=f"{why}; hot-plug is as it was [fabric-hotplug-file]")
    diff = {"before": f"{source}\n", "after": f"{target}\n"} if changed else {}
    module.exit_json(changed=changed, restart_needed=changed, diff=diff)


if __name__ == "__main__":
    main()
