# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a machine is as fast as it should be: against the forecast, and against machines that serve the same.

An earlier run of the same machine shows neither: one that was slow from its first day is its own measure. Benchmarks
and nights keep what is judged beside the inventory (`_engines.observed`), and doctor reads it there. One run may
meet a noisy minute, so two have to show it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean, median
from typing import Any

from ..._base.findings import Difference
from ..._base.place import Place
from ..._base.plan import Plan, ServicePlan, ServiceSpeed
from ..._subjects.health.subject import HOT_C, LOW_MHZ, LOW_W
from .compare import differences
from .form import GPU

_NEXT = "next token ms"
# Services that serve the same differ by less; each figure has to be beyond it with all of its interval.
_APART = 1.1
# A busy GB10 below it is held back; a cap that owners set lies above.
_HELD_MHZ = 2000
Record = Mapping[str, Any]
Rails = Mapping[str, str] | None
_KERNELS = {"moe-backend": "MoE", "attention-backend": "attention", "linear-backend": "GEMM"}


def kept_record(plan: Plan, service: str, record: Record) -> tuple[str, str]:
    """The file of a service's record, below the controller's folder of such things, and its text: with the clock that
    its host's GPU is kept to."""
    planned = plan["services"][service]
    cap = plan["hosts"][planned["hosts"][0]]["gpu"]["clock_max_mhz"]
    record = {**record, "runs": [*record["runs"][:-1], {**record["runs"][-1], "clock_max_mhz": cap}]}
    return f"speeds/{planned['hosts'][0]}/{planned['boot']['key']}.json", json.dumps(record, indent=1) + "\n"


def with_run(before: Record | None, run: Mapping[str, Any]) -> Record | None:
    """The record of a service after a run, as `form.RUN`. None where the run has no figure of use."""
    points = [
        {
            "requests": point["at_once"],
            **{key: point[key] for key in ("prompt", "answer", "depth")},
            "decode": [1000 / value for value in run["values"][point["name"]][_NEXT]],
        }
        for point in run["points"]
        if point["at_once"] and not point["image"]
    ]
    if not points:
        return None
    shown = {
        name: [value for of in run["shown"].values() for value in of.get(name, ())] for name in ("tokens a step", *GPU)
    }
    accepted, *gpu = shown.values()
    found = {"at": run["at"], "accepted": max(1.0, fmean(accepted)) if accepted else None, "points": points}
    found |= dict(zip(("clock_mhz", "power_w", "heat_c"), (max(values, default=None) for values in gpu), strict=True))
    return {"service": run["service"], "runs": [*(before["runs"][-1:] if before else ()), found]}


def records(plan: Plan) -> dict[str, Record]:
    """What is known of the services, by the plan."""
    return {
        name: service["speed"]["own"]["record"]
        for name, service in plan["services"].items()
        if service["speed"] and service["speed"]["own"]
    }


def rates(run: Mapping[str, object]) -> list[float]:
    """Tokens a second of one request alone, of each round with the shortest prompt. run: of a record."""
    alone = _alone(run)
    return [*alone["decode"]] if alone else []


def _alone(run: Mapping[str, Any]) -> Mapping[str, Any] | None:
    alone: list[Mapping[str, Any]] = [point for point in run["points"] if point["requests"] == 1]
    return min(alone, key=lambda point: point["prompt"] + point["depth"], default=None)


def share_lines(speed: ServiceSpeed | None, record: Record | None) -> list[str]:
    """What one request gets of what the memory gives, for a person."""
    found = rates(record["runs"][-1]) if record else []
    if speed is None or not found:
        return []
    rate, alone = geometric_mean(found), speed["alone"]
    line = (
        f"one request: {rate:.3g} tok/s, {100 * rate / alone['limit']:.0f} % of the memory's limit of "
        f"{alone['limit']:.3g}; expected {alone['decode']:.3g}, {alone['low']:.3g} to {alone['high']:.3g}"
    )
    slow = "slower than expected: measure it again; where it stays so, doctor.yml names the machine and a likely cause"
    return [line, slow] if max(found) < alone["low"] else [line]


def judged(plan: Plan, known: Mapping[str, Record], rails: Rails = None) -> list[Difference]:
    """What kept runs say of machines. Services that are slow alike say nothing of a machine: there the forecast is off.
    known: records by service. rails: what is wrong with those of each host, None where nobody looked."""
    services = plan["services"]
    twins = {name: _twins(name, services, known) for name in sorted(known)}
    found: list[Difference] = []
    for name, others in twins.items():
        runs = known[name]["runs"]
        if len(runs) < 2 or not all(rates(run) for run in runs):
            continue
        cause = _Cause(name, services[name], runs[-1], rails, {other: services[other] for other in others})
        found += _behind(cause, runs, others) if others else _below(cause, runs)
    return found


def _below(cause: "_Cause", runs: Sequence[Mapping[str, object]]) -> Iterator[Difference]:
    """Where every round of both runs is slower than the forecast's low end."""
    speed = cause.service["speed"]
    if speed is None or max(max(rates(run)) for run in runs) >= speed["alone"]["low"]:
        return
    alone, rate = speed["alone"], geometric_mean(rates(runs[-1]))
    yield cause.difference(
        "bench-below-forecast",
        found=f"one request gets {rate:.3g} tok/s, {100 * rate / alone['limit']:.0f} % of the memory's limit",
        expected=f"{alone['low']:.3g} to {alone['high']:.3g} tok/s by the forecast of its plan",
        reason=f"no round of {_when(runs)} was faster; nine of ten services reach their forecast's low end "
        "(docs/explanation/speed.md)",
    )


