#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: supervisor_cleanup
short_description: Remove supervisors of earlier releases that nothing uses
version_added: 0.2.0
description:
  - Each release of the supervisor lies in a folder of its own. A service takes a new release at its next start.
  - A folder stays while a unit, a running process or a kept way back uses it, or O(files) names its files.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  files:
    description: Paths of the current supervisor, C(supervisor.files) of a host's slice.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Remove supervisors that nothing uses
  gb10.fleet.supervisor_cleanup:
    files: "{{ fleet_slice.supervisor.files | list }}"
"""

RETURN = r"""
removed:
  description: The folders and files that were removed, or would be.
  returned: success
  type: list
  elements: str
"""

import shutil

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._subjects.services.supervisors import read_unused


def main() -> None:
    files = {"type": "list", "elements": "str", "required": True}
    module = AnsibleModule(argument_spec={"files": files}, supports_check_mode=True)
    unused = read_unused(module.params["files"])
    for path in [] if module.check_mode else unused:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    removed = [str(path) for path in unused]
    diff = {"before": "".join(f"{path}\n" for path in removed), "after": ""}
    module.exit_json(changed=bool(removed), removed=removed, diff=diff)


if __name__ == "__main__":
    main()
