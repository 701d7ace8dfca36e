# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""One difference between what is declared and what a host has; and what could not be told."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._findings import Severity

_ORDER: dict[str, int] = {"error": 0, "warning": 1, "hint": 2}
# The playbook that repairs what is ours; the rest is for a person.
SITE = "site.yml"


@dataclass(frozen=True)
class Difference:
    """host, resource and rule name it, for good: ``titan``, ``file /etc/x.conf``, ``file-content``.

    want, have: in the owner's words and units. repairs: the playbook that puts it right, or empty where a person must.
    diff: want against have as a unified diff, for texts. service: whose it is, if it is one service's.
    """

    host: str
    resource: str
    rule: str
    want: str
    have: str
    severity: Severity
    remedy: str
    repairs: str = ""
    reason: str = ""
    source: str = ""
    service: str = ""
    diff: str = ""

    @property
    def id(self) -> str:
        return f"{self.host}: {self.resource}: {self.rule}"

    def as_dict(self) -> dict[str, Any]:
        return {"id": self.id, **asdict(self)}


@dataclass(frozen=True)
class Unknown:
    """A part of a host that could not be read or judged: neither clean nor drifted."""

    host: str
    part: str
    why: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def ordered(differences: Iterable[Difference]) -> list[Difference]:
    """By host, then the worst first, then by name: the same ones always come in the same order, each once."""
    return sorted(set(differences), key=lambda one: (one.host, _ORDER[one.severity], one.resource, one.rule, one.have))


def unified(want: str, have: str) -> str:
    """A text that is wanted against the one that is there, as `Difference.diff`."""
    lines = difflib.unified_diff(want.splitlines(), have.splitlines(), "want", "have", lineterm="", n=1)
    return "\n".join(lines)


@dataclass(frozen=True)
class View:
    """One host as a subject's comparison sees it: the fleet's plan, the host's slice of it, and what was read.

    state: what `host_state` read, None for a part that is unknown. settings: ``drift`` of the plan.
    """

    host: str
    plan: Mapping[str, Any]
    state: Mapping[str, Any]

    @property
    def slice(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.plan["hosts"][self.host]
        return found

    @property
    def settings(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.plan["drift"]
        return found

    def converge(self, playbook: str) -> str:
        """The remedy of what a playbook repairs."""
        return f"ansible-playbook {playbook} -l {self.host}"
