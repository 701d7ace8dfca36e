# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a plan comes from outside, and whether a bundle holds it.

An owner's own archives and folders, and what a host of the fleet has, come from nowhere else and are in no bundle.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, error
from ..._base.plan import Plan
from ..._stores.lock.lock import key
from ..drift.questions import packages
from .locks import sum_of, tools_of

# What roles install whatever the plan says: the distribution's Docker, and what makes virtual environments.
ALWAYS = ("docker.io", "python3-venv")
_BRING = "make a bundle of this plan where there is internet (gb10.fleet.bundle), and bring that"


@dataclass(frozen=True)
class Needs:
    """What a plan needs. images, models: entries of the plan, each thing once. packages: names of Debian packages.
    tools: what roles install by pip on hosts, each with the sum of its lock. builds: names of images that one of
    the hosts builds, of bases and sources that a bundle doesn't bring either."""

    images: Sequence[Mapping[str, Any]]
    models: Sequence[Mapping[str, Any]]
    packages: Sequence[str]
    tools: Mapping[str, str] = field(default_factory=dict)
    builds: Sequence[str] = ()


def needs(plan: Plan, hosts: Sequence[str], further: Sequence[str] = ()) -> Needs:
    """What these hosts need of outside. further: packages that an owner wants besides."""
    mine = [plan["hosts"][host] for host in hosts]
    named = {name for host in mine for name in packages(host)} | {*ALWAYS, *further}
    tools = {tool: sum_of(tool) for host in mine for tool in tools_of(host)}
    builds = sorted(entry["reference"] for host in mine for entry in host["images"] if entry.get("build"))
    return Needs(_once("images", mine), _once("models", mine), sorted(named), tools, builds)


def _once(kind: str, hosts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    found = {key(kind, entry): entry for host in hosts for entry in host[kind] if from_outside(entry)}
    return [found[name] for name in sorted(found)]


def from_outside(entry: Mapping[str, Any]) -> bool:
    """Whether an image or a model of the plan comes from a registry or the hub."""
    return entry["source"]["kind"] in ("registry", "hub")


def plan_hash(plan: Plan) -> str:
    """What the plan decides, as one sum: hosts and services, without what was found or is shown."""
    decided = {part: plan[part] for part in ("hosts", "services")}
    return hashlib.sha256(json.dumps(decided, sort_keys=True).encode()).hexdigest()


def image_in(manifest: Mapping[str, Any], wanted: Mapping[str, object]) -> Mapping[str, Any] | None:
    """The bundle's image for an entry of the plan: by its name and pin, of several without a pin the locked one."""
    return _held(manifest["images"], wanted, "reference", "digest", "identity")


def model_in(manifest: Mapping[str, Any], wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The bundle's model for an entry of the plan, likewise."""
    return _held(manifest["models"], wanted, "repository", "revision", "seal")


def _held(
    rows: Iterable[Mapping[str, Any]], wanted: Mapping[str, Any], name: str, pin: str, seal: str
) -> Mapping[str, Any] | None:
    found = [row for row in rows if row[name] == wanted[name] and wanted[pin] in (None, row[pin])]
    locked = [row for row in found if wanted["lock"] and wanted["lock"][seal] == row[seal]]
    return next(iter(locked or found), None)


def lacking(needed: Needs, manifest: Mapping[str, Any], file: str) -> Iterator[Finding]:
    """What the plan needs and the bundle has not, or has otherwise than locked. file: the manifest's."""
    for image in needed.images:
        held = image_in(manifest, image)
        if held is None:
            yield _lacks(file, f"image {key('images', image)}")
        elif image["lock"] and image["lock"]["identity"] != held["identity"]:
            yield _other(file, key("images", image), held["identity"], image["lock"]["identity"], image["reference"])
    for model in needed.models:
        held = model_in(manifest, model)
        if held is None:
            yield _lacks(file, f"model {key('models', model)}")
        elif model["lock"] and model["lock"]["seal"] != held["seal"]:
            yield _other(file, key("models", model), held["seal"], model["lock"]["seal"], model["repository"])
    for name in sorted({*needed.packages} - {*manifest["asked"]}):
        yield _lacks(file, f"package {name}")
    for tool, lock in needed.tools.items():
        if manifest["tools"].get(tool) != lock:
            yield _lacks(file, f"wheels of {tool}")
    for name in needed.builds:
        yield worded.error("bundle-lacks", f"what {name} is built of", file=file)


def _lacks(file: str, what: str) -> Finding:
    return error("bundle-lacks", what, found=f"not in {file}", expected="all that the plan needs", remedy=_BRING)


def _other(file: str, name: str, found: str, expected: str, relock: str) -> Finding:
    return worded.error(
        "bundle-differs", f"{file}: {name}", found=_short(found), expected=_short(expected), relock=relock
    )


def _short(value: str) -> str:
    return value.removeprefix("sha256:")[:12]
