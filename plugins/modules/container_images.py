#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: container_images
short_description: Install container images, transferring only missing layers
version_added: 0.1.0
description:
  - Compares each image by its identity (ordered DiffIDs and config), which is equal in every Docker image store, and
    moves the missing layers from where the plan says.
  - Examines all images before it changes the first. Obstacles are reported at once, for all of them.
  - Keeps the pinned digest of each image in a record on the host, since C(docker save) and C(docker load) lose it.
  - Shows progress while it works.
extends_documentation_fragment:
  - gb10.fleet.staging
  - gb10.fleet.attributes.changes
options:
  images:
    description: The images that the host must have, as C(images) of its slice of the plan (C(StoredImage) in
      C(module_utils/_base/slice.py)). A C(reference) and a C(source) with its C(kind) are enough.
    type: list
    elements: dict
    required: true
  folder:
    description: Where the host keeps its notes on images, and layers on their way.
    type: path
    default: /var/lib/gb10-fleet
  is_renewed:
    description: An earlier task renewed the images that other hosts fetch from here, so C(renew) holds only
      for images with C(peers).
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Bring the images
  gb10.fleet.container_images:
    images:
      - reference: vllm/vllm-openai:v0.23.0
        digest: sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
        source: {kind: registry}
      - reference: vllm-cpu:lab
        source: {kind: archive, path: /srv/images/vllm-cpu.tar}
"""

RETURN = r"""
images:
  description: Each image has its C(reference), the C(action) (V(nothing), V(tag), V(load), V(pull), V(build),
    V(fetch)) and the C(bytes) to move, for a fetch the most, null if unknown here. A present image also has its C(id),
    and in C(lock) its C(digest) and C(identity).
  returned: success
  type: list
  elements: dict
incoming:
  description: The folder with layers that were received from other hosts, which may still fetch them from there.
  returned: success
  type: str
findings: {description: "The obstacles, as findings.", returned: failure, type: list, elements: dict}
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.layout import STATE
from ..module_utils._base.slice import StoredImage
from ..module_utils._base.staging import ARGUMENTS, LOCKS, Progress, held
from ..module_utils._stores.images.docker import Docker, LocalImage
from ..module_utils._stores.images.step import ImageStep, Wanted
from ..module_utils._stores.images.store import ImageStore
from ..module_utils._stores.transfer import modules
from ..module_utils._stores.transfer.places import Places


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "images": {"type": "list", "elements": "dict", "required": True},
            "folder": {"type": "path", "default": STATE},
            "is_renewed": {"type": "bool", "default": False},
            **ARGUMENTS,
        },
        supports_check_mode=True,
    )
    modules.bring(module, converge, "folder")


def converge(module: AnsibleModule, progress: Progress) -> dict[str, Any]:
    parameters = module.params
    entries = modules.entries("images", StoredImage, parameters)
    wanted = [Wanted.from_plan(entry, parameters["present_hosts"]) for entry in entries]
    folder = Path(parameters["folder"])
    progress.start("looking at the images that are here", 0)
    note = None if module.check_mode else module.warn
    places = Places(folder, folder / "hf")
    store = ImageStore(Docker(), places, progress, parameters["streams"], note)
    if module.check_mode or parameters["examine_only"]:
        return as_result(store.examine(wanted, virgin=module.check_mode), places)
    with held(LOCKS / "images.lock", "moving images", parameters["patience"], progress.report):
        steps = store.examine(wanted)
        result = as_result(steps, places)
        for step, entry in zip(steps, result["images"], strict=True):
            if step.changes:
                entry.update(known(step, store.apply(step)))
    for note in progress.notes:
        module.warn(note)
    return result


def as_result(steps: list[ImageStep], places: Places) -> dict[str, Any]:
    """The module's result, before any work."""
    return {
        "changed": any(step.changes for step in steps),
        "incoming": str(places.layers_in),
        "images": [
            {
                "reference": str(step.wanted.reference),
                "action": step.action,
                "bytes": step.moved,
                **known(step, step.here),
            }
            for step in steps
        ],
        "diff": {
            "before": "".join(f"{step.wanted.reference}: {step.found}\n" for step in steps),
            "after": "".join(f"{step.wanted.reference}: {step.words()}\n" for step in steps),
        },
    }


def known(step: ImageStep, image: LocalImage | None) -> dict[str, Any]:
    """By what an image that is here is known; nothing of one that isn't."""
    if image is None:
        return {}
    pulled = step.wanted.source == "registry" and not step.wanted.peers
    digest = step.wanted.pull_digest or (image.digest_in(step.wanted.reference.repository) if pulled else None)
    return {"id": image.id, "lock": {"digest": digest, "identity": image.identity.digest}}


if __name__ == "__main__":
    main()
