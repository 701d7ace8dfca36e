#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: python_tool
short_description: Install a Python program, pinned by hashes, in its own virtualenv
version_added: 0.1.0
description:
  - Makes the virtual environment again if its lock has changed, or if an earlier run was cut off. Nothing is
    built on the host, and a file whose hash the lock doesn't name is refused.
  - Needs the module C(venv) with pip, on Debian and Ubuntu the package C(python3-venv).
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  path: {description: The folder of the virtual environment. All that is in it is replaced., type: path, required: true}
  lock:
    description: Text of a requirements file that pins each package and names the hashes of its files.
    type: str
    required: true
  pip_arguments:
    description: Further arguments for pip, such as C(--index-url) of a mirror.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Install the hub's tool
  gb10.fleet.python_tool:
    path: /var/lib/gb10-fleet/tools/hf
    lock: "{{ lookup('ansible.builtin.file', 'hub.txt') }}"
"""

RETURN = r"""
packages:
  description: The packages that are installed, or would be, as C(name==version).
  returned: success
  type: list
  elements: str
"""

import re
import sys
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "lock": {"type": "str", "required": True},
            "pip_arguments": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    folder, lock = Path(module.params["path"]), module.params["lock"].strip() + "\n"
    installed = folder / ".lock"
    try:
        before = installed.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        before = ""
    if before != lock and not module.check_mode:
        _install(module, folder, lock)
        # last: a run that is cut off before has installed nothing
        _write(module, installed, lock)
    diff = {
        "before": "".join(map("{}\n".format, _packages(before))),
        "after": "".join(map("{}\n".format, _packages(lock))),
    }
    module.exit_json(changed=before != lock, packages=_packages(lock), diff=diff)


def _packages(lock: str) -> list[str]:
    return re.findall(r"^[\w.-]+==[\w.!+-]+", lock, re.MULTILINE)


def _install(module: AnsibleModule, folder: Path, lock: str) -> None:
    code, out, err = module.run_command([sys.executable, "-m", "venv", "--clear", str(folder)])
    if code:
        module.fail_json(
            msg=f"no virtual environment in {folder}: {_last(err or out)}; apt install python3-venv, then run again"
        )
    requirements = Path(module.tmpdir) / "lock.txt"
    requirements.write_text(lock, "utf-8")
    pip = [str(folder / "bin" / "pip"), "--disable-pip-version-check", "install", "--quiet"]
    only = ["--require-hashes", "--only-binary=:all:", "--requirement", str(requirements)]
    code, out, err = module.run_command([*pip, *module.params["pip_arguments"], *only])
    if code and "DO NOT MATCH THE HASHES" in err:
        found = " ".join(re.findall(r"^\s+(\S+==\S+).* from ", err, re.MULTILINE)) or "a package"
        remedy = "see what that index or mirror serves; the lock is right unless you changed it"
        module.fail_json(
            msg=f"the index gave other files than the lock names: {found}; nothing was installed; {remedy}"
        )
    if code:
        remedy = "let the host reach the package index, or name a mirror in pip's configuration, then run again"
        module.fail_json(msg=f"pip could not install {', '.join(_packages(lock)[:3])}: {_last(err or out)}; {remedy}")


def _last(output: str) -> str:
    return " ".join(output.strip().splitlines()[-3:])


def _write(module: AnsibleModule, path: Path, text: str) -> None:
    written = Path(module.tmpdir) / "written.txt"
    written.write_text(text, "utf-8")
    module.atomic_move(str(written), str(path))


if __name__ == "__main__":
    main()
