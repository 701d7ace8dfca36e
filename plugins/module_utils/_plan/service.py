# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""One service, decided: a recipe placed on hosts becomes a container's command line, each value with its origin."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils import _layout
from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding, error
from ansible_collections.gb10.fleet.plugins.module_utils._layers import Layer, Value, fill, merge
from ansible_collections.gb10.fleet.plugins.module_utils._lint.door import PURPOSE
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared import Host
from ansible_collections.gb10.fleet.plugins.module_utils._plan.launch import Container, Mount
from ansible_collections.gb10.fleet.plugins.module_utils._plan.parallel import split
from ansible_collections.gb10.fleet.plugins.module_utils._recipes.overlays import Overlays, plan_overlays
from ansible_collections.gb10.fleet.plugins.module_utils._recipes.recipe import (
    Library,
    environment_problems,
    flag_problems,
)
from ansible_collections.gb10.fleet.plugins.module_utils._recipes.spec import IMAGE, MODEL
from ansible_collections.gb10.fleet.plugins.module_utils._schema import check
from ansible_collections.gb10.fleet.plugins.module_utils._vllm import door
from ansible_collections.gb10.fleet.plugins.module_utils._vllm.flags import flags_to_argv


@dataclass(frozen=True)
class Placed:
    """A service with its recipe and the hosts it stands on, head first.

    image, model: the recipe's with what the service says otherwise. overlays: the recipe's, decided.
    """

    name: str
    settings: Mapping[str, Any]
    recipe: Mapping[str, Any]
    hosts: Sequence[Host]
    image: Mapping[str, Any]
    model: Mapping[str, Any]
    overlays: Overlays = field(default_factory=Overlays)

    @property
    def place(self) -> str:
        return f"fleet_services.{self.name}"

    @property
    def head(self) -> Host:
        return self.hosts[0]

    @property
    def is_group(self) -> bool:
        return len(self.hosts) > 1

    @property
    def local_url(self) -> str:
        """The endpoint as its head itself reaches it, without /v1."""
        listen = self.settings["listen"]
        return f"http://{'127.0.0.1' if listen == '0.0.0.0' else listen}:{self.settings['port']}"


def place(
    name: str, settings: Mapping[str, Any], recipe: Mapping[str, Any], hosts: Sequence[Host], library: Library
) -> tuple[Placed, list[Finding]]:
    """Put a checked service's own words over its recipe's, and say what is wrong with the result."""
    where = f"fleet_services.{name}"
    image, findings = check(IMAGE, {**recipe["image"], **settings["image"]}, f"{where}.image")
    model, problems = check(MODEL, {**recipe["model"], **settings["model"]}, f"{where}.model")
    findings += problems
    if not {"repository", "weights_bytes"} & settings["model"].keys():
        model = {**model, "weights_bytes": library.weights_bytes(recipe["name"]) or model.get("weights_bytes")}
    findings += flag_problems(settings["flags"], f"{where}.flags")
    findings += environment_problems(settings["env"], f"{where}.env")
    for host in hosts:
        own, place = host.settings.get("services", {}).get(name, {}), f"{host.name}: fleet_host.services.{name}"
        findings += [*flag_problems(own.get("flags", {}), f"{place}.flags")]
        findings += [*environment_problems(own.get("env", {}), f"{place}.env")]
    placed = Placed(name, settings, recipe, hosts, image, model)
    overlays, problems = _overlays(placed, library)
    if settings.get("api_key_file"):
        _lay_door(overlays, placed)
        problems += _own_middleware(placed)
    return replace(placed, overlays=overlays), [*findings, *problems, *_host_count(placed)]


def _lay_door(overlays: Overlays, placed: Placed) -> None:
    """With a key, every route asks for it: a module of ours that vLLM loads."""
    source = f"{_layout.OVERLAYS}/{placed.name}/{_layout.DOOR}.py"
    overlays.files.append({"path": source, "content": inspect.getsource(door)})
    overlays.mounts.append({"source": source, "target": f"{_layout.IN_PYTHON}/{_layout.DOOR}.py", "read_only": True})


