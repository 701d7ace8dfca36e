# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The words of `trtllm-serve`, and what it can't be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._engines.interface import Launch
from ansible_collections.gb10.fleet.plugins.module_utils._engines.options import words_of
from ansible_collections.gb10.fleet.plugins.module_utils._engines.placed import Placed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.trtllm.spec import EXTRA
from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding, error, hint, warning
from ansible_collections.gb10.fleet.plugins.module_utils._layers import Layer, Value, merge
from ansible_collections.gb10.fleet.plugins.module_utils._models.purpose import CHAT

_PROGRAM, _FILE = "trtllm-serve", "/tmp/gb10-trtllm.yml"
# The program reads a file alone; JSON is YAML, too.
_WITH_FILE = ("-c", f'printf \'%s\' "$0" > {_FILE} && exec "$@"')
_NUMBERS, _REVISIONS_SINCE = re.compile(r"(\d+)\.(\d+)"), (1, 2)
# Where gpt-oss finds the vocabularies that it would fetch (NVIDIA playbook, trt-llm).
_VOCABULARIES = "TIKTOKEN_ENCODINGS_BASE"


def flags(placed: Placed, written: Sequence[Layer]) -> dict[str, Value]:
    """The written options, and what follows from the placement."""
    values: dict[str, Any] = {"host": "0.0.0.0", "port": placed.settings["port"]}
    reasons = {
        "host": "all addresses of the container's own network; the host publishes the port",
        "port": "the service",
    }
    if placed.model["revision"]:
        values["revision"], reasons["revision"] = placed.model["revision"], "the staged one, without asking the hub"
    return merge([*written, Layer("computed", values, reasons)])


def launch(placed: Placed, decided: Mapping[str, Value]) -> Launch:
    """Its options have underscores. By the model's repository, for a folder's name would be the model's for clients."""
    values = placed.filled(decided)
    extra = values.pop(EXTRA, None) or {}
    written = {name.replace("-", "_"): value for name, value in values.items()}
    text = json.dumps(extra, sort_keys=True, separators=(",", ":"))
    program = placed.image["entrypoint"] or _PROGRAM
    options = ["--extra_llm_api_options", _FILE, *words_of(written)]
    return Launch([*_WITH_FILE, text, program, placed.model["repository"], *options], "/bin/sh")


def problems(placed: Placed) -> Iterator[Finding]:
    """What can't be, and what others saw go wrong on a GB10."""
    if placed.recipe["kind"] != CHAT:
        yield error(
            "trtllm-kind",
            f"{placed.place}.kind",
            found=placed.recipe["kind"],
            expected=f"{CHAT}: trtllm-serve's answers to other requests are not known here",
            remedy="write another engine in the recipe",
        )
    if placed.is_group:
        yield error(
            "trtllm-group",
            f"{placed.place}.hosts",
            found=f"{len(placed.hosts)} hosts",
            expected="one: over several it begins by mpirun, which needs a login from container to container",
            remedy="name one host, or take a recipe of another engine",
            source="NVIDIA playbook, trt-llm, run on two Sparks",
        )
    release = _NUMBERS.match(placed.image["release"] or "")
    if placed.model["revision"] and release and (int(release[1]), int(release[2])) < _REVISIONS_SINCE:
        yield error(
            "trtllm-revision",
            f"{placed.place}.image.release",
            found=f"TensorRT-LLM {placed.image['release']}, whose trtllm-serve has no --revision",
            expected="1.2.0 or later: weights are pinned by their commit",
            remedy="take a later image",
            source="TensorRT-LLM, pull request 9498 (November 2025)",
        )
    named = placed.settings.get("served_name")
    if named and named != placed.model["repository"]:
        yield error(
            "trtllm-served-name",
            f"{placed.place}.served_name",
            found=named,
            expected=f"{placed.model['repository']}: most releases know a model by its repository alone",
            remedy="take it out; fleet_gateway gives a model the names that clients use",
            source="tensorrt_llm/serve/openai_server.py",
        )
    yield from _reported(placed)


def _reported(placed: Placed) -> Iterator[Finding]:
    repository, reference = placed.model["repository"].lower(), placed.image["reference"]
    if "nemotron-3-super" in repository and reference.endswith("release:1.2.0rc6"):
        yield warning(
            "trtllm-nemotron-super",
            f"{placed.place}.image",
            found=f"{placed.model['repository']} with 1.2.0rc6",
            expected="a later image",
            remedy="take 1.3.0rc13 or newer, and watch its first load",
            reason="one host hung for an hour while it read these weights with that image",
            source="NVIDIA/dgx-spark-playbooks, issue 78",
            kind="combination",
        )
    if "gpt-oss" in repository and _VOCABULARIES not in {**placed.recipe["env"], **placed.settings["env"]}:
        yield hint(
            "trtllm-vocabularies",
            f"{placed.place}.env",
            found=f"no {_VOCABULARIES}, so that a start fetches two vocabularies from the internet",
            expected="a folder with o200k_base.tiktoken and cl100k_base.tiktoken",
            remedy="mount one (recipe.mounts) and name it",
            source="NVIDIA playbook, trt-llm",
            kind="combination",
        )
