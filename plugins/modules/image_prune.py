#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: image_prune
short_description: Remove old container images that this collection installed
version_added: 0.1.0
description:
  - Removes images that M(gb10.fleet.container_images) brought and that are no longer wanted, except for the newest
    images of each repository. It also removes the caches that services compiled with them. Images from elsewhere stay,
    and also images that a container still needs.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  references:
    description: The wanted images' names.
    type: list
    elements: str
    required: true
  keep:
    description: The number of earlier images of each repository to keep.
    type: int
    default: 1
  folder:
    description: Where the host keeps its notes on images.
    type: path
    default: /var/lib/gb10-fleet
"""

EXAMPLES = r"""
- name: Remove what an upgrade left behind, once the new service is healthy
  gb10.fleet.image_prune:
    references: [vllm/vllm-openai:v0.24.0]
"""

RETURN = r"""
removed:
  description: The images that were removed, by name, or by ID where the name is a newer one's by now.
  returned: success
  type: list
  elements: str
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.layout import COMPILED, STATE, compiled_key
from ..module_utils._base.staging import LOCKS, held
from ..module_utils._stores.images.docker import Docker
from ..module_utils._stores.images.identity import Reference, parse_reference
from ..module_utils._stores.images.records import ImageRecords
from ..module_utils._stores.transfer import modules
from ..module_utils._stores.transfer.places import Places


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "references": {"type": "list", "elements": "str", "required": True},
            "keep": {"type": "int", "default": 1},
            "folder": {"type": "path", "default": STATE},
        },
        supports_check_mode=True,
    )
    modules.run(module, prune, line=str)


def prune(module: AnsibleModule) -> list[str]:
    """Names or IDs of what was removed, or would be."""
    folder = Path(module.params["folder"])
    note = None if module.check_mode else module.warn
    records, docker = ImageRecords(Places(folder, folder / "hf").image_records, note), Docker()
    removed = []
    with held(LOCKS / "images.lock", "removing earlier images"):
        for reference, image in records.stale(map(parse_reference, module.params["references"]), module.params["keep"]):
            name = name_of(docker, reference, str(image["id"]))
            is_named = name == str(reference)
            if module.check_mode and name:
                removed.append(name)
            elif not module.check_mode and (not name or docker.remove(name)):
                for built in compiled_with(reference, image["digest"], is_named=is_named):
                    shutil.rmtree(built, ignore_errors=True)
                records.forget(reference, image)
                removed += [name] if name else []
    return removed


def name_of(docker: Docker, reference: Reference, image_id: str) -> str:
    """By which an image can be removed: its name, or its ID where the name is another image's, as after a rollout that
    was taken back. Empty where somebody else has named it."""
    named, found = docker.image(str(reference)), docker.image(image_id)
    if named and named.id == image_id:
        return str(reference)
    return "" if found and found.tags else image_id


def compiled_with(
    reference: Reference, digest: str | None, *, is_named: bool, folder: Path = Path(COMPILED)
) -> Iterator[Path]:
    """What services have compiled with an image. is_named: whether the reference stands for it, rather than for a newer
    image that has no digest of its own in the folder's name either."""
    pins = {*([digest] if digest else []), *([None] if is_named else [])}
    names = {str(reference), reference.full_name}
    for key in sorted(compiled_key(name, pin) for name in names for pin in pins):
        yield from sorted(folder.glob(f"*/{key}"))


if __name__ == "__main__":
    main()
