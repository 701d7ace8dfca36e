# SPDX-License-Identifier: GPL-3.0-or-later
"""A recipe of ours in sparkrun's form (version 2), for others: what we decide by hosts is left to their tool."""

import shlex
from collections.abc import Mapping
from typing import Any

from ..vllm.text.flags import flags_to_argv
from .foreign_llama import RUNTIME

# Their name of an engine, and how it is started.
_SERVE = {
    "llama.cpp": (RUNTIME, "llama-server -hf"),
    "sglang": ("sglang", "sglang serve --model-path"),
    "vllm": ("vllm", "vllm serve"),
}


def to_sparkrun(recipe: Mapping[str, Any]) -> dict[str, Any] | None:
    """As `recipe_import` reads it again; None for an engine that has no command of one line.

    recipe: its data. A digest goes with the image, commits with model and drafter."""
    engine, model, image = recipe["engine"], recipe["model"], recipe["image"]
    if engine not in _SERVE or not image.get("reference"):
        return None
    hosts, (runtime, serve) = recipe["host_counts"], _SERVE[engine]
    memory = recipe["memory"]
    share, pool = memory.get("utilization") or {}, memory.get("kv_bytes_max") or {}
    words = [*flags_to_argv(recipe["flags"]), *([f"--kv-cache-memory-bytes={pool['value']}"] if pool else [])]
    command = " ".join([serve, "{model}", "--host {host}", "--port {port}"])
    literal = shlex.join(words).replace("{", "{{").replace("}", "}}")
    entries = [
        {"name": one["repository"], "revision": one["revision"]}
        for one in (model, model.get("draft") or {})
        if one.get("revision")
    ]
    defaults: dict[str, Any] = {"port": 8000, "host": "0.0.0.0"}
    if engine == "vllm":
        command += " -tp {tensor_parallel}"
        defaults["tensor_parallel"] = max(hosts)
        if "max" in share:
            command, defaults["gpu_memory_utilization"] = (
                f"{command} --gpu-memory-utilization {{gpu_memory_utilization}}",
                share["max"],
            )
    return {
        "recipe_version": "2",
        "name": recipe["name"],
        "description": recipe["summary"],
        "model": model["repository"],
        **({"model_revision": model["revision"]} if model.get("revision") else {}),
        "runtime": runtime,
        "container": image["reference"] + (f"@{image['digest']}" if image.get("digest") else ""),
        "min_nodes": min(hosts),
        "max_nodes": max(hosts),
        **({"distribution_config": {"models": {"entries": entries}}} if entries else {}),
        "defaults": defaults,
        "env": dict(recipe["env"]),
        "command": f"{command} {literal}".rstrip(),
    }
