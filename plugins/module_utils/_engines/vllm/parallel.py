# SPDX-License-Identifier: GPL-3.0-or-later
"""How a service is split over its hosts: tensor and pipeline parallel, who starts the ranks, where they meet.

A GB10 has one GPU, so ranks are hosts. What the model's shape allows is `division`'s; what somebody has measured
otherwise is a rule (`rules.group`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._base import worded
from ..._base.findings import Finding
from ..._base.layers import Layer, Value
from ..._base.place import Place
from ..ports import LAST_PORT, MOST_ABOVE
from ..ray import RAY
from .catalogue.version import parse
from .division import Shape

TENSOR, PIPELINE, DATA = "tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"
EXECUTOR = "distributed-executor-backend"
NODES = "mp"  # mp with --nnodes: vLLM's own way over several hosts

_FIRST_WITH_NODES = (0, 11, 1)


def split(
    written: Mapping[str, Value], hosts: int, version: str | None, shape: Shape | None = None, *, shown: bool = False
) -> Layer:
    """What follows for a group from the options that are written; nothing for a single host. shown: somebody has run
    the recipe on so many hosts.

    The sizes that are written stay; the rest is tensor parallel, or the pipeline where the tensor parallel size is
    written. With neither of them the model's shape decides; without a known shape all ranks are tensor parallel.
    Without a word on it, vLLM starts the ranks by itself where it can.
    """
    if hosts < 2:
        return Layer("computed", {})
    values: dict[str, Any] = {}
    rest, left = divmod(hosts, math.prod(_count(written, name) for name in (TENSOR, PIPELINE, DATA)))
    found = shape.split(hosts, shown=shown) if shape and not {TENSOR, PIPELINE, DATA} & written.keys() else None
    if found:
        values |= dict(zip((TENSOR, PIPELINE), found, strict=True))
    elif TENSOR not in written:
        values[TENSOR] = hosts if left else rest
    elif PIPELINE not in written and not left:
        values[PIPELINE] = rest
    if EXECUTOR not in written:
        values[EXECUTOR] = NODES if _knows_nodes(version) else RAY
    reasons = {
        TENSOR: "one rank a host",
        PIPELINE: "one rank a host, and the tensor parallel size is written",
        EXECUTOR: "vLLM starts its ranks on several hosts by itself"
        if _knows_nodes(version)
        else "vLLM starts ranks on several hosts by itself from 0.11.1 on",
    }
    if shape and found and found[1] > 1:
        why = "; ".join(shape.against(hosts, preferred=True))
        reasons |= dict.fromkeys((TENSOR, PIPELINE), f"one rank a host; what does not divide: {why}")
    return Layer("computed", {name: value for name, value in values.items() if value != 1}, reasons)


def _count(flags: Mapping[str, Value], name: str) -> int:
    return int(flags[name].value) if name in flags else 1


def _knows_nodes(version: str | None) -> bool:
    """Whether this vLLM has --nnodes; the newest rules hold where the version isn't known."""
    known = parse(version or "")
    return known is None or known.release >= _FIRST_WITH_NODES


def problems(
    place: Place, port: int, hosts: int, flags: Mapping[str, Value], version: str | None, shape: Shape | None
) -> Iterator[Finding]:
    """What makes a group impossible. place: the service's. flags: the decided ones. version: the image's vLLM."""
    yield from _sizes(place, hosts, flags, shape)
    executor = flags[EXECUTOR].value
    if executor not in (RAY, NODES):
        yield worded.error(
            "group-executor/problems", place.below("flags", EXECUTOR), executor=executor, ray=RAY, nodes=NODES
        )
    elif executor == NODES and not _knows_nodes(version):
        yield worded.error(
            "group-executor/problems-with", place.below("flags", EXECUTOR), nodes=NODES, version=version, ray=RAY
        )
    if port > LAST_PORT:
        yield worded.error(
            "group-port", place.below("port"), found=str(port), last_port=LAST_PORT, most_above=MOST_ABOVE
        )


def _instead(flags: Mapping[str, Value], replicas: int, each: int, left: int) -> str:
    """How else the hosts share the work. Replicas hold all experts each, which expert parallelism was to save."""
    if "enable-expert-parallel" in flags and flags["enable-expert-parallel"].value is True:
        return f"take {DATA} out: with enable-expert-parallel, tensor parallelism spreads the experts over the hosts"
    hosts = f", with {replicas * max(1, each)} hosts" if left else ""
    return f"take {DATA} out, and write replicas: {replicas} in the service{hosts}"


def _sizes(place: Place, hosts: int, flags: Mapping[str, Value], shape: Shape | None) -> Iterator[Finding]:
    tensor, pipeline, replicas = (_count(flags, name) for name in (TENSOR, PIPELINE, DATA))
    if replicas != 1:
        each, left = divmod(hosts, replicas)
        how = f"a service of {each} {'host' if each == 1 else 'hosts'} for each"
        expected = f"a number of replicas that divides {hosts} hosts" if left else f"replicas of their own: {how}"
        remedy = _instead(flags, replicas, each, left)
        at = place.below("flags", DATA)
        yield worded.error("group-data-parallel", at, expected=expected, remedy=remedy, replicas=replicas, hosts=hosts)
    elif tensor * pipeline != hosts:
        sizes = f"{TENSOR} {tensor} x {PIPELINE} {pipeline} = {tensor * pipeline}"
        copies, left = divmod(hosts, tensor * pipeline)
        more = "" if left or copies < 2 else f", or write replicas: {copies}, each on {tensor * pipeline} of the hosts"
        found, expected = f"{hosts} hosts for {sizes}", f"{TENSOR} x {PIPELINE} = the number of hosts"
        named = f"name {tensor * pipeline} hosts{more}"
        remedy = f"{named}, or take the sizes out and have them follow from the hosts{_as_split(shape, hosts)}"
        yield worded.error("group-ranks", place.below("hosts"), found=found, expected=expected, remedy=remedy)
    elif shape and (against := shape.against(tensor, pipeline)):
        sizes = f"{hosts} hosts as {TENSOR} {tensor} x {PIPELINE} {pipeline}"
        stages = f", at most {shape.layers} stages" if shape.layers else ""
        yield worded.error(
            "group-shape",
            place.below("hosts"),
            found=f"{sizes}, and of the model don't divide: {'; '.join(against)}",
            expected=f"{TENSOR} {_listed(shape.tensor_sizes())}{stages}",
            split=_as_split(shape, hosts),
            counts=_listed(shape.host_counts()),
        )


def _as_split(shape: Shape | None, hosts: int) -> str:
    """What follows for these hosts without sizes, as a part of a sentence."""
    found = shape.split(hosts) if shape else None
    return f" ({hosts} hosts: {TENSOR} {found[0]} x {PIPELINE} {found[1]})" if found else ""


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
