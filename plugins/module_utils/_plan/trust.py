# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What a recipe may do only where the service's owner declares that he wants it: ``trust`` of a service."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.gb10.fleet.plugins.module_utils import _layout
from ansible_collections.gb10.fleet.plugins.module_utils._engines.placed import Placed
from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding, error

TRUST = {
    "code": "code of the model's publisher runs, and which code may change between two runs",
    "mounts": "the container reads or writes folders of the host that are neither data nor ours",
    "development": "the engine's switches for development are on",
}
# Where an owner's data lies. A container may read there; what it may write to is the owner's word.
_DATA = ("/srv/", "/mnt/", "/media/", "/data/", f"{_layout.MODELS}/", f"{_layout.OVERLAYS}/")


def trust_problems(placed: Placed) -> Iterator[Finding]:
    """Why a service as placed, its flags and variables decided, does more than its owner has declared."""
    recipe, trusted = f"recipe {placed.recipe['name']}", placed.settings.get("trust", ())
    if "code" not in trusted:
        yield from _unpinned_code(placed)
    if "mounts" not in trusted:
        for index, mount in enumerate(placed.recipe["mounts"]):
            if not mount["source"].startswith(_DATA):
                found = f"{mount['source']} of the host"
                yield _untrusted("mounts", f"{recipe}.mounts[{index}]", found, f"a folder below {', '.join(_DATA[:4])}")
            elif not mount["read_only"]:
                yield _untrusted(
                    "mounts", f"{recipe}.mounts[{index}]", f"{mount['source']}, to be written", "read_only: true"
                )
    if "development" not in trusted:
        yield from _development(placed)


def _unpinned_code(placed: Placed) -> Iterator[Finding]:
    model = placed.model
    if model["revision"] is not None or (isinstance(model["source"], dict) and "path" in model["source"]):
        return
    for name in placed.engine.spec.code_flags:
        if name in placed.flags and placed.flags[name].value not in (None, False):
            yield error(
                "service-trust-code",
                f"{placed.place}.model.revision",
                found=f"null, and {name} runs the code of whatever {model['repository']} is on the day of the staging",
                expected="the commit whose code you have read",
                remedy="write model: {revision: COMMIT} in the service (the hub shows it below Files), "
                f"{name}: null among its flags where the engine knows the model by itself, or trust: [code]",
            )


def _development(placed: Placed) -> Iterator[Finding]:
    decided = placed.environments[placed.head.name]
    for name, what in placed.engine.spec.development_env.items():
        if name in decided and str(decided[name].value).lower() not in ("", "0", "false", "none"):
            yield _untrusted("development", f"{placed.place}.env.{name}", f"on: {what}", "off")


def _untrusted(what: str, place: str, found: str, expected: str) -> Finding:
    remedy = f"take it out, or write trust: [{what}] in the service if you want it"
    return error(f"service-trust-{what}", place, found=found, expected=expected, remedy=remedy)
