# SPDX-License-Identifier: GPL-3.0-or-later
"""The options and variables of `vllm serve` that follow from where a service is placed."""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._base import layout, worded
from ..._base.findings import Finding, error, warning
from ..._base.layers import Layer, Value, merge
from ..._base.place import Place
from ..._facts.models.purpose import POOLING
from ..._on_host import api_key
from .. import ray
from ..placed import Host, Overlays, Placed
from .catalogue.version import parse
from .division import Shape, shape_of
from .parallel import EXECUTOR, split
from .text.image_facts import image_of

# vllm/engine/arg_utils.py and envs.py: with --allowed-media-domains
_MEDIA_SINCE = (0, 11)
# vllm/envs.py: CUDA graphs are estimated, and taken from a pool that a utilization sizes.
ESTIMATE, ESTIMATES_SINCE = "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS", "0.20"
_TRACES_SINCE = "0.17"
# The one that asks for the API key on every route.
_KEY_CHECK = "gb10_api_key"


def shape(placed: Placed) -> Shape | None:
    """What of the model decides how it is divided over hosts."""
    return shape_of(placed.config, placed.model["quantization"])


def uses_ray(placed: Placed) -> bool:
    return placed.is_group and bool(placed.flags[EXECUTOR].value == ray.RAY)


def own_middleware(placed: Placed) -> Iterator[Finding]:
    """vLLM would take both, but a list of values stands for one option here."""
    if not placed.key_file:
        return
    for flags, place in (
        (placed.recipe["flags"], Place(recipe=placed.recipe["name"])),
        (placed.settings["flags"], placed.place),
    ):
        if "middleware" in flags:
            yield worded.error("service-middleware", place.below("flags", "middleware"), found=str(flags["middleware"]))


def foreign_image(placed: Placed) -> Iterator[Finding]:
    """An image of another engine has no vllm to run."""
    engine = image_of(placed.image["reference"]).engine
    if engine:
        at = placed.place.below("image", "reference")
        yield worded.error("service-image-engine", at, reference=placed.image["reference"], engine=engine)


def traces(placed: Placed) -> Iterator[Finding]:
    """vLLM's own packages bring OpenTelemetry since 0.17 (their Requires-Dist); without it vLLM does not start."""
    build = parse(placed.image["release"] or "")
    if not placed.tracing or (build is not None and build.since(_TRACES_SINCE)):
        return
    shown = placed.image["release"] or "vLLM of a release that is not known"
    known = build is not None and placed.image["family"] == "upstream"
    yield (error if known else warning)(
        "service-tracing-image",
        placed.place.below("tracing"),
        found=f"{shown} in {placed.image['reference']}, {'without' if known else 'maybe without'} OpenTelemetry",
        expected=f"vLLM {_TRACES_SINCE} or later, or opentelemetry-sdk and opentelemetry-exporter-otlp in the image",
        remedy="take a newer image, or take tracing out",
    )


def key_check(placed: Placed) -> Overlays:
    """With a key, every route asks for it: a module of ours that vLLM loads."""
    if not placed.key_file:
        return Overlays()
    source = f"{placed.overlay_folder}/{_KEY_CHECK}.py"
    return Overlays(
        [{"path": source, "content": inspect.getsource(api_key)}],
        [{"source": source, "target": f"{layout.IN_LIBRARY}/{_KEY_CHECK}.py", "read_only": True}],
    )


def flags(placed: Placed, written: Sequence[Layer]) -> dict[str, Value]:
    """The written options, how they are split over the hosts, and what follows from the placement."""
    count = len(placed.hosts)
    shown = count in placed.recipe["host_counts"]
    ranks = split(merge(written), count, placed.image["release"], shape(placed), shown=shown)
    decided = merge([_of_kind(placed), _media(placed.image["release"]), *written, ranks, _from_placement(placed)])
    return {**decided, **_aliases(placed, decided)}


