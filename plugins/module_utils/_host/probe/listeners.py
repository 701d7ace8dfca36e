# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose a listening port is. Pure."""

from collections.abc import Iterable

from ..._base.reading import Listener, Publishing

# Holds a published port for a container, on the host's side.
PROXY = "docker-proxy"


def holder(listener: Listener, containers: Iterable[Publishing]) -> str:
    """The name of the container that listens, or for which Docker does; empty for a process of the host."""
    inside = listener["container"]
    for container in containers:
        if container["id"] == inside if inside else listener["port"] in container["ports"]:
            return str(container["name"])
    return ""
