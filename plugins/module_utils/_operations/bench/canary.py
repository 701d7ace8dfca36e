# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a service is slower than it was: a short benchmark of the nightly drift check against one that was kept."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._base.findings import Difference
from ..._base.place import Place
from .compare import Difference as Compared
from .compare import differences
from .conditions import NAMES
from .figures import BETTER
from .sweep import Point, points

# A minute or two of a service. More rounds than a comparison needs at least, since an hour lies between its two sides.
PROMPTS, CONCURRENCY, ANSWER, ROUNDS = (512, 256), (4,), 64, 6
# What changes although nothing else was declared; whatever else differs was the owner's wish.
BY_ITSELF = ("driver", "kernel")
DECLARED = tuple(name for name in NAMES if name not in BY_ITSELF)
_Values = Mapping[str, Mapping[str, Sequence[float]]]  # as `differences` takes them


@dataclass(frozen=True)
class Night:
    """What a night's run of a service says. keep: whether it is what later nights are compared with."""

    findings: tuple[Difference, ...]
    keep: bool


def name_of(service: str) -> str:
    """Of the run that nights are compared with; no run by hand is called so, and ``against`` takes it."""
    return f"{service}-canary"


def night_points(pool: Mapping[str, Any]) -> list[Point]:
    """pool: ``kv`` of the plan's service."""
    lengths = (pool["context"], pool["max_concurrency"])
    return points(*lengths, PROMPTS[:1], CONCURRENCY, ANSWER) or points(*lengths, PROMPTS[1:], CONCURRENCY, ANSWER)


def night(
    host: str, service: str, kept: Mapping[str, Any] | None, tonight: Mapping[str, Any], slower_percent: float
) -> Night:
    """host: of the endpoint. kept: the run that nights are compared with, None where there is none yet; tonight: a run;
    both as `form.RUN`. slower_percent: what is tolerated."""
    if kept is None:
        return Night((_hint(host, service, "a run to compare with", "none yet: tonight's was kept"),), keep=True)
    changed = [
        *(key for key in DECLARED if kept["conditions"][key] != tonight["conditions"][key]),
        *(["workload"] if kept["points"] != tonight["points"] else []),
    ]
    if changed:
        found = f"{', '.join(changed)} changed since {kept['at']}: tonight's run was kept instead"
        return Night((_hint(host, service, "the service that was measured", found),), keep=True)
    slower = certainly_slower(kept["values"], tonight["values"], 1 + slower_percent / 100)
    return Night(tuple(_slower(host, service, kept, tonight, slower)), keep=False)


def slower_than(before: Mapping[str, _Values], after: Mapping[str, _Values], least: float) -> list[str]:
    """A sentence for each figure that is certainly below ``least`` of the speed before. before, after: by service."""
    return [
        f"{name}: {item.point}: {_words(item)}; before it was {item.before:.4g}"
        for name in sorted(before.keys() & after.keys())
        for item in certainly_slower(before[name], after[name], 1 / least)
    ]


def skipped(host: str, service: str, why: str) -> Difference:
    """Others asked: no figure of such a night says anything."""
    return _hint(host, service, "nobody else asks for two minutes", f"not measured tonight: {why}")


def certainly_slower(before: _Values, after: _Values, limit: float) -> list[Compared]:
    """Those that have all of their interval beyond what is tolerated, ``limit`` times as slow."""
    return [
        difference
        for difference in differences(before, after, BETTER, paired=False)
        if (difference.high < 1 / limit if BETTER[difference.figure] else difference.low > limit)
    ]


def _words(compared: Compared) -> str:
    span = f"{compared.low:.3f} to {compared.high:.3f}"
    return f"{compared.after:.4g} {compared.figure}, {compared.ratio:.3f} times it ({span})"


def _slower(
    host: str, service: str, kept: Mapping[str, Any], tonight: Mapping[str, Any], found: Sequence[Compared]
) -> Iterator[Difference]:
    """One finding of all its figures."""
    if not found:
        return
    before, after = kept["conditions"], tonight["conditions"]
    moved = [f"{name} {before[name]}, now {after[name]}" for name in BY_ITSELF if before[name] != after[name]]
    also = f" -e changed={','.join(name for name in BY_ITSELF if before[name] != after[name])}" if moved else ""
    sizes = {"prompts": "prompt", "concurrency": "at_once"}
    sent = " ".join(
        f"-e {option}={','.join(str(value) for value in sorted({point[key] for point in kept['points']}))}"
        for option, key in sizes.items()
    )
    again = (
        f"ansible-playbook gb10.fleet.bench -e service={service} -e against={kept['name']} {sent} -e answer={ANSWER}"
    )
    yield Difference(
        "warning",
        "bench-slower",
        _place(host, service),
        found="; ".join(f"{item.point}: {_words(item)}" for item in found),
        expected="; ".join(f"{item.point}: {item.before:.4g} {item.figure}" for item in found)
        + f", as measured at {kept['at']}",
        remedy=f"measure it again by {again}{also}; if it is to stay so, remove {kept['name']}.json, and the next "
        "night's run is kept in its place",
        reason="; ".join(moved) or "neither driver nor kernel nor anything that was declared has changed since",
    )


def _hint(host: str, service: str, expected: str, found: str) -> Difference:
    return Difference("hint", "bench-night", _place(host, service), found=found, expected=expected)


def _place(host: str, service: str) -> Place:
    return Place(host=host, service=service, thing=f"speed of {service}")
