# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan whose images and models come from a bundle, and which files of it each host is given.

The first host of the run that wants a thing gets it from the controller, the others from there, as from a registry or
the hub. Nothing else of the plan changes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..._base import layout
from ..._base.plan import Plan
from ..._base.slice import ImageId, ModelId, PeerAddress, Slice, Source, StoredImage, StoredModel
from ..._stores.weights.cache import repository_folder
from .locks import tools_of, wheels_of
from .manifest import DEBS, KEY, LAYOUT, WHEELS, paths_of_image, paths_of_packages, weight
from .needs import from_outside, image_in, model_in

# Below `_base.layout.BUNDLE` on a host.
APT_CONFIG = "apt/apt.conf"


def from_bundle(plan: Plan, manifest: Mapping[str, object], hosts: Sequence[str]) -> Plan:
    """The plan with the bundle as source of what comes from outside. hosts: of this run, which it must hold all for."""
    changed: dict[str, Slice] = {}
    for host in hosts:
        mine = plan["hosts"][host]
        images = [_image(entry, manifest, hosts) if from_outside(entry) else entry for entry in mine["images"]]
        models = [_model(entry, manifest, hosts) if from_outside(entry) else entry for entry in mine["models"]]
        changed[host] = {**mine, "images": images, "models": models}
    return {**plan, "hosts": {**plan["hosts"], **changed}}


def _image(entry: StoredImage, manifest: Mapping[str, object], hosts: Sequence[str]) -> StoredImage:
    held = image_in(manifest, entry)
    assert held
    here: Source = {"kind": "bundle", "path": f"{layout.BUNDLE}/images", "manifest": held["manifest"]}
    source, peers = _source(entry["peers"], here, hosts)
    lock: ImageId = {"digest": held["digest"], "identity": held["identity"]}
    return {**entry, "lock": lock, "renew": False, "source": source, "peers": peers}


def _model(entry: StoredModel, manifest: Mapping[str, object], hosts: Sequence[str]) -> StoredModel:
    held = model_in(manifest, entry)
    assert held
    size = sum(file["size"] for file in held["files"])
    source, peers = _source(entry["peers"], {"kind": "bundle", "path": f"{layout.BUNDLE}/{_model_folder(held)}"}, hosts)
    lock: ModelId = {"revision": held["revision"], "seal": held["seal"]}
    return {**entry, "lock": lock, "renew": False, "bytes": size, "source": source, "peers": peers}


def _source(peers: Sequence[PeerAddress], here: Source, hosts: Sequence[str]) -> tuple[Source, list[PeerAddress]]:
    """From the nearest hosts of this run that get it before, else from the bundle."""
    peers = [peer for peer in peers if peer["host"] in hosts]
    return ({"kind": "host", "host": peers[-1]["host"]} if peers else here), peers


def _model_folder(model: Mapping[str, Any]) -> str:
    return f"models/{repository_folder(model['repository'])}"


def deliveries(
    plan: Plan,
    manifest: Mapping[str, object],
    changing: Mapping[str, Mapping[str, Sequence[str] | None]],
    *,
    installing: bool = True,
) -> dict[str, dict[str, str]]:
    """By host the files that it is given: where each goes, below `_base.layout.BUNDLE`, and its path in the bundle.

    plan: with the bundle as source. changing: by host to converge the names of images and models that it has to be
    brought, None where that is not known. Its packages and wheels are asked for by roles, each as it comes to them, so
    that a host gets the whole repository, and all wheels that it may install. installing: whether they may be.
    """
    given = {}
    for name, due in changing.items():
        host = plan["hosts"][name]
        installed = _installed(host, manifest) if installing else {}
        given[name] = dict(sorted((installed | _of_host(host, manifest, due)).items()))
    return given


def _installed(host: Mapping[str, object], manifest: Mapping[str, object]) -> dict[str, str]:
    wheels = (path for tool in tools_of(host) for path in wheels_of(tool, manifest))
    return {path: path for path in (*paths_of_packages(manifest), *wheels)}


def _of_host(
    host: Mapping[str, Any], manifest: Mapping[str, object], due: Mapping[str, Sequence[str] | None]
) -> dict[str, str]:
    given: dict[str, str] = {}
    for entry in host["images"]:
        if entry["source"]["kind"] == "bundle" and _is_due(entry["reference"], due["images"]):
            held = image_in(manifest, entry)
            assert held
            given |= {path: path for path in (LAYOUT, *paths_of_image(held))}
    for entry in host["models"]:
        if entry["source"]["kind"] == "bundle" and _is_due(entry["repository"], due["models"]):
            held = model_in(manifest, entry)
            assert held
            snapshot = f"{_model_folder(held)}/snapshots/{held['revision']}"
            given |= {f"{snapshot}/{file['path']}": weight(file["sha256"]) for file in held["files"]}
    return given


def _is_due(name: str, names: Sequence[str] | None) -> bool:
    return names is None or name in names


def apt_files() -> dict[str, str]:
    """What makes apt on a host take the bundle's repository and no other, by path below `_base.layout.BUNDLE`.

    Read by APT_CONFIG before everything else (apt.conf(5)): the host's own sources and lists stay as they are, and are
    not asked.
    """
    folder = layout.BUNDLE
    source = f"deb [signed-by={folder}/{KEY}] file:{folder}/{DEBS} ./\n"
    settings = {
        "Dir::Etc::SourceList": f"{folder}/apt/bundle.list",
        "Dir::Etc::SourceParts": f"{folder}/apt/none",
        "Dir::State::Lists": f"{folder}/apt/lists",
        "Dir::Cache::Archives": f"{folder}/apt/archives",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        # signed once and carried by hand: how old it is, says the manifest's serial
        "Acquire::Check-Valid-Until": "false",
        "Acquire::Check-Date": "false",
        # root reads what root alone was given
        "APT::Sandbox::User": "root",
    }
    return {"apt/bundle.list": source, APT_CONFIG: "".join(f'{name} "{value}";\n' for name, value in settings.items())}


def environment() -> dict[str, str]:
    """What the tasks of a host get that takes all from a bundle: apt and pip ask nobody else."""
    return {
        "APT_CONFIG": f"{layout.BUNDLE}/{APT_CONFIG}",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": f"{layout.BUNDLE}/{WHEELS}",
    }
