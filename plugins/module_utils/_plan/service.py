# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""A service placed on hosts: a recipe, what the owner writes otherwise, and each flag and variable with its origin."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils import _layout
from ansible_collections.gb10.fleet.plugins.module_utils._fabric.environment import Member, Slices, group_environment
from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding, error
from ansible_collections.gb10.fleet.plugins.module_utils._gb10 import default_layer
from ansible_collections.gb10.fleet.plugins.module_utils._layers import Layer, Value, merge
from ansible_collections.gb10.fleet.plugins.module_utils._lint.door import PURPOSE
from ansible_collections.gb10.fleet.plugins.module_utils._plan.declared import Host
from ansible_collections.gb10.fleet.plugins.module_utils._plan.parallel import EXECUTOR, RAY, problems, split
from ansible_collections.gb10.fleet.plugins.module_utils._recipes.overlays import Overlays, plan_overlays
from ansible_collections.gb10.fleet.plugins.module_utils._recipes.recipe import (
    Library,
    environment_problems,
    flag_problems,
)
from ansible_collections.gb10.fleet.plugins.module_utils._recipes.spec import IMAGE, MODEL
from ansible_collections.gb10.fleet.plugins.module_utils._schema import check
from ansible_collections.gb10.fleet.plugins.module_utils._vllm import door


@dataclass(frozen=True)
class Placed:
    """A service with its recipe and its hosts, head first, and all that is decided of it before its memory is.

    image, model: the recipe's with what the service says otherwise. overlays: the recipe's, decided. members: each
    host's part in the group. flags: options of `vllm serve`. environments: each host's variables.
    """

    name: str
    settings: Mapping[str, Any]
    recipe: Mapping[str, Any]
    hosts: Sequence[Host]
    image: Mapping[str, Any]
    model: Mapping[str, Any]
    overlays: Overlays = field(default_factory=Overlays)
    members: Mapping[str, Member] = field(default_factory=dict)
    flags: Mapping[str, Value] = field(default_factory=dict)
    environments: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)

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
    def uses_ray(self) -> bool:
        return self.is_group and bool(self.flags[EXECUTOR].value == RAY)

    @property
    def port(self) -> int:
        return int(self.settings["port"])

    @property
    def addresses(self) -> list[str]:
        """Each rank's address in the group."""
        return [self.members[host.name].address or "" for host in self.hosts]

    @property
    def local_url(self) -> str:
        """The endpoint as its head itself reaches it, without /v1."""
        listen = self.settings["listen"]
        return f"http://{'127.0.0.1' if listen == '0.0.0.0' else listen}:{self.port}"

    @property
    def key_file(self) -> str | None:
        """The API key on the head, in the form that vLLM's --config reads; None for a service that asks for none."""
        return f"{_layout.SECRETS}/{self.name}.yaml" if self.settings.get("api_key_file") else None

    def model_folder(self, home: str) -> str:
        return _layout.model_folder(self.model["repository"], self.model["revision"], home)


def place(
    name: str,
    settings: Mapping[str, Any],
    recipe: Mapping[str, Any],
    hosts: Sequence[Host],
    library: Library,
    fabric: Slices,
) -> tuple[Placed | None, list[Finding]]:
    """Put a checked service's own words over its recipe's and decide its flags and variables; None where that can't be.

    fabric: the plan's fabric slices by host.
    """
    where = f"fleet_services.{name}"
    image, findings = check(IMAGE, {**recipe["image"], **settings["image"]}, f"{where}.image")
    model, wrong = check(MODEL, {**recipe["model"], **settings["model"]}, f"{where}.model")
    findings += wrong
    if not {"repository", "weights_bytes"} & settings["model"].keys():
        model = {**model, "weights_bytes": library.weights_bytes(recipe["name"]) or model.get("weights_bytes")}
    findings += flag_problems(settings["flags"], f"{where}.flags")
    findings += environment_problems(settings["env"], f"{where}.env")
    for host in hosts:
        own, at_host = _own(name, host), f"{host.name}: fleet_host.services.{name}"
        findings += flag_problems(own.get("flags", {}), f"{at_host}.flags")
        findings += environment_problems(own.get("env", {}), f"{at_host}.env")
    placed = Placed(name, settings, recipe, hosts, image, model)
    overlays, wrong = _overlays(placed, library)
    if placed.key_file:
        _add_key_check(overlays, placed)
        findings += _own_middleware(placed)
    findings += [*wrong, *_host_count(placed)]
    if any(finding.severity == "error" for finding in findings):
        return None, findings
    members, wrong = group_environment(fabric, settings["hosts"], f"{where}.hosts")
    placed = replace(placed, overlays=overlays, members=members, flags=_flags(placed))
    if placed.is_group:
        wrong += problems(where, placed.port, len(hosts), placed.flags, image["vllm"])
    if wrong:
        return None, [*findings, *wrong]
    return replace(placed, environments={host.name: _environment(placed, host) for host in hosts}), findings