def _behind(
    cause: "_Cause", runs: Sequence[Mapping[str, object]], twins: Mapping[str, Mapping[str, object]]
) -> Iterator[Difference]:
    """Where both runs are certainly slower than others that serve the same on other machines."""
    middle = median(geometric_mean(rates(twin)) for twin in twins.values())
    like = min(twins, key=lambda twin: abs(geometric_mean(rates(twins[twin])) - middle))
    times = [_times_slower(rates(twins[like]), rates(run)) for run in runs]
    if not all(times):
        return
    yield cause.difference(
        "bench-behind-twins",
        found=f"a token takes {times[-1]:.2f} times as long as with {like}",
        expected=f"the speed of {len(twins)} that serve the same with the same image, flags and model",
        reason=f"shown by {_when(runs)}, nobody else asking",
    )


def _times_slower(before: Sequence[float], after: Sequence[float]) -> float:
    """How many times as long a token takes; 0 where that is not certain."""
    times = [{"": {_NEXT: [1000 / rate for rate in each]}} for each in (before, after)]
    try:
        (found,) = differences(times[0], times[1], {_NEXT: False}, paired=False)
    except ValueError:  # too few rounds to tell
        return 0.0
    return found.ratio if found.low > _APART else 0.0


def _twins(name: str, services: Mapping[str, ServicePlan], known: Mapping[str, Record]) -> dict[str, Mapping[str, Any]]:
    """The last runs of others that serve the same. name: of a service with a record."""
    own, mine = services[name], _alone(known[name]["runs"][-1])
    return {
        other: record["runs"][-1]
        for other, record in known.items()
        if services[other]["boot"]["key"] == own["boot"]["key"]
        and services[other]["hosts"][0] != own["hosts"][0]
        and record["runs"][-1].get("clock_max_mhz") == known[name]["runs"][-1].get("clock_max_mhz")
        and mine is not None
        and _size(_alone(record["runs"][-1])) == _size(mine)
    }


def _size(point: Mapping[str, object] | None) -> list[object]:
    return [point[key] for key in ("prompt", "answer", "depth")] if point else []


@dataclass(frozen=True)
class _Cause:
    """Why a service may be slow, by what was read of it. twins: others that serve the same."""

    name: str
    service: ServicePlan
    run: Mapping[str, Any]
    rails: Rails
    twins: Mapping[str, ServicePlan]

    def difference(self, rule: str, *, found: str, expected: str, reason: str) -> Difference:
        place = Place(host=self.service["hosts"][0], service=self.name, thing=f"speed of {self.name}")
        return Difference("warning", rule, place, found=found, expected=expected, remedy=self.remedy(), reason=reason)

    def remedy(self) -> str:
        """The likely cause first."""
        clock, power, heat = self.run["clock_mhz"], self.run["power_w"], self.run["heat_c"]
        seen = f"its GPU ran at {clock:.0f} MHz, " if clock else ""
        hosts, rails = self.service["hosts"], self.rails or {}
        looked = all(host in rails for host in hosts)  # an end alone shows no cable
        rail = next((rails[host] for host in hosts if rails[host]), "") if looked else ""
        if clock and power and clock < LOW_MHZ and power < LOW_W:
            cause = f"{seen}{power:.0f} W, the low-power state: if doctor.yml lets it restart, take the AC power away"
        elif heat and heat >= HOT_C:
            cause = f"{seen}{heat:.0f} degrees: give it air and clean its filters"
        elif clock and clock < min(_HELD_MHZ, self.run.get("clock_max_mhz") or _HELD_MHZ):
            cause = f"{seen}held back: look for a lock or a cap by nvidia-smi -q -d CLOCK,PERFORMANCE"
        elif rail:
            cause = f"{seen}and of its rails {rail}: mend that first"
        elif kernel := self._kernel():
            cause = f"{seen}{kernel}: look in its log for the reason"
        elif len(hosts) > 1 and not looked:
            cause = f"{seen}so look at its rails first, by verify.yml: NCCL may have fallen back to sockets"
        elif clock:
            cause = f"{seen}so look in its log for another MoE or attention kernel than its recipe's"
        else:
            cause = "look at its GPU while it answers, by nvidia-smi -q -d CLOCK: below 1 GHz do as doctor.yml says"
        return f"{cause}; then measure again: ansible-playbook gb10.fleet.bench -e service={self.name}"

    def _kernel(self) -> str:
        """Another kernel than its flags name, or than its twins have, by the log of its start; empty without."""
        chosen = _kernels(self.service)
        for option, kind in _KERNELS.items():
            of_kind = [kernel for kernel in chosen if kernel.endswith(f" {kind}")]
            wanted = str(self.service["flags"].get(option, "auto"))
            if of_kind and wanted != "auto" and not any(_letters(wanted) in _letters(kernel) for kernel in of_kind):
                return f"it computes with {', '.join(of_kind)}, and its flags name {option}: {wanted}"
        for other, twin in self.twins.items():
            if chosen and (of_twin := _kernels(twin)) and of_twin != chosen:
                return f"it computes with {', '.join(chosen)}, and {other} with {', '.join(of_twin)}"
        return ""


def _kernels(service: ServicePlan) -> list[str]:
    own = service["speed"]["own"] if service["speed"] else None
    return (own["kernels"] or "").split(", ") if own and own["kernels"] else []


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())


def _when(runs: Sequence[Mapping[str, Any]]) -> str:
    return f"two runs, of {' and '.join(run['at'] for run in runs)},"
