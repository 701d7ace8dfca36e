# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets of fleet subjects that a run would make anew, although a host has them from another control machine."""

from collections.abc import Iterator

from .._base.managed import Managed
from .._base.slice import NeededSecret, Slice, part_of
from .clients.subject import CLIENTS
from .gateway.subject import GATEWAY
from .monitoring.subject import MONITORING
from .phoenix.subject import PHOENIX


def made_secrets(parts: Slice) -> Iterator[NeededSecret]:
    """``source`` on the controller, ``path`` on the host. parts: the slice, all but its ``needs``.

    Certificates of the local CA are none: the same CA makes them again, and no client sees a difference.
    """
    gateway = parts["gateway"]
    issued = {gateway["tls"][kind]["source"] for kind in ("certificate", "key")} if gateway else set()
    if gateway and gateway["tls"]["ca"]:
        yield {"source": gateway["tls"]["ca"], "path": parts["tls"]["path"], "service": "", "option": "fleet_gateway"}
    for subject in (GATEWAY, CLIENTS, MONITORING, PHOENIX):
        for file in subject.files(part_of(parts, subject.name)):
            if isinstance(file, Managed) and file.source and file.source not in issued:
                yield {"source": file.source, "path": file.path, "service": "", "option": f"fleet_{subject.name}"}