def _aliases(placed: Placed, decided: Mapping[str, Value]) -> dict[str, Value]:
    """Further names beside those that the model has: who writes ``served-model-name`` replaces the repository's."""
    aliases, name = placed.settings.get("aliases", ()), "served-model-name"
    if not aliases:
        return {}
    names = decided[name].value if name in decided else placed.model["repository"]
    every = [*(names if isinstance(names, list) else [names]), *aliases]
    return {name: Value([*dict.fromkeys(every)], "computed", "the model's name, and fleet_gateway.aliases")}


def _of_kind(placed: Placed) -> Layer:
    """What a model is run as. vLLM guesses it from the architecture's name, which for a model that generates in one
    recipe and embeds in another is the same (vllm/config/model.py, _get_default_runner_type)."""
    kind = placed.recipe["kind"]
    if kind not in POOLING:
        return Layer("computed", {})
    return Layer("computed", {"runner": "pooling"}, {"runner": f"the recipe's kind: {kind}"})


def _media(release: str | None) -> Layer:
    """Nothing is fetched for clients from an address that they name, unless a recipe or service names domains.

    An empty list allows all of them, so that it is a domain that can't exist (RFC 2606). An image of unknown release
    might not know the option, and would not start.
    """
    build = parse(release or "")
    if build is None or build.release < _MEDIA_SINCE:
        return Layer("default", {})
    name, reason = "allowed-media-domains", "clients send images with their requests; fetching them is declared"
    return Layer("default", {name: ["none.invalid"]}, {name: reason})


def _from_placement(placed: Placed) -> Layer:
    settings, model = placed.settings, placed.model
    values, reasons = placed.endpoint("config", ("ssl-certfile", "ssl-keyfile"))
    if settings.get("served_name"):
        values["served-model-name"], reasons["served-model-name"] = settings["served_name"], "the service"
    if model["revision"]:
        values["revision"], reasons["revision"] = model["revision"], "the staged revision, without asking the hub"
    if placed.key_file:
        values["middleware"] = f"{_KEY_CHECK}.{api_key.KeyOnEveryRoute.__name__}"
        reasons["middleware"] = "the key is asked for on every route but /health; vLLM's own check knows only /v1"
    if placed.tracing:
        name = "otlp-traces-endpoint"
        values[name], reasons[name] = placed.tracing["endpoint"], "the service's tracing"
    return Layer("computed", values, reasons)


def group_layers(placed: Placed, host: Host) -> list[Layer]:
    """The variables of a host's place in the group: those of its fabric (`_engines.environment`), and those of Ray."""
    if not placed.is_group:
        return []
    layers = [placed.in_group(host, "VLLM_HOST_IP")]
    if uses_ray(placed):
        layers += ray.layers()
    return layers


def variables(placed: Placed, written: Mapping[str, Value]) -> Layer:
    """Where vLLM finds the module that checks the key, that it sizes a pool without guessing at graphs, and how it
    sends traces."""
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    build = parse(placed.image["release"] or "")
    if build is not None and build.since(ESTIMATES_SINCE) and ESTIMATE not in written:
        values[ESTIMATE] = "0"
        reasons[ESTIMATE] = "an estimate from free memory: on GB10s -35.7 to 5.1 GiB for graphs of 0 to 1.7"
    if placed.key_file:
        own = written.get("PYTHONPATH")
        values["PYTHONPATH"] = layout.IN_LIBRARY + (f":{own.value}" if own else "")
        reasons["PYTHONPATH"] = f"where vLLM finds {_KEY_CHECK}"
    if placed.tracing:
        values["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = placed.tracing["protocol"]
        reasons["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = "the service's tracing"
        if "OTEL_SERVICE_NAME" not in written:
            values["OTEL_SERVICE_NAME"] = placed.name
            reasons["OTEL_SERVICE_NAME"] = "that the collector shows for its traces"
    return Layer("computed", values, reasons)


def served_name(placed: Placed, flags: Mapping[str, Value]) -> str:
    """The name that clients ask for: vLLM's first served name, or else the repository."""
    if "served-model-name" not in flags:
        return str(placed.model["repository"])
    names = flags["served-model-name"].value
    return str(names[0] if isinstance(names, list) else names)
