# SPDX-License-Identifier: GPL-3.0-or-later
"""What is measured of a service, in which order."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, did_you_mean, error
from ..._base.place import Place
from ..._base.plan import Plan
from ..._base.slice import ServiceSlice

# What is sent unless something else is asked for, by profile.
DEFAULTS: dict[str, dict[str, Any]] = {
    "load": {"prompts": (512, 8192), "concurrency": (4, 16), "depths": (), "answer": 128},
    # as llama-benchy is run by its community (its README, 0.4.0)
    "owner": {"prompts": (2048,), "concurrency": (), "depths": (0, 4096, 8192, 16384, 32768), "answer": 32},
}
# Of each point, more than are sent at once: what a figure says is the middle of several requests.
_REQUESTS_EACH = 4
# A prompt of random tokens becomes a few more where it is taken apart anew.
SPARE_TOKENS = 64
# Of a point with a rate: so long, and at least so many requests, that how they fall together evens out.
_RATE_S, _RATE_REQUESTS = 15, 16
_IMAGE = re.compile(r"([1-9]\d{0,3})x([1-9]\d{0,3})")


@dataclass(frozen=True)
class Point:
    """What is sent. prompt, answer: tokens of each request. at_once: requests at the same time, 0 for as many as come;
    requests: of one run. depth: tokens before the prompt, the same for all requests of a run, so that a prefix cache
    holds them. rate: requests that come in a second; 0 where the next one follows an answer. image: of each request,
    as `WIDTHxHEIGHT`; empty for none."""

    name: str
    prompt: int
    answer: int
    at_once: int
    requests: int
    depth: int = 0
    rate: float = 0.0
    image: str = ""


@dataclass(frozen=True)
class BenchmarkStep:
    """One run of a point. side: 0 for what is compared with, else 1. round: 0 warms up and doesn't count. seed: of the
    prompts, the same for both services of a round, and never one that a service had before, whose prompts are in its
    cache."""

    side: int
    service: str
    host: str
    point: Point
    round: int
    seed: int


def points(
    context: int | None,
    most_at_once: float | None,
    prompts: Sequence[int],
    at_once: Sequence[int],
    answer: int,
    depths: Sequence[int] = (),
    rates: Sequence[float] = (),
    images: Sequence[str] = (),
) -> list[Point]:
    """Each prompt's length alone; with the shortest one each number of requests at once, each rate, each depth, and
    each image alone and with each number of requests at once.

    context: tokens of the longest request; most_at_once: requests of that length that the KV pool holds; None where
    that isn't known. What does not fit is left out; how many tokens an image takes is the model's affair.
    """

    def fits(tokens: int) -> bool:
        return context is None or tokens + answer + SPARE_TOKENS <= context

    lengths = [prompt for prompt in sorted({*prompts}) if fits(prompt)]
    if not lengths:
        return []
    first = lengths[0]
    counts = [count for count in sorted({*at_once}) if count > 1 and (most_at_once is None or count <= most_at_once)]
    return [
        *(_closed(f"{prompt} tokens x 1", prompt, answer, 1) for prompt in lengths),
        *(_closed(f"{first} tokens x {count}", first, answer, count) for count in counts),
        *(
            Point(f"{first} tokens, {rate:g}/s", first, answer, 0, _at_rate(rate), rate=rate)
            for rate in sorted({*rates})
        ),
        *(
            _closed(f"{first} tokens after {depth} x 1", first, answer, 1, depth=depth)
            for depth in sorted({*depths} - {0})
            if fits(depth + first)
        ),
        *(
            _closed(f"{first} tokens, {image} x {count}", first, answer, count, image=image)
            for image in dict.fromkeys(images)
            for count in (1, *counts)
        ),
    ]


def _closed(name: str, prompt: int, answer: int, at_once: int, depth: int = 0, image: str = "") -> Point:
    return Point(name, prompt, answer, at_once, _REQUESTS_EACH * at_once, depth=depth, image=image)


def _at_rate(rate: float) -> int:
    return max(_RATE_REQUESTS, math.ceil(rate * _RATE_S))


def steps(sides: Sequence[tuple[str, str]], measured: Sequence[Point], rounds: int, seed: int) -> list[BenchmarkStep]:
    """Round by round, in each all points, and of each point both sides one after the other; which of them is first
    changes, so that neither is always the one that follows. sides: service and host of each. seed: of this run."""
    found = []
    apart = len({*sides}) < len(sides)  # a service against itself would have the second side's prompts in its cache
    for number in range(rounds + 1):
        for place, point in enumerate(measured):
            order = list(enumerate(sides))
            if (number + place) % 2:
                order.reverse()
            own = number * len(measured) + place
            first = 2 - len(sides)
            found += [
                BenchmarkStep(first + side, service, host, point, number, seed + (2 * own + side if apart else own))
                for side, (service, host) in order
            ]
    return found


def services_of(plan: Plan, service: str, against: str) -> list[str]:
    """What is measured, what it is compared with first; a name that is no service's is an earlier run's."""
    return [against, service] if against in plan["services"] else [service]


def problems(
    plan: Plan, names: Sequence[str], hosts: Sequence[str], tools: Mapping[str, Sequence[str]]
) -> Iterator[Finding]:
    """Why these can't be measured. hosts: of the run. tools: by engine, the words of its load generator."""
    for name in names:
        service = plan["services"].get(name)
        if service is None:
            known = sorted(plan["services"])
            remedy = did_you_mean(name, known) if name else f"write -e service=NAME; known are: {', '.join(known)}"
            words = f'no service "{name}"' if name else "not given"
            yield error("service-unknown", "service", found=words, expected="a service", remedy=remedy)
            continue
        if service["hosts"][0] not in hosts:
            yield worded.error("bench-limit", Place(service=name), first_host=service["hosts"][0])
        if not tools[service["engine"]]:
            found = f"served by {service['engine']}, whose images bring no load generator"
            engines = ", ".join((engine for engine, words in tools.items() if words))
            yield worded.error("bench-engine", Place(service=name), found=found, engines=engines)


