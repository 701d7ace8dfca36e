# SPDX-License-Identifier: GPL-3.0-or-later
"""What is the same on all hosts of a group, or should be: ranks with other drivers or images hang or answer wrongly."""

from collections.abc import Iterator, Mapping

from ..._base.findings import Difference
from ..._base.place import Place
from ..._base.plan import Plan
from ..._base.reading import State
from ..._subjects.system.known_bad import versions

_EQUAL = ("kernel", "driver", "nic_firmware", "docker")


def of_groups(plan: Plan, states: Mapping[str, State]) -> Iterator[Difference]:
    """Each rank's host against the head's, for those that could be read."""
    for name, service in plan["services"].items():
        head, *others = service["hosts"]
        facts = {host: _facts(plan, host, states[host]) for host in (head, *others) if host in states}
        for host in others if head in facts else ():
            if host in facts:
                yield from _pair(name, head, host, facts)


def _pair(service: str, head: str, host: str, facts: Mapping[str, Mapping[str, str | None]]) -> Iterator[Difference]:
    wanted, found = facts[head], facts[host]
    for what in sorted(wanted.keys() & found.keys()):
        if None not in (wanted[what], found[what]) and wanted[what] != found[what]:
            yield Difference(
                rule="rank-differs",
                severity="error",
                at=Place(host=host, service=service, thing=f"rank of {service}: {what}"),
                found=str(found[what]),
                expected=f"{wanted[what]}, as on {head}",
                remedy=f"bring both hosts to the same {what}",
                reason="ranks of one service that differ hang, or answer wrongly",
            )


def _facts(plan: Plan, host: str, state: State) -> dict[str, str | None]:
    facts = {name: value for name, value in versions(state).items() if name in _EQUAL}
    for reference, image in (state["images"] or {}).items():
        facts[f"image {reference}"] = image["identity"].removeprefix("sha256:")[:12] if image else None
    for repository, model in (state["models"]["models"] if state["models"] else {}).items():
        facts[f"weights {repository}"] = model["seal"] and model["seal"][:12]
    return facts
