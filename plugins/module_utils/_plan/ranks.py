# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The ranks of a service, one a host: each rank's container, and what its supervisor goes by.

What the supervisor is told, key by key: docs/architecture.md, "A service and its ranks".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils import _layout
from ansible_collections.gb10.fleet.plugins.module_utils._fabric.environment import Member
from ansible_collections.gb10.fleet.plugins.module_utils._gb10 import default_layer, fact
from ansible_collections.gb10.fleet.plugins.module_utils._layers import Layer, Value, merge
from ansible_collections.gb10.fleet.plugins.module_utils._memory.budget import Share
from ansible_collections.gb10.fleet.plugins.module_utils._plan.launch import (
    Container,
    Mount,
    docker_run,
    rank_unit,
)
from ansible_collections.gb10.fleet.plugins.module_utils._plan.parallel import (
    EXECUTOR,
    RAY,
    ranks_port,
    ray_client_port,
    supervisors_port,
)
from ansible_collections.gb10.fleet.plugins.module_utils._plan.service import (
    Placed,
    key_file,
    key_mount,
    mounts,
    serve_words,
    served_name,
    solo_container,
    variables,
    vllm_argv,
)

# What only the rank that answers clients is told.
_OF_THE_ENDPOINT = ("config", "host", "middleware", "port")
_ALONE: dict[str, Any] = {"address": None, "peers": [], "rendezvous": None, "secret_file": None}
# Words of a prompt: one request takes the decode kernels, one those of a longer prefill.
_WARM_UP_WORDS = (8, 1024)
_WARM_UP_TOKENS = 16
_WORD = "word "  # which a tokenizer of bytes makes five tokens of


@dataclass(frozen=True)
class Ranked:
    """A placed service, its decided options, and by host its variables, its part in the group, its fabric's slice."""

    placed: Placed
    flags: Mapping[str, Value]
    environments: Mapping[str, Mapping[str, Value]]
    members: Mapping[str, Member]
    fabric: Mapping[str, Mapping[str, Any]]

    @property
    def uses_ray(self) -> bool:
        return self.placed.is_group and bool(self.flags[EXECUTOR].value == RAY)

    @property
    def port(self) -> int:
        return int(self.placed.settings["port"])

    @property
    def addresses(self) -> list[str]:
        """Each rank's address in the group."""
        return [self.members[host.name].address or "" for host in self.placed.hosts]


def group_layers(member: Member, flags: Mapping[str, Value]) -> list[Layer]:
    """The lowest layers of a rank's variables: those of its fabric (`_fabric.environment`), and those of Ray."""
    values = {variable["name"]: variable["value"] for variable in member.variables}
    reasons = {variable["name"]: variable["reason"] for variable in member.variables}
    values["VLLM_HOST_IP"] = str(member.address)
    reasons["VLLM_HOST_IP"] = "the address that other ranks reach this one by"
    layers = [Layer("fabric", values, reasons)]
    if flags[EXECUTOR].value == RAY:
        reason = "the group's secret, as a file"
        layers += [default_layer("env_ray")]
        layers += [Layer("computed", {"RAY_AUTH_TOKEN_PATH": _layout.IN_GROUP_SECRET}, {"RAY_AUTH_TOKEN_PATH": reason})]
    return layers


def plan_ranks(ranked: Ranked, shares: Sequence[Share]) -> list[dict[str, Any]]:
    """Each rank, head first: ``{host, role, command, serve, unit_text, supervisor, memory_bytes}``.

    role: solo, head or worker. supervisor: the content of the file that its supervisor goes by. shares: each rank's
    part of its host's memory.
    """
    told = [_supervisor(ranked, rank, share) for rank, share in enumerate(shares)]
    definition = _definition(ranked.placed, told)
    return [
        {
            "host": host.name,
            "role": ("worker" if rank else "head") if len(told) > 1 else "solo",
            "command": told[rank]["run"],
            "serve": told[rank]["serve"],
            "unit_text": rank_unit(ranked.placed.name, ranked.placed.recipe["summary"], told[rank]["limits"]["stop_s"]),
            "supervisor": {**told[rank], "definition": definition},
            "memory_bytes": shares[rank].taken.expected,
        }
        for rank, host in enumerate(ranked.placed.hosts)
    ]


