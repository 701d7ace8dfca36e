# SPDX-License-Identifier: GPL-3.0-or-later
"""Each host's slice of the plan: what its roles take, and nothing else."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from .._base import layout
from .._base.gb10 import fact
from .._base.slice import (
    Api,
    NeededDisk,
    NeededFile,
    NeededGroup,
    NeededPort,
    NeededSecret,
    Needs,
    Observation,
    RetentionSlice,
    Slice,
    UnreadImage,
)
from .._base.subject import SliceContext, with_defaults
from .._engines.decided import Decided
from .._engines.declaration import DraftData, ModelData
from .._engines.observed import image_key
from .._engines.placed import Host, Placed
from .._engines.ports import ranks_port
from .._subjects.fleet.subject import FleetPart
from .._subjects.made_secrets import made_secrets
from .._subjects.registry import fleet_parts
from .builds import builder

Entry = TypeVar("Entry")


def drift(declared: Mapping[str, Any]) -> dict[str, Any]:
    """``drift`` of the plan: what the owner accepts and expects, and from where on something counts."""
    free = {key: fact("drift", f"free_{key}") for key in ("memory_gib", "disk_gib")}
    limits = {key: fact("drift", key) for key in ("weights_days", "clock_s", "slower_percent")}
    return limits | dict(declared) | {"free": free | declared["free"]}


def images(services: Iterable[Decided], others: Iterable[dict[str, object]] = ()) -> list[dict[str, Any]]:
    """``image_store_plan``: each image once. others: those of no service, in the same form."""
    own = (
        {
            "reference": image["reference"],
            "digest": image["digest"],
            "source": _source(image["source"]),
            "known": {key: image[key] for key in ("digest", "identity")} if image["identity"] else None,
        }
        for image in (service.placed.image for service in services)
        if builder(image) is None
    )
    return _unique([*own, *others])


def models(services: Iterable[Decided], host: str) -> list[dict[str, Any]]:
    """``model_store_plan`` of a host: each model, draft model and adapter once."""
    return _unique(model for service in services for model in models_of(service.placed, host))


def models_of(placed: Placed, host: str) -> Iterator[dict[str, Any]]:
    """What a rank reads; one file of a repository is a model of its own."""
    if not placed.reads_model(host):
        return
    model = placed.model
    of_both = {"revision": model["revision"], "source": _source(model["source"])}
    yield {**of_both, "repository": placed.stored_model, "bytes": model["weights_bytes"], "known": _known(model)}
    if placed.stored_projector:
        yield {**of_both, "repository": placed.stored_projector, "bytes": None, "known": None}
    if "draft" in model:
        draft = model["draft"]
        yield {
            "repository": placed.stored_draft,
            "revision": draft["revision"],
            "bytes": draft["weights_bytes"],
            "source": _source(_of_draft(model)),
            "known": _known(draft),
        }
    for adapter in placed.adapter_repositories:
        yield {"repository": adapter, "revision": None, "bytes": None, "source": {"kind": "hub"}, "known": None}


def _of_draft(model: ModelData) -> str | Mapping[str, str]:
    """Where a draft model comes from: what lies in the model's own repository, from where that comes."""
    same = model["draft"]["repository"] == model["repository"]
    source: str | Mapping[str, str] = model["source"] if same else "hub"
    return source


def _known(model: ModelData | DraftData) -> dict[str, Any] | None:
    """What a recipe says that a model is, beyond its pin."""
    return {key: model[key] for key in ("revision", "seal")} if model.get("seal") else None


def retention(host: Host, services: Iterable[Decided]) -> RetentionSlice:
    """What is left of earlier images (a repository) and models (a repository), and which hosts must be proved first.

    after: the hosts that have a rank of one of this host's services.
    """
    after = {rank.name for service in services for rank in service.placed.hosts}
    kept = with_defaults("retention", host.settings.get("retention", {}))
    return {"images": kept["images"], "models": kept["models"], "after": sorted(after)}


