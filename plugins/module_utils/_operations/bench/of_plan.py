# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides what a benchmark of planned services measures, whether it can be compared, and the runs that are kept."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, error
from ..._base.place import Place
from ..._base.plan import Plan
from ..._base.ranks import head_of
from ..._engines.registry import ENGINES
from .canary import night_points
from .compare import LEAST, Difference, differences
from .conditions import NAMES, conditions, differing, other_profile, unlike
from .figures import BETTER
from .form import run
from .owner import owner_points
from .sweep import DEFAULTS, Point, asked, points, problems, services_of, steps, words, wrong_points

Options = Mapping[str, Any]


def head(plan: Plan, name: str) -> str:
    return str(plan["services"][name]["hosts"][0])


def watched(plan: Plan, service: str) -> list[str]:
    """The services that a drift check measures. service: this one alone; empty for all."""
    return [name for name in plan["drift"]["benchmark"] if service in ("", name)]


def load_of(plan: Plan, name: str) -> dict[str, Any]:
    """`sweep.asked` of a service of the plan."""
    service = plan["services"][name]
    spec = ENGINES[service["engine"]].spec
    parts = {key: getattr(spec, key) for key in ("load", "load_more", "load_tls", "code_flags")}
    return asked(name, head_of(plan, name), service["served_name"], parts, spec.series)


def bench_loads(plan: Plan, host: str, services: Sequence[str]) -> dict[str, Any]:
    """``{service: {load, points}}`` of those whose endpoint is on the host, for a short benchmark. load: of `load_of`;
    points: of `Point`, none where no prompt fits."""
    return {
        name: {
            "load": load_of(plan, name),
            "points": [asdict(point) for point in night_points(plan["services"][name]["kv"])],
        }
        for name in services
        if head(plan, name) == host
    }


def run_of(
    plan: Plan,
    name: str,
    title: str,
    at: datetime,
    seen: Mapping[str, object],
    results: Sequence[Mapping[str, object]],
    profile: str = "load",
) -> dict[str, Any]:
    """`form.RUN` of a service of the plan. title: what it is kept as. seen, results: of `Measuring`, each of results
    with its ``point`` and ``round``."""
    slice_ = head_of(plan, name)
    under = conditions(plan["services"][name], slice_, seen)
    service = {"name": name, "definition": slice_["definition"]}
    return run(title, f"{at:%Y-%m-%dT%H:%M:%SZ}", service, under, results, profile)


# One benchmark, as `gb10.fleet.bench` is asked for it ---------------------------------------------------------------


def completed(options: Options) -> dict[str, Any]:
    """With what its profile measures where nobody has said."""
    return {**options, **{key: value for key, value in DEFAULTS[options["profile"]].items() if options[key] is None}}


def compared_services(options: Options) -> list[str]:
    """The service, or the two that are compared."""
    return services_of(options["plan"], options["service"], options["against"])


def earlier_run(options: Options) -> str:
    """The name of the earlier run that is compared with; empty for a service, and without any."""
    return str(options["against"]) if options["against"] and len(compared_services(options)) == 1 else ""


def target(options: Options, name: str) -> dict[str, Any]:
    """What is asked of the host of an endpoint, and what llama-benchy is given on the controller."""
    plan = options["plan"]
    slice_, service = head_of(plan, name), plan["services"][name]
    owner = {
        "url": options["endpoint"] or service["endpoint"],
        "served": service["served_name"],
        "key": slice_["key"]["source"] if slice_["key"] else "",
        "authority": (slice_["tls"] and slice_["tls"]["ca"]) or "",
        "model": slice_["models"][0],
    }
    return {"service": name, "host": head(plan, name), "load": load_of(plan, name), "owner": owner}