def linted_command(ranked: Ranked) -> list[str]:
    """The head's command as the linter reads it: with Ray, as if its container ran what is started in it."""
    placed = ranked.placed
    if not placed.is_group:
        return docker_run(_solo_container(ranked))
    return docker_run(_container(ranked, 0, vllm_argv(placed, _flags(ranked, 0)), placed.image["entrypoint"]))


def _definition(placed: Placed, told: Sequence[Mapping[str, Any]]) -> str:
    """What the ranks compare before they start: everything that was decided for any of them."""
    text = json.dumps([*told, placed.overlays.files, placed.image["digest"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _supervisor(ranked: Ranked, rank: int, share: Share) -> dict[str, Any]:
    placed = ranked.placed
    serves = rank == 0
    return {
        "service": placed.name,
        "container": _layout.container(placed.name),
        "rank": rank,
        "ranks": len(placed.hosts),
        **(_meeting(ranked, rank) if placed.is_group else _ALONE),
        "run": docker_run(_rank_container(ranked, rank) if placed.is_group else _solo_container(ranked)),
        "serve": _serve(ranked) if serves and ranked.uses_ray else None,
        "gids": _gids(ranked, placed.hosts[rank].name) if placed.is_group else None,
        "memory_bytes": share.footprint.low,
        "ports": container_ports(placed) if serves else [],
        "endpoint": _endpoint(ranked) if serves else None,
        "warm_up": _warm_up(ranked) if serves else [],
        "limits": _limits(placed),
    }


def container_ports(placed: Placed) -> list[int]:
    """TCP ports of the head that its container takes."""
    port = placed.settings["port"]
    return [port, ranks_port(port)] if placed.is_group else [port]


def _meeting(ranked: Ranked, rank: int) -> dict[str, Any]:
    addresses = ranked.addresses
    return {
        "address": addresses[rank],
        "peers": [address for other, address in enumerate(addresses) if other != rank],
        "rendezvous": {"address": addresses[0], "port": supervisors_port(ranked.port)},
        "secret_file": _layout.group_secret(ranked.placed.name),
    }


def _serve(ranked: Ranked) -> list[str]:
    container = _layout.container(ranked.placed.name)
    return ["/usr/bin/docker", "exec", container, "vllm", "serve", *serve_words(ranked.placed, ranked.flags)]


def _solo_container(ranked: Ranked) -> Container:
    placed = ranked.placed
    return solo_container(placed, vllm_argv(placed, ranked.flags), ranked.environments[placed.head.name])


# Containers -------------------------------------------------------------------------------------------------------


def _rank_container(ranked: Ranked, rank: int) -> Container:
    image = ranked.placed.image
    if not ranked.uses_ray:
        return _container(ranked, rank, vllm_argv(ranked.placed, _flags(ranked, rank)), image["entrypoint"])
    words = _ray_words(ranked, rank)
    # upstream's entrypoint is `vllm serve`, other images run what they are given
    return (
        _container(ranked, rank, words[1:], words[0])
        if image["family"] == "upstream"
        else _container(ranked, rank, words, image["entrypoint"])
    )


def _container(ranked: Ranked, rank: int, arguments: Sequence[str], entrypoint: str | None) -> Container:
    """On the host's network, since NCCL and Ray take ports as they like; RDMA needs its devices and pinned memory."""
    placed, host = ranked.placed, ranked.placed.hosts[rank].name
    roce = ranked.fabric[host]["transport"] == "roce"
    secret = Mount(_layout.group_secret(placed.name), _layout.IN_GROUP_SECRET)
    return Container(
        name=_layout.container(placed.name),
        image=placed.image["reference"],
        arguments=arguments,
        environment=variables(placed, ranked.environments[host]),
        mounts=[*mounts(placed), *(key_mount(placed) if rank == 0 else ()), *([secret] if ranked.uses_ray else ())],
        host_network=True,
        devices=["/dev/infiniband"] if roce else [],
        capabilities=["IPC_LOCK"] if roce else [],
        entrypoint=entrypoint,
    )


def _flags(ranked: Ranked, rank: int) -> dict[str, Value]:
    """The options of one rank: with vLLM's own way over hosts each is told its place, and only the head listens."""
    if ranked.uses_ray:
        return dict(ranked.flags)
    place = {
        "nnodes": len(ranked.addresses),
        "node-rank": rank,
        "master-addr": ranked.addresses[0],
        "master-port": ranks_port(ranked.port),
    }
    if rank == 0:
        return merge([_as_layer(ranked.flags), Layer("computed", place)])
    return merge(
        [_as_layer(ranked.flags), Layer("computed", {**place, **dict.fromkeys(_OF_THE_ENDPOINT), "headless": True})]
    )


def _as_layer(flags: Mapping[str, Value]) -> Layer:
    return Layer("computed", {name: decided.value for name, decided in flags.items()})


def _ray_words(ranked: Ranked, rank: int) -> list[str]:
    """A Ray node by its address in the group; no dashboard, and ports for workers as Linux gives them out.

    Ray starts its client server in any case, so that it gets a port of the group's own.
    """
    head = f"{ranked.addresses[0]}:{ranks_port(ranked.port)}"
    node = ["--node-ip-address", ranked.addresses[rank], "--num-cpus", str(fact("group", "ray_cpus"))]
    node += ["--min-worker-port", "0", "--max-worker-port", "0"]
    node += ["--object-store-memory", str(fact("group", "ray_object_store_bytes")), "--block"]
    if rank:
        return ["ray", "start", "--address", head, *node]
    return [
        *("ray", "start", "--head", "--port", str(ranks_port(ranked.port)), *node),
        *("--include-dashboard=false", "--disable-usage-stats"),
        *("--ray-client-server-port", str(ray_client_port(ranked.port))),
    ]


# What the supervisor is told besides ------------------------------------------------------------------------------


def _gids(ranked: Ranked, host: str) -> list[dict[str, str]] | None:
    """The RDMA devices that NCCL is told of, with the address that each one's GID stands for; None without RDMA, or
    where the owner pinned the index."""
    values = variables(ranked.placed, ranked.environments[host])
    if "NCCL_IB_HCA" not in values or values.get("NCCL_NET") != "IB" or "NCCL_IB_GID_INDEX" in values:
        return None
    devices = [device.partition(":")[0] for device in values["NCCL_IB_HCA"].lstrip("=").split(",")]
    addresses = {one["rdma_device"]: one["address"].partition("/")[0] for one in ranked.fabric[host]["interfaces"]}
    return [{"device": device, "address": addresses[device]} for device in devices if device in addresses]


def _endpoint(ranked: Ranked) -> dict[str, str | None]:
    placed = ranked.placed
    return {
        "url": placed.local_url,
        "model": served_name(placed, ranked.flags),
        "kind": placed.recipe["kind"],
        "key_file": key_file(placed) if placed.settings.get("api_key_file") else None,
    }


def _warm_up(ranked: Ranked) -> list[dict[str, Any]]:
    """Requests that take the kernels' compilation, which else the first client would wait for."""
    model = served_name(ranked.placed, ranked.flags)
    context = int(ranked.flags["max-model-len"].value) if "max-model-len" in ranked.flags else None
    room = max(_WARM_UP_WORDS) if context is None else (context - _WARM_UP_TOKENS) // (2 * len(_WORD))
    texts = [_WORD * max(1, min(words, room)) for words in _WARM_UP_WORDS]
    if ranked.placed.recipe["kind"] == "embed":
        return [{"path": "/v1/embeddings", "body": {"model": model, "input": text}} for text in texts]
    asked = {"model": model, "max_tokens": _WARM_UP_TOKENS, "temperature": 0}
    return [
        {"path": "/v1/chat/completions", "body": {**asked, "messages": [{"role": "user", "content": text}]}}
        for text in texts
    ]


def _limits(placed: Placed) -> dict[str, Any]:
    limits = {name: fact("group", name) for name in ("stop_s", "canary_s", "strikes", "budget")}
    return {**limits, "startup_limit_s": placed.recipe["startup_limit_s"] or fact("limits", "startup_limit_s")}
