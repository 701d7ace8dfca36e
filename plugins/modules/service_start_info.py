#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: service_start_info
short_description: Read which services run and what changed since they started
version_added: 0.1.0
description:
  - Reads all services in one call, also what a run that was cut off has left.
options:
  services:
    description: The services.
    type: list
    elements: dict
    required: true
    suboptions:
      name: {description: The service., type: str, required: true}
      unit: {description: The systemd unit that owns its container., type: str, required: true}
      container: {description: Its container., type: str, required: true}
      image: {description: The name of the image that its container must have., type: str, required: true}
      started: {description: A file that is as old as its last start., type: path, required: true}
      files: {description: Files and folders that it reads when it starts., type: list, elements: path, required: true}
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
"""

EXAMPLES = r"""
- name: Look what has to be started
  gb10.fleet.service_start_info:
    services: "{{ fleet_slice.services | gb10.fleet.internal('service_starts') }}"
  register: starts
"""

RETURN = r"""
services:
  description: Facts by the name of each service. Its unit C(runs), is C(enabled), or is C(stale) until systemd reads
    it again. C(newer) is a file that changed after the start, or empty. With C(other_image) the name of its image
    stands for another image now.
  returned: success
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.probe.parts import UnreadableError, bounded_run
from ..module_utils._subjects.services.starts import read_starts

COMMAND_SECONDS = 60


def main() -> None:
    words = {name: {"type": "str", "required": True} for name in ("name", "unit", "container", "image")}
    paths = {
        "started": {"type": "path", "required": True},
        "files": {"type": "list", "elements": "path", "required": True},
    }
    services = {"type": "list", "elements": "dict", "required": True, "options": {**words, **paths}}
    module = AnsibleModule(argument_spec={"services": services}, supports_check_mode=True)
    try:
        found = read_starts(bounded_run(COMMAND_SECONDS), module.params["services"])
    except UnreadableError as problem:
        module.fail_json(msg=f"it can't be read whether the services must be started: {problem}")
    module.exit_json(changed=False, services=found)


if __name__ == "__main__":
    main()
