# SPDX-License-Identifier: GPL-3.0-or-later
"""When are two images the same image: the ordered layers (DiffIDs) and what a container inherits from the config.

``.Id`` is no answer: it is the config's digest in the overlay2 store and the manifest's in the containerd store, and a
manifest changes with the compression of its layers (facts on storage drivers: Docker's ``engine/storage/containerd``).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Fields of the OCI image config (image-spec 1.1, config.md) and of Docker's extension of it that a container inherits.
# Docker's inspect adds more (Hostname, AttachStdin, Image), which say nothing about the image.
_INHERITED = (
    "Cmd",
    "Entrypoint",
    "Env",
    "ExposedPorts",
    "Healthcheck",
    "Labels",
    "OnBuild",
    "Shell",
    "StopSignal",
    "User",
    "Volumes",
    "WorkingDir",
)


@dataclass(frozen=True)
class Identity:
    """An image's identity, equal on every host and in every store that holds the image."""

    os: str
    architecture: str
    config: str
    diff_ids: tuple[str, ...]

    @property
    def digest(self) -> str:
        """``sha256:...`` over all of it: what a record or a report names."""
        text = json.dumps([self.os, self.architecture, self.config, self.diff_ids])
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def identity_from_config(config: Mapping[str, Any]) -> Identity:
    """Identity from an image's config blob (the JSON that a manifest calls ``config``)."""
    return _identity(config["os"], config["architecture"], config.get("config"), config["rootfs"]["diff_ids"])


def identity_from_inspect(image: Mapping[str, Any]) -> Identity:
    """Identity from one element of ``docker image inspect``."""
    return _identity(image["Os"], image["Architecture"], image.get("Config"), image["RootFS"].get("Layers") or [])


def _identity(os: str, architecture: str, config: Mapping[str, object] | None, diff_ids: Sequence[str]) -> Identity:
    inherited = {key: value for key in _INHERITED if (value := (config or {}).get(key))}
    return Identity(os, architecture, json.dumps(inherited, sort_keys=True), tuple(diff_ids))


def common_prefix(diff_ids: Sequence[str], others: Iterable[Sequence[str]]) -> int:
    """How many of the lowest layers one of the ``others`` has in the same order.

    A graph driver knows a layer only on top of all the layers below it, so this is what it can take over.
    """
    return max((_equal_start(diff_ids, other) for other in others), default=0)


def chain_id(diff_ids: Sequence[str]) -> str:
    """What the highest of these layers is called on top of the others, hex (image-spec 1.1, config.md, "ChainID")."""
    chain = diff_ids[0]
    for diff_id in diff_ids[1:]:
        chain = "sha256:" + hashlib.sha256(f"{chain} {diff_id}".encode()).hexdigest()
    return chain.removeprefix("sha256:")


def _equal_start(left: Sequence[str], right: Sequence[str]) -> int:
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return min(len(left), len(right))


@dataclass(frozen=True)
class Reference:
    """An image's name as Docker shows it: ``[registry[:port]/]repository:tag``, Docker Hub's prefixes left out."""

    repository: str
    tag: str

    def __str__(self) -> str:
        return f"{self.repository}:{self.tag}"

    @property
    def full_name(self) -> str:
        """As containerd names it: ``vllm:1`` is ``docker.io/library/vllm:1``."""
        registry, slash, _ = self.repository.partition("/")
        if slash and ("." in registry or ":" in registry or registry == "localhost"):
            return str(self)
        return f"docker.io/{self}" if slash else f"docker.io/library/{self}"

    def at(self, digest: str) -> str:
        return f"{self.repository}@{digest}"


def parse_reference(text: str) -> Reference:
    """Split at the tag's colon, which is not a registry port's: ``host:5000/vllm`` has no tag, so ``latest``."""
    head, slash, last = text.rpartition("/")
    name, _, tag = last.partition(":")
    repository = (head + slash + name).removeprefix("docker.io/").removeprefix("library/")
    return Reference(repository, tag or "latest")
