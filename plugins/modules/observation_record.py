#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: observation_record
short_description: Save measured values on the host and for the plan
version_added: 0.1.0
description:
  - Keeps a JSON document on the host and, below the inventory on the controller, a copy of it, which M(gb10.fleet.plan)
    reads. So the plan knows what hosts have shown without reaching them.
  - If O(content) is left out, the copy is made from the host's earlier record.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
attributes:
  action: {description: The controller's copy is written by an action., support: full}
options:
  path: {description: The file on the host. Its folder is made., type: path, required: true}
  content: {description: The document; V(null) leaves the host's file as it is., type: dict}
  kind:
    description: Its kind, a start's record, an image's contents, or the last starts by phase. The controller's copy
      is written only if it has the form of one.
    type: str
    choices: [boot, catalogue, start]
    required: true
  copy: {description: The file on the controller. Its folder is made., type: path, required: true}
"""

EXAMPLES = r"""
- name: Keep what the start has shown
  gb10.fleet.observation_record:
    path: /var/lib/gb10-fleet/boots/1f0c.json
    content: "{{ nano.record }}"
    kind: boot
    copy: "{{ inventory_dir }}/.fleet/observed/boots/{{ inventory_hostname }}/1f0c.json"
"""

RETURN = r"""
content: {description: The document that is kept; V(null) without one., returned: always, type: dict}
"""

import json
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.own_files import replace_file
from ..module_utils._host.settings.json_settings import written


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "content": {"type": "dict"},
            "kind": {"type": "str", "choices": ["boot", "catalogue", "start"], "required": True},
            "copy": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    path, content = Path(module.params["path"]), module.params["content"]
    before = path.read_text("utf-8") if path.exists() else ""
    after = before if content is None else written(content)
    if before != after and not module.check_mode:
        replace_file(path, after.encode())
    try:
        kept = json.loads(after) if after else None
    except ValueError:
        kept = None  # somebody else's text: the next start's record replaces it
    module.exit_json(changed=before != after, content=kept, diff={"before": before, "after": after})


if __name__ == "__main__":
    main()
