# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host may be updated: all of it is judged before the first change of any host."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, ordered
from ..._base.layout import UPDATE
from ..._base.reading import State
from ..._base.slice import Slice
from ..._base.subject import PreflightContext
from ..._plan.preflight.needs import obstacles, preflight
from .result import Result, combination, running

# As many names as a sentence bears.
_MOST_NAMES = 12


def problems(
    look: PreflightContext, found: Mapping[str, Any], after: Result, firmware: bool | None
) -> Iterator[Finding]:
    """found: `form.READING`. firmware: whether the owner wants what is offered; None where he has not said."""
    yield from _unusable(found)
    yield from _packages(found)
    yield from _firmware(found, firmware)
    yield from combination(look, found, after)
    lost = found["lost"]
    if lost:
        yield worded.host_warning("update-no-way-back", "the way back", lost=_names(lost))


def _unusable(found: Mapping[str, object]) -> Iterator[Finding]:
    if found["why"]:
        yield worded.host_error("update-apt", "apt", why=found["why"])
    if found["broken"]:
        yield worded.host_error("update-broken", "dpkg", found=found["broken"])
    if found["record_why"]:
        yield worded.host_error(
            "update-record", "the record of an update that was cut off", found=found["record_why"], update=UPDATE
        )


def _packages(found: Mapping[str, Any]) -> Iterator[Finding]:
    removed = [step["package"] for step in found["steps"] if step["action"] == "remove"]
    if removed:
        yield worded.host_error("update-removes", "the packages", removed=_names(removed), first_removed=removed[0])
    if found["downgraded"]:
        yield worded.host_error("update-downgrades", "the packages", downgraded=_names(found["downgraded"]))


def _firmware(found: Mapping[str, Any], wanted: bool | None) -> Iterator[Finding]:
    offered = found["firmware"]
    if found["firmware_why"] and wanted is not False:
        yield worded.host_error("update-firmware-unknown", "fwupdmgr", found=found["firmware_why"])
    if not offered:
        return
    words = "; ".join(f"{device['device']} {device['have']} to {device['version']}" for device in offered)
    if wanted is None:
        yield worded.host_error("update-firmware", "firmware", words=words)
    elif wanted:
        yield worded.host_warning("update-firmware-stays", "firmware", words=words)


def apart(groups: Sequence[Sequence[str]], results: Mapping[str, Result]) -> Iterator[Finding]:
    """Hosts of one group that would end with different kernels or drivers. groups: as `order.groups_of`."""
    for hosts in groups:
        known = {host: results[host] for host in hosts if host in results}
        of = {"kernel": [one.kernel for one in known.values()], "driver": [one.driver for one in known.values()]}
        for what, versions in of.items():
            have = dict(zip(known, versions, strict=True))
            if len({*have.values()}) > 1:
                found = "; ".join(f"{host} would have {what} {version}" for host, version in have.items())
                yield worded.error("update-apart", ", ".join(hosts), found=found, what=what)


def _names(packages: Sequence[str]) -> str:
    shown = ", ".join(packages[:_MOST_NAMES])
    return shown + (f" and {len(packages) - _MOST_NAMES} more" if len(packages) > _MOST_NAMES else "")


def faults(host: str, slice_: Slice, state: State) -> list[Finding]:
    """What doctor calls an error. slice_: the host's of the plan. state: as `host_info` reads it."""
    found = [*preflight(slice_["needs"], state), *obstacles(host, slice_, state)]
    return [finding for finding in ordered(found) if finding.severity == "error"]


def name(finding: Finding) -> str:
    """By what the same fault is known again: figures in its words may differ."""
    return f"{finding.rule} {finding.place}"


def unproved(host: str, slice_: Slice, state: State, found: Mapping[str, Any]) -> Iterator[Finding]:
    """found: `form.READING` after the restart, with the record of the update."""
    record = found["record"]
    if record is None:
        yield _wrong("record", found["record_why"] or "it is gone", "the record of this update")
        return
    if record["boot_id"] == found["boot_id"]:
        yield _wrong("restart", "it has not restarted since", "another boot")
    yield from _versions(record["expected"], state)
    if found["broken"]:
        yield _wrong("dpkg", found["broken"], "every package is set up")
    if record["firmware"] and found["firmware"]:
        waiting = ", ".join(device["device"] for device in found["firmware"])
        yield _wrong("firmware", f"still offered: {waiting}", "what was brought; it may ask for power off and on")
    yield from (fault for fault in faults(host, slice_, state) if name(fault) not in record["known"])


def _versions(expected: Mapping[str, str | None], state: State) -> Iterator[Finding]:
    for what, version in zip(("kernel", "driver"), running(state), strict=True):
        wanted = expected[what]
        if wanted is not None and version != wanted:
            yield _wrong(what, f"{version or 'none'} runs", wanted)


def _wrong(place: str, found: str, expected: str) -> Finding:
    return worded.host_error("update-failed", place, found=found, expected=expected)
