#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: json_settings
short_description: Set keys in a JSON file and keep all other keys
version_added: 0.1.0
description:
  - Merges the wanted keys into those of the file. Keys that are not named stay. The file's text also stays when it
    already has the wanted values, in any format.
  - The new file is complete and valid before it replaces the earlier file.
  - The keys' values before the first change are noted for M(gb10.fleet.host_removal).
  - A diff shows the file. Use C(diff=false) on the task where it holds a secret.
extends_documentation_fragment:
  - ansible.builtin.files
  - gb10.fleet.attributes.changes
options:
  path: {description: The file. It is made when it is not there; its folder is not., type: path, required: true}
  original:
    description:
      - Another file, to merge the wanted keys into instead; it is never changed. Other values in C(path) are replaced.
      - Where it is not there yet, check mode takes the file for changed.
    type: path
  settings:
    description: The wanted content of the file. Maps are merged, V(null) removes a key, anything else replaces what is
      there.
    type: dict
    required: true
  validate:
    description:
      - A program and its arguments that end with 0 when the new file is good; C(%s) stands for its path.
      - It is not run when the program is not there.
    type: list
    elements: str
"""

EXAMPLES = r"""
- name: Give vLLM a config.json with the key that the model's own lacks
  gb10.fleet.json_settings:
    path: /var/lib/gb10-fleet/overlays/qwen/0-config.json
    original: /srv/models/qwen/config.json
    settings: {text_config: {rope_theta: 10000000}}

- name: Let containers live on while Docker restarts
  gb10.fleet.json_settings:
    path: /etc/docker/daemon.json
    settings:
      live-restore: true
    validate: [dockerd, --validate, --config-file, "%s"]
    mode: "0644"
"""

RETURN = r"""
changed_keys:
  description: The top-level keys that were added, removed or changed.
  returned: always
  type: list
  elements: str
  sample: [live-restore]
"""

import os
import shutil
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.findings import FleetError
from ..module_utils._host.settings.json_settings import changed_keys, merged, parsed, written
from ..module_utils._operations.undo import record


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "original": {"type": "path"},
            "settings": {"type": "dict", "required": True},
            "validate": {"type": "list", "elements": "str"},
        },
        add_file_common_args=True,
        supports_check_mode=True,
    )
    os.umask(0o077)  # private until the mode is set
    path = Path(module.params["path"])
    existed = path.exists()
    text = path.read_text("utf-8") if existed else ""
    try:
        before = parsed(str(path), text)
        after = merged(starting_point(module, before), module.params["settings"])
    except FleetError as error:
        module.fail_json(msg=str(error), findings=[finding.as_dict() for finding in error.findings])
    keys = changed_keys(before, after)
    if keys and not module.check_mode:
        record.remember_json(path, module.params["settings"])
        replace(module, path, written(after))
    diff: list[dict[str, Any]] = [{"before": text, "after": written(after) if keys else text}]
    access_changed = False
    if path.exists():
        access_diff: dict[str, Any] = {}
        access = module.load_file_common_arguments(module.params)
        access_changed = module.set_fs_attributes_if_different(access, False, access_diff)
        if existed and access_changed:
            diff.append(access_diff | {"before_header": str(path), "after_header": str(path)})
    module.exit_json(changed=bool(keys) or access_changed, changed_keys=keys, diff=diff)


def starting_point(module: AnsibleModule, before: dict[str, object]) -> dict[str, Any]:
    """What the settings are merged into."""
    if module.params["original"] is None:
        return before
    original = Path(module.params["original"])
    if original.exists():
        return parsed(str(original), original.read_text("utf-8"))
    if not module.check_mode:
        module.fail_json(msg=f"{original} is not there, so nothing can be merged into it")
    return {}


def replace(module: AnsibleModule, path: Path, text: str) -> None:
    """Writes beside the file, has it validated, and moves it over. What was there stays when that fails."""
    with NamedTemporaryFile("w", dir=module.tmpdir, suffix=".json", encoding="utf-8", delete=False) as new:
        new.write(text)
    validate: list[Any] = module.params["validate"] or []
    if validate and shutil.which(validate[0]):
        code, out, err = module.run_command([word.replace("%s", new.name) for word in validate])
        if code:
            output = (err or out).strip()
            module.fail_json(msg=f"{path}: {validate[0]} refuses the new file, and the earlier file stays: {output}")
    module.atomic_move(new.name, str(path))


if __name__ == "__main__":
    main()
