#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: vllm_catalogue_info
short_description: Read the options and variables of the vLLM in an image
version_added: 0.1.0
description:
  - Reads options, C(VLLM_*) variables and registered names from vLLM's source in an image or in a folder, without
    running any of it.
  - For images whose build no release's number describes, such as nightlies, NGC's and forks. The answer is what
    M(gb10.fleet.vllm_lint) takes as O(gb10.fleet.vllm_lint#module:catalogue).
  - From an image it is copied out of a container that is made, never started, and removed.
extends_documentation_fragment:
  - gb10.fleet.attributes.reads_only
options:
  image: {description: An image that the container engine has., type: str}
  path: {description: "A folder on the host that holds the package C(vllm), or the package itself.", type: path}
  package: {description: The package's folder in the image. Without it the usual places are tried., type: str}
  docker: {description: The engine's client., type: str, default: docker}
  cache: {description: "A folder for answers by image id, so that an image is read once.", type: path}
"""

EXAMPLES = r"""
- name: Read what the nightly knows
  gb10.fleet.vllm_catalogue_info:
    image: vllm/vllm-openai:nightly
    cache: /var/cache/gb10-fleet/catalogues
  register: nightly

- name: Check a launch against it
  gb10.fleet.vllm_lint:
    image: vllm/vllm-openai:nightly
    vllm_version: "{{ nightly.version }}"
    catalogue: "{{ nightly.catalogue }}"
    argv: [Qwen/Qwen3-0.6B, --gpu-memory-utilization, "0.3"]
"""

RETURN = r"""
version:
  description: The version that vLLM gives itself, V(null) where it gives none.
  returned: always
  type: str
  sample: 0.23.1rc1.dev1053+g8244d1c44
catalogue:
  description: Its contents, C(options), C(variables) and C(registries), as in the collection's own catalogue.
  returned: always
  type: dict
image_id: {description: The image's id., returned: with O(image), type: str}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.findings import FleetError
from ..module_utils._engines.vllm.catalogue.image import catalogue_of_folder, catalogue_of_image


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "image": {"type": "str"},
            "path": {"type": "path"},
            "package": {"type": "str"},
            "docker": {"type": "str", "default": "docker"},
            "cache": {"type": "path"},
        },
        mutually_exclusive=[("image", "path")],
        required_one_of=[("image", "path")],
        supports_check_mode=True,
    )
    given = module.params
    try:
        if given["path"]:
            answer = catalogue_of_folder(Path(given["path"]))
        else:
            cache = Path(given["cache"]) if given["cache"] and not module.check_mode else None
            answer = catalogue_of_image(given["docker"], given["image"], given["package"], cache)
    except FleetError as error:
        module.fail_json(msg=str(error), findings=[finding.as_dict() for finding in error.findings])
    module.exit_json(changed=False, **answer)


if __name__ == "__main__":
    main()
