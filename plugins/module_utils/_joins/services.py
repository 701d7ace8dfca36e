# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Over the services of a host: which of them changed, and what they read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Service = Mapping[str, Any]


def changed_services(services: Iterable[Service], results: Iterable[Any], program: Any) -> list[str]:
    """The services to be started anew: all, where their supervisor's program changed in this run.

    services: of the host's slice. results: registered results of loops over services, or over ``[service, ...]``; a
    task that was skipped has none. program: the result of the task that copies the supervisor.
    """
    names = [str(service["name"]) for service in services]
    if program["changed"]:
        return names
    items = [item for result in results for item in (result.get("results") or () if result else ())]
    changed = {_name(item["item"]) for item in items if item.get("changed")}
    return [name for name in names if name in changed]


def _name(item: Any) -> str:
    service = item if isinstance(item, Mapping) else item[0]
    return str(service["name"])


def service_files(service: Service) -> list[str]:
    """Every file of a service that its supervisor or its container reads when it starts; folders of its weights."""
    secrets = [service[kind]["path"] for kind in ("key", "secret") if service[kind]]
    return sorted([*service["files"], *secrets, *(one["path"] for one in service["merged"]), *service["models"]])
