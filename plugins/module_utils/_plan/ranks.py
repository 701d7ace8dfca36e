# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The ranks of a service, one a host: each rank's container, and the file of its supervisor.

What stands in that file, key by key: docs/architecture.md, "A service and its ranks".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils import _layout
from ansible_collections.gb10.fleet.plugins.module_utils._gb10 import fact
from ansible_collections.gb10.fleet.plugins.module_utils._layers import Layer, Value, fill, merge
from ansible_collections.gb10.fleet.plugins.module_utils._memory.budget import Share
from ansible_collections.gb10.fleet.plugins.module_utils._plan.container import (
    Container,
    Mount,
    docker_exec,
    docker_run,
)
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared import Host
from ansible_collections.gb10.fleet.plugins.module_utils._plan.parallel import (
    ranks_port,
    ray_client_port,
    supervisors_port,
)
from ansible_collections.gb10.fleet.plugins.module_utils._plan.service import Placed
from ansible_collections.gb10.fleet.plugins.module_utils._vllm.flags import flags_to_argv

# What only the rank that answers clients gets.
_OF_THE_ENDPOINT = ("config", "host", "middleware", "port")
_ALONE: dict[str, Any] = {"address": None, "peers": [], "rendezvous": None, "secret_file": None}
# Words of a prompt: one request takes the decode kernels, one those of a longer prefill.
_WARM_UP_WORDS = (8, 1024)
_WARM_UP_TOKENS = 16
_WORD = "word "  # which a tokenizer of bytes makes five tokens of


@dataclass(frozen=True)
class Configured:
    """A placed service, its flags with those of memory, and each host's slice of the fabric."""

    placed: Placed
    flags: Mapping[str, Value]
    fabric: Mapping[str, Mapping[str, Any]]

    @property
    def served_name(self) -> str:
        """The name that clients ask for: vLLM's first served name, or else the repository."""
        if "served-model-name" not in self.flags:
            return str(self.placed.model["repository"])
        names = self.flags["served-model-name"].value
        return str(names[0] if isinstance(names, list) else names)


@dataclass(frozen=True)
class Rank:
    """One rank as it is planned: its container, the file of its supervisor and its part of the host's memory.

    exec: words run in the container once all ranks are in; None where the container itself serves.
    """

    host: Host
    number: int
    container: Mapping[str, Any]
    exec: Sequence[str] | None
    supervisor: Mapping[str, Any]
    share: Share


def plan_ranks(service: Configured, shares: Sequence[Share]) -> list[Rank]:
    """Each rank, head first. shares: each rank's part of its host's memory."""
    placed = service.placed
    containers = [_container(service, number).as_data() for number in range(len(placed.hosts))]
    words = [_serve(service) if placed.uses_ray and number == 0 else None for number in range(len(placed.hosts))]
    files = [
        _supervisor(service, number, container, words[number], shares[number])
        for number, container in enumerate(containers)
    ]
    definition = _definition(placed, files)
    return [
        Rank(
            host, number, containers[number], words[number], {**files[number], "definition": definition}, shares[number]
        )
        for number, host in enumerate(placed.hosts)
    ]


def linted_container(service: Configured) -> dict[str, Any]:
    """The head's container as the linter reads it: with Ray, as if it ran what is started in it."""
    if not service.placed.uses_ray:
        return _container(service, 0).as_data()
    return _of_group(service, 0, _vllm_words(service, 0), service.placed.image["entrypoint"]).as_data()


