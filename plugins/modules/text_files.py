#!/usr/bin/python
# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: text_files
short_description: Write several small text files in one call
version_added: 0.1.0
author: gb10.fleet contributors (@gb10-fleet)
description:
  - Does for many files what M(ansible.builtin.copy) does for one, for the price of one.
  - Each new file is complete before it takes the old one's place. Other files beside them stay.
extends_documentation_fragment:
  - ansible.builtin.files
  - gb10.fleet.attributes.changes
options:
  files:
    description:
      - What each file says, by its path, as text or as a map of its C(content) and a C(mode) of its own. Their folders
        are there already.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Put a small program there
  gb10.fleet.text_files:
    files:
      /usr/local/lib/gb10-fleet/gids.py: "{{ lookup('ansible.builtin.file', 'gids.py', rstrip=false) }}"
    mode: "0644"
"""

RETURN = r"""
changed_files:
  description: The paths of those that were written, or that got other access.
  returned: always
  type: list
  elements: str
  sample: [/usr/local/lib/gb10-fleet/gids.py]
"""

from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    module = AnsibleModule(
        argument_spec={"files": {"type": "dict", "required": True}},
        add_file_common_args=True,
        supports_check_mode=True,
    )
    changed, diff = [], []
    for name, wanted in sorted(module.params["files"].items()):
        content, own = (wanted["content"], {"mode": wanted["mode"]}) if isinstance(wanted, dict) else (wanted, {})
        changes = converge(module, Path(name), content, own)
        changed += [name] if changes else []
        diff += changes
    module.exit_json(changed=bool(changed), changed_files=changed, diff=diff)


def converge(module: AnsibleModule, path: Path, wanted: str, own: dict[str, str]) -> list[dict[str, Any]]:
    """What changed of one file, as diffs: its text, its access. own: its mode, if it isn't that of all."""
    found: list[dict[str, Any]] = []
    text = path.read_text("utf-8", "replace") if path.exists() else None
    if text != wanted:
        found.append({"before": text or "", "after": wanted, "before_header": str(path), "after_header": str(path)})
        if not module.check_mode:
            with NamedTemporaryFile("w", dir=module.tmpdir, encoding="utf-8", delete=False) as new:
                new.write(wanted)
            module.atomic_move(new.name, str(path))
    if path.exists():
        access: dict[str, Any] = {}
        arguments = module.load_file_common_arguments(module.params | own, path=str(path))
        # of a new file its access is no news
        if module.set_fs_attributes_if_different(arguments, False, access) and text is not None:
            found.append(access | {"before_header": str(path), "after_header": str(path)})
    return found


if __name__ == "__main__":
    main()
