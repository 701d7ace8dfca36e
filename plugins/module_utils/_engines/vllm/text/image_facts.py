# SPDX-License-Identifier: GPL-3.0-or-later
"""What an image's name says: family, vLLM inside, whether the tag stands still (``data/vllm_images.yml``)."""

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...._base.yaml_text import read_yaml

# How an image starts vLLM; the data's `families` has what a repository's name says of it.
FAMILIES = ("upstream", "ngc", "eugr", "custom")
DATA = Path(__file__).resolve().parents[5] / "data" / "vllm_images.yml"


@dataclass(frozen=True)
class Fault:
    """What is bad about a tag, as ``data/vllm_images.yml`` says it."""

    effect: str
    remedy: str
    source: str


@dataclass(frozen=True)
class Image:
    """An image by its reference. family: of FAMILIES. vllm: its version as known, else None. unknown:
    its repository says nothing, and custom is a guess. engine: what it serves with, where that isn't vLLM. names:
    options and variables that this build has, and no release.

    moving: its tag names no build. driver: the least host driver that it asks for. bad: why it fails on a GB10.
    """

    reference: str
    repository: str
    tag: str
    digest: str
    family: str
    unknown: bool
    engine: str | None
    vllm: str | None
    moving: bool
    driver: str | None = None
    transformers: int | None = None
    bad: Fault | None = None
    names: Sequence[str] = ()

    def is_(self, name: str) -> bool:
        """Whether it is that repository and tag, written with or without the registry's default name."""
        return f"{self.repository}:{self.tag}".removeprefix("docker.io/") == name


@functools.cache
def _facts() -> Mapping[str, Any]:
    data: Mapping[str, Any] = read_yaml(DATA.read_text("utf-8"))
    return data


def moving_tag() -> Fault:
    """What is bad about a tag that moves, where no digest pins it."""
    return Fault(**{key: value for key, value in _facts()["moving"].items() if key != "tags"})


@functools.lru_cache(maxsize=512)
def image_of(reference: str) -> Image:
    """What a reference says: ``[registry/]repository[:tag][@sha256:digest]``."""
    name, _, digest = reference.partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, "latest"
    facts = _facts()
    plain = f"{repository}:{tag}".removeprefix("docker.io/")
    known: Mapping[str, Any] = next((row for row in facts["tags"] if row["image"] == plain), {})
    family = next((row["family"] for row in facts["families"] if re.fullmatch(row["repository"], repository)), None)
    engine = next((row["engine"] for row in facts["others"] if re.fullmatch(row["repository"], repository)), None)
    return Image(
        reference,
        repository,
        tag,
        digest,
        family or "custom",
        family is None,
        engine,
        known.get("vllm") or _version_in(facts["release_tags"].get(family), tag),
        re.fullmatch(facts["moving"]["tags"], tag) is not None,
        known.get("driver"),
        known.get("transformers"),
        Fault(**known["bad"]) if "bad" in known else None,
        [name for row in facts["builds"] if re.fullmatch(row["repository"], repository) for name in row["names"]],
    )


def _version_in(pattern: str | None, tag: str) -> str | None:
    match = re.fullmatch(pattern, tag) if pattern else None
    return match["vllm"] if match else None
