# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One event for each firing alert of gb10.fleet in a message of Alertmanager, with names that are safe in a command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

DOCUMENTATION = """
---
short_description: Split a message of Alertmanager into alerts of gb10.fleet.
description:
  - An event filter of ansible-rulebook for messages of Alertmanager that eda.builtin.webhook receives.
  - Each firing alert of gb10.fleet becomes an event with its C(alert), C(host) and C(service), which is empty where
    the alert names none.
  - All else is left out, resolved alerts, alerts of others, and labels that are no plain names. So nothing of a
    message reaches a command line but a name.
"""
EXAMPLES = """
- eda.builtin.webhook: {port: 5001, token: "{{ webhook_token }}"}
  filters:
    - gb10.fleet.alerts:
"""
_ALERT = re.compile(r"Gb10[A-Za-z]{1,60}")
# No pattern of Ansible's (`all,!titan`, `~.*`, `@file`), no option, no template.
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")
_GROUPS = ("all", "ungrouped")


def main(event: dict[str, Any]) -> list[dict[str, Any]]:
    """event: as the webhook makes it, ``{payload, meta}``."""
    payload = event.get("payload")
    alerts = payload.get("alerts") if isinstance(payload, dict) else None
    return [*_events(alerts)] if isinstance(alerts, list) else []


def _events(alerts: list[Any]) -> Iterator[dict[str, Any]]:
    for alert in alerts:
        if not isinstance(alert, dict) or alert.get("status") != "firing" or not isinstance(alert.get("labels"), dict):
            continue
        labels = alert["labels"]
        name, host, service = labels.get("alertname"), labels.get("of", labels.get("host")), labels.get("service", "")
        if not _is(_ALERT, name) or not _is(_NAME, host) or host in _GROUPS or (service and not _is(_NAME, service)):
            continue
        yield {"alert": name, "host": host, "service": service}


def _is(form: re.Pattern[str], label: object) -> bool:
    return isinstance(label, str) and form.fullmatch(label) is not None
