# SPDX-License-Identifier: GPL-3.0-or-later
"""A service's ranks as a LeaderWorkerSet, with a Service before the head, and what of them Kubernetes can't be given.

Fields as in LeaderWorkerSet v1 (kubernetes-sigs/lws v0.9.0, config/crd/bases) and core/v1 of Kubernetes 1.37; what its
webhook asks of a name: pkg/webhooks/leaderworkerset_webhook.go. The container is the plan's own: it is data there, and
becomes another's words here as it becomes those of `docker run` in `_plan.container`.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

from ..._base import layout, worded
from ..._base.findings import Finding
from ..._base.place import Place
from ..._base.plan import Plan
from ..._base.slice import Copied
from .service import KEEP, Carried, Document, Rank, Secret, image_moves, image_of, listens_at, ranks_of

# What names a Service begins with a letter (RFC 1035); a node's name is that of a host (RFC 1123).
_NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_NODE = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_MOST_CONFIG_MAP = 1 << 20
_RDMA = "/dev/infiniband"
_PERIOD_S = 10


@dataclass(frozen=True)
class _Service:
    """ranks: head first. image: as kubelets ask for it. pulled: they can have it of a registry."""

    name: str
    ranks: Sequence[Rank]
    image: str
    pulled: bool
    rdma: str

    @property
    def place(self) -> Place:
        return Place(service=self.name)

    @property
    def head(self) -> Rank:
        return self.ranks[0]

    @property
    def files(self) -> Mapping[str, str]:
        """What containers mount of the files that the plan itself writes, by their names: overlays, modules of ours."""
        texts: dict[str, str] = {}
        for rank in self.ranks:
            for mount in rank.container["mounts"]:
                file = rank.slice["files"].get(mount["source"])
                content = file.get("content") if file else None
                if content is not None:
                    texts[PurePosixPath(mount["source"]).name] = content
        return dict(sorted(texts.items()))

    @property
    def config_map(self) -> str:
        """By its content, since pods with a file of a ConfigMap don't notice another one."""
        content = json.dumps(self.files, sort_keys=True).encode()
        return f"{self.name}-files-{hashlib.sha256(content).hexdigest()[:10]}"


def carried(plan: Plan, name: str, rdma: str) -> Carried:
    """plan: `_plan.fleet.plan_fleet`. name: of a service in it. rdma: the resource by which pods ask the cluster's
    device plugin for RDMA."""
    service = _service(plan, name, rdma)
    secrets = [*_secrets(service)]
    findings = [*_refused(plan, service)]
    if findings:
        return Carried((), (), findings)
    documents = [*_config_map(service), _set(service), _endpoint(service)]
    return Carried(documents, secrets, [*_remarks(plan, service)])


def _service(plan: Plan, name: str, rdma: str) -> _Service:
    image, pulled = image_of(plan, name)
    return _Service(name, ranks_of(plan, name), image, pulled, rdma)


# What can't be carried over -----------------------------------------------------------------------------------------


def _refused(plan: Plan, service: _Service) -> Iterator[Finding]:
    place = service.place
    if not _NAME.fullmatch(service.name):
        yield worded.error("export-name/refused-letter", place, service=service.name)
    if _endpoint_name(service) in plan["services"]:
        yield worded.error("export-name/refused-beside", place, service=_endpoint_name(service))
    for rank in service.ranks:
        if not _NODE.fullmatch(rank.host):
            yield worded.error("export-node-name", place, host=rank.host)
    if service.head.slice["exec"]:
        yield worded.error("export-group-start", place, keep=KEEP)
    yield from _differing(service)
    for file in service.head.slice["merged"]:
        yield worded.error("export-merged-file", place, path=file["path"], original=file["original"], keep=KEEP)
    size = sum(len(text.encode()) for text in service.files.values())
    if size > _MOST_CONFIG_MAP:
        yield worded.error("export-files-large", place, size=size, most_config_map=_MOST_CONFIG_MAP, keep=KEEP)


def _differing(service: _Service) -> Iterator[Finding]:
    """A LeaderWorkerSet has one template for all workers, and which of them comes to which node is the scheduler's."""
    workers = service.ranks[1:]
    if all(worker.container == workers[0].container for worker in workers):
        return
    first, other = workers[0].container, workers[1].container
    names = [key for key, value in first["env"].items() if other["env"].get(key) != value]
    pairs = zip(pairwise(first["arguments"]), other["arguments"][1:], strict=False)
    names += [option for (option, value), others in pairs if value != others]
    found = f"{len(workers)} workers that differ by host ({', '.join(names) or 'in their containers'})"
    yield worded.error("export-workers-differ", service.place, found=found, keep=KEEP)


