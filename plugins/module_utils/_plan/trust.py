# SPDX-License-Identifier: GPL-3.0-or-later
"""What a recipe may do only where the service's owner declares that he wants it: ``trust`` of a service."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .._base import layout
from .._base.findings import Finding, error
from .._base.place import Place
from .._engines.declaration import DraftData, ModelData
from .._engines.placed import Placed
from .._engines.recipes.derive import DERIVED
from .._engines.recipes.spec import MOUNTED
from .._stores.lock.lock import Lock, locked

TRUST = {
    "code": "code of the model's publisher runs, and which code may change between two runs",
    "container": "the recipe's container has capabilities of the kernel, or the host's shared memory",
    "mounts": "the container reads or writes folders of the host that are neither data nor ours",
    "development": "the engine's switches for development are on",
}
_EXPECTED = f"a folder below {', '.join(layout.DATA[:4])}"


def trust_problems(placed: Placed, lock: Lock, relock: str) -> Iterator[Finding]:
    """Why a service as placed, its flags and variables decided, does more than its owner has declared.

    lock, relock: as of `_plan.fleet.plan_fleet`; what is locked is the same in every run, as if it were pinned.
    """
    recipe, trusted = Place(recipe=placed.recipe["name"]), placed.settings.get("trust", ())
    if "code" not in trusted:
        yield from _unpinned_code(placed, lock, relock)
    if "container" not in trusted:
        for key in ("capabilities", "ipc"):
            decided = placed.isolation[key]
            if decided.origin == "recipe" and decided.value not in ([], "private"):
                found = f"{decided.value}: {decided.reason}"
                yield _untrusted("container", recipe.below("container", key), found, "what GB10's default has")
    if "mounts" not in trusted:
        yield from _mounts(placed, recipe)
    if "development" not in trusted:
        yield from _development(placed)
    for folder in placed.adapter_folders:
        if not re.fullmatch(MOUNTED, folder):
            yield error(
                "service-adapter-folder",
                placed.place,
                found=f"{folder!a} as the folder of an adapter",
                expected="an absolute path without .., comma and control characters, as its container gets it",
                remedy="write that path among the flags",
            )


def _mounts(placed: Placed, recipe: Place) -> Iterator[Finding]:
    """Folders and files of the host that the recipe names, and the service does not."""
    for index, mount in enumerate(placed.recipe["mounts"]):
        if not mount["source"].startswith(layout.DATA):
            found = f"{mount['source']} of the host"
            yield _untrusted("mounts", recipe.below("mounts", index), found, _EXPECTED)
        elif not mount["read_only"]:
            yield _untrusted(
                "mounts", recipe.below("mounts", index), f"{mount['source']}, to be written", "read_only: true"
            )
    own = placed.engine.adapters(placed.settings["flags"])
    for folder in placed.adapter_folders:
        if folder not in own and not folder.startswith(layout.DATA):
            found = f"{folder} of the host, the folder of an adapter"
            yield _untrusted("mounts", recipe.below("flags"), found, _EXPECTED)
    yield from _foreign_sources(placed, recipe)


def _foreign_sources(placed: Placed, recipe: Place) -> Iterator[Finding]:
    """Files of the host that the recipe, and not the service, names as the model or the image."""
    for part, key, source, own in (
        ("model", "path", placed.recipe["model"]["source"], placed.settings["model"]),
        ("image", "archive", placed.recipe["image"]["source"], placed.settings["image"]),
    ):
        named = source.get(key) if isinstance(source, Mapping) else None
        if named and "source" not in own and not named.startswith(layout.DATA):
            yield error(
                "service-trust-mounts",
                recipe.below(part, "source", key),
                found=f"{named} of the host, which the container would have as its {part}",
                expected=_EXPECTED,
                remedy=f"if those files are yours, write {part}: {{source: {{{key}: {named}}}}} in the service",
            )


def _unpinned_code(placed: Placed, lock: Lock, relock: str) -> Iterator[Finding]:
    switches = [*_code_of_the_model(placed)]
    for where, model in (((), placed.model), (("draft",), placed.model.get("draft"))):
        is_fixed = model is not None and _is_fixed(model, lock, relock)
        # nobody chose the commit of a derived recipe for its code
        chosen = placed.recipe["status"]["state"] != DERIVED or "revision" in placed.settings["model"]
        if switches and model is not None and not (is_fixed and (chosen or where)):
            # one of a draft model of a service's own has no place to be pinned but the service
            pin = "draft: {repository: NAME, revision: COMMIT}" if where else "revision: COMMIT"
            yield error(
                "service-trust-code",
                placed.place.below("model", *where, "revision"),
                found=f"{model['revision'] if is_fixed else 'null'}, and {' and '.join(switches)} runs the code of "
                + (
                    f"{model['repository']}, which nobody has read for you"
                    if is_fixed
                    else f"whatever {model['repository']} is on the day of the staging"
                ),
                expected="a commit, here or in the lock",
                remedy=f"write trust: [code] in the service if you trust its publisher; or model: {{{pin}}}, a commit "
                f"whose code you have read (the hub shows it below Files)"
                + (
                    f"; or {switches[0]}: null among the flags if the engine knows the model by itself"
                    if switches[0] in placed.engine.spec.code_flags
                    else ""
                ),
            )


def _code_of_the_model(placed: Placed) -> Iterator[str]:
    """By what Python code of the checkpoint runs: options of the engine, its files as plugins, and over the image's."""
    for name, decided in placed.flags.items():
        if name in placed.engine.spec.code_flags:
            if decided.value not in (None, False):
                yield name
        elif any(word.startswith("{model_path}") and word.endswith(".py") for word in _words(decided.value)):
            yield name
    for overlay in placed.recipe["overlays"]:
        if overlay.get("model_file", "").endswith(".py"):
            yield f"the overlay {overlay['target']}"


def _words(value: object) -> Iterator[str]:
    """Each text of an option's value, without what may stand before it: ``NAME=FILE``."""
    for one in value if isinstance(value, list) else value.values() if isinstance(value, Mapping) else [value]:
        if isinstance(one, str):
            yield one.rpartition("=")[2]


def _is_fixed(model: ModelData | DraftData, lock: Lock, relock: str) -> bool:
    """Whether every run serves the same files of it, or those of a folder of the owner's."""
    source = model.get("source")
    is_own = isinstance(source, Mapping) and "path" in source
    return model["revision"] is not None or is_own or locked("models", model, lock, relock) is not None


def _development(placed: Placed) -> Iterator[Finding]:
    for name, what in placed.engine.spec.development_env.items():
        values = [decided[name].value for decided in placed.environments.values() if name in decided]
        if any(str(value).lower() not in ("", "0", "false", "none") for value in values):
            yield _untrusted("development", placed.place.below("env", name), f"on: {what}", "off")


def _untrusted(what: str, place: Place, found: str, expected: str) -> Finding:
    remedy = f"take it out, or write trust: [{what}] in the service if you want it"
    return error(f"service-trust-{what}", place, found=found, expected=expected, remedy=remedy)
