#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: checkpoint_info
short_description: Read a model folder's config.json and file sizes
version_added: 0.1.0
description:
  - Reads config.json and the sizes of a model's files in a folder of the host, for C(gb10.fleet.recipe_new).
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
options:
  folder: {description: Where the model's files lie., type: path, required: true}
  model: {description: "Its name on the hub, C(organisation/name).", type: str, required: true}
"""

EXAMPLES = r"""
- name: Read a model that lies on the host
  gb10.fleet.checkpoint_info:
    folder: /srv/models/qwen3-8b
    model: Qwen/Qwen3-8B
"""

RETURN = r"""
checkpoint: {description: "The model's facts, as C(gb10.fleet.recipe_new) takes them.", returned: success, type: dict}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.findings import FleetError
from ..module_utils._engines.recipes.kept_models import read_folder


def main() -> None:
    module = AnsibleModule(
        argument_spec={"folder": {"type": "path", "required": True}, "model": {"type": "str", "required": True}},
        supports_check_mode=True,
    )
    folder, model = module.params["folder"], module.params["model"]
    try:
        found = read_folder(Path(folder), model, f"the folder {folder}")
    except FleetError as problem:
        module.fail_json(msg=str(problem))
    module.exit_json(changed=False, checkpoint=found)


if __name__ == "__main__":
    main()