def _remarks(plan: Plan, service: _Service) -> Iterator[Finding]:
    """What works otherwise than with our supervisor, of this service; docs/how-to/export.md has the rest."""
    place = service.place
    if not service.pulled:
        yield worded.warning("export-image-local", place.below("image"), image=service.image)
    elif "@" not in service.image:
        yield image_moves(service.name, service.image)
    for rank in service.ranks:
        others = [one["name"] for one in plan["hosts"][rank.host]["services"] if one["name"] != service.name]
        if others:
            found = f"{rank.host} has one GPU, and also serves {', '.join(sorted(others))}"
            yield worded.warning("export-gpu-shared", place, found=found, uses=len(others) + 1)
    if service.head.supervisor.gids:
        yield worded.hint("export-gid", place)
    if address := listens_at(service.head):
        yield worded.warning("export-listen/remarks", place.below("listen"), address=address)
    if service.head.slice["tls"]:
        at = place.below("tls")
        names = ", ".join(service.head.slice["tls"]["names"])
        yield worded.warning("export-certificate/remarks", at, names=names, service=_endpoint_name(service))


# Objects ------------------------------------------------------------------------------------------------------------


def _labels(service: _Service) -> dict[str, str]:
    return {"app.kubernetes.io/name": service.name, "app.kubernetes.io/part-of": "gb10.fleet"}


def _metadata(service: _Service, name: str) -> dict[str, Any]:
    return {"name": name, "labels": _labels(service)}


def _config_map(service: _Service) -> Iterator[Document]:
    if service.files:
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _metadata(service, service.config_map),
            "data": service.files,
        }


def _set(service: _Service) -> Document:
    """One group of all ranks. Where a rank restarts, all do, as by our supervisor; but where the head only calls the
    others (llama.cpp), it ends by itself without them, and they keep the weights that it sent."""
    head, *workers = service.ranks
    calls = head.supervisor.probes.others is not None
    template: dict[str, Any] = {
        "size": len(service.ranks),
        "restartPolicy": "None" if calls else "RecreateGroupOnPodRestart",
    }
    if workers:
        template["leaderTemplate"] = _pod(service, head)
    template["workerTemplate"] = _pod(service, workers[0] if workers else head)
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": _metadata(service, service.name),
        "spec": {"replicas": 1, "leaderWorkerTemplate": template},
    }


def _endpoint_name(service: _Service) -> str:
    """The LeaderWorkerSet's controller makes a headless Service by the set's own name."""
    return f"{service.name}-head"


def _endpoint(service: _Service) -> Document:
    port = _port(service)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(service, _endpoint_name(service)),
        "spec": {
            "selector": {
                "leaderworkerset.sigs.k8s.io/name": service.name,
                "leaderworkerset.sigs.k8s.io/worker-index": "0",
            },
            "ports": [{"name": "api", "port": port, "targetPort": port}],
        },
    }


def _port(service: _Service) -> int:
    """The API's, which is the first of the head's ports."""
    return int(service.head.supervisor.ports[0])


def _pod(service: _Service, rank: Rank) -> dict[str, Any]:
    container = rank.container
    volumes, mounts = _volumes(service, rank)
    spec: dict[str, Any] = {
        "nodeSelector": {"kubernetes.io/hostname": rank.host},
        "automountServiceAccountToken": False,
        # else it sets NAME_PORT for each Service, which may be an engine's own variable
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _grace_s(rank),
    }
    if container["network"] == "host":
        spec |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    if container["ipc"] == "host":
        spec["hostIPC"] = True
    return {
        "metadata": {"labels": _labels(service)},
        "spec": spec | {"containers": [_container(service, rank, mounts)], "volumes": volumes},
    }


def _grace_s(rank: Rank) -> int:
    """As long as systemd gives the supervisor for answers under way and an end in order; none for a program that only a
    SIGKILL ends."""
    limits = rank.supervisor.limits
    return 0 if rank.container.get("stop_signal") == "SIGKILL" else int(limits.drain_s + 2 * limits.stop_s + 60)


def _container(service: _Service, rank: Rank, mounts: Sequence[Mapping[str, object]]) -> dict[str, Any]:
    container = rank.container
    command = {"command": [_literal(container["entrypoint"])]} if container["entrypoint"] is not None else {}
    added = {"add": [*container["capabilities"]]} if container["capabilities"] else {}
    is_head = rank.slice["rank"] == 0
    return {
        "name": "engine",
        "image": service.image,
        "imagePullPolicy": "IfNotPresent" if service.pulled else "Never",
        **command,
        "args": [_literal(word) for word in container["arguments"]],
        "env": [{"name": name, "value": _literal(value)} for name, value in sorted(container["env"].items())],
        **({"ports": [{"name": "api", "containerPort": _port(service)}]} if is_head else {}),
        "resources": _resources(service, rank),
        "securityContext": {
            "allowPrivilegeEscalation": "no-new-privileges" not in container["security"],
            "capabilities": {"drop": ["ALL"], **added},
            "readOnlyRootFilesystem": container["read_only"],
            **({"seccompProfile": {"type": "Unconfined"}} if "seccomp=unconfined" in container["security"] else {}),
        },
        **(_head_probes(service) if is_head else _worker_probes(rank)),
        "volumeMounts": [*mounts],
    }


def _literal(text: str) -> str:
    """A word that Kubernetes is to leave as it is: it reads $(NAME) as a variable, and $$ as one $."""
    return text.replace("$", "$$")


