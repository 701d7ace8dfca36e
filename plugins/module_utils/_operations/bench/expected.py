# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a machine is as fast as it should be: against the forecast, and against machines that serve the same.

An earlier run of the same machine shows neither: one that was slow from its first day is its own measure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Any

from ..._base.findings import Difference
from ..._base.place import Place
from ..._base.plan import ServiceSpeed
from .canary import DECLARED, certainly_slower

_NEXT = "next token ms"
# Services that serve the same differ by less; each figure has to be beyond it with all of its interval.
_APART = 1.1
_CAUSES = (
    "look at its GPU while it answers: nvidia-smi -q -d CLOCK,POWER. Below 1 GHz or 25 W it is in a low-power state: "
    "take the AC power away for a minute, since a reboot does not help. Else look for enforce-eager, another MoE "
    "kernel than its recipe's, sockets instead of RDMA in NCCL's log, and heat"
)


@dataclass(frozen=True)
class Measured:
    """A run, as `form.run`, and the host of its endpoint."""

    host: str
    run: Mapping[str, Any]


def rates(measured: Measured) -> list[float]:
    """Tokens a second of one request alone, of each round with the shortest prompt."""
    run = measured.run
    alone = [point for point in run["points"] if point["at_once"] == 1 and not point["image"] and not point["rate"]]
    if not alone:
        return []
    shortest = min(alone, key=lambda point: point["prompt"] + point["depth"])
    return [1000 / value for value in run["values"][shortest["name"]][_NEXT] if value > 0]


def share_lines(speed: ServiceSpeed | None, measured: Measured) -> list[str]:
    """What one request gets of what the memory gives, for a person."""
    found = rates(measured)
    if speed is None or not found:
        return []
    rate, alone = geometric_mean(found), speed["alone"]
    return [
        f"one request: {rate:.3g} tok/s, {100 * rate / alone['limit']:.0f} % of the memory's limit of "
        f"{alone['limit']:.3g}; expected {alone['decode']:.3g}, {alone['low']:.3g} to {alone['high']:.3g}"
    ]


def below_forecast(service: str, speed: ServiceSpeed | None, measured: Measured) -> Iterator[Difference]:
    """A finding where every round is slower than the forecast's low end."""
    found = rates(measured)
    if speed is None or not found or max(found) >= speed["alone"]["low"]:
        return
    alone, rate = speed["alone"], geometric_mean(found)
    yield Difference(
        "warning",
        "bench-below-forecast",
        _place(measured.host, service),
        found=f"one request gets {rate:.3g} tok/s, {100 * rate / alone['limit']:.0f} % of the memory's limit",
        expected=f"{alone['low']:.3g} to {alone['high']:.3g} tok/s by the forecast of its plan",
        remedy=_CAUSES,
        reason="no round was faster; nine of ten services reach their forecast's low end (docs/speed.md)",
    )


def slower_than_twins(nights: Mapping[str, Measured]) -> list[Difference]:
    """A finding for each service that is certainly slower than others that serve the same on other machines."""
    found = []
    for name, night in sorted(nights.items()):
        twins = _twins(name, nights)
        if not twins or not rates(night):
            continue
        middle = median(geometric_mean(rates(twin)) for twin in twins)
        like = min(twins, key=lambda twin: abs(geometric_mean(rates(twin)) - middle))
        beyond = certainly_slower(like.run["values"], night.run["values"], _APART)
        slower = [item.ratio for item in beyond if item.figure == _NEXT]
        if slower:
            found.append(
                Difference(
                    "warning",
                    "bench-behind-twins",
                    _place(night.host, name),
                    found=f"a token takes {max(slower):.2f} times as long as with {like.run['service']}",
                    expected=f"the speed of {len(twins)} that serve the same with the same image, flags and model",
                    remedy=_CAUSES,
                    reason="measured in the same night, nobody else asking",
                )
            )
    return found


def judged(nights: Mapping[str, Measured], speeds: Mapping[str, ServiceSpeed | None]) -> list[Difference]:
    """What a night says of machines. Services that are slow alike say nothing of a machine: there the forecast is off.
    speeds: the plan's forecasts by service."""
    alone = [name for name in sorted(nights) if not _twins(name, nights)]
    below = (item for name in alone for item in below_forecast(name, speeds.get(name), nights[name]))
    return [*slower_than_twins(nights), *below]


def _twins(name: str, nights: Mapping[str, Measured]) -> list[Measured]:
    night = nights[name]
    return [
        other
        for its_name, other in nights.items()
        if its_name != name
        and other.host != night.host
        and rates(other)
        and other.run["points"] == night.run["points"]
        and all(other.run["conditions"][key] == night.run["conditions"][key] for key in DECLARED)
    ]


def _place(host: str, service: str) -> Place:
    return Place(host=host, service=service, thing=f"speed of {service}")
