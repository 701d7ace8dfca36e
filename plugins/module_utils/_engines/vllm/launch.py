# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs in the container of a rank: `vllm serve`, or a Ray node in which the head's is started."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..._base.layers import Layer, Value, merge
from .. import ray
from ..interface import Launch
from ..placed import Placed
from ..ports import ranks_port
from . import host_memory
from .placement import uses_ray
from .spec import SPEC
from .text.flags import flags_to_argv

# What only the rank that answers clients gets.
_OF_THE_ENDPOINT = ("config", "host", "middleware", "otlp-traces-endpoint", "port", "ssl-certfile", "ssl-keyfile")
# A variable that `docker inspect` would show is read from its file in the container.
_WITH_HEADERS = ("/bin/sh", "-c", f'OTEL_EXPORTER_OTLP_TRACES_HEADERS="$(cat {SPEC.trace_headers})" exec "$0" "$@"')


def launch(placed: Placed, flags: Mapping[str, Value], rank: int) -> Launch:
    """How a rank's container begins."""
    return replace(_launch(placed, flags, rank), shared_memory=host_memory.shared(flags))


def _launch(placed: Placed, flags: Mapping[str, Value], rank: int) -> Launch:
    image = placed.image
    if not uses_ray(placed):
        return _with_headers(placed, judged_launch(placed, flags, rank), rank)
    filled = placed.filled(flags) if rank == 0 else {}
    serve = ["vllm", "serve", *_serve_words(placed, filled)] if rank == 0 else None
    if serve and placed.trace_headers:
        serve = [*_WITH_HEADERS, *serve]
    words = ray.node_words(placed, rank)
    # upstream's entrypoint is `vllm serve`, other images run what they are given
    if image["family"] == "upstream":
        return Launch(words[1:], words[0], serve, filled, token=ray.RAY)
    return Launch(words, image["entrypoint"], serve, filled, token=ray.RAY)


def _with_headers(placed: Placed, launch: Launch, rank: int) -> Launch:
    """Upstream's entrypoint is vLLM itself; any other one runs the words that it is given."""
    if rank or not placed.trace_headers:
        return launch
    if placed.image["family"] == "upstream":
        shell, *words = _WITH_HEADERS
        own = [launch.entrypoint] if launch.entrypoint else ["vllm", "serve"]
        return replace(launch, entrypoint=shell, arguments=[*words, *own, *launch.arguments])
    return replace(launch, arguments=[*_WITH_HEADERS, *launch.arguments])


def judged_launch(placed: Placed, flags: Mapping[str, Value], rank: int = 0) -> Launch:
    """As if, with Ray, the container itself ran what is started in it.

    The launch form is that of the image's family: upstream images already run `vllm serve`.
    """
    serve = [] if placed.image["family"] == "upstream" else ["vllm", "serve"]
    filled = placed.filled(_rank_flags(placed, flags, rank))
    words = [*serve, *_serve_words(placed, filled)]
    return Launch(words, placed.image["entrypoint"], flags=filled, token=ray.RAY if uses_ray(placed) else None)


def _serve_words(placed: Placed, filled: Mapping[str, object]) -> list[str]:
    """What follows `vllm serve`. filled: flags as the container gets them."""
    return [placed.model["repository"], *flags_to_argv(filled)]


def _rank_flags(placed: Placed, flags: Mapping[str, Value], rank: int) -> Mapping[str, Value]:
    """The options of one rank: vLLM's own way over hosts gives each its place, and only the head listens."""
    if not placed.is_group or uses_ray(placed):
        return flags
    place: dict[str, Any] = {
        "nnodes": len(placed.hosts),
        "node-rank": rank,
        "master-addr": placed.addresses[0],
        "master-port": ranks_port(placed.port),
    }
    if rank:
        place |= {**dict.fromkeys(_OF_THE_ENDPOINT), "headless": True}
    values = {name: decided.value for name, decided in flags.items()}
    return merge([Layer("computed", values), Layer("computed", place)])


def listens(placed: Placed) -> Iterable[tuple[int, str]]:
    return ray.listens(placed) if uses_ray(placed) else ()
