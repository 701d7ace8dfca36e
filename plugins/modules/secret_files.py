#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: secret_files
short_description: Install the secrets that a part of a host's slice names
version_added: 0.1.0
description:
  - Makes each secret file of the controller's file that the slice names, and writes it where it differs, in one call.
  - Shows no content, neither in a diff nor in a log.
  - In check mode a secret that an earlier task would make on the controller counts as one that must be written.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  part: {description: The part of the slice., type: str, choices: [clients, monitoring, phoenix], required: true}
  plan: {description: The content of the slice under that name., type: raw, required: true}
  secrets: {description: "Text by path, which the action reads on the controller.", type: dict, default: {}}
attributes:
  action: {description: "Reads the secrets on the controller, also those that ansible-vault encrypted.", support: full}
"""

EXAMPLES = r"""
- name: Bring the secrets of the gateway's clients
  gb10.fleet.secret_files:
    part: clients
    plan: "{{ fleet_slice.clients }}"
"""

RETURN = r"""
changed_files: {description: "Files that were written, or would be.", returned: success, type: list, elements: str}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.own_files import clear_of_folders, holds, replace_file

MODE = 0o600


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "part": {"type": "str", "choices": ["clients", "monitoring", "phoenix"], "required": True},
            "plan": {"type": "raw", "required": True},
            "secrets": {"type": "dict", "default": {}, "no_log": True},
        },
        supports_check_mode=True,
    )
    secrets = {Path(path): text for path, text in module.params["secrets"].items()}
    differing = [path for path, text in secrets.items() if text is None or not holds(path, text.encode(), MODE)]
    for path in [] if module.check_mode else differing:
        clear_of_folders(path)
        replace_file(path, secrets[path].encode(), MODE)
    names = sorted(map(str, differing))
    after = "another content, which is not shown\n"
    diffs = [{"before": "", "after": after, "before_header": name, "after_header": name} for name in names]
    module.exit_json(changed=bool(names), changed_files=names, diff=diffs)


if __name__ == "__main__":
    main()