def wrong_points(asked: Mapping[str, Any]) -> Iterator[Finding]:
    """What of the sweeps can't be sent. asked: the options of that name."""
    limits = {"prompts": 1, "concurrency": 1, "depths": 0}
    for name, least in limits.items():
        for value in asked[name]:
            if value < least:
                yield error("bench-points", name, found=str(value), expected=f"{least} or more", remedy="correct it")
    for name in ("concurrency", "rates", "images") if asked["profile"] == "owner" else ():
        if asked[name]:
            found = ", ".join(str(value) for value in asked[name])
            yield error("bench-points", name, found=found, expected="none with profile=owner", remedy="take it out")
    for rate in asked["rates"]:
        if not 0.01 <= rate <= 1000:
            yield worded.error("bench-points/wrong-points", "rates", rate=rate)
    for image in asked["images"]:
        if not _IMAGE.fullmatch(image):
            yield error("bench-points", "images", found=image, expected="WIDTHxHEIGHT, as 512x512", remedy="correct it")


def asked(
    name: str, slice_: ServiceSlice, served: str, spec: Mapping[str, Any], series: Mapping[str, str]
) -> dict[str, Any]:
    """What a host is given to measure a service; `words` fills in the rest. slice_: of the head's ``services``.
    served: the
    model's name for clients. spec: ``{load, load_more, load_tls, code_flags}`` of its engine. series: of
    `EngineSpec`."""
    proof, arguments = slice_["proof"], slice_["container"]["arguments"]
    assert proof is not None  # which each head has
    file = "gb10-bench.json"
    trusted = [f"--{flag}" for flag in spec["code_flags"] if f"--{flag}" in arguments]
    filled = {"{url}": proof["url"], "{served}": served, "{file}": file}
    own = [filled.get(word, word) for word in spec["load"]]
    return {
        "service": name,
        "engine": slice_["engine"],
        "container": slice_["container"]["name"],
        "url": proof["url"],
        "certificate": proof["certificate"],
        "key_file": proof["key_file"],
        "key_form": proof["key_form"],
        "metrics": {
            "path": "/metrics",
            "tokens": [series["prompted"], series["generated"]],
            "answered": [series["generated"]],
            "running": [series["running"]],
            "waiting": [series["waiting"]],
            "kv_use": [series["kv_use"]],
        },
        "drafts": [series[name] for name in ("draft_steps", "draft_accepted", "tokens_a_step") if name in series],
        "file": f"/tmp/{file}",
        "words": [*own, *trusted, *(spec["load_tls"] if proof["url"].startswith("https:") else ())],
        "more": {name: [*more] for name, more in spec["load_more"].items()},
    }


def words(load: Mapping[str, Any], point: Point, seed: int | str) -> list[str]:
    """The load generator's words for one run. load: as `asked`."""
    image = _IMAGE.fullmatch(point.image)
    width, height = image.groups() if image else ("", "")
    filled = {
        "{prompt}": f"{point.prompt}",
        "{answer}": f"{point.answer}",
        "{at_once}": f"{point.at_once}",
        "{requests}": f"{point.requests}",
        "{rate}": f"{point.rate:g}",
        "{depth}": f"{point.depth}",
        "{width}": width,
        "{height}": height,
        "{seed}": f"{seed}",
    }
    has = {"text": not image, "image": image, "at_once": point.at_once, "rate": point.rate, "depth": point.depth}
    template = [*load["words"], *(word for name, more in load["more"].items() if has[name] for word in more)]
    return [_filled(word, filled) for word in template]


def _filled(word: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(name, value)
    return word
