# SPDX-License-Identifier: GPL-3.0-or-later
"""Which host builds an image, once for the whole fleet; all others that want it fetch it from there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .._base.findings import Finding, error
from .._engines.declaration import ImageData
from .._engines.placed import Placed


def builder(image: ImageData) -> str | None:
    """The host that builds a service's image; None where it is not built, or comes as an archive."""
    source = image["source"]
    return source.get("host") if "build" in image and isinstance(source, dict) else None


def with_one_builder(services: Sequence[Placed]) -> tuple[list[Placed], list[Finding]]:
    """The services, each image that is built with one host that builds it: the one that an owner names, else the first
    one's. Two names for one image are an error: which of two builds would the fleet have?"""
    named: dict[str, list[Placed]] = {}
    first: dict[str, str] = {}
    for service in services:
        if host := builder(service.image):
            reference = service.image["reference"]
            first.setdefault(reference, host)
            if _is_named(service):
                named.setdefault(reference, []).append(service)
    findings = []
    for reference, by in named.items():
        first[reference] = str(builder(by[0].image))
        findings += [
            error(
                "build-two-hosts",
                service.place.below("image", "source", "host"),
                found=f"{builder(service.image)}, while {by[0].name} has {reference} built on {first[reference]}",
                expected="one host that builds it",
                remedy=f"write host: {first[reference]}, or take it out",
            )
            for service in by[1:]
            if builder(service.image) != first[reference]
        ]
    return [_built_on(service, first) for service in services], findings


def _is_named(service: Placed) -> bool:
    written = {**service.recipe["image"], **service.settings["image"]}.get("source")
    return isinstance(written, Mapping) and "host" in written


def _built_on(service: Placed, hosts: Mapping[str, str]) -> Placed:
    if builder(service.image) is None:
        return service
    return replace(service, image={**service.image, "source": {"host": hosts[service.image["reference"]]}})


def built_on(host: str, services: Sequence[Placed]) -> Iterator[dict[str, Any]]:
    """The entries of ``image_store_plan`` that are of builds: on the host that builds, with all that it needs for that,
    whether it runs a service with it or not; on the others that want it, without."""
    for service in services:
        where = builder(service.image)
        if where is None or host not in (where, *service.settings["hosts"]):
            continue
        entry = {
            "reference": service.image["reference"],
            "digest": None,
            "source": {"kind": "build", "host": where},
            "known": None,
        }
        yield {**entry, "build": service.image["build"]} if host == where else entry
