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
from collections.abc import Iterator, Sequence

from ..._base import layout
from ..._base.findings import Finding, error
from ..._base.place import Place
from ..._base.plan import Plan
from .service import KEEP, Carried, Document, Rank, image_moves, image_of, listens_at, ranks_of

# The cluster that a GPUStack makes for itself (server/server.py); an import can name another.
_CLUSTER = "Default Cluster"
# What a model is for, by the request that proves its endpoint. GPUStack has paths for these alone.
_CATEGORIES = {
    "/v1/chat/completions": "llm",
    "/v1/embeddings": "embedding",
    "/rerank": "reranker",
    "/v1/audio/transcriptions": "speech_to_text",
}
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
        yield error(
            "export-group",
            place,
            found=f"ranks on {', '.join(rank.host for rank in (head, *workers))}",
            expected="one host: GPUStack runs given words on one worker, and for several it makes its own, with the "
            "workers' management addresses",
            remedy=f"place it on one host, {KEEP}",
        )
    if container["entrypoint"] is not None:
        yield error(
            "export-entrypoint",
            place,
            found=f"an image that is started by {container['entrypoint']}",
            expected="the image's own entrypoint, by which GPUStack starts it",
            remedy=f"serve it from an image of your own with that entrypoint, {KEEP}",
        )
    if head.slice["key"]:
        yield error(
            "export-key",
            place,
            found="an API key that its engine asks for",
            expected="none: GPUStack asks for keys of its own, and its engines without one",
            remedy="write open: true in it once clients ask GPUStack, and let nobody but GPUStack's server reach ports "
            f"40000 to 40063 of {head.host}",
        )
    if head.slice["tls"]:
        yield error(
            "export-certificate",
            place.below("tls"),
            found=f"a certificate for {', '.join(head.slice['tls']['names'])}",
            expected="none: GPUStack asks its engines by HTTP alone",
            remedy=f"take tls out, {KEEP}",
        )
    if address := listens_at(head):
        yield error(
            "export-listen",
            place.below("listen"),
            found=f"the host's address {address} alone",
            expected="every address: GPUStack's server asks the worker's, and no key is asked for there",
            remedy=f"take listen out, and let nobody else reach ports 40000 to 40063 of {head.host}",
        )
    for mount in container["mounts"]:
        if mount["source"] != layout.MODELS:
            yield error(
                "export-mounts",
                place,
                found=f"{mount['source']}, which its container has as {mount['target']}",
                expected="the models alone: GPUStack gives a container no file",
                remedy=f"put it into an image of your own, {KEEP}",
            )
    words = [*container["arguments"], *container["env"].values()]
    for text in sorted({found for word in words for found in _PLACEHOLDER.findall(word)}):
        yield error(
            "export-placeholder",
            place,
            found=f"{text} in its words or variables",
            expected="none: GPUStack puts values of its own there",
            remedy="write a blank within the braces, where its engine allows that",
        )
    if _asked(head) not in _CATEGORIES:
        yield error(
            "export-kind",
            place,
            found=f"a model that answers at {_asked(head)}",
            expected=f"one of {', '.join(_CATEGORIES)}, which GPUStack passes on",
            remedy=f"leave it with gb10.fleet: {name} has no way through GPUStack's server",
        )
    model = plan["services"][name]["served_name"]
    others = [one for one, planned in plan["services"].items() if one != name and planned["served_name"] == model]
    if others:
        yield error(
            "export-name",
            place,
            found=f"the model {model}, which {', '.join(sorted(others))} serves too",
            expected="a name for itself: GPUStack has one deployment of each, and asks its engine by that name",
            remedy=f"give its model another name for clients in its flags, {KEEP}",
        )


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
