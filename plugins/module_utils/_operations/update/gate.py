# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host may be updated: all of it is judged before the first change of any host."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._base.findings import Finding, error, host_error, host_warning
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
        yield host_warning(
            "update-no-way-back",
            "the way back",
            found=f"{_names(lost)} can't be put back: the version that is installed can be had nowhere any more",
            expected="a package file of each version that goes",
            remedy="put those files into /var/cache/apt/archives before, or accept it",
        )


def _unusable(found: Mapping[str, Any]) -> Iterator[Finding]:
    if found["why"]:
        yield host_error(
            "update-apt",
            "apt",
            found=f"it can't say what it would do: {found['why']}",
            expected="apt-get --simulate dist-upgrade ends well",
            remedy="mend that on the host, and begin again",
        )
    if found["broken"]:
        yield host_error(
            "update-broken",
            "dpkg",
            found=found["broken"],
            expected="every package is set up",
            remedy="sudo dpkg --configure -a; sudo apt-get --fix-broken install",
        )
    if found["record_why"]:
        yield host_error(
            "update-record",
            "the record of an update that was cut off",
            found=found["record_why"],
            expected="a record of this collection",
            remedy=f"look at what is installed (/var/log/apt/history.log), remove {UPDATE}, and begin again",
        )


def _packages(found: Mapping[str, Any]) -> Iterator[Finding]:
    removed = [step["package"] for step in found["steps"] if step["action"] == "remove"]
    if removed:
        yield host_error(
            "update-removes",
            "the packages",
            found=f"apt would remove {_names(removed)}",
            expected="packages that come or move; what is removed could be what this host serves with",
            remedy=f"`apt-get --simulate dist-upgrade` says why; remove it by hand (sudo apt-get remove {removed[0]}), "
            "if that is what you want, or hold what asks for it",
        )
    if found["downgraded"]:
        yield host_error(
            "update-downgrades",
            "the packages",
            found=f"apt would go back to an older version of {_names(found['downgraded'])}",
            expected="newer ones",
            remedy="see /etc/apt/preferences.d for a pin above 1000, and do by hand what you want of it",
        )


def _firmware(found: Mapping[str, Any], wanted: bool | None) -> Iterator[Finding]:
    offered = found["firmware"]
    if found["firmware_why"] and wanted is not False:
        yield host_error(
            "update-firmware-unknown",
            "fwupdmgr",
            found=found["firmware_why"],
            expected="what firmware is offered",
            remedy="mend that, or write -e firmware=false to leave firmware alone",
        )
    if not offered:
        return
    words = "; ".join(f"{device['device']} {device['have']} to {device['version']}" for device in offered)
    if wanted is None:
        yield host_error(
            "update-firmware",
            "firmware",
            found=f"offered: {words}",
            expected="your word, since firmware can't be put back",
            remedy="write -e firmware=true to bring it with the packages, which is what NVIDIA asks for, or -e "
            "firmware=false to leave it",
            reason="a driver without the firmware of its update has left machines without their GPU",
            source="GB10 community wiki, torn pairing of driver and firmware",
        )
    elif wanted:
        yield host_warning(
            "update-firmware-stays",
            "firmware",
            found=f"can't be put back: {words}",
            expected="",
            remedy="some of it works only after power was off and on; don't cut the power while it is written",
        )


def apart(groups: Sequence[Sequence[str]], results: Mapping[str, Result]) -> Iterator[Finding]:
    """Hosts of one group that would end with different kernels or drivers. groups: as `order.groups_of`."""
    for hosts in groups:
        for what in ("kernel", "driver"):
            have = {host: getattr(results[host], what) for host in hosts if host in results}
            if len({*have.values()}) > 1:
                yield error(
                    "update-apart",
                    ", ".join(hosts),
                    found="; ".join(f"{host} would have {what} {version}" for host, version in have.items()),
                    expected=f"the same {what} on all hosts of a group",
                    remedy="sudo apt-get update on each, and compare `apt-cache policy` and `apt-mark showhold`",
                    reason="ranks that differ hang, or answer wrongly",
                )


def _names(packages: Sequence[str]) -> str:
    shown = ", ".join(packages[:_MOST_NAMES])
    return shown + (f" and {len(packages) - _MOST_NAMES} more" if len(packages) > _MOST_NAMES else "")
