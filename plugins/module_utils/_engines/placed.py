# SPDX-License-Identifier: GPL-3.0-or-later
"""A service placed on hosts, as the plan hands it to the service's engine."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from .._base import layout, worded
from .._base.addresses import EVERYWHERE, from_its_host, in_url, is_loopback
from .._base.declared_host import HostData
from .._base.findings import Finding
from .._base.gb10 import fact
from .._base.layers import Layer, Value, fill
from .._base.place import Place
from .._base.slice import Merged, MountEntry, Written
from .._facts.models.parameters import drafter_bytes
from .._facts.models.stored import stored_name
from .declaration import ImageData, ModelData, RecipeData, ServiceData, Tls, Tracing
from .environment import Member

if TYPE_CHECKING:
    from .engine import Engine


# Who reaches an endpoint, its host's files and its group.
_OF_ACCESS = ("R121", "R158", "R159")


@dataclass(frozen=True)
class Host:
    """One inventory host: its name, the address that clients reach it by, its checked ``fleet_host``, its SSH port."""

    name: str
    address: str
    settings: HostData
    port: int = 22

    @property
    def memory_bytes(self) -> int:
        """The memory that CPU and GPU share."""
        return int(self.settings.get("memory_kib", fact("hardware", "memory_total_kib"))) * 1024

    @property
    def url_host(self) -> str:
        """The address as a URL has it."""
        return in_url(self.address)

    def own(self, service: str, kind: Literal["flags", "env"]) -> Mapping[str, Any]:
        """What the host says of a service otherwise."""
        settings = self.settings.get("services", {}).get(service)
        return settings[kind] if settings else {}


@dataclass(frozen=True)
class Overlays:
    """What a host must have before the start, and what its container mounts.

    mounts: from the host into the container. shipped: the targets of files that are the collection's own.
    """

    files: list[Written | Merged] = field(default_factory=list)
    mounts: list[MountEntry] = field(default_factory=list)
    shipped: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Placed:
    """A service with its recipe and its hosts, head first, and all that is decided of it before its memory is.

    image, model: the recipe's with what the service says otherwise. config, drafter: config.json of the model and
    of the one that drafts for it, None where it isn't known. overlays: the recipe's and the engine's, decided.
    members: each host's part in the group. flags: the engine's options. environments: each host's variables.
    adapters: folders of the host, and hub ids. isolation: what its container may do, by the keys of ``container``.
    """

    name: str
    engine: "Engine"
    settings: ServiceData
    recipe: RecipeData
    hosts: Sequence[Host]
    image: ImageData
    model: ModelData
    config: Mapping[str, Any] | None = None
    drafter: Mapping[str, Any] | None = None
    overlays: Overlays = field(default_factory=Overlays)
    members: Mapping[str, Member] = field(default_factory=dict)
    flags: Mapping[str, Value] = field(default_factory=dict)
    environments: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    adapters: Sequence[str] = ()
    isolation: Mapping[str, Value] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        return Place(service=self.name)

    @property
    def head(self) -> Host:
        return self.hosts[0]

    @property
    def is_group(self) -> bool:
        return len(self.hosts) > 1

    @property
    def port(self) -> int:
        return int(self.settings["port"])

    @property
    def addresses(self) -> list[str]:
        """Each rank's address in the group."""
        return [self.members[host.name].address or "" for host in self.hosts]

    @property
    def sized_by_owner(self) -> bool:
        """Whether its owner wrote a workload or flags; without either a recipe chose all sizes."""
        return bool(self.settings["workload"] or self.settings["flags"])

    @property
    def silence(self) -> dict[str, str]:
        """Rules that are silenced, and why. A recipe silences none that says who reaches a service."""
        of_recipe = {rule: why for rule, why in self.recipe["silence"].items() if rule not in _OF_ACCESS}
        return of_recipe | self.settings["silence"]

    @property
    def is_open(self) -> bool:
        """Whether other machines reach it without a key."""
        return not self.key_file and not self.is_local

    @property
    def is_local(self) -> bool:
        """Whether its head alone reaches it."""
        return is_loopback(self.settings["listen"])

    @property
    def address(self) -> str:
        """The head's, by which other hosts reach it."""
        listen: str = self.settings["listen"]
        return self.head.address if listen in EVERYWHERE else listen

    @property
    def tls_names(self) -> list[str]:
        """What its certificate names, the name in its URL first."""
        return [name for name in (self.tls["main"], *self.tls["names"]) if name] if self.tls else []

    @property
    def tls(self) -> Tls | None:
        """`_subjects.tls.declared.decide`; None for a service that does not encrypt."""
        return self.settings.get("tls")

    @property
    def local_url(self) -> str:
        """The endpoint as its head itself reaches it, without /v1."""
        return f"{self._scheme}://{from_its_host(self.settings['listen'])}:{self.port}"

    @property
    def client_url(self) -> str:
        """The endpoint as clients reach it."""
        named = self.tls["main"] if self.tls else ""
        return f"{self._scheme}://{named or self.head.url_host}:{self.port}/v1"

    @property
    def _scheme(self) -> str:
        return "https" if self.tls else "http"

    @property
    def key_file(self) -> str | None:
        """The API key on the head, in the engine's form; None for a service that asks for none."""
        return layout.key_file(self.name) if self.settings.get("api_key_file") else None

    @property
    def tracing(self) -> Tracing | None:
        """`_engines.tracing.declared.decide`; None for a service that sends no traces."""
        return self.settings.get("tracing")

    @property
    def trace_headers(self) -> str | None:
        """The headers for the collector, on the head; None where it asks for none."""
        return layout.trace_headers(self.name) if self.tracing and self.tracing["headers_file"] else None

    @property
    def adapter_folders(self) -> list[str]:
        """Adapters that lie on the host; the containers see them at the same place."""
        return [source for source in self.adapters if source.startswith("/")]

    @property
    def adapter_repositories(self) -> list[str]:
        """Adapters that are fetched from the hub."""
        return [source for source in self.adapters if re.fullmatch(r"[\w.-]+/[\w.-]+", source)]

    @property
    def certificate(self) -> str | None:
        """The certificate on the head; None for a service that does not encrypt."""
        return layout.certificate_file(self.name) if self.tls else None

    @property
    def overlay_folder(self) -> str:
        return f"{layout.OVERLAYS}/{self.name}"

    def model_folder(self, home: str) -> str:
        return layout.model_folder(self.stored_model, self.model["revision"], home)

    @property
    def stored_model(self) -> str:
        """The model's name in the store: its repository, or its one file."""
        return stored_name(self.model["repository"], self.model.get("file"))

    @property
    def stored_projector(self) -> str | None:
        """The name in the store of what turns pictures into tokens, where that is a file of its own."""
        return stored_name(self.model["repository"], self.model["mmproj"]) if "mmproj" in self.model else None

    @property
    def stored_draft(self) -> str | None:
        """The name in the store of the model that drafts."""
        draft = self.model.get("draft")
        return stored_name(draft["repository"], draft.get("file")) if draft else None

    @property
    def drafter_bytes(self) -> int:
        """The drafter's weights: as declared, else counted from its config.json; 0 where neither is known."""
        draft = self.model.get("draft", {})
        declared: int | None = draft.get("weights_bytes")
        if declared is not None or self.drafter is None:
            return declared or 0
        return drafter_bytes(self.drafter, draft.get("repository", ""))

    def drafter_unknown(self) -> Iterator[Finding]:
        """A drafter with weights of its own, of which nobody knows how many."""
        if (draft := self.model.get("draft")) and not self.drafter_bytes:
            place = self.place.below("model", "draft", "weights_bytes")
            yield worded.warning("memory-drafter-unknown", place, kind="memory", named=draft["repository"])

    def reads_model(self, host: str) -> bool:
        """Whether the rank on a host reads the weights from its disk."""
        return host == self.head.name or not self.engine.spec.head_loads

    def in_group(self, host: Host, own: str | None) -> Layer:
        """The variables of a host's place in the group: those of its fabric, and `own`, which gets its address."""
        member = self.members[host.name]
        values = {variable["name"]: variable["value"] for variable in member.variables}
        reasons = {variable["name"]: variable["reason"] for variable in member.variables}
        if own:
            values[own], reasons[own] = str(member.address), "the address that other ranks use for this rank"
        return Layer("fabric", values, reasons)

    def endpoint(self, key: str = "", tls: Sequence[str] = ()) -> tuple[dict[str, Any], dict[str, str]]:
        """The options for where clients reach it, and why. key, tls: those for the key's file and the certificate's."""
        values: dict[str, Any] = {"host": "0.0.0.0", "port": self.settings["port"]}
        where = "all addresses of the container's own network; the host publishes the port"
        if self.is_group:
            values["host"], where = self.settings["listen"], "the service; its container is on the host's network"
        reasons = {"host": where, "port": "the service"}
        if key and self.key_file:
            values[key], reasons[key] = self.engine.spec.key.target, "holds the API key, which no process list may show"
        if tls and self.tls and self.engine.spec.tls:
            values |= zip(tls, (self.engine.spec.tls.certificate, self.engine.spec.tls.key), strict=True)
            reasons |= dict.fromkeys(tls, "the service's tls")
        return values, reasons

    def filled(self, values: Mapping[str, Value]) -> dict[str, Any]:
        """Flags or variables as the container gets them, ``{model_path}`` replaced."""
        places = {"model_path": self.model_folder(layout.IN_MODELS)}
        filled: dict[str, Any] = fill({name: decided.value for name, decided in values.items()}, places)
        return filled
