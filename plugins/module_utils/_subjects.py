# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Every subject, once. What the plan's slices, the declaration, the questions to a host and drift run over."""

from __future__ import annotations

from ansible_collections.gb10.fleet.plugins.module_utils._clients.subject import CLIENTS
from ansible_collections.gb10.fleet.plugins.module_utils._container_engine.subject import CONTAINER_ENGINE
from ansible_collections.gb10.fleet.plugins.module_utils._fabric.subject import FABRIC
from ansible_collections.gb10.fleet.plugins.module_utils._firewall.subject import FIREWALL
from ansible_collections.gb10.fleet.plugins.module_utils._gateway.subject import GATEWAY
from ansible_collections.gb10.fleet.plugins.module_utils._host_tuning.subject import HOST_TUNING
from ansible_collections.gb10.fleet.plugins.module_utils._images.subject import IMAGES
from ansible_collections.gb10.fleet.plugins.module_utils._memory_guard.subject import MEMORY_GUARD
from ansible_collections.gb10.fleet.plugins.module_utils._monitoring.subject import MONITORING
from ansible_collections.gb10.fleet.plugins.module_utils._peers.subject import PEER_ACCESS
from ansible_collections.gb10.fleet.plugins.module_utils._phoenix.subject import PHOENIX
from ansible_collections.gb10.fleet.plugins.module_utils._services.subject import SERVICES, SUPERVISOR
from ansible_collections.gb10.fleet.plugins.module_utils._subject import Subject
from ansible_collections.gb10.fleet.plugins.module_utils._system.subject import SYSTEM
from ansible_collections.gb10.fleet.plugins.module_utils._tls.subject import TRUST
from ansible_collections.gb10.fleet.plugins.module_utils._weights.subject import MODELS

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
