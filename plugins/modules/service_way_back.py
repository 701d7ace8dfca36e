#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: service_way_back
short_description: Save a service's definition, or restore the saved one
version_added: 0.1.0
description:
  - Before a rollout changes a service, its files on this host are kept in a folder that only root reads. Where the new
    definition does not prove itself, they come back; files that it brought go.
  - Files that a cut-off run has kept already stay, since the service's folder may be new in part.
  - Starts and stops nothing. Images and weights are not kept here. Those of the earlier definition must still be on the
    host. A name that stands for another image now is given back to the earlier image.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  service: {description: The service's name., type: str, required: true}
  files: {description: Files that the new definition writes., type: list, elements: path, default: []}
  image: {description: The name of the image that its container runs., type: str, default: ""}
  state:
    description:
      - V(kept) keeps the files, V(restored) puts them back and keeps nothing, V(absent) keeps nothing.
      - V(rewound) is V(kept) where nothing is kept. If not, it restores the files and still keeps them, for the next of
        several trials, with those of O(files) that this trial writes beside the earlier files.
    type: str
    choices: [kept, rewound, restored, absent]
    default: kept
"""

EXAMPLES = r"""
- name: Keep what the service goes by
  gb10.fleet.service_way_back:
    service: chat-1
"""

RETURN = r"""
files: {description: The files that are kept or were put back., returned: success, type: list, elements: str}
"""

import json
import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base import layout
from ..module_utils._base.own_files import replace_file, unwritten
from ..module_utils._on_host.trial import read_index, restore


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "service": {"type": "str", "required": True},
            "files": {"type": "list", "elements": "path", "default": []},
            "image": {"type": "str", "default": ""},
            "state": {"type": "str", "choices": ["kept", "rewound", "restored", "absent"], "default": "kept"},
        },
        supports_check_mode=True,
    )
    service, state = module.params["service"], module.params["state"]
    folder = Path(layout.way_back(service))
    index = read_index(folder)
    if state == "rewound" and index:
        found = index["files"]
        changed = True
        if not module.check_mode:
            _put_back(module, folder, index)
            _keep_more(folder, index, _wanted(service, module.params["files"]))
    elif state in ("kept", "rewound"):
        found = index["files"] if index else _wanted(service, module.params["files"])
        changed = index is None
        if changed and not module.check_mode:
            try:
                _keep(module, folder, service, found)
            except OSError as problem:
                shutil.rmtree(folder, ignore_errors=True)
                module.fail_json(
                    msg=f"{service}: its way back can't be kept, and nothing was changed: "
                    f"{unwritten(problem, folder, 'a folder that root can write', 'make it writable')}"
                )
    else:
        found = index["files"] if index and state == "restored" else {}
        changed = index is not None
        if state == "restored" and index is None and not module.check_mode:
            module.fail_json(msg=f"{folder} keeps nothing of {service}: run site.yml with the earlier declaration")
        if changed and not module.check_mode:
            if state == "restored":
                _put_back(module, folder, index or {})
            shutil.rmtree(folder, ignore_errors=True)
    diff = {"before": "", "after": "".join(f"{state}: {path}\n" for path in sorted(found))} if changed else {}
    module.exit_json(changed=changed, files=sorted(found), diff=diff)


def _wanted(service: str, files: list[str]) -> dict[str, str | None]:
    """Where each file is kept, None of one that is not there yet, which goes with the new definition."""
    own = [layout.rank_file(service), f"{layout.UNITS}/{layout.unit(service)}", *files]
    own += [str(path) for path in sorted(Path(layout.SECRETS).glob(f"{service}.*"))]
    own += [str(path) for path in sorted(Path(layout.OVERLAYS, service).rglob("*")) if path.is_file()]
    return {path: str(number) if Path(path).is_file() else None for number, path in enumerate(dict.fromkeys(own))}


def _keep(module: AnsibleModule, folder: Path, service: str, files: dict[str, str | None]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    modes = {}
    for path, kept in files.items():
        if kept is not None:
            modes[path] = Path(path).stat().st_mode & 0o7777
            replace_file(folder / kept, Path(path).read_bytes(), 0o600)
    form = "{{.Image}}"
    _code, image, _error = module.run_command(["docker", "inspect", "--format", form, layout.container(service)])
    index = {"files": files, "modes": modes, "image": image.strip(), "name": module.params["image"]}
    replace_file(Path(layout.way_back_index(service)), json.dumps(index).encode(), 0o600)


def _put_back(module: AnsibleModule, folder: Path, index: dict[str, object]) -> None:
    restore(folder, index, lambda words: module.run_command(list(words), check_rc=True))
    module.run_command(["systemctl", "daemon-reload"], check_rc=True)


def _keep_more(folder: Path, index: dict[str, Any], wanted: dict[str, str | None]) -> None:
    """What is not kept yet lies there as it was: no trial has written it."""
    for path in wanted.keys() - index["files"].keys():
        kept = str(len(index["files"])) if Path(path).is_file() else None
        if kept is not None:
            index["modes"][path] = Path(path).stat().st_mode & 0o7777
            replace_file(folder / kept, Path(path).read_bytes(), 0o600)
        index["files"][path] = kept
    replace_file(folder / "index.json", json.dumps(index).encode(), 0o600)


if __name__ == "__main__":
    main()
