# SPDX-License-Identifier: GPL-3.0-or-later
"""What is published for a host: the plan as far as it is about it, without anything that lies on the controller.

A published slice is read by whoever reaches the folder, so that it names no secret: those lie on the host since
`gb10.fleet.pull` was run for it.
"""

from collections.abc import Container, Iterator, Mapping
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, host_error, refusal
from ..._base.forms import forms
from ..._base.place import Place
from ..._base.schema import check
from ..._base.slice import ServiceSlice, Slice, part_of
from ..._subjects.registry import FLEET_SUBJECTS

FORMAT = 1
NAMESPACE = "gb10-fleet"  # ssh-keygen(1), -n: a signature of this key for anything else is none of ours
SIGNER = "publisher"
MOST_BYTES = 16 << 20
MOST_SERIAL = 1 << 53
_SITE = "leave it to site.yml, which reaches the host from here"
# What a service has that lies on the controller, by its key in the slice, and in words.
_SECRETS = {"key": "its API key", "secret": "its group's secret", "trace_headers": "the headers for its collector"}
# What owners set for roles of site.yml beside the plan.
OPTIONS = (
    "fabric_foreign",
    "fabric_packages",
    "fabric_ssh_interface",
    "model_store_hf",
    "model_store_pip_arguments",
    "model_store_token_file",
)
_SPEC = forms(
    "published",
    format={"type": "int", "required": True, "choices": [FORMAT]},
    serial={"type": "int", "required": True, "min": 1, "max": MOST_SERIAL},
)["published"]


def refused(host: str, slice_: Slice, variables: Container[str]) -> Iterator[Finding]:
    """Why a host can't be left to itself with this slice. variables: the names of this host's, of the inventory."""
    for name in OPTIONS:
        if name in variables:
            yield _refused(host, "pull-options", f"{name} is set for it, and no slice holds options of roles")
    for subject in FLEET_SUBJECTS:
        if why := subject.controller(part_of(slice_, subject.name)):
            yield _refused(host, "pull-secrets", why)
    if slice_["container_engine"]["registries"]:
        yield _refused(host, "pull-secrets", "it logs in to registries, by passwords from here")
    if slice_["tls"]["source"] or any(service["tls"] for service in slice_["services"]):
        yield _refused(
            host, "pull-certificates", "its certificates, or the CA that it trusts, are made and renewed here"
        )
    for name, pin, entry in _brought(slice_):
        if entry["lock"] is None and entry[pin] is None:
            yield worded.host_error("pull-unlocked", Place(host=host, thing=name), pin=pin)


def _refused(host: str, rule: str, found: str) -> Finding:
    return host_error(rule, host, found=found, expected="a host that needs nothing from here", remedy=_SITE)


def _brought(slice_: Slice) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for image in slice_["images"]:
        yield f"image {image['reference']}", "digest", image
    for model in slice_["models"]:
        yield f"model {model['repository']}", "revision", model


def content(fleet: Mapping[str, Any], host: str, collection: str, lock: str) -> dict[str, Any]:
    """What is published for a host, but for ``serial`` and ``published``.

    fleet: what `gb10.fleet.plan` returned. collection: the SHA-256 of the collection's archive. lock: the lock's text.
    """
    plan, own = fleet["plan"], fleet["plan"]["hosts"][host]
    services = {name: one for name, one in plan["services"].items() if host in one["hosts"]}
    at_home = {
        **own,
        # a service starts anew when one of these was changed, as by a pull from the controller
        "services": [
            {**service, **dict.fromkeys(_SECRETS), "held": [file["path"] for file in _held(service)]}
            for service in own["services"]
        ],
        "needs": {**own["needs"], "secrets": []},
    }
    return {
        "format": FORMAT,
        "host": host,
        "inventory": plan["inventory"],
        "collection": collection,
        "lock": lock,
        "held": [file for service in own["services"] for file in _held(service)],
        "units": [service["unit"] for service in own["services"]],
        "fleet": {
            "plan": {
                "inventory": plan["inventory"],
                "drift": {**plan["drift"], "hook": []},
                "hosts": {host: at_home},
                "services": services,
                "summary": [row for row in plan["summary"] if row["service"] in services],
                "findings": [],
                **{subject.name: subject.nothing for subject in FLEET_SUBJECTS if subject.spec is not None},
            },
            "hosts": [host],
            "services": sorted(services),
            "removal": {**fleet["removal"], "hosts": [host], "retire": []},
        },
    }


def _held(service: ServiceSlice) -> Iterator[dict[str, str]]:
    """The files that the host must have, of what no slice holds: ``{path, what}``."""
    parts: Mapping[str, Any] = service
    for key, what in _SECRETS.items():
        if parts[key]:
            yield {"path": parts[key]["path"], "what": f"{service['name']}: {what}"}


def is_same(before: Mapping[str, object] | None, now: Mapping[str, object]) -> bool:
    """Whether what is published says the same, whenever it was published."""
    old = before or {}
    return {key: old.get(key) for key in now} == {**now}


def checked(value: object, file: str) -> dict[str, Any]:
    """A published slice, if it is in its form. FleetError with the place of what is not."""
    found, problems = check(_SPEC, value, "")
    if problems:
        raise worded.refusal("pull-form", f"{file}: {problems[0].place or 'the slice'}", found=problems[0].found)
    slices: Mapping[str, Any] = found["fleet"]["plan"].get("hosts") or {}
    if [*slices] != [found["host"]]:
        raise refusal("pull-form", file, found=f"slices of {', '.join(slices) or 'nobody'}", expected=found["host"])
    result: dict[str, Any] = found
    return result
