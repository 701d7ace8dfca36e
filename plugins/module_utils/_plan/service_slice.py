# SPDX-License-Identifier: GPL-3.0-or-later
"""``hosts.<host>.services``: each service that has a rank on the host, as roles, status, proof and drift take it."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from .._base import layout
from .._base.gb10 import fact
from .._base.sizes import gib
from .._base.slice import Certified, Copied, Expected, Files, Folders, GroupSecret, Key, Proof, Question, ServiceSlice
from .._engines import openai
from .._engines.decided import Decided, Rank
from .._engines.placed import Placed
from .._facts.models.purpose import CHAT
from .._subjects.services.supervisors import chosen
from . import slices
from .container import listed
from .ranks import cache_folders, rank_unit
from .summary import weights_read


def service_slice(service: Decided, host: str, inventory: str) -> ServiceSlice:
    """One service on one host. inventory: the name of the one that declares it.

    rank, ranks: its rank here, 0 for the head, and how many there are. hosts: of all ranks, head first. files: what is
    written here, ``{path: {mode, content}}``; merged: JSON files that get the keys of ``json_merge``. models: folders
    of the weights that it reads. folders: what the container writes to, and where its overlays are. container:
    `_plan.container.Container`. exec: a command that is run in it once all ranks are in. flags: the engine's
    options that it starts with, where `_engines.interface.Launch` has them. key, tls, trace_headers,
    secret: what no plan holds, and where it goes. supervisor: what its rank file says, which `files` has as text.
    proof: on the head, what to ask for; else None.
    """
    placed, rank = service.placed, service.rank_on(host)
    is_head = rank.number == 0
    key, tls, trace_headers = (_key(placed), _tls(placed), _trace_headers(placed)) if is_head else (None, None, None)
    secret = _secret(placed) if placed.is_group else None
    return {
        "name": placed.name,
        "engine": placed.engine.spec.name,
        "unit": layout.unit(placed.name),
        "rank": rank.number,
        "ranks": len(service.ranks),
        "hosts": [host.name for host in placed.hosts],
        "definition": rank.supervisor.definition,
        "start": _start(service),
        "container": rank.container,
        "exec": rank.exec,
        "flags": {name: value for name, value in rank.flags.items() if value is not None},
        "files": _files(placed, rank, inventory) | _without(placed.name, key, tls, trace_headers, secret),
        "merged": [file for file in placed.overlays.files if "json_merge" in file],
        "models": _models(placed, host),
        "folders": _folders(placed),
        "key": key,
        "tls": tls,
        "trace_headers": trace_headers,
        "secret": secret,
        "rank_file": layout.rank_file(placed.name),
        "supervisor": listed(asdict(rank.supervisor)),
        "status_file": layout.status_file(placed.name),
        "memory_bytes": rank.share.taken.expected,
        "memory_floor_bytes": gib(fact("memory", "floor_gib")),
        "proof": _proof(service, host, inventory) if is_head else None,
    }


def _start(service: Decided) -> str:
    """A hash of what the engine is started with, which another release of this collection keeps."""
    placed = service.placed
    ranks = [[rank.container, rank.exec] for rank in service.ranks]
    text = json.dumps([ranks, placed.overlays.files, placed.image["digest"]], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _files(placed: Placed, rank: Rank, inventory: str) -> Files:
    supervisor = json.dumps(asdict(rank.supervisor), indent=2, sort_keys=True) + "\n"
    contents = {
        **{file["path"]: file["content"] for file in placed.overlays.files if "content" in file},
        layout.rank_file(placed.name): supervisor,
        layout.supervisor_file(placed.name): chosen(),
        f"{layout.UNITS}/{layout.unit(placed.name)}": rank_unit(
            placed.name, placed.recipe["summary"], rank.supervisor.limits, inventory
        ),
    }
    return {path: {"mode": "0644", "content": content} for path, content in sorted(contents.items())}


def _without(service: str, key: object, tls: object, trace_headers: object, secret: object) -> Files:
    """Secrets that a rank had, when it was a head, encrypted or one of a group, and has no longer."""
    certificate = (layout.certificate_file(service), layout.certificate_key(service))
    parts = (
        (key, (layout.key_file(service),)),
        (tls, certificate),
        (trace_headers, (layout.trace_headers(service),)),
        (secret, (layout.group_secret(service),)),
    )
    gone = (path for part, paths in parts if part is None for path in paths)
    return {path: {"mode": "0600", "content": None} for path in gone}


def _models(placed: Placed, host: str) -> list[str]:
    """The folder of each model that its rank reads, as the store of that host gets them."""
    staged = slices.models_of(placed, host)
    return [layout.model_folder(model["repository"], model["revision"]) for model in staged]


def _folders(placed: Placed) -> Folders:
    """The mode of each. A cache that began with an image's files has the image's mode and owner; root alone reaches
    it."""
    overlays = {file["path"].rpartition("/")[0]: "0755" for file in placed.overlays.files}
    caches: dict[str, str | None] = dict.fromkeys(cache_folders(placed).values())
    own: dict[str, str | None] = {layout.compiled(placed.name): "0700"} if caches else {}
    return own | caches | overlays


def _key(placed: Placed) -> Key | None:
    """source: on the controller; made: by a run, if it is not there."""
    source = placed.settings.get("api_key_file")
    if not source:
        return None
    form, made = placed.engine.spec.key.form, placed.settings.get("key_made", False)
    return {"source": source, "path": str(placed.key_file), "form": form, "made": made}


def _tls(placed: Placed) -> Certified | None:
    """source: on the controller. ca: the certificate of the local CA there, by which a run makes the service's; None
    for a certificate of the owner's. names: what it has to name."""
    decided = placed.tls
    if decided is None:
        return None
    return {
        "certificate": {"source": decided["certificate"], "path": layout.certificate_file(placed.name)},
        "key": {"source": decided["key"], "path": layout.certificate_key(placed.name)},
        "ca": decided["ca"],
        "names": decided["names"],
    }