def points_of(options: Options) -> list[Point]:
    """Those that all of its services hold."""
    pools = [options["plan"]["services"][name]["kv"] for name in compared_services(options)]
    contexts = [pool["context"] for pool in pools if pool["context"] is not None]
    most = [pool["max_concurrency"] for pool in pools if pool["max_concurrency"] is not None]
    lengths = (min(contexts, default=None), min(most, default=None))
    if options["profile"] == "owner":
        return owner_points(lengths[0], options["prompts"], options["depths"], options["answer"])
    closed = (options["prompts"], options["concurrency"], options["answer"])
    return points(*lengths, *closed, options["depths"], options["rates"], options["images"])


def ordered_steps(options: Options, seed: int) -> list[dict[str, Any]]:
    """What is measured, one after the other. seed: of the first run's prompts, which no later benchmark may have."""
    names, plan = compared_services(options), options["plan"]
    order = steps([(name, head(plan, name)) for name in names], points_of(options), options["rounds"], seed)
    targets = {name: target(options, name) for name in names}
    return [
        {
            **asdict(step),
            "load": {
                **targets[step.service]["load"],
                "words": words(targets[step.service]["load"], step.point, step.seed),
            },
            "owner": targets[step.service]["owner"],
        }
        for step in order
    ]


def announced(options: Options, order: Sequence[object]) -> str:
    """What will be measured, for a person."""
    names = " and ".join(dict.fromkeys(compared_services(options)))
    sent = ", ".join(point.name for point in points_of(options))
    return (
        f"{len(order)} runs of {names}: {sent}, each in {options['rounds']} rounds and one to warm up; nobody else may "
        "ask meanwhile"
    )


def unusable(options: Options) -> Iterator[Finding]:
    """What can't be measured at all."""
    names = compared_services(options)
    tools = {name: engine.spec.load for name, engine in ENGINES.items()}
    yield from problems(options["plan"], names, options["hosts"], tools)
    yield from wrong_points(options)
    if options["endpoint"] and len({*names}) > 1:
        yield worded.error("bench-endpoint", "endpoint", names=" and ".join(names))
    if options["rounds"] < LEAST:
        yield worded.error("bench-rounds", "rounds", found=str(options["rounds"]), least=LEAST)
    for name in options["changed"]:
        if name not in NAMES:
            yield error("bench-changed", "changed", found=name, expected=", ".join(NAMES), remedy="write one of them")


def incomparable(options: Options, before: Mapping[str, Any] | None) -> Iterator[Finding]:
    """In what two services, or a service and an earlier run, differ besides what was asked for."""
    names, found = compared_services(options), points_of(options)
    if not found:
        at = Place(service=names[-1])
        yield worded.error("bench-points/incomparable", at, prompts=min(options["prompts"]), answer=options["answer"])
    now = {
        name: conditions(options["plan"]["services"][name], head_of(options["plan"], name), options["seen"][name])
        for name in names
    }
    if before:
        yield from other_profile(options["profile"], before)
        yield from differing(before["conditions"], now[names[-1]], options["changed"], before["name"])
        yield from unlike([asdict(point) for point in found], before["points"], before["name"])
    elif len(names) > 1:
        yield from differing(now[names[0]], now[names[1]], options["changed"], names[0])


def finished_runs(options: Options, now: datetime) -> list[dict[str, Any]]:
    """A run for each side, of the steps and what was measured of each."""
    plan, names = options["plan"], compared_services(options)
    done = list(zip(options["steps"], options["measured"], strict=True))
    runs = []
    for side, name in enumerate(names, 2 - len(names)):
        own = [
            {**answer, "point": Point(**step["point"]), "round": step["round"]}
            for step, answer in done
            if step["side"] == side
        ]
        title = f"{name}-{now:%Y%m%d-%H%M%S}{'-before' if len(names) > 1 and not side else ''}"
        runs.append(run_of(plan, name, title, now, options["seen"][name], own, options["profile"]))
    return runs


def compared(runs: Sequence[Mapping[str, Any]], paired: bool) -> list[Difference]:
    """The second run against the first. paired: both were measured in turns."""
    if len(runs) == 1:
        return []
    first, second = (run["values"] for run in runs)
    return differences(first, second, BETTER, paired)