def _source(written: str | Mapping[str, str]) -> dict[str, str]:
    """A recipe's source as the stores take it: ``hub`` -> ``{kind: hub}``, ``{path: X}`` -> ``{kind: path, path: X}``.

    A file of the host is a path, whether it is a model's folder or an image's archive.
    """
    if isinstance(written, str):
        return {"kind": written}
    ((kind, value),) = written.items()
    return {"kind": kind, ("host" if kind == "host" else "path"): value}


def observation(kept: str, copied: str, name: str) -> Observation:
    """Where something observed is kept on the host, and below the controller's folder of such things."""
    return {"path": f"{kept}/{name}.json", "observed": f"{copied}/{name}.json"}


def unread_images(host: str, services: Iterable[Decided]) -> list[UnreadImage]:
    """Images whose release the recipe doesn't name, to be read on the host, as the head of their services."""
    heads = (service.placed for service in services if service.placed.head.name == host)
    copied = f"catalogues/{host}"
    return _unique(
        {"image": image["reference"], "catalogues": observation(layout.CATALOGUES, copied, image_key(image))}
        for image in (placed.image for placed in heads if placed.engine.spec.reads_images)
        if image["release"] is None
    )


def here(
    host: Host,
    of_fleet: Mapping[str, object],
    services: Sequence[Decided],
    parts: Collection[FleetPart],
    decided: Slice,
) -> SliceContext:
    """What the subjects' slices of a host are made from. parts: of the fleet subjects. decided: what its slice holds
    already."""
    sources = (
        sorted({source for part in parts for source in part.sources}) if any(part_.callers for part_ in parts) else []
    )
    headed = [service for service in services if service.placed.head.name == host.name]
    apis: list[Api] = [
        {"port": service.placed.port, "from": sources, "reason": f"the API of {service.placed.name}"}
        for service in headed
    ]
    callers = sorted({source for part in parts if part.callers for source in part.sources})
    apis += [
        {"port": ready.port, "from": callers, "reason": f"whether {service.placed.name} serves"}
        for service in headed
        if (ready := service.ranks[0].supervisor.readiness)
    ]
    peers = [address for service in services for address in service.rank_on(host.name).supervisor.peers]
    more = [api for part in parts for api in part.apis(host.name)]
    groups = [service for service in services if service.placed.is_group]
    meetings = [
        (service.rank_on(host.name).supervisor.address or "", ranks_port(service.placed.port)) for service in groups
    ]
    return SliceContext(host.settings, of_fleet, decided, [*apis, *more], peers, meetings)


def needs(
    services: Sequence[Decided],
    host: str,
    memory_bytes: int,
    requests: Mapping[str, Mapping[str, object]],
    named: Iterable[str],
    parts: Slice,
) -> Needs:
    """``needs``: files that must be there, bytes that will be written, ports that will be taken.

    requests: by service what is judged again with what only the host knows (`_engines.engine.Engine.for_host`).
    named: paths that are looked up besides, for the names that settings have on the host.
    parts: the other parts of the host's slice.
    """
    files = [file for service in services for file in _files(service.placed, host)]
    disk = _unique(write for service in services for write in _writes(service.placed, host))
    ports: list[NeededPort] = [
        {
            "port": port,
            "container": layout.container(service.placed.name),
            "service": service.placed.name,
            "option": "port",
        }
        for service in services
        for port in service.rank_on(host).supervisor.ports
    ]
    secrets = [*_made(parts)]
    paths = [entry["path"] for entry in (*files, *disk, *secrets)]
    paths += [entry["unless"] for entry in (*files, *disk) if entry["unless"]]
    groups = [_group(service.placed) for service in services if service.placed.is_group]
    return {
        "paths": sorted({*paths, *named, layout.MODELS}),
        "files": files,
        "disk": disk,
        "secrets": secrets,
        "ports": ports,
        "installs": _installs(parts),
        "memory_bytes": memory_bytes,
        "reach": _reach(services, host),
        "groups": groups,
        "launches": [
            {
                "container": layout.container(service.placed.name),
                "service": service.placed.name,
                "engine": service.placed.engine.spec.name,
                "request": requests[service.placed.name],
            }
            for service in services
            if service.placed.name in requests
        ],
    }