def _own_middleware(placed: Placed) -> Iterator[Finding]:
    """vLLM would take both, but a list of values stands for one option here."""
    for flags, place in (
        (placed.recipe["flags"], f"recipe {placed.recipe['name']}"),
        (placed.settings["flags"], placed.place),
    ):
        if "middleware" in flags:
            yield error(
                "service-middleware",
                f"{place}.flags.middleware",
                found=str(flags["middleware"]),
                expected="no middleware beside the API key's, which guards every route",
                remedy="leave it out, or guard the endpoint by a proxy of your own instead of `api_key_file`",
            )


def _overlays(placed: Placed, library: Library) -> tuple[Overlays, list[Finding]]:
    folder = f"{_layout.OVERLAYS}/{placed.name}"
    where = f"recipe {placed.recipe['name']}"
    in_container = _model_folder(placed, _layout.IN_MODELS)
    return plan_overlays(
        placed.recipe["overlays"], library, where, folder, _model_folder(placed, _layout.MODELS), in_container
    )


def _model_folder(placed: Placed, home: str) -> str:
    return _layout.model_folder(placed.model["repository"], placed.model["revision"], home)


def _host_count(placed: Placed) -> Iterator[Finding]:
    allowed = placed.recipe["host_counts"]
    if len(placed.hosts) not in allowed:
        yield error(
            "service-host-count",
            f"{placed.place}.hosts",
            found=f"{len(placed.hosts)} hosts",
            expected=" or ".join(map(str, allowed)) + ", as the recipe says",
            remedy="name that many hosts, or write another recipe",
        )


def decide_flags(placed: Placed, defaults: Layer, memory: Layer | None = None) -> dict[str, Value]:
    """Options of `vllm serve` by name: GB10 < recipe < service < the head's host < what follows from the placement.

    memory: what the memory plan adds, none of it written by owner or recipe.
    """
    recipe, settings = placed.recipe, placed.settings
    sizes = {key: value for key, value in settings["workload"].items() if key not in PURPOSE}
    workload = {key.replace("_", "-"): value for key, value in sizes.items()}
    written = [
        defaults,
        Layer("recipe", recipe["flags"], recipe["reasons"]),
        Layer("service", {**workload, **settings["flags"]}),
        Layer("host", _host_settings(placed, placed.head, "flags")),
    ]
    ranks = split(merge(written), len(placed.hosts), placed.image["vllm"])
    return merge([*written, ranks, _from_placement(placed), *([memory] if memory else [])])


def _host_settings(placed: Placed, host: Host, kind: str) -> Mapping[str, Any]:
    settings: Mapping[str, Any] = host.settings.get("services", {}).get(placed.name, {}).get(kind, {})
    return settings


def _from_placement(placed: Placed) -> Layer:
    settings, model = placed.settings, placed.model
    values: dict[str, Any] = {"host": "0.0.0.0", "port": settings["port"]}
    reasons = {
        "host": "all addresses of the container's own network; the host publishes the port",
        "port": "the service",
    }
    if placed.is_group:
        values["host"], reasons["host"] = settings["listen"], "the service; its container is on the host's network"
    if settings.get("served_name"):
        values["served-model-name"], reasons["served-model-name"] = settings["served_name"], "the service"
    if model["revision"]:
        values["revision"], reasons["revision"] = model["revision"], "the staged revision, without asking the hub"
    if settings.get("api_key_file"):
        values["config"], reasons["config"] = _layout.IN_KEY, "holds the API key, which no process list may show"
        values["middleware"] = f"{_layout.DOOR}.{door.KeyOnEveryRoute.__name__}"
        reasons["middleware"] = "the key is asked for on every route but /health; vLLM's own check knows /v1 alone"
    return Layer("computed", values, reasons)


def decide_environment(placed: Placed, host: Host, *defaults: Layer) -> dict[str, Value]:
    """Variables of the container on one host. defaults: what holds for GB10, and for the host's place in a group."""
    recipe = placed.recipe
    written = [
        *defaults,
        Layer("recipe", recipe["env"], recipe["reasons"]),
        Layer("service", placed.settings["env"]),
        Layer("host", _host_settings(placed, host, "env")),
    ]
    values = {"HF_HOME": _layout.IN_MODELS}
    reasons = {"HF_HOME": "where the host's models are mounted"}
    if placed.settings.get("api_key_file"):
        own = merge(written).get("PYTHONPATH")
        values["PYTHONPATH"] = _layout.IN_PYTHON + (f":{own.value}" if own else "")
        reasons["PYTHONPATH"] = f"where vLLM finds {_layout.DOOR}"
    return merge([*written, Layer("computed", values, reasons)])


