#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: model_prune
short_description: Remove old model revisions that this collection installed
version_added: 0.1.0
description:
  - Removes revisions that M(gb10.fleet.model_snapshots) brought and that are no longer wanted, except for the newest
    revisions of each model. Their files go with them, unless another revision shares them. All other files stay.
extends_documentation_fragment:
  - gb10.fleet.attributes.changes
options:
  models:
    description: The wanted revisions, as M(gb10.fleet.model_snapshots) takes them. Only C(repository) and C(revision)
      are read; if the revision is left out, it is that of C(main).
    type: list
    elements: dict
    required: true
  keep: {description: The number of earlier revisions of each model to keep., type: int, default: 1}
  root: {description: C(HF_HOME) of the services on this host., type: path, default: /var/lib/gb10-fleet/hf}
  folder: {description: Where the host keeps its notes on models., type: path, default: /var/lib/gb10-fleet}
"""

EXAMPLES = r"""
- name: Remove what an upgrade left behind, once the new service is healthy
  gb10.fleet.model_prune:
    models:
      - repository: nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4
        revision: 0123456789abcdef0123456789abcdef01234567
"""

RETURN = r"""
removed:
  description: The revisions that were removed, each with C(repository), C(revision) and the C(bytes) that it freed.
  returned: success
  type: list
  elements: dict
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.layout import MODELS, STATE
from ..module_utils._base.sizes import size
from ..module_utils._base.staging import LOCKS, held
from ..module_utils._stores.transfer import modules
from ..module_utils._stores.transfer.places import Places
from ..module_utils._stores.weights.prune import Pruner


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "models": {"type": "list", "elements": "dict", "required": True},
            "keep": {"type": "int", "default": 1},
            "root": {"type": "path", "default": MODELS},
            "folder": {"type": "path", "default": STATE},
        },
        supports_check_mode=True,
    )
    modules.run(module, prune, line=lambda item: f"{item['repository']} {item['revision']}, {size(item['bytes'])}")


def prune(module: AnsibleModule) -> list[dict[str, Any]]:
    """What was removed, or would be."""
    parameters = module.params
    note = None if module.check_mode else module.warn
    pruner = Pruner(Places(Path(parameters["folder"]), Path(parameters["root"])), note)
    wanted: dict[str, set[str | None]] = {}
    for model in parameters["models"]:
        wanted.setdefault(model["repository"], set()).add(model.get("revision"))
    removed = []
    with held(LOCKS / "models.lock", "removing earlier models"):
        for manifest in pruner.stale(wanted, parameters["keep"]):
            size = pruner.freed(manifest)
            removed.append({"repository": manifest.repository, "revision": manifest.revision, "bytes": size})
            if not module.check_mode:
                pruner.remove(manifest)
    return removed


if __name__ == "__main__":
    main()
