#!/usr/bin/python
# GNU General Public License v3.0+, SPDX-License-Identifier: GPL-3.0-or-later

DOCUMENTATION = r"""
module: model_snapshots
short_description: Install model revisions in the Hugging Face cache layout
version_added: 0.1.0
description:
  - Makes each model's files visible under C(hub/models--ORG--NAME/snapshots/REVISION), as vLLM finds them offline, only
    when all of them are there and verified; seals a manifest of their sha256 sums.
  - Files of a local folder are hard-linked, so that they take no room; from another filesystem they are copied.
  - Examines all models before it changes the first. Obstacles are reported at once, for all of them.
  - Shows progress while it works.
extends_documentation_fragment:
  - gb10.fleet.staging
  - gb10.fleet.attributes.changes
options:
  models:
    description: The models that the host must have, as C(models) of its slice of the plan (C(StoredModel) in
      C(module_utils/_base/slice.py)). A C(repository) and a C(source) with its C(kind) are enough.
    type: list
    elements: dict
    required: true
  root: {description: C(HF_HOME) of the services on this host., type: path, default: /var/lib/gb10-fleet/hf}
  folder:
    description: Where the host keeps its notes on models, the sealed manifests among them.
    type: path
    default: /var/lib/gb10-fleet
  hf: {description: The C(hf) program on the host., type: path, default: hf}
  token_file:
    description: A file on the host that holds the hub's token, for gated models. It is lent for this task and is
      removed at the end of a task that brings models, so that nothing stays after an end that nobody waits for.
    type: path
  is_renewed:
    description: An earlier task renewed the models that other hosts fetch from here, so C(renew) holds only
      for models with C(peers).
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Bring the models
  gb10.fleet.model_snapshots:
    models:
      - repository: nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4
        revision: 0123456789abcdef0123456789abcdef01234567
        bytes: 19327352832
        source: {kind: hub}
      - repository: lab/tiny
        source: {kind: path, path: /srv/models/tiny}
"""

RETURN = r"""
models:
  description: For each model its C(repository), the C(action) (V(nothing), V(link), V(copy), V(download),
    V(fetch)) and the C(bytes) that it moves (null where only others know); of one that is there, in C(lock), its
    C(revision) and C(seal).
  returned: success
  type: list
  elements: dict
findings: {description: "The obstacles, as findings.", returned: failure, type: list, elements: dict}
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._base.layout import CACHES, MODELS, STATE
from ..module_utils._base.slice import StoredModel
from ..module_utils._base.staging import ARGUMENTS, LOCKS, Progress, held
from ..module_utils._stores.transfer import modules
from ..module_utils._stores.transfer.places import Places
from ..module_utils._stores.weights.hub import Hub
from ..module_utils._stores.weights.manifest import Manifest
from ..module_utils._stores.weights.store import DamagedError, ModelStep, ModelStore, Wanted


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "models": {"type": "list", "elements": "dict", "required": True},
            "root": {"type": "path", "default": MODELS},
            "folder": {"type": "path", "default": STATE},
            "hf": {"type": "path", "default": "hf"},
            "token_file": {"type": "path", "no_log": False},
            "is_renewed": {"type": "bool", "default": False},
            **ARGUMENTS,
        },
        supports_check_mode=True,
    )
    modules.bring(module, converge, "root")


def converge(module: AnsibleModule, progress: Progress) -> dict[str, Any]:
    parameters = module.params
    entries = modules.entries("models", StoredModel, parameters)
    wanted = [Wanted.from_plan(entry, parameters["present_hosts"]) for entry in entries]
    places = Places(Path(parameters["folder"]), Path(parameters["root"]), CACHES)
    token = Path(parameters["token_file"]) if parameters["token_file"] else None
    hub = Hub(parameters["hf"], places.downloads, token)
    progress.start("looking at the models that are here", 0)
    note = None if module.check_mode else module.warn
    store = ModelStore(places, hub, progress, parameters["streams"], note)
    if module.check_mode or parameters["examine_only"]:
        return as_result(store.examine(wanted))
    with lent(token), held(LOCKS / "models.lock", "moving models", parameters["patience"], progress.report):
        steps = store.examine(wanted)
        result = as_result(steps)
        for step, entry in zip(steps, result["models"], strict=True):
            try:
                manifest = store.apply(step)
            except DamagedError as error:
                manifest = store.apply(store.instead(step.wanted, error))
            entry["lock"] = known(manifest)
    for note in progress.notes:
        module.warn(note)
    return result


@contextlib.contextmanager
def lent(token: Path | None) -> Iterator[None]:
    """The hub's token is gone at the end, however the job ends: its controller may be gone by then."""
    try:
        yield
    finally:
        if token:
            token.unlink(missing_ok=True)


def as_result(steps: list[ModelStep]) -> dict[str, Any]:
    """The module's result, before any work."""
    return {
        "changed": any(step.changes for step in steps),
        "models": [
            {
                "repository": step.wanted.repository,
                "action": step.action,
                "bytes": step.moved,
                **({"lock": known(step.here)} if step.here else {}),
            }
            for step in steps
        ],
        "diff": {
            "before": "".join(f"{step.wanted.repository}: {step.found}\n" for step in steps),
            "after": "".join(f"{step.wanted.repository}: {step.words()}\n" for step in steps),
        },
    }


def known(manifest: Manifest) -> dict[str, str]:
    """By what a model that is here is known."""
    return {"revision": manifest.revision, "seal": manifest.seal}


if __name__ == "__main__":
    main()
