#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: bundle_files
short_description: Copy files from a bundle to a host
version_added: 0.1.0
description:
  - Sends what the host lacks over Ansible's own connection, and reads each file there before it gets its name.
  - A run that was cut off is gone on with, file by file.
options:
  files:
    description: The files. By where each goes, below O(folder), its path in the bundle; to the module itself, its
      C(bytes) and C(sha256).
    type: dict
    required: true
  written: {description: "Further small files, with their content.", type: dict, default: {}}
  folder: {description: "The folder on the host, for root only.", type: path, default: /var/lib/gb10-fleet/bundle}
  folders: {description: The bundle's folders on the controller., type: list, elements: path, default: []}
  inventory: {description: The inventory's folder on the controller., type: path}
  arrived: {description: "By file the pieces that the action has put on the host, in order.", type: dict, default: {}}
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
"""

EXAMPLES = r"""
- name: Bring the bundle's files
  gb10.fleet.bundle_files:
    folders: "{{ fleet_plan.bundle.folders }}"
    inventory: "{{ inventory_dir }}"
    files: "{{ fleet_bundle.deliveries[inventory_hostname] }}"
"""

RETURN = r"""
missing: {description: "The files that are not there, or not whole.", returned: success, type: list, elements: str}
"""

import hashlib
import os
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.findings import FleetError
from ..module_utils._base.layout import BUNDLE
from ..module_utils._base.own_files import replace_file, unwritten
from ..module_utils._base.sizes import size
from ..module_utils._base.staging import require_space

_BLOCK = 1 << 20


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "dict", "required": True},
            "written": {"type": "dict", "default": {}},
            "folder": {"type": "path", "default": BUNDLE},
            "folders": {"type": "list", "elements": "path", "default": []},
            "inventory": {"type": "path"},
            "arrived": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    files, folder = module.params["files"], Path(module.params["folder"])
    try:
        if not module.check_mode:
            for name, pieces in module.params["arrived"].items():
                take(module, folder / name, files[name], [Path(piece) for piece in pieces])
        missing = sorted(name for name, file in files.items() if not is_whole(folder / name, file))
        if not module.params["arrived"]:
            require_space(folder, sum(files[name]["bytes"] for name in missing), "what the bundle brings")
        if not module.check_mode:
            prepare(folder, module.params["written"])
    except FleetError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        module.fail_json(msg=unwritten(error, folder, "a disk that takes files", "see to that, and run again"))
    diff = {"before": "", "after": as_text(folder, {name: files[name]["bytes"] for name in missing})}
    module.exit_json(changed=bool(missing or module.params["arrived"]), missing=missing, diff=diff)


def as_text(folder: Path, missing: dict[str, int]) -> str:
    """What comes, a line a kind: a repository has hundreds of files."""
    kinds: dict[str, list[int]] = {}
    for name, count in missing.items():
        kinds.setdefault(name.split("/")[0], []).append(count)
    return "".join(f"{folder / kind}: {len(found)} files, {size(sum(found))}\n" for kind, found in kinds.items())


def prepare(folder: Path, written: dict[str, str]) -> None:
    """The folders that apt needs, and the small files."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in written.items():
        replace_file(folder / name, content.encode())
        for needed in ("lists/partial", "archives/partial", "none"):
            (folder / name).parent.joinpath(needed).mkdir(parents=True, exist_ok=True)


def is_whole(path: Path, wanted: dict[str, object]) -> bool:
    """Whether it is all there, by its bytes."""
    if not path.is_file() or path.is_symlink() or path.stat().st_size != wanted["bytes"]:
        return False
    read = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK):
            read.update(block)
    return read.hexdigest() == str(wanted["sha256"])


def take(module: AnsibleModule, path: Path, wanted: dict[str, object], pieces: list[Path]) -> None:
    """Join what arrived into a file of root's own: another account may still hold the pieces open."""
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    partial, read, count = path.with_name(path.name + ".partial"), hashlib.sha256(), 0
    with partial.open("wb") as out:
        for piece in pieces:
            with piece.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    read.update(block)
                    out.write(block)
                    count += len(block)
            piece.unlink()
        out.flush()
        os.fsync(out.fileno())
    if (count, read.hexdigest()) != (wanted["bytes"], wanted["sha256"]):
        partial.unlink()
        module.fail_json(
            msg=f"{path}: {count} bytes, sha256 {read.hexdigest()} arrived; expected {wanted['bytes']} bytes, sha256 "
            f"{wanted['sha256']}; run again, and look at the medium and the network if it is the same"
        )
    partial.chmod(0o644)
    partial.replace(path)


if __name__ == "__main__":
    main()
