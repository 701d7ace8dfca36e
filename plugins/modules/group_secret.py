#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: group_secret
short_description: Create and install the secret that ranks of a group share
version_added: 0.1.0
description:
  - Without I(text), makes a secret where none is, or where a run that was cut off left a part of one. One that is there
    stays. With I(text), writes that.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  path: {description: "The file. It is root's, and nobody else reads it.", type: path, required: true}
  text: {description: The secret of the group's head. In check mode empty where the head has none yet., type: str}
"""

EXAMPLES = r"""
- name: Make it on the head
  gb10.fleet.group_secret:
    path: /etc/gb10-fleet/secrets/pair
  register: made
  no_log: true
"""

RETURN = r"""
text:
  description: The secret, for the other hosts of the group. Empty in check mode where there is none yet.
  returned: without I(text)
  type: str
"""

import secrets
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.own_files import clear_of_folders, holds, replace_file

MODE = 0o600
# A shorter one is none: a run that was cut off has left it.
LEAST_BYTES = 32


def main() -> None:
    module = AnsibleModule(
        argument_spec={"path": {"type": "path", "required": True}, "text": {"type": "str", "no_log": True}},
        supports_check_mode=True,
    )
    path, given = Path(module.params["path"]), module.params["text"]
    have = path.read_text("utf-8", "replace") if path.is_file() else ""
    wanted = given if given is not None else have if len(have.encode()) >= LEAST_BYTES else secrets.token_hex(32)
    if given is not None and len(given.encode()) < LEAST_BYTES and not module.check_mode:
        module.fail_json(
            msg=f"{path}: the group's head gave no secret; expected {LEAST_BYTES} bytes or more; run site.yml for all "
            "hosts of the group"
        )
    changed = not holds(path, wanted.encode(), MODE)
    if changed and not module.check_mode:
        clear_of_folders(path)
        replace_file(path, wanted.encode(), MODE)
    diff = {"before": "", "after": "another secret, which is not shown\n"} if changed else {"before": "", "after": ""}
    shown = {} if given is not None else {"text": have if module.check_mode and wanted != have else wanted}
    module.exit_json(changed=changed, diff={**diff, "before_header": str(path), "after_header": str(path)}, **shown)


if __name__ == "__main__":
    main()