def served_name(placed: Placed, flags: Mapping[str, Value]) -> str:
    """The name that clients ask for: vLLM's first served name, or else the repository."""
    if "served-model-name" not in flags:
        return str(placed.model["repository"])
    names = flags["served-model-name"].value
    return str(names[0] if isinstance(names, list) else names)


def serve_words(placed: Placed, flags: Mapping[str, Value]) -> list[str]:
    """What follows `vllm serve`."""
    values = fill({name: decided.value for name, decided in flags.items()}, _places(placed))
    return [placed.model["repository"], *flags_to_argv(values)]


def vllm_argv(placed: Placed, flags: Mapping[str, Value]) -> list[str]:
    """What follows the image, in the launch form of its family: upstream images already run `vllm serve`."""
    serve = [] if placed.image["family"] == "upstream" else ["vllm", "serve"]
    return [*serve, *serve_words(placed, flags)]


def _places(placed: Placed) -> dict[str, str]:
    return {"model_path": _model_folder(placed, _layout.IN_MODELS)}


def solo_container(placed: Placed, argv: Sequence[str], environment: Mapping[str, Value]) -> Container:
    """The container of a service on one host: a network of its own, one published port, models read-only."""
    settings = placed.settings
    return Container(
        name=_layout.container(placed.name),
        image=placed.image["reference"],
        arguments=argv,
        environment=variables(placed, environment),
        mounts=[*mounts(placed), *key_mount(placed)],
        published=[(settings["listen"], settings["port"])],
        entrypoint=placed.image["entrypoint"],
    )


def variables(placed: Placed, environment: Mapping[str, Value]) -> dict[str, str]:
    """The decided variables as the container gets them."""
    filled: dict[str, str] = fill({name: decided.value for name, decided in environment.items()}, _places(placed))
    return filled


def key_mount(placed: Placed) -> Iterator[Mount]:
    """The API key, for the container that answers clients."""
    if placed.settings.get("api_key_file"):
        yield Mount(key_file(placed), _layout.IN_KEY)


def mounts(placed: Placed) -> Iterator[Mount]:
    """What each container of a service sees of its host."""
    yield Mount(_layout.MODELS, _layout.IN_MODELS)
    for name, target in sorted(_layout.IN_COMPILED.items()):
        yield Mount(f"{compiled_folder(placed)}/{name}", target, read_only=False)
    for mount in [*placed.overlays.mounts, *placed.recipe["mounts"]]:
        yield Mount(mount["source"], mount["target"], mount["read_only"])


def compiled_folder(placed: Placed) -> str:
    """Compiled kernels fit one image only: the folder's name is the image's digest, or its reference where unpinned."""
    image = placed.image
    key = (image["digest"] or image["reference"]).removeprefix("sha256:").replace("/", "-").replace(":", "-")
    return f"{_layout.COMPILED}/{key[:64]}"


def written_folders(placed: Placed) -> list[str]:
    """Folders on the host that the container writes to."""
    return [f"{compiled_folder(placed)}/{name}" for name in sorted(_layout.IN_COMPILED)]


def key_file(placed: Placed) -> str:
    """The API key on the host, in the form that vLLM's --config reads."""
    return f"{_layout.SECRETS}/{placed.name}.yaml"


def explain(decided: Mapping[str, Value], kind: str) -> list[dict[str, Any]]:
    """Rows for the plan: each value with its origin and reason."""
    return [
        {"key": f"{kind} {key}", "value": value.value, "origin": value.origin, "reason": value.reason}
        for key, value in decided.items()
    ]


def explain_environments(environments: Mapping[str, Mapping[str, Value]]) -> list[dict[str, Any]]:
    """The same for the variables of all hosts: one row where all have the same value, else one a host."""
    (head, of_head), *others = environments.items()
    rows = []
    for name in sorted({*of_head, *(name for _host, variables in others for name in variables)}):
        found = {host: variables[name] for host, variables in environments.items() if name in variables}
        if len(found) == len(environments) and len({value.value for value in found.values()}) == 1:
            rows += explain({name: found[head]}, "env")
        else:
            rows += [row for host, value in found.items() for row in explain({f"{name} ({host})": value}, "env")]
    return rows
