# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""How a service is split over its hosts: tensor and pipeline parallel, who starts the ranks, where they meet.

A GB10 has one GPU, so ranks are hosts. What the model itself requires of the split is asked of `kv` (heads, layers)
and of the rules (`rules.group`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._engines.ports import LAST_PORT, MOST_ABOVE
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.version import parse
from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding, error
from ansible_collections.gb10.fleet.plugins.module_utils._layers import Layer, Value

TENSOR, PIPELINE, DATA = "tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"
EXECUTOR = "distributed-executor-backend"
RAY, NODES = "ray", "mp"  # mp with --nnodes: vLLM's own way over several hosts

_FIRST_WITH_NODES = (0, 11, 1)


def split(written: Mapping[str, Value], hosts: int, version: str | None) -> Layer:
    """What follows for a group from the options that are written; nothing for a single host.

    The sizes that are written stay; the rest is tensor parallel, or the pipeline where the tensor parallel size is
    written. Without a word on it, vLLM starts the ranks by itself where it can.
    """
    if hosts < 2:
        return Layer("computed", {})
    values: dict[str, Any] = {}
    rest, left = divmod(hosts, math.prod(_count(written, name) for name in (TENSOR, PIPELINE, DATA)))
    if TENSOR not in written:
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
    return Layer("computed", {name: value for name, value in values.items() if value != 1}, reasons)


def _count(flags: Mapping[str, Value], name: str) -> int:
    return int(flags[name].value) if name in flags else 1


def _knows_nodes(version: str | None) -> bool:
    """Whether this vLLM has --nnodes; the newest rules hold where the version isn't known."""
    known = parse(version or "")
    return known is None or known.release >= _FIRST_WITH_NODES


def problems(place: str, port: int, hosts: int, flags: Mapping[str, Value], version: str | None) -> Iterator[Finding]:
    """What makes a group impossible. place: the service's. flags: the decided ones. version: the image's vLLM."""
    ranks = _count(flags, TENSOR) * _count(flags, PIPELINE)
    if _count(flags, DATA) != 1:
        yield error(
            "group-data-parallel",
            f"{place}.flags.{DATA}",
            found=f"{_count(flags, DATA)} replicas in one service",
            expected="one service a replica",
            remedy=f"take {DATA} out, and declare a service for each replica's hosts",
            reason="a group is one instance of the model: its ranks start, are proved and start anew together",
        )
    elif ranks != hosts:
        sizes = " x ".join(f"{name} {_count(flags, name)}" for name in (TENSOR, PIPELINE))
        yield error(
            "group-ranks",
            f"{place}.hosts",
            found=f"{hosts} hosts for {sizes}",
            expected=f"{TENSOR} x {PIPELINE} = the number of hosts",
            remedy=f"name {ranks} hosts, or take the sizes out and have them follow from the hosts",
            reason="a GB10 has one GPU, so one rank a host",
        )
    executor = flags[EXECUTOR].value
    if executor not in (RAY, NODES):
        yield error(
            "group-executor",
            f"{place}.flags.{EXECUTOR}",
            found=f'"{executor}"',
            expected=f'"{RAY}" or "{NODES}"',
            remedy=f'write "{NODES}" to have vLLM start the ranks by itself, or "{RAY}"',
            reason="no other executor reaches a second host",
        )
    elif executor == NODES and not _knows_nodes(version):
        yield error(
            "group-executor",
            f"{place}.flags.{EXECUTOR}",
            found=f'"{NODES}" with vLLM {version}',
            expected="vLLM 0.11.1 or newer",
            remedy=f'write "{RAY}", or take a newer image',
            reason="--nnodes came with 0.11.1",
        )
    if port > LAST_PORT:
        yield error(
            "group-port",
            f"{place}.port",
            found=str(port),
            expected=f"at most {LAST_PORT} for a service on several hosts",
            remedy="write a lower port",
            reason=f"its ranks take ports up to {MOST_ABOVE} above it, and Linux gives out those from 32768 on",
        )
