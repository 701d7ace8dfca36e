# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host that was updated is what it was to be, and has no fault that it had not before."""

from collections.abc import Iterator, Mapping
from typing import Any

from ..._base import worded
from ..._base.findings import Finding, ordered
from ..._base.reading import State
from ..._base.slice import Slice
from ..._plan.preflight.needs import obstacles, preflight
from .result import running


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