def _installs(parts: Slice) -> list[str]:
    """The packages that roles install on the host where it lacks them; NVIDIA's toolkit only where it has a GPU."""
    closing = ["nftables"] if parts["firewall"]["state"] != "open" else []
    rdma = ["ibverbs-utils", "perftest"] if parts["fabric"]["interfaces"] else []
    of_fleet = [package for part in fleet_parts(parts) for package in part.get("packages", ())]
    return sorted(["docker.io", "nvidia-container-toolkit", *closing, *of_fleet, *rdma])


def _made(parts: Slice) -> Iterator[NeededSecret]:
    """What a run would make anew for what has it already: ``source`` on the controller, ``path`` on the host.

    Certificates of the local CA are none: the same CA makes them again, and no client sees a difference.
    """
    for service in parts["services"]:
        name, key, tls = service["name"], service["key"], service["tls"]
        if key and key["made"]:
            yield {"source": key["source"], "path": key["path"], "service": name, "option": "api_key_file"}
        if tls and tls["ca"]:
            yield {"source": tls["ca"], "path": parts["tls"]["path"], "service": name, "option": "tls"}
    yield from made_secrets(parts)


def _reach(services: Iterable[Decided], host: str) -> dict[str, list[str]]:
    """``{server: names}``: the hub and the registries, and the models and images that are fetched from each."""
    found: dict[str, list[str]] = {}
    for service in services:
        for model in models_of(service.placed, host):
            if model["source"]["kind"] == "hub":
                found.setdefault(_HUB, []).append(model["repository"])
        image = service.placed.image
        if image["source"] == "registry":
            found.setdefault(_registry(image["reference"]), []).append(image["reference"])
    return {server: sorted({*wanted}) for server, wanted in sorted(found.items())}


_HUB = "huggingface.co"
_DOCKER_HUB = "registry-1.docker.io"


def _registry(reference: str) -> str:
    """The server that an image is pulled from: what stands before the first slash, if it looks like a server's name."""
    first, slash, _rest = reference.partition("/")
    is_server = slash and ("." in first or ":" in first or first == "localhost")
    return first if is_server and first != "docker.io" else _DOCKER_HUB


def _group(placed: Placed) -> NeededGroup:
    """A service whose hosts have to be alike."""
    return {
        "service": placed.name,
        "hosts": [host.name for host in placed.hosts],
        "image": placed.image["reference"],
        "pinned": placed.image["digest"] is not None,
    }


def _files(placed: Placed, host: str) -> Iterator[NeededFile]:
    model, image = placed.model, placed.image
    if isinstance(model["source"], Mapping) and "path" in model["source"] and placed.reads_model(host):
        yield {
            "path": model["source"]["path"],
            "weights_bytes": model["weights_bytes"],
            "service": placed.name,
            "option": "model.source.path",
            "unless": placed.model_folder(layout.MODELS),
        }
    named = [("flags", folder) for folder in placed.adapter_folders]
    named += [("mounts", mount["source"]) for mount in placed.recipe["mounts"]]
    for option, path in named:
        if not path.startswith((layout.MODELS, layout.OVERLAYS)):  # which a run makes
            yield {"path": path, "weights_bytes": None, "service": placed.name, "option": option, "unless": None}
    if isinstance(image["source"], Mapping) and "archive" in image["source"]:
        yield {
            "path": image["source"]["archive"],
            "service": placed.name,
            "option": "image.source.archive",
            "unless": None,
        }


def _writes(placed: Placed, host: str) -> Iterator[NeededDisk]:
    for model in models_of(placed, host):
        if model["bytes"]:
            what = f"weights of {model['repository']}"
            yield {
                "path": layout.MODELS,
                "bytes": model["bytes"],
                "what": what,
                "unless": layout.model_folder(model["repository"], model["revision"]),
            }


def _unique(entries: Iterable[Entry]) -> list[Entry]:
    """Equal entries once, in the order of their first coming."""
    seen: list[Entry] = []
    for entry in entries:
        if entry not in seen:
            seen.append(entry)
    return seen