def _own(service: str, host: Host) -> Mapping[str, Any]:
    """What a host says of a service otherwise."""
    settings: Mapping[str, Any] = host.settings.get("services", {}).get(service, {})
    return settings


def _add_key_check(overlays: Overlays, placed: Placed) -> None:
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
    on_host, in_container = (placed.model_folder(home) for home in (_layout.MODELS, _layout.IN_MODELS))
    return plan_overlays(placed.recipe["overlays"], library, where, folder, on_host, in_container)


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


# Flags and variables ----------------------------------------------------------------------------------------------


def _flags(placed: Placed) -> dict[str, Value]:
    """Options of `vllm serve` by name: GB10 < recipe < service < the head's host < what follows from the placement."""
    recipe, settings = placed.recipe, placed.settings
    sizes = {key: value for key, value in settings["workload"].items() if key not in PURPOSE}
    workload = {key.replace("_", "-"): value for key, value in sizes.items()}
    written = [
        default_layer("flags"),
        Layer("recipe", recipe["flags"], recipe["reasons"]),
        Layer("service", {**workload, **settings["flags"]}),
        Layer("host", _own(placed.name, placed.head).get("flags", {})),
    ]
    ranks = split(merge(written), len(placed.hosts), placed.image["vllm"])
    return merge([*written, ranks, _from_placement(placed)])


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
    if placed.key_file:
        values["config"], reasons["config"] = _layout.IN_KEY, "holds the API key, which no process list may show"
        values["middleware"] = f"{_layout.DOOR}.{door.KeyOnEveryRoute.__name__}"
        reasons["middleware"] = "the key is asked for on every route but /health; vLLM's own check knows /v1 alone"
    return Layer("computed", values, reasons)


def _environment(placed: Placed, host: Host) -> dict[str, Value]:
    """Variables of the container on one host: those of its group < GB10 < recipe < service < host < the placement."""
    written = [
        *_group_layers(placed, host),
        default_layer("env"),
        Layer("recipe", placed.recipe["env"], placed.recipe["reasons"]),
        Layer("service", placed.settings["env"]),
        Layer("host", _own(placed.name, host).get("env", {})),
    ]
    values = {"HF_HOME": _layout.IN_MODELS}
    reasons = {"HF_HOME": "where the host's models are mounted"}
    if placed.key_file:
        own = merge(written).get("PYTHONPATH")
        values["PYTHONPATH"] = _layout.IN_PYTHON + (f":{own.value}" if own else "")
        reasons["PYTHONPATH"] = f"where vLLM finds {_layout.DOOR}"
    return merge([*written, Layer("computed", values, reasons)])


def _group_layers(placed: Placed, host: Host) -> list[Layer]:
    """The variables of a host's place in the group: those of its fabric (`_fabric.environment`), and those of Ray."""
    if not placed.is_group:
        return []
    member = placed.members[host.name]
    values = {variable["name"]: variable["value"] for variable in member.variables}
    reasons = {variable["name"]: variable["reason"] for variable in member.variables}
    values["VLLM_HOST_IP"] = str(member.address)
    reasons["VLLM_HOST_IP"] = "the address that other ranks reach this one by"
    layers = [Layer("fabric", values, reasons)]
    if placed.uses_ray:
        reason = "the group's secret, as a file"
        layers += [default_layer("env_ray")]
        layers += [Layer("computed", {"RAY_AUTH_TOKEN_PATH": _layout.IN_GROUP_SECRET}, {"RAY_AUTH_TOKEN_PATH": reason})]
    return layers


def variables_without_group(placed: Placed) -> dict[str, Any]:
    """The head's variables but for those that its group alone brings: none of these takes memory."""
    of_group = {name for layer in _group_layers(placed, placed.head) for name in layer.values}
    written = {"recipe", "service", "host"}
    decided = placed.environments[placed.head.name]
    return {name: one.value for name, one in decided.items() if name not in of_group or one.origin in written}