def _definition(placed: Placed, files: Sequence[Mapping[str, Any]]) -> str:
    """What the ranks compare before they start: everything that was decided for any of them."""
    text = json.dumps([*files, placed.overlays.files, placed.image["digest"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _supervisor(
    service: Configured, rank: int, container: Mapping[str, Any], words: Sequence[str] | None, share: Share
) -> dict[str, Any]:
    placed = service.placed
    is_head = rank == 0
    return {
        "service": placed.name,
        "container": container["name"],
        "rank": rank,
        "ranks": len(placed.hosts),
        **(_meeting(placed, rank) if placed.is_group else _ALONE),
        "run": docker_run(container),
        "serve": docker_exec(container["name"], words) if words else None,
        "gids": _gids(service, placed.hosts[rank].name) if placed.is_group else None,
        "memory_bytes": share.footprint.low,
        "ports": _ports(placed) if is_head else [],
        "endpoint": _endpoint(service) if is_head else None,
        "warm_up": _warm_up(service) if is_head else [],
        "limits": _limits(placed),
    }


def _ports(placed: Placed) -> list[int]:
    """TCP ports of the head that its container takes."""
    return [placed.port, ranks_port(placed.port)] if placed.is_group else [placed.port]


def _meeting(placed: Placed, rank: int) -> dict[str, Any]:
    addresses = placed.addresses
    return {
        "address": addresses[rank],
        "peers": [address for other, address in enumerate(addresses) if other != rank],
        "rendezvous": {"address": addresses[0], "port": supervisors_port(placed.port)},
        "secret_file": _layout.group_secret(placed.name),
    }


# Containers -------------------------------------------------------------------------------------------------------


def _container(service: Configured, rank: int) -> Container:
    placed = service.placed
    entrypoint = placed.image["entrypoint"]
    if not placed.is_group:
        return _alone(service)
    if not placed.uses_ray:
        return _of_group(service, rank, _vllm_words(service, rank), entrypoint)
    words = _ray_words(placed, rank)
    # upstream's entrypoint is `vllm serve`, other images run what they are given
    if placed.image["family"] == "upstream":
        return _of_group(service, rank, words[1:], words[0])
    return _of_group(service, rank, words, entrypoint)


def _alone(service: Configured) -> Container:
    """The container of a service on one host: a network of its own, one published port, models read-only."""
    placed = service.placed
    return Container(
        name=_layout.container(placed.name),
        image=placed.image["reference"],
        entrypoint=placed.image["entrypoint"],
        arguments=_vllm_words(service, 0),
        env=_variables(placed, placed.head),
        mounts=[*_mounts(placed), *_key_mount(placed)],
        ports=[{"address": placed.settings["listen"], "port": placed.port}],
    )


def _of_group(service: Configured, rank: int, arguments: Sequence[str], entrypoint: str | None) -> Container:
    """On the host's network, since NCCL and Ray take ports as they like; RDMA needs its devices and pinned memory."""
    placed, host = service.placed, service.placed.hosts[rank]
    roce = service.fabric[host.name]["transport"] == "roce"
    secret = Mount(_layout.group_secret(placed.name), _layout.IN_GROUP_SECRET)
    return Container(
        name=_layout.container(placed.name),
        image=placed.image["reference"],
        entrypoint=entrypoint,
        arguments=arguments,
        env=_variables(placed, host),
        mounts=[*_mounts(placed), *(_key_mount(placed) if rank == 0 else ()), *([secret] if placed.uses_ray else ())],
        network="host",
        devices=["/dev/infiniband"] if roce else [],
        capabilities=["IPC_LOCK"] if roce else [],
    )


def _variables(placed: Placed, host: Host) -> dict[str, str]:
    """A host's decided variables as its container gets them."""
    values = {name: decided.value for name, decided in placed.environments[host.name].items()}
    filled: dict[str, str] = fill(values, _places(placed))
    return filled


def _places(placed: Placed) -> dict[str, str]:
    return {"model_path": placed.model_folder(_layout.IN_MODELS)}


def _key_mount(placed: Placed) -> Iterator[Mount]:
    """The API key, for the container that answers clients."""
    if placed.key_file:
        yield Mount(placed.key_file, _layout.IN_KEY)


def _mounts(placed: Placed) -> Iterator[Mount]:
    """What each container of a service sees of its host."""
    yield Mount(_layout.MODELS, _layout.IN_MODELS)
    for folder, target in zip(written_folders(placed), _layout.IN_COMPILED.values(), strict=True):
        yield Mount(folder, target, read_only=False)
    for mount in [*placed.overlays.mounts, *placed.recipe["mounts"]]:
        yield Mount(mount["source"], mount["target"], mount["read_only"])


def written_folders(placed: Placed) -> list[str]:
    """Folders on the host that the containers write to, by the keys of `_layout.IN_COMPILED`.

    Compiled kernels fit one image only: the folder's name is the image's digest, or its reference where unpinned.
    """
    image = placed.image
    key = (image["digest"] or image["reference"]).removeprefix("sha256:").replace("/", "-").replace(":", "-")
    return [f"{_layout.COMPILED}/{key[:64]}/{name}" for name in _layout.IN_COMPILED]


# What runs in them ------------------------------------------------------------------------------------------------


def _serve(service: Configured) -> list[str]:
    """What is run in a Ray head's container."""
    return ["vllm", "serve", *_serve_words(service.placed, service.flags)]


def _serve_words(placed: Placed, flags: Mapping[str, Value]) -> list[str]:
    """What follows `vllm serve`."""
    values = fill({name: decided.value for name, decided in flags.items()}, _places(placed))
    return [placed.model["repository"], *flags_to_argv(values)]


def _vllm_words(service: Configured, rank: int) -> list[str]:
    """What follows the image, in the launch form of its family: upstream images already run `vllm serve`."""
    serve = [] if service.placed.image["family"] == "upstream" else ["vllm", "serve"]
    return [*serve, *_serve_words(service.placed, _rank_flags(service, rank))]


def _rank_flags(service: Configured, rank: int) -> Mapping[str, Value]:
    """The options of one rank: vLLM's own way over hosts gives each its place, and only the head listens."""
    placed = service.placed
    if not placed.is_group or placed.uses_ray:
        return service.flags
    place: dict[str, Any] = {
        "nnodes": len(placed.hosts),
        "node-rank": rank,
        "master-addr": placed.addresses[0],
        "master-port": ranks_port(placed.port),
    }
    if rank:
        place |= {**dict.fromkeys(_OF_THE_ENDPOINT), "headless": True}
    flags = {name: decided.value for name, decided in service.flags.items()}
    return merge([Layer("computed", flags), Layer("computed", place)])


def _ray_words(placed: Placed, rank: int) -> list[str]:
    """A Ray node by its address in the group; no dashboard, and ports for workers as Linux gives them out.

    Ray starts its client server in any case, so that it gets a port of the group's own.
    """
    addresses, port = placed.addresses, ranks_port(placed.port)
    node = ["--node-ip-address", addresses[rank], "--num-cpus", str(fact("group", "ray_cpus"))]
    node += ["--min-worker-port", "0", "--max-worker-port", "0"]
    node += ["--object-store-memory", str(fact("group", "ray_object_store_bytes")), "--block"]
    if rank:
        return ["ray", "start", "--address", f"{addresses[0]}:{port}", *node]
    return [
        *("ray", "start", "--head", "--port", str(port), *node),
        *("--include-dashboard=false", "--disable-usage-stats"),
        *("--ray-client-server-port", str(ray_client_port(placed.port))),
    ]


# What else the supervisor knows -----------------------------------------------------------------------------------


def _gids(service: Configured, host: str) -> list[dict[str, str]] | None:
    """The RDMA devices that NCCL is given, with the address that each one's GID stands for; None without RDMA, or
    where the owner pinned the index."""
    values = {name: decided.value for name, decided in service.placed.environments[host].items()}
    if "NCCL_IB_HCA" not in values or values.get("NCCL_NET") != "IB" or "NCCL_IB_GID_INDEX" in values:
        return None
    devices = [device.partition(":")[0] for device in values["NCCL_IB_HCA"].lstrip("=").split(",")]
    addresses = {one["rdma_device"]: one["address"].partition("/")[0] for one in service.fabric[host]["interfaces"]}
    return [{"device": device, "address": addresses[device]} for device in devices if device in addresses]


def _endpoint(service: Configured) -> dict[str, str | None]:
    placed = service.placed
    return {
        "url": placed.local_url,
        "model": service.served_name,
        "kind": placed.recipe["kind"],
        "key_file": placed.key_file,
    }


def _warm_up(service: Configured) -> list[dict[str, Any]]:
    """Requests that take the kernels' compilation, which else the first client would wait for."""
    model, flags = service.served_name, service.flags
    context = int(flags["max-model-len"].value) if "max-model-len" in flags else None
    room = max(_WARM_UP_WORDS) if context is None else (context - _WARM_UP_TOKENS) // (2 * len(_WORD))
    texts = [_WORD * max(1, min(words, room)) for words in _WARM_UP_WORDS]
    if service.placed.recipe["kind"] == "embed":
        return [{"path": "/v1/embeddings", "body": {"model": model, "input": text}} for text in texts]
    asked = {"model": model, "max_tokens": _WARM_UP_TOKENS, "temperature": 0}
    return [
        {"path": "/v1/chat/completions", "body": {**asked, "messages": [{"role": "user", "content": text}]}}
        for text in texts
    ]


def _limits(placed: Placed) -> dict[str, Any]:
    limits = {name: fact("group", name) for name in ("stop_s", "canary_s", "strikes", "budget")}
    return {**limits, "startup_limit_s": placed.recipe["startup_limit_s"] or fact("limits", "startup_limit_s")}
