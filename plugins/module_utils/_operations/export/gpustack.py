# SPDX-License-Identifier: GPL-3.0-or-later
"""A service on one host as a deployment of GPUStack, in the YAML that it imports, and what of it GPUStack can't be
given.

GPUStack 2.3.0: what a deployment may have is `ModelCreate` (gpustack/schemas/models.py), in the form of
gpustack/schemas/deployment_document.py; its backend "Custom" runs an image with the words that it is given
(worker/backends/custom.py), on one worker (`validate_gpu_ids` in routes/models.py), and asks whether it lives by what
stands in `env` (worker/serve_manager.py).
"""

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from ..._base import layout, worded
from ..._base.findings import Finding
from ..._base.gb10 import data_table
from ..._base.place import Place
from ..._base.plan import Plan
from .service import KEEP, Carried, Document, Rank, image_moves, image_of, listens_at, ranks_of

# The cluster that a GPUStack makes for itself (server/server.py); an import can name another.
_CLUSTER = "Default Cluster"
# What a model is for, by the request that proves its endpoint. GPUStack has paths for these alone.
_CATEGORIES: Mapping[str, str] = data_table("gpustack_categories")
# What it fills in, in commands and variables (utils/template.py).
_PLACEHOLDER = re.compile(r"\{\{[A-Za-z_][A-Za-z0-9_.]*\}\}")
_OPTIONS = {"--host": "{{worker_ip}}", "--port": "{{port}}"}


def carried(plan: Plan, name: str) -> Carried:
    """plan: `_plan.fleet.plan_fleet`. name: of a service in it."""
    head, *workers = ranks_of(plan, name)
    findings = [*_refused(plan, name, head, workers)]
    if findings:
        return Carried((), (), findings)
    image, pulled = image_of(plan, name)
    moves = [image_moves(name, image)] if pulled and "@" not in image else []
    return Carried([_deployment(plan, name, head, image)], (), moves)


def _refused(plan: Plan, name: str, head: Rank, workers: Sequence[Rank]) -> Iterator[Finding]:
    place, container = Place(service=name), head.container
    if workers:
        yield worded.error("export-group", place, ranks=", ".join(rank.host for rank in (head, *workers)), keep=KEEP)
    if container["entrypoint"] is not None:
        yield worded.error("export-entrypoint", place, entrypoint=container["entrypoint"], keep=KEEP)
    if head.slice["key"]:
        yield worded.error("export-key", place, host=head.host)
    if head.slice["tls"]:
        yield worded.error(
            "export-certificate/refused", place.below("tls"), names=", ".join(head.slice["tls"]["names"]), keep=KEEP
        )
    if address := listens_at(head):
        yield worded.error("export-listen/refused", place.below("listen"), address=address, host=head.host)
    for mount in container["mounts"]:
        if mount["source"] != layout.MODELS:
            yield worded.error("export-mounts", place, mount_source=mount["source"], target=mount["target"], keep=KEEP)
    words = [*container["arguments"], *container["env"].values()]
    for text in sorted({found for word in words for found in _PLACEHOLDER.findall(word)}):
        yield worded.error("export-placeholder", place, text=text)
    if _asked(head) not in _CATEGORIES:
        yield worded.error("export-kind", place, head=_asked(head), categories=", ".join(_CATEGORIES), name=name)
    model = plan["services"][name]["served_name"]
    others = [one for one, planned in plan["services"].items() if one != name and planned["served_name"] == model]
    if others:
        yield worded.error("export-name/refused", place, model=model, others=", ".join(sorted(others)), keep=KEEP)


def _asked(head: Rank) -> str:
    return str(head.supervisor.probes.proof.path)


def _deployment(plan: Plan, name: str, head: Rank, image: str) -> Document:
    return {
        "name": plan["services"][name]["served_name"],
        "cluster_name": _CLUSTER,
        "source": "local_path",
        "local_path": head.slice["models"][0].replace(layout.MODELS, layout.IN_MODELS, 1),
        "description": f"{name} of {plan['inventory']}, by gb10.fleet",
        "replicas": 1,
        "categories": [_CATEGORIES[_asked(head)]],
        "distributed_inference_across_workers": False,
        "worker_selector": {"worker-name": head.host},
        "backend": "Custom",
        "image_name": image,
        "run_command": shlex.join(_words(head.container["arguments"])),
        "env": {**head.container["env"], **_settings(head)},
        "enable_model_route": True,
    }


def _words(arguments: Sequence[str]) -> Iterator[str]:
    """The plan's, but for address and port, which GPUStack gives out."""
    before = ""
    for word in arguments:
        yield _OPTIONS.get(before, word)
        before = word


def _settings(head: Rank) -> dict[str, str]:
    """What GPUStack itself goes by: the memory that has to be free, the container's shared memory, whether it lives.

    Without a path for it, what runs by a command counts as ready at once.
    """
    container, probes, limits = head.container, head.supervisor.probes, head.supervisor.limits
    settings = {
        "GPUSTACK_MODEL_VRAM_CLAIM": str(head.supervisor.memory_bytes),
        "GPUSTACK_MODEL_HEALTH_CHECK_PATH": probes.health,
    }
    if _asked(head) != "/v1/audio/transcriptions":  # it sends no sound
        failures = max(limits.strikes, math.ceil(probes.patience_s / limits.canary_s))
        settings |= {
            "GPUSTACK_MODEL_INFERENCE_HEALTH_CHECK_ENABLED": "true",
            "GPUSTACK_MODEL_INFERENCE_HEALTH_CHECK_INTERVAL": str(limits.canary_s),
            "GPUSTACK_MODEL_INFERENCE_HEALTH_CHECK_TIMEOUT": str(limits.canary_s),
            "GPUSTACK_MODEL_INFERENCE_HEALTH_CHECK_FAILURE_THRESHOLD": str(failures),
        }
    if container["shared_memory"] is not None:
        settings["GPUSTACK_MODEL_RUNTIME_SHM_SIZE_GIB"] = container["shared_memory"].removesuffix("g")
    if container["ipc"] == "host":
        settings["GPUSTACK_HOST_IPC"] = "true"
    return settings
