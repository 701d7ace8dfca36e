# SPDX-License-Identifier: GPL-3.0-or-later
"""Every subject, once. What the declaration, the plan, the questions to a host and drift run over."""

from collections.abc import Iterator, Mapping
from typing import Any

from .._base.slice import Slice, part_of
from .._base.subject import Subject
from .._stores.images.subject import IMAGES
from .._stores.peers.subject import PEER_ACCESS
from .._stores.weights.subject import MODELS
from .clients.fleet import FLEET_CLIENTS
from .clients.subject import CLIENTS
from .container_engine.subject import CONTAINER_ENGINE
from .fabric.subject import FABRIC
from .firewall.subject import FIREWALL
from .fleet.subject import FleetSubject
from .gateway.fleet import FLEET_GATEWAY
from .gateway.subject import GATEWAY
from .health.subject import HEALTH
from .host_tuning.subject import HOST_TUNING
from .memory_guard.fleet import FLEET_MEMORY_GUARD
from .memory_guard.subject import MEMORY_GUARD
from .monitoring.fleet import FLEET_MONITORING
from .monitoring.subject import MONITORING
from .phoenix.fleet import FLEET_PHOENIX
from .phoenix.subject import PHOENIX
from .services.subject import SERVICES, SUPERVISOR
from .system.subject import SYSTEM
from .tls.subject import TRUST

SUBJECTS: tuple[Subject, ...] = (
    HOST_TUNING,
    MEMORY_GUARD,
    FABRIC,
    CONTAINER_ENGINE,
    FIREWALL,
    PEER_ACCESS,
    IMAGES,
    MODELS,
    SUPERVISOR,
    TRUST,
    SERVICES,
    GATEWAY,
    CLIENTS,
    MONITORING,
    PHOENIX,
    SYSTEM,
    HEALTH,
)

# What is declared for the fleet as a whole; each stands after those that it builds on.
FLEET_SUBJECTS: tuple[FleetSubject, ...] = (
    FLEET_GATEWAY,
    FLEET_CLIENTS,
    FLEET_MONITORING,
    FLEET_PHOENIX,
    FLEET_MEMORY_GUARD,
)


def fleet_parts(slice_: Slice) -> Iterator[Mapping[str, Any]]:
    """What fleet subjects say of a host, of its slice: a part is a map, or a list of them."""
    for subject in FLEET_SUBJECTS:
        part = part_of(slice_, subject.name)
        yield from part if isinstance(part, list) else [part]
