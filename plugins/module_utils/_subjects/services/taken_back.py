# SPDX-License-Identifier: GPL-3.0-or-later
"""Definitions that a rollout has taken back: each host of the replicas keeps them, so that no run brings one unasked.

What is kept counts until the declaration changes, or the same definition is asked for and proves itself.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from ..._base import layout
from ..._base.reading import TakenBack
from ..._base.received import one_line
from ..._base.slice import Files

_WHY = 600


class Shared(TypedDict):
    """One of the services that share a declaration."""

    definition: str
    start: str
    hosts: Sequence[str]


def kept(replicas: Mapping[str, Shared], of: str, why: str, at: str) -> dict[str, Files]:
    """By host the files that say so. replicas: services of one declaration; of: the one that did not prove itself."""
    found: dict[str, Files] = {}
    for service, shared in replicas.items():
        record = TakenBack(
            definition=shared["definition"], start=shared["start"], of=of, at=at, why=one_line(why, _WHY)
        )
        content = json.dumps(record, sort_keys=True) + "\n"
        for host in shared["hosts"]:
            found[host] = found.get(host, {}) | {layout.taken_back(service): {"mode": "0600", "content": content}}
    return found


def forgotten(services: Iterable[str]) -> dict[str, dict[str, str | None]]:
    """The files that `gb10.fleet.host_files` removes for it."""
    return {layout.taken_back(service): {"mode": "0600", "content": None} for service in services}


def counts(record: TakenBack, definition: str, start: str | None) -> bool:
    """Whether it is about what is planned now: another release gives the same start another definition."""
    return record["definition"] == definition or record.get("start", "") == start


def words(service: str, record: TakenBack) -> dict[str, str]:
    """What is to be said of it, on a host too, which has no table of words."""
    who = "this declaration" if record["of"] == service else f"this declaration, tried on {record['of']},"
    return {
        "found": f"{who} was taken back at {record['at']}: {record['why']}",
        "expected": "another declaration, or the order to try it again",
        "remedy": f"change what is declared, then: ansible-playbook gb10.fleet.rollout -e service={service}; without a "
        "change the same command tries it again, and goes back if it fails again",
    }
