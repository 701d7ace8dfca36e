# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranks of a service, one a host: each rank's container, and the file of its supervisor.

What stands in that file, key by key: docs/explanation/architecture.md, "A service and its ranks".
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from .._base import layout, worded
from .._base.findings import Finding
from .._base.gb10 import fact, filled
from .._base.layers import Value
from .._base.layout import container, rank_file, supervisor_file
from .._base.sizes import gib
from .._base.slice import ContainerEntry
from .._engines.decided import Rank
from .._engines.environment import Slices
from .._engines.interface import Launch
from .._engines.memory.budget import Share
from .._engines.placed import Placed
from .._engines.ports import ranks_port, readiness_port, supervisors_port
from .._on_host.rank.probes import Probes
from .._on_host.rank.service import Adapter, Address, Budget, Endpoint, Gid, Guard, Limits, Token
from .._on_host.rank.service import Service as RankFile
from .._subjects.fabric.hotplug import ABSENT, SEAT, STATE
from .._subjects.services.supervisors import language
from .container import Container, Mount, docker_ask, docker_exec, docker_run

_FIRST_FREE_PORT = 1024


@dataclass(frozen=True)
class Configured:
    """A placed service, its flags with those of memory, each host's slice of the fabric, and the bytes that its
    container may take there."""

    placed: Placed
    flags: Mapping[str, Value]
    fabric: Slices
    memory_limits: Mapping[str, int] = field(default_factory=dict)

    @property
    def served_name(self) -> str:
        """The name that clients ask for."""
        return self.placed.engine.served_name(self.placed, self.flags)


def plan_ranks(service: Configured, shares: Sequence[Share]) -> list[Rank]:
    """Each rank, head first. shares: each rank's part of its host's memory."""
    placed = service.placed
    launches = [placed.engine.launch(placed, service.flags, number) for number in range(len(placed.hosts))]
    containers = [_container(service, number, launch).as_data() for number, launch in enumerate(launches)]
    files = [
        _rank_file(service, number, container, launches[number], shares[number])
        for number, container in enumerate(containers)
    ]
    definition = _definition(placed, files)
    return [
        Rank(
            host=host,
            number=number,
            container=containers[number],
            exec=launches[number].exec,
            flags=launches[number].flags,
            supervisor=replace(files[number], definition=definition),
            share=share,
        )
        for number, (host, share) in enumerate(zip(placed.hosts, shares, strict=True))
    ]


def judged_container(service: Configured) -> ContainerEntry:
    """The head's container as it is judged."""
    return _container(service, 0, service.placed.engine.judged_launch(service.placed, service.flags)).as_data()


