# SPDX-License-Identifier: GPL-3.0-or-later
"""Every subject, once. What the plan's slices, the declaration, the questions to a host and drift run over."""

from __future__ import annotations

from .._base.subject import Subject
from .._stores.images.subject import IMAGES
from .._stores.peers.subject import PEER_ACCESS
from .._stores.weights.subject import MODELS
from .clients.subject import CLIENTS
from .container_engine.subject import CONTAINER_ENGINE
from .fabric.subject import FABRIC
from .firewall.subject import FIREWALL
from .gateway.subject import GATEWAY
from .host_tuning.subject import HOST_TUNING
from .memory_guard.subject import MEMORY_GUARD
from .monitoring.subject import MONITORING
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
)
