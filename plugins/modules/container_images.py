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
    description: The images that the host must have.
    type: list
    elements: dict
    required: true
    suboptions:
      reference:
        description: The image's name, with its tag. Containers are started by it.
        type: str
        required: true
      digest:
        description:
          - The pin. A registry's digest, or for an archive the image's ID or a digest that the archive keeps.
          - Without it, any image of that name will do.
        type: str
      source:
        description: Where the image comes from when it is not there.
        type: dict
        required: true
        suboptions:
          kind:
            description: V(registry) pulls. V(archive) loads an archive that C(docker save) wrote. V(host) fetches the
              missing layers from another host of the fleet, see O(images[].peers). V(bundle) loads it from an OCI
              layout that came from a bundle. With V(build) the host with O(images[].build) builds it, and others fetch
              it from there.
            type: str
            choices: [registry, archive, host, bundle, build]
            required: true
          path: {description: "The archive on the host, or the layout's folder there.", type: path}
          host: {description: "The inventory name of the host that has it, or builds it.", type: str}
          manifest: {description: The digest of the image's manifest in the layout., type: str}
      peers:
        description: The hosts to fetch it from, nearest first, the last one certain to have it. The role
          P(gb10.fleet.peer_access#role) gives access to them.
        type: list
        elements: dict
        default: []
        suboptions:
          host: {description: "Its inventory name, which its SSH host key is pinned to.", type: str, required: true}
          address: {description: Its address on the best network that both have., type: str, required: true}
          port: {description: Its SSH port., type: int, default: 22}
      lock:
        description: The image's content in the whole fleet, as the lock beside the inventory says. Other content is
          refused from every source.
        type: dict
        suboptions:
          digest: {description: "The registry's digest, to pull by where none is pinned.", type: str}
          identity:
            description: Its identity, over its layers and what a container inherits of its configuration.
            type: str
            required: true
      build:
        description: The host's own build of the image, as the plan has it. Its tag is the hash of all that goes in, so
          that an image of that name is not built again.
        type: dict
        suboptions:
          files:
            description: The texts that are handed to the build by their names, the Dockerfile among them.
            type: dict
            required: true
          target: {description: The stage of the Dockerfile that becomes the image; the last by default., type: str}
          contexts:
            description: Images by digest and repositories by commit, by the names that the Dockerfile has for them.
            type: dict
            required: true
          downloads:
            description: The sha256 of each file that the Dockerfile downloads by ADD, by address.
            type: dict
            required: true
          arguments:
            description: Values of the Dockerfile's arguments. They are no secrets, the image's labels show them.
            type: dict
            required: true
          labels: {description: All that goes in; the image's labels., type: dict, required: true}
          network:
            description: Whether steps have one. A download with a checksum in the Dockerfile needs none.
            type: str
            choices: [none, default]
            required: true
          jobs:
            description: The largest number of compilers at once, and the argument that gives it to the Dockerfile.
            type: dict
            required: true
            suboptions:
              argument: {description: "The name of the Dockerfile's argument, or none.", type: str}
              most: {description: "The largest number at once, whatever memory is free.", type: int, required: true}
          job_gib:
            description: Memory of one compiler, in GiB. A host without the memory for a single compiler is refused.
            type: float
            required: true
          floor_gib: {description: "Memory that stays free, in GiB.", type: float, required: true}
          disk_gib:
            description: Room that must be free where Docker keeps its images, in GiB.
            type: float
            required: true
      renew:
        description: Take what its source gives now, although an image of that name is there. A build begins from
          nothing.
        type: bool
        default: false
  folder:
    description: Where the host keeps its notes on images, and layers on their way.
    type: path
    default: /var/lib/gb10-fleet
  is_renewed:
    description: An earlier task renewed the images that other hosts fetch from here, so O(images[].renew) holds only
      for images with O(images[].peers).
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
    and in C(lock) its C(digest) and C(identity), see O(images[].lock).
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
from ..module_utils._base.staging import ARGUMENTS, LOCKS, Progress, held
from ..module_utils._stores.images.docker import Docker, LocalImage
from ..module_utils._stores.images.step import ImageStep, Wanted
from ..module_utils._stores.images.store import ImageStore
from ..module_utils._stores.transfer import modules
from ..module_utils._stores.transfer.peer import PEER
from ..module_utils._stores.transfer.places import Places

SOURCE = {
    "kind": {"type": "str", "choices": ["registry", "archive", "host", "bundle", "build"], "required": True},
    "path": {"type": "path"},
    "host": {"type": "str"},
    "manifest": {"type": "str"},
}
BUILD = {
    "files": {"type": "dict", "required": True},
    "target": {"type": "str"},
    "contexts": {"type": "dict", "required": True},
    "downloads": {"type": "dict", "required": True},
    "arguments": {"type": "dict", "required": True},
    "labels": {"type": "dict", "required": True},
    "network": {"type": "str", "choices": ["none", "default"], "required": True},
    "jobs": {
        "type": "dict",
        "required": True,
        "options": {"argument": {"type": "str"}, "most": {"type": "int", "required": True}},
    },
    "job_gib": {"type": "float", "required": True},
    "floor_gib": {"type": "float", "required": True},
    "disk_gib": {"type": "float", "required": True},
}
IMAGE = {
    "reference": {"type": "str", "required": True},
    "digest": {"type": "str"},
    "source": {
        "type": "dict",
        "required": True,
        "options": SOURCE,
        "required_if": [
            ("kind", "archive", ["path"]),
            ("kind", "host", ["host"]),
            ("kind", "bundle", ["path", "manifest"]),
        ],
    },
    "peers": {"type": "list", "elements": "dict", "default": [], "options": PEER},
    "lock": {"type": "dict", "options": {"digest": {"type": "str"}, "identity": {"type": "str", "required": True}}},
    "build": {"type": "dict", "options": BUILD},
    "renew": {"type": "bool", "default": False},
}


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "images": {"type": "list", "elements": "dict", "required": True, "options": IMAGE},
            "folder": {"type": "path", "default": STATE},
            "is_renewed": {"type": "bool", "default": False},
            **ARGUMENTS,
        },
        supports_check_mode=True,
    )
    modules.bring(module, converge, "folder")


def converge(module: AnsibleModule, progress: Progress) -> dict[str, Any]:
    parameters = module.params
    wanted = [Wanted.from_plan(one, parameters["present_hosts"]) for one in modules.entries(parameters, "images")]
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