def _definition(placed: Placed, files: Sequence[RankFile]) -> str:
    """What the ranks compare before they start: everything that was decided for any of them."""
    ranks = [{key: value for key, value in asdict(file).items() if key != "definition"} for file in files]
    # another supervisor alone starts nothing anew, unless a group's would no longer understand each other
    unit = rank_unit(placed.name, placed.recipe["summary"], files[0].limits)
    spoken = language() if placed.is_group else ""
    text = json.dumps([*ranks, placed.overlays.files, placed.image["digest"], unit, spoken], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _rank_file(service: Configured, rank: int, container: ContainerEntry, launch: Launch, share: Share) -> RankFile:
    """Without its definition, which is made of those of all ranks. A service of one rank meets nobody."""
    placed = service.placed
    is_head, is_group, addresses = rank == 0, placed.is_group, placed.addresses
    return RankFile(
        service=placed.name,
        container=container["name"],
        rank=rank,
        ranks=len(placed.hosts),
        address=addresses[rank] if is_group else None,
        adapter=Adapter(addresses[rank], STATE, f"{ABSENT}: {SEAT}") if is_group else None,
        peers=[address for other, address in enumerate(addresses) if other != rank] if is_group else [],
        rendezvous=Address(addresses[0], supervisors_port(placed.port)) if is_group else None,
        secret_file=layout.group_secret(placed.name) if is_group else None,
        definition="",
        run=docker_run(container),
        serve=docker_exec(container["name"], launch.exec) if launch.exec else None,
        token=Token(layout.group_token(placed.name), launch.token) if launch.token else None,
        gids=_gids(service, placed.hosts[rank].name) if is_group else None,
        memory_bytes=share.footprint.low,
        guard=_guard(placed, share),
        ports=_ports(placed, rank),
        endpoint=_endpoint(service) if is_head else None,
        readiness=_readiness(placed) if is_head else None,
        probes=_probes(service, container["name"]),
        warm_up=placed.engine.warm_up(placed, service.flags) if is_head else [],
        limits=Limits(
            startup_limit_s=placed.recipe["startup_limit_s"] or fact("limits", "startup_limit_s"),
            drain_s=placed.settings.get("drain_s", fact("group", "drain_s")),
            stop_s=fact("group", "stop_s"),
            canary_s=fact("group", "canary_s"),
            strikes=fact("group", "strikes"),
            budget=Budget(**fact("group", "budget")),
        ),
    )


def _guard(placed: Placed, share: Share) -> Guard:
    """Nothing that boots have shown is in it, since one more would else start the service anew."""
    return Guard(
        floor_bytes=gib(fact("memory", "floor_gib")),
        high_bytes=share.footprint.high,
        creep_s=fact("group", "creep_s"),
        on_creep=placed.settings["on_creep"],
        unit=layout.MEMORY_GUARD_UNIT,
    )


def _ports(placed: Placed, rank: int) -> list[int]:
    """TCP ports of its host that a rank's container takes."""
    opens = placed.is_group and (rank == 0) != placed.engine.spec.workers_listen
    return [*([] if rank else [placed.port]), *([ranks_port(placed.port)] if opens else [])]


def port_clashes(services: Iterable[Placed]) -> Iterator[Finding]:
    """Ranks that would listen at one port of a host. Heads that would are refused as they are declared; what another
    rank takes, its engine knows."""
    taken: dict[tuple[str, int], tuple[Placed, int]] = {}
    for placed in services:
        for rank, host in enumerate(placed.hosts):
            meeting = [supervisors_port(placed.port)] if placed.is_group and rank == 0 else []
            for port in [*_ports(placed, rank), *meeting]:
                other, number = taken.setdefault((host.name, port), (placed, rank))
                if other is not placed and (rank or number):
                    found = f"port {port} of {host.name} is already one of {other.place}"
                    yield worded.error("input-port-twice/clashes-rank", placed.place.below("port"), found=found)


# Containers -------------------------------------------------------------------------------------------------------


def _container(service: Configured, rank: int, launch: Launch) -> Container:
    """A service on one host has a network of its own and one published port. A group's ranks are on their hosts', since
    NCCL and its like take ports as they like; RDMA needs its devices and pinned memory."""
    placed, host = service.placed, service.placed.hosts[rank]
    allowed = {key: decided.value for key, decided in placed.isolation.items()}
    mounts = [*_mounts(placed, host.name), *(_secret_mounts(placed) if rank == 0 else ())]
    container = Container(
        name=layout.container(placed.name),
        image=placed.image["reference"],
        entrypoint=launch.entrypoint,
        arguments=launch.arguments,
        stop_signal=launch.stop_signal,
        more_shared_memory=launch.shared_memory,
        env=placed.filled(placed.environments[host.name]),
        mounts=mounts,
        caches=cache_folders(placed),
        ipc=allowed["ipc"],
        capabilities=sorted({*allowed["capabilities"]}),
        pids_limit=allowed["pids_limit"],
        memory_limit=service.memory_limits.get(host.name) if allowed["memory_limit"] else None,
        read_only=allowed["read_only"],
        security=["no-new-privileges"] + ["seccomp=unconfined"] * (allowed["seccomp"] == "unconfined"),
        tmpfs=sorted({*allowed["tmpfs"]}) if allowed["read_only"] else [],
    )
    if not placed.is_group:
        return replace(container, ports=[{"address": placed.settings["listen"], "port": placed.port}])
    roce = service.fabric[host.name]["transport"] == "roce"
    # Docker lets any port be bound in a network of the container's own
    low_port = ["NET_BIND_SERVICE"] if rank == 0 and placed.port < _FIRST_FREE_PORT else []
    token = [Mount(layout.group_token(placed.name), layout.IN_GROUP_TOKEN)] if launch.token else []
    return replace(
        container,
        mounts=[*mounts, *token],
        network="host",
        devices=["/dev/infiniband"] if roce else [],
        capabilities=sorted({*container.capabilities, *(["IPC_LOCK"] if roce else []), *low_port}),
    )


def _secret_mounts(placed: Placed) -> Iterator[Mount]:
    """The API key, the certificate and the headers for the collector, for the container that answers clients."""
    if placed.key_file:
        yield Mount(placed.key_file, placed.engine.spec.key.target)
    if placed.trace_headers:
        yield Mount(placed.trace_headers, placed.engine.spec.trace_headers)
    if placed.tls and placed.engine.spec.tls:
        yield Mount(layout.certificate_file(placed.name), placed.engine.spec.tls.certificate)
        yield Mount(layout.certificate_key(placed.name), placed.engine.spec.tls.key)


def _mounts(placed: Placed, host: str) -> Iterator[Mount]:
    """What each container of a service sees of its host."""
    if placed.reads_model(host):
        yield Mount(layout.MODELS, layout.IN_MODELS)
    for folder in placed.adapter_folders:
        yield Mount(folder, folder)
    for mount in [*placed.overlays.mounts, *placed.recipe["mounts"]]:
        yield Mount(mount["source"], mount["target"], mount["read_only"])


def cache_folders(placed: Placed) -> dict[str, str]:
    """Folders on the host that the containers write to, by those in the container: the engine's ``caches``.

    Compiled kernels fit one image only, and are code: what one service has left there no other one runs.
    """
    image = placed.image
    folder = f"{layout.compiled(placed.name)}/{layout.compiled_key(image['reference'], image['digest'])}"
    return {target: f"{folder}/{name}" for name, target in placed.engine.spec.caches.items()}


# What else the supervisor knows -----------------------------------------------------------------------------------


def _gids(service: Configured, host: str) -> list[Gid] | None:
    """The RDMA devices that NCCL is given, with the address that each one's GID stands for; None without RDMA, or
    where the owner pinned the index."""
    values = {name: decided.value for name, decided in service.placed.environments[host].items()}
    if "NCCL_IB_HCA" not in values or values.get("NCCL_NET") != "IB" or "NCCL_IB_GID_INDEX" in values:
        return None
    devices = [device.partition(":")[0] for device in values["NCCL_IB_HCA"].lstrip("=").split(",")]
    addresses = {
        interface["rdma_device"]: (interface["address"] or "").partition("/")[0]
        for interface in service.fabric[host]["interfaces"]
    }
    return [Gid(device, addresses[device]) for device in devices if device in addresses]


def _probes(service: Configured, container: str) -> Probes:
    """What the engine runs in its container is run by the supervisor through Docker."""
    probes = service.placed.engine.probes(service.placed, service.flags)
    if probes.joined is not None:
        probes = replace(probes, joined=replace(probes.joined, command=docker_exec(container, probes.joined.command)))
    if probes.requires is not None:
        asked = docker_ask(service.placed.image["reference"], probes.requires.command)
        probes = replace(probes, requires=replace(probes.requires, command=asked))
    return probes


def _readiness(placed: Placed) -> Address | None:
    """Where gateways ask; nothing listens there without any."""
    asked = placed.settings.get("readiness", False)
    return Address(placed.settings["listen"], readiness_port(placed.port)) if asked else None


def _endpoint(service: Configured) -> Endpoint:
    placed = service.placed
    return Endpoint(
        url=placed.local_url,
        model=service.served_name,
        key_file=placed.key_file,
        key_form=placed.engine.spec.key.form,
        certificate=placed.certificate,
    )


# As Docker's daemon and containerd have it: who runs the service outlives it.
OWN_OOM_SCORE_ADJ = -500


def rank_unit(service: str, summary: str, limits: Limits, inventory: str = "") -> str:
    """The unit that owns a service's rank on one host, through its supervisor.

    The supervisor restarts the group and keeps the budget for it; systemd restarts the supervisor alone, and not after
    its status 3, which says that the budget is used up. A stop is the supervisor's business (KillMode): Docker's
    clients would hand SIGTERM on to a container whose answers are to end first. The start has no time limit: a large
    model loads for many minutes. The watchdog ends a supervisor that stands still: it could not notice that its rank is
    dead.

    A file beside it names the supervisor's folder, so that another supervisor leaves the unit as it is.

    limits: of its supervisor. inventory: whose service it is; systemd passes over sections of this kind.
    """
    return filled(
        "rank.service",
        summary=summary.replace("%", "%%"),
        supervisor_file=supervisor_file(service),
        rank_file=rank_file(service),
        own_oom_score_adj=OWN_OOM_SCORE_ADJ,
        stop_s=limits.drain_s + 2 * limits.stop_s + 60,
        container=container(service),
        inventory=inventory,
    )
