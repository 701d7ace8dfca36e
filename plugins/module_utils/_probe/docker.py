# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Reads Docker: the engine, the images behind names, and the containers as they really run, without their secrets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._images.identity import identity_from_inspect, parse_reference
from ansible_collections.gb10.fleet.plugins.module_utils._images.records import ImageRecords
from ansible_collections.gb10.fleet.plugins.module_utils._probe.parts import Run, UnreadableError, output

# Labels have no effect on a container that shares the host's IPC, and Docker says so in its SecurityOpt by itself
# (moby, daemon/create.go: generateSecurityOpt).
_ADDED_BY_DOCKER: Mapping[str, set[str]] = {"host": {"label=disable"}}
_DOWN = ("Cannot connect to the Docker daemon", "failed to connect to the docker API", "Is the docker daemon running")


def read_engine(run: Run) -> dict[str, Any]:
    """``{installed, running, version, store, root}``; store: ``containerd``, or the graph driver's name."""
    try:
        code, out, err = run(["docker", "info", "--format", "{{json .}}"])
    except FileNotFoundError:
        return {"installed": False, "running": False}
    info = json.loads(out) if out.strip() else {}
    said = " ".join([*(info.get("ServerErrors") or []), err])
    if any(mark in said for mark in _DOWN):
        return {"installed": True, "running": False}
    if code != 0 or not info.get("ServerVersion"):
        raise UnreadableError(said.strip() or f"docker info ended with {code}")
    driver = dict(info.get("DriverStatus") or ()).get("driver-type", "")
    store = "containerd" if driver.startswith("io.containerd.snapshotter") else info["Driver"]
    return {"installed": True, "running": True, "version": info["ServerVersion"], "store": store}


def read_identities(run: Run, references: Sequence[str]) -> dict[str, str | None]:
    """Each image's identity, the same in every store of Docker; None for one that isn't there."""
    found: dict[str, str | None] = {}
    for reference in references:
        try:
            code, out, _err = run(["docker", "image", "inspect", reference])
        except FileNotFoundError:
            code, out = 1, ""
        found[reference] = identity_from_inspect(json.loads(out)[0]).digest if code == 0 else None
    return found


def read_images(run: Run, references: Iterable[str], records: Path) -> dict[str, dict[str, Any] | None]:
    """``{id, identity, layers, digests, recorded}`` by reference, None where Docker has no such image.

    recorded: what ``image_store`` noted when it brought the image, ``{identity, digest}``; None without a note.
    """
    wanted = sorted(references)
    notes = ImageRecords(records)
    return {reference: _image(run, reference, notes) for reference in wanted}


def _image(run: Run, name: str, notes: ImageRecords) -> dict[str, Any] | None:
    code, out, err = run(["docker", "image", "inspect", name])
    if code != 0:
        if "No such image" in err:
            return None
        raise UnreadableError(err.strip())
    image = json.loads(out)[0]
    newest = notes.newest(parse_reference(name))
    return {
        "id": image["Id"],
        "identity": identity_from_inspect(image).digest,
        "layers": len(image["RootFS"].get("Layers") or []),
        "digests": sorted(known.partition("@")[2] for known in image.get("RepoDigests") or ()),
        "recorded": newest and {"identity": newest["identity"], "digest": newest["digest"]},
    }


def read_containers(run: Run, variables: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Any]]:
    """The running containers by name, as Docker keeps them.

    variables: by container name those whose values may be told, since they are in the plan. Of any other variable that
    the image does not bring, only the name: it may be a secret.
    """
    ids = output(run, ["docker", "ps", "--no-trunc", "--quiet"]).split()
    if not ids:
        return {}
    found = json.loads(output(run, ["docker", "inspect", *ids]))
    images = {one["Id"]: one for one in json.loads(output(run, ["docker", "image", "inspect", *_images_of(found)]))}
    return {
        one["Name"].lstrip("/"): _container(one, images.get(one["Image"], {}), variables)
        for one in sorted(found, key=lambda one: str(one["Name"]))
    }


def _images_of(containers: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted({one["Image"] for one in containers})


def _container(
    one: Mapping[str, Any], image: Mapping[str, Any], variables: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    config, host, own = one["Config"], one["HostConfig"], image.get("Config") or {}
    told = {*variables.get(one["Name"].lstrip("/"), ())}
    brought = {*(own.get("Env") or ())}
    words = config.get("Env") or ()
    env = dict(word.partition("=")[::2] for word in words)
    added = {word.partition("=")[0] for word in words if word not in brought}
    return {
        "id": one["Id"],
        "image": one["Image"],
        "reference": config["Image"],
        "argv": config.get("Cmd") or [],
        "entrypoint": config.get("Entrypoint") or [],
        "image_entrypoint": own.get("Entrypoint") or [],
        "env": {name: value for name, value in sorted(env.items()) if name in told},
        "other_env": sorted(added - told),
        "mounts": sorted(
            [mount.get("Source", ""), mount["Destination"], not mount["RW"]]
            for mount in one["Mounts"]
            if mount["Type"] == "bind"
        ),
        "devices": sorted(device["PathOnHost"] for device in host.get("Devices") or ()),
        "capabilities": sorted(name.removeprefix("CAP_") for name in host.get("CapAdd") or ()),
        "privileged": bool(host.get("Privileged")),
        "security": sorted({*(host.get("SecurityOpt") or ())} - _ADDED_BY_DOCKER.get(host.get("IpcMode", ""), set())),
        "network": host.get("NetworkMode", ""),
        "ipc": host.get("IpcMode", ""),
        "published": sorted(
            [bind.get("HostIp") or "0.0.0.0", int(bind["HostPort"])]
            for binds in (host.get("PortBindings") or {}).values()
            for bind in binds or ()
        ),
    }
