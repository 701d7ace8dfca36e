# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""What is measured of a service, in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._findings import Finding, did_you_mean, error

# Of each point, more than are sent at once: what a figure says is the middle of several requests.
_REQUESTS_EACH = 4
# A prompt of random tokens becomes a few more where it is taken apart anew.
_SPARE_TOKENS = 64


@dataclass(frozen=True)
class Point:
    """What is sent. prompt, answer: tokens of each request. at_once: requests at the same time; requests: of one
    run."""

    name: str
    prompt: int
    answer: int
    at_once: int
    requests: int


@dataclass(frozen=True)
class Step:
    """One run of a point. side: 0 for what is compared with, else 1. round: 0 warms up and doesn't count. seed: of the
    prompts, the same for both sides of a round, and never one of an earlier round, whose prompts are in a cache."""

    side: int
    service: str
    host: str
    point: Point
    round: int
    seed: int


def points(
    context: int | None, most_at_once: float | None, prompts: Sequence[int], at_once: Sequence[int], answer: int
) -> list[Point]:
    """Each prompt's length alone, and each number of requests at once with the shortest one.

    context: tokens of the longest request; most_at_once: requests of that length that the KV pool holds; None where
    that isn't known. What does not fit is left out.
    """
    fits = [prompt for prompt in sorted({*prompts}) if context is None or prompt + answer + _SPARE_TOKENS <= context]
    counts = [count for count in sorted({*at_once}) if count > 1 and (most_at_once is None or count <= most_at_once)]
    pairs = [(prompt, 1) for prompt in fits] + [(fits[0], count) for count in counts if fits]
    return [
        Point(f"{prompt} tokens x {count}", prompt, answer, count, _REQUESTS_EACH * count) for prompt, count in pairs
    ]


def steps(sides: Sequence[tuple[str, str]], measured: Sequence[Point], rounds: int, seed: int) -> list[Step]:
    """Round by round, in each all points, and of each point both sides one after the other; which of them is first
    changes, so that neither is always the one that follows. sides: service and host of each. seed: of this run."""
    found = []
    for number in range(rounds + 1):
        for place, point in enumerate(measured):
            order = list(enumerate(sides))
            if (number + place) % 2:
                order.reverse()
            own = seed + number * len(measured) + place
            first = 2 - len(sides)
            found += [Step(first + side, service, host, point, number, own) for side, (service, host) in order]
    return found


def services_of(plan: Mapping[str, Any], service: str, against: str) -> list[str]:
    """What is measured, what it is compared with first; a name that is no service's is an earlier run's."""
    return [against, service] if against in plan["services"] else [service]


def problems(
    plan: Mapping[str, Any], names: Sequence[str], hosts: Sequence[str], tools: Mapping[str, Sequence[str]]
) -> Iterator[Finding]:
    """Why these can't be measured. hosts: of the run. tools: by engine, the words of its load generator."""
    for name in names:
        service = plan["services"].get(name)
        if service is None:
            remedy = did_you_mean(name, [*plan["services"]]) if name else "write -e service=NAME"
            words = f'no service "{name}"' if name else "not given"
            yield error("service-unknown", "service", found=words, expected="a service", remedy=remedy)
            continue
        if service["hosts"][0] not in hosts:
            yield error(
                "bench-limit",
                f"fleet_services.{name}",
                found=f"this run leaves out {service['hosts'][0]}",
                expected="the host of the endpoint that is measured",
                remedy="name it in -l, too, or leave -l out",
            )
        if not tools[service["engine"]]:
            yield error(
                "bench-engine",
                f"fleet_services.{name}",
                found=f"served by {service['engine']}, whose images bring no load generator",
                expected=f"one of {', '.join(engine for engine, words in tools.items() if words)}",
                remedy="measure it by a program of your own, through its endpoint",
            )


def asked(
    name: str, slice_: Mapping[str, Any], served: str, spec: Mapping[str, Sequence[str]], series: Mapping[str, str]
) -> dict[str, Any]:
    """What a host is given to measure a service; `words` fills in the rest. slice_: of the head's ``services``.
    served: the
    model's name for clients. spec: ``{load, load_tls, code_flags}`` of its engine. series: of `EngineSpec`."""
    proof, arguments = slice_["proof"], slice_["container"]["arguments"]
    file = "gb10-bench.json"
    trusted = [f"--{flag}" for flag in spec["code_flags"] if f"--{flag}" in arguments]
    filled = {"{url}": proof["url"], "{served}": served, "{file}": file}
    own = [filled.get(word, word) for word in spec["load"]]
    return {
        "service": name,
        "engine": slice_["engine"],
        "container": slice_["container"]["name"],
        **{key: proof[key] for key in ("url", "certificate", "key_file", "key_form")},
        "metrics": {
            "path": "/metrics",
            "tokens": [series["prompted"], series["generated"]],
            "answered": [series["generated"]],
            "running": [series["running"]],
            "waiting": [series["waiting"]],
            "kv_use": [series["kv_use"]],
        },
        "file": f"/tmp/{file}",
        "words": [*own, *trusted, *(spec["load_tls"] if proof["url"].startswith("https:") else ())],
    }


def words(template: Sequence[str], point: Point, seed: int) -> list[str]:
    """The load generator's words for one run."""
    filled = {
        "{prompt}": point.prompt,
        "{answer}": point.answer,
        "{at_once}": point.at_once,
        "{requests}": point.requests,
        "{seed}": seed,
    }
    return [str(filled.get(word, word)) for word in template]
