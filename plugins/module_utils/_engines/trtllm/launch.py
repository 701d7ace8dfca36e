# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of `trtllm-serve`, and what it can't be.

Over several hosts NVIDIA's playbook begins it by mpirun, which needs a login from container to container. Its other way
needs none: ranks are actors of Ray (orchestrator_type: ray, a prototype since 1.2.0rc1, pull request 7520), whose nodes
ask each other for the group's token.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._base import worded
from ..._base.findings import Finding
from ..._base.layers import Layer, Value, merge
from ..._base.place import Place
from ..._facts.models.purpose import CHAT
from .. import ray
from ..engine import divided
from ..interface import Launch
from ..options import first_of, words_of
from ..placed import Host, Placed
from .catalogue import EXTRA, PIPELINE, TENSOR

_PROGRAM, _FILE = "trtllm-serve", "/tmp/gb10-trtllm.yml"
# The program reads a file alone; JSON is YAML, too.
_WITH_FILE = ("-c", f'printf \'%s\' "$0" > {_FILE} && exec "$@"')
# A commit of its main branch, as the catalogue has one, is later than all of them.
_NUMBERS, _MAIN = re.compile(r"(\d+)\.(\d+)"), "0.0.0+"
_REVISIONS_SINCE = _RAY_SINCE = (1, 2)
_ORCHESTRATOR = "orchestrator_type"


def flags(placed: Placed, written: Sequence[Layer]) -> dict[str, Value]:
    """The written options, and what follows from the placement."""
    values, reasons = placed.endpoint()
    if placed.model["revision"]:
        values["revision"], reasons["revision"] = placed.model["revision"], "the staged one, without asking the hub"
    if placed.is_group:
        asked = {name: value.value for name, value in merge(written).items()}
        values[EXTRA] = {**(asked.get(EXTRA) or {}), _ORCHESTRATOR: ray.RAY}
        reasons[EXTRA] = "as written, and ranks as actors of Ray, which needs no login between containers"
        if first_of(asked, TENSOR) is None and first_of(asked, PIPELINE) is None:
            values[TENSOR[0]], reasons[TENSOR[0]] = len(placed.hosts), "one GPU a host"
    return merge([*written, Layer("computed", values, reasons)])


def launch(placed: Placed, flags: Mapping[str, Value], rank: int) -> Launch:
    """Its options have underscores. By the model's repository, for a folder's name would be the model's for clients.

    Over several hosts each container is a node of Ray, and the head's starts it.
    """
    values = placed.filled(flags)
    extra = values.pop(EXTRA, None) or {}
    written = {name.replace("-", "_"): value for name, value in values.items()}
    text = json.dumps(extra, sort_keys=True, separators=(",", ":"))
    program = placed.image["entrypoint"] or _PROGRAM
    options = ["--extra_llm_api_options", _FILE, *words_of(written)]
    shell = [*_WITH_FILE, text, program, placed.model["repository"], *options]
    if not placed.is_group:
        return Launch(shell, "/bin/sh")
    node, *words = ray.node_words(placed, rank)
    return Launch(words, node, None if rank else ["/bin/sh", *shell], token=ray.RAY)


def group_layers(placed: Placed, host: Host) -> list[Layer]:
    """The variables of a host's place in the group: those of its fabric, and of its node."""
    return [placed.in_group(host, None), *ray.layers()] if placed.is_group else []


def group_problems(placed: Placed) -> Iterator[Finding]:
    """What makes a group impossible."""
    yield from divided(placed, "trtllm-ranks", TENSOR, PIPELINE)
    if not placed.members:  # no way between the hosts, which is said elsewhere
        return
    of_head = _variables(placed, placed.head)
    for host in placed.hosts[1:]:
        own = _variables(placed, host)
        differing = sorted(name for name in own.keys() | of_head.keys() if own.get(name) != of_head.get(name))
        if differing:
            name = differing[0]
            found = f"{name} is {of_head.get(name)} on {placed.head.name} and {own.get(name)} on {host.name}"
            yield worded.error("trtllm-variables-differ", placed.place.below("hosts"), found=found)


def _variables(placed: Placed, host: Host) -> dict[str, Any]:
    fabric = {variable["name"]: variable["value"] for variable in placed.members[host.name].variables}
    return {**fabric, **host.own(placed.name, "env")}


def problems(placed: Placed) -> Iterator[Finding]:
    """What can't be."""
    if placed.recipe["kind"] != CHAT:
        yield worded.error("trtllm-kind", placed.place.below("kind"), found=placed.recipe["kind"], chat=CHAT)
    yield from _orchestrated(placed)
    if placed.model["revision"] and _is_before(placed.image["release"], _REVISIONS_SINCE):
        yield worded.error("trtllm-revision", placed.place.below("image", "release"), release=placed.image["release"])
    named = placed.settings.get("served_name")
    if named and named != placed.model["repository"]:
        yield worded.error(
            "trtllm-served-name", placed.place.below("served_name"), found=named, repository=placed.model["repository"]
        )


def _is_before(release: str | None, since: tuple[int, int]) -> bool:
    """False also where the release isn't known."""
    found = _NUMBERS.match(release or "")
    return found is not None and not str(release).startswith(_MAIN) and (int(found[1]), int(found[2])) < since


def _orchestrated(placed: Placed) -> Iterator[Finding]:
    """Ranks on several hosts are Ray's, and nobody writes that by hand."""
    if placed.is_group and _is_before(placed.image["release"], _RAY_SINCE):
        yield worded.error(
            "trtllm-group", placed.place.below("hosts"), hosts=len(placed.hosts), release=placed.image["release"]
        )
    for flags, place in (
        (placed.recipe["flags"], Place(recipe=placed.recipe["name"])),
        (placed.settings["flags"], placed.place),
    ):
        extra = flags.get(EXTRA)
        if isinstance(extra, Mapping) and _ORCHESTRATOR in extra:
            yield worded.error(
                "trtllm-orchestrator", place.below("flags", EXTRA, _ORCHESTRATOR), found=str(extra[_ORCHESTRATOR])
            )
