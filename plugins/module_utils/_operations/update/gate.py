# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host may be updated: all of it is judged before the first change of any host."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._base import worded
from ..._base.findings import Finding
from ..._base.layout import UPDATE
from ..._base.subject import PreflightContext
from .result import Result, combination

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
        for what in ("kernel", "driver"):
            have = {host: getattr(results[host], what) for host in hosts if host in results}
            if len({*have.values()}) > 1:
                found = "; ".join(f"{host} would have {what} {version}" for host, version in have.items())
                yield worded.error("update-apart", ", ".join(hosts), found=found, what=what)


def _names(packages: Sequence[str]) -> str:
    shown = ", ".join(packages[:_MOST_NAMES])
    return shown + (f" and {len(packages) - _MOST_NAMES} more" if len(packages) > _MOST_NAMES else "")
