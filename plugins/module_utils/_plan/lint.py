# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""A rank's decided command, given to the linter: what is judged is what will run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._lint.judge import lint_map
from ansible_collections.gb10.fleet.plugins.module_utils._vllm.version import parse


def lint_rank(
    command: Sequence[str],
    recipe: Mapping[str, Any],
    *,
    hosts: int,
    config: Mapping[str, Any] | None,
    kv_pool_tokens: int | None,
    silence: Mapping[str, str],
    place: str,
) -> list[dict[str, Any]]:
    """The linter's findings on a ``docker run``, as maps.

    recipe: its name, and image and model with the service's own words over them. hosts: of the whole service. config:
    the model's config.json, None where it isn't known. kv_pool_tokens: as vLLM prints them; up to 0.20.0 that is no
    capacity, so that the rules on it would be wrong.
    """
    image, model = recipe["image"], recipe["model"]
    version = parse(image["vllm"] or "")
    if version is None or version.release < (0, 20, 1):
        kv_pool_tokens = None
    facts = {
        "repository": model["repository"],
        "gated": model["gated"],
        "weights_bytes": model["weights_bytes"],
        "quant_method": model["quantization"],
        "config": config,
    }
    service = {"recipe": recipe["name"], "kv_pool_tokens": kv_pool_tokens, "restarts": True}
    return lint_map(
        {
            "command": [*command],
            "image": {key: image[key] for key in ("reference", "digest", "family", "vllm")},
            "model": _known(facts),
            "group": {"hosts": hosts},
            "service": _known(service),
            "silence": dict(silence),
            "place": place,
        }
    )


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