def _trace_headers(placed: Placed) -> Copied | None:
    """source: on the controller."""
    source = placed.tracing["headers_file"] if placed.tracing else None
    return {"source": source, "path": placed.trace_headers} if source and placed.trace_headers else None


def _secret(placed: Placed) -> GroupSecret:
    """What a group's ranks know each other by: its head makes it, the others get it."""
    return {"path": layout.group_secret(placed.name), "head": placed.head.name}


def _proof(service: Decided, host: str, inventory: str) -> Proof:
    """What is asked of the endpoint, and what its start is compared with."""
    placed, plan = service.placed, service.plan
    gb, loader = weights_read(placed, plan["flags"])
    proof: Proof = {
        "url": placed.local_url,
        "key_file": placed.key_file or "",
        "key_form": placed.engine.spec.key.form,
        "certificate": placed.certificate,
        "health": service.ranks[0].supervisor.probes.health,
        "request": placed.engine.example(placed.recipe["kind"], plan["served_name"]).as_data(),
        "questions": _questions(service),
        "boot_lines": placed.engine.spec.boot_lines,
        "startup_limit_s": service.ranks[0].supervisor.limits.startup_limit_s,
        "memory_total_bytes": plan["boot"]["memory_total_bytes"],
        "requested_bytes": plan["boot"]["requested_bytes"],
        "boots": slices.observation(layout.BOOTS, f"boots/{host}", plan["boot"]["key"]),
        "starts": {
            **slices.observation(layout.STARTS, f"starts/{host}", plan["boot"]["key"]),
            "image": placed.image["digest"] or placed.image["reference"],
            "model": placed.model["repository"],
            "gb": gb,
            "loader": loader,
        },
        "expected": _expected(
            plan["kv"], placed.image["release"], placed.engine.cold_bytes(placed.config, service.ranks[0].flags)
        ),
    }
    if placed.tls:
        # by what clients prove the certificate; ca: on the host, None for one of the owner's
        proof["ca"] = layout.trusted_ca(inventory) if placed.tls["ca"] else None
        proof["names"] = placed.tls["names"]
    return proof


def _questions(service: Decided) -> list[Question]:
    placed, plan, flags = service.placed, service.plan, service.ranks[0].flags
    if placed.recipe["kind"] != CHAT:
        return []
    sees = openai.sees(flags, placed.config)
    return [*openai.questions(plan["served_name"], flags, plan["kv"]["context"], sees, plan["speed"])]


def _expected(kv: Mapping[str, Any], release: str | None, cold_bytes: int) -> Expected:
    """What the boot log is compared with. cold_bytes: of `Engine.cold_bytes`."""
    low, high = (kv["tokens"], kv["tokens"]) if kv["exact"] else (kv["tokens_low"], kv["tokens_high"])
    if cold_bytes and low is not None and high is not None and kv["tokens"] and kv["bytes"]:
        either_way = math.ceil(cold_bytes * kv["tokens"] / kv["bytes"])
        low, high = max(0, low - either_way), high + either_way
    return {"release": release, "kv_tokens": kv["tokens"], "kv_tokens_low": low, "kv_tokens_high": high}