def _resources(service: _Service, rank: Rank) -> dict[str, Any]:
    """What has to be free before the load, so that the scheduler leaves room for it: the GPU's memory is the host's."""
    room = rank.supervisor.memory_bytes
    limits: dict[str, Any] = {"nvidia.com/gpu": 1}
    if _RDMA in rank.container["devices"]:
        limits[service.rdma] = 1
    if (most := rank.container["memory_limit"]) is not None:
        limits["memory"] = str(most)
        room = min(room, most)  # no request may be larger than its limit, which the GPU's part does not count to
    return {"requests": {"memory": str(room)}, "limits": limits}


def _head_probes(service: _Service) -> dict[str, Any]:
    """The engine's health path. Its proof is a POST, which Kubernetes' probes can't send."""
    supervisor = service.head.supervisor
    probes, limits = supervisor.probes, supervisor.limits
    scheme = {"scheme": "HTTPS"} if service.head.slice["tls"] else {}
    ask = {"httpGet": {"path": probes.health, "port": "api", **scheme}, "timeoutSeconds": _PERIOD_S}
    start = math.ceil(limits.startup_limit_s / _PERIOD_S)
    alive = max(limits.strikes, math.ceil(probes.patience_s / limits.canary_s))
    return {
        "startupProbe": {**ask, "periodSeconds": _PERIOD_S, "failureThreshold": start},
        "readinessProbe": {**ask, "periodSeconds": _PERIOD_S},
        "livenessProbe": {**ask, "periodSeconds": limits.canary_s, "failureThreshold": alive},
    }


def _worker_probes(rank: Rank) -> dict[str, Any]:
    """A worker has no endpoint; one that the head calls takes connections before it."""
    others = rank.supervisor.probes.others
    if not others:
        return {}
    threshold = math.ceil(others.timeout_s / _PERIOD_S)
    ask = {"tcpSocket": {"port": others.port}, "periodSeconds": _PERIOD_S, "failureThreshold": threshold}
    return {"startupProbe": ask}


# Volumes ------------------------------------------------------------------------------------------------------------


def _volumes(service: _Service, rank: Rank) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The volumes of a rank's pod, and where its container sees them."""
    container = rank.container
    volumes: dict[str, dict[str, Any]] = {}
    mounts: list[dict[str, Any]] = []
    if container["shared_memory"] is not None:
        limit = f"{container['shared_memory'].removesuffix('g')}Gi"
        volumes["shared-memory"] = {"emptyDir": {"medium": "Memory", "sizeLimit": limit}}
        mounts.append({"name": "shared-memory", "mountPath": "/dev/shm"})
    for number, folder in enumerate(container["tmpfs"]):
        volumes[f"tmpfs-{number}"] = {"emptyDir": {"medium": "Memory"}}
        mounts.append({"name": f"tmpfs-{number}", "mountPath": folder})
    for number, (target, folder) in enumerate(sorted(container["caches"].items())):
        volumes[f"cache-{number}"] = {"hostPath": {"path": folder, "type": "DirectoryOrCreate"}}
        mounts.append({"name": f"cache-{number}", "mountPath": target})
    secret_of = {path: (secret, key) for secret, key, path, *_ in _secret_files(service)}
    for number, mount in enumerate(container["mounts"]):
        source, target = mount["source"], mount["target"]
        name = PurePosixPath(source).name
        read_only = {"readOnly": True} if mount["read_only"] else {}
        if source in secret_of:
            secret, key = secret_of[source]
            volumes[secret] = {"secret": {"secretName": secret, "defaultMode": 0o400}}
            mounts.append({"name": secret, "mountPath": target, "subPath": key, "readOnly": True})
        elif name in service.files and source in rank.slice["files"]:
            volumes["files"] = {"configMap": {"name": service.config_map}}
            mounts.append({"name": "files", "mountPath": target, "subPath": name, "readOnly": True})
        else:
            kind = {"type": "Directory"} if source == layout.MODELS else {}
            volumes[f"host-{number}"] = {"hostPath": {"path": source, **kind}}
            mounts.append({"name": f"host-{number}", "mountPath": target, **read_only})
    return [{"name": name, **volume} for name, volume in volumes.items()], mounts


def _secret_files(service: _Service) -> Iterator[tuple[str, str, str, str, str]]:
    """(Secret, key in it, where the plan has it on the host, the controller's file, its form) of all that is secret."""
    head = service.head.slice
    targets = {mount["source"]: PurePosixPath(mount["target"]).name for mount in service.head.container["mounts"]}
    key, tls, headers = head["key"], head["tls"], head["trace_headers"]
    files: list[tuple[str, Copied, str]] = [("key", key, key["form"])] if key else []
    files += [("tls", file, "") for file in (tls["certificate"], tls["key"])] if tls else []
    files += [("trace-headers", headers, "")] if headers else []
    for secret, file, form in files:
        if (path := file["path"]) in targets:
            yield f"{service.name}-{secret}", targets[path], path, file["source"], form


def _secrets(service: _Service) -> Iterator[Secret]:
    names: dict[str, dict[str, tuple[str, str]]] = {}
    for secret, key, _path, source, form in _secret_files(service):
        names.setdefault(secret, {})[key] = (source, form)
    yield from (Secret(name, files) for name, files in names.items())
