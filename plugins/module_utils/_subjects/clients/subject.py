# SPDX-License-Identifier: GPL-3.0-or-later
"""The clients on their hosts: their files, units, and secrets made of the controller's files."""

from collections.abc import Iterator, Sequence

from ..._base import worded
from ..._base.findings import Finding
from ..._base.managed import Managed, ManagedJson, managed
from ..._base.place import Place
from ..._base.slice import ClientSlice
from ..._base.subject import Differences, DriftContext, PreflightContext, Subject
from .kinds import gateway_secret, own_secret

_PROCESS = "docker-proxy"


def _files(part: Sequence[ClientSlice]) -> Iterator[Managed | ManagedJson]:
    for client in part:
        yield from managed(client)
        for secret in client["secrets"]:
            rendered = gateway_secret(secret["kind"], secret["key"]) if secret["key"] else own_secret(secret["kind"])
            yield Managed(secret["path"], "file", "0600", secret=True, source=secret["source"], rendered=rendered)


def _differences(view: DriftContext) -> Differences:
    """Whether what runs is of the image that is declared; its words and secrets are files."""
    running, images = view.state["running"] or {}, view.state["images"] or {}
    for start in (client["start"] for client in view.slice["clients"]):
        have, image = running.get(start["container"]), images.get(start["image"])
        if have is not None and image is not None and have["image"] != image["id"]:
            found = have["reference"]
            at = f"container {start['container']}"
            yield view.differs("error", "client-image", at, found=found, expected=start["image"], unit=start["unit"])


def _obstacles(look: PreflightContext) -> Iterator[Finding]:
    """Ports that another program has: nobody is cut off unasked."""
    ours = {unit["unit"] for unit in look.part("our_units") or ()}
    for client in look.slice.get("clients", ()):
        port = client["listens"]["port"]
        if found := look.others_at(port, [_PROCESS] if client["unit"] in ours else ()):
            yield worded.host_error(
                "client-port-taken", Place(variable="fleet_clients").below(client["name"]), found=found
            )


CLIENTS = Subject("clients", files=_files, differences=_differences, obstacles=_obstacles)
