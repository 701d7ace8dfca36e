# SPDX-License-Identifier: GPL-3.0-or-later
"""What apt and fwupd print, as data. apt is asked in the C locale."""

import re
from collections.abc import Mapping
from typing import Any

from ..._base.received import one_line, parsed
from ..._host.probe.machine import simulated

# Headings of apt-get(8), 2.7.14 of Ubuntu 24.04 and 3.0.4 of Debian 13; names follow, on lines that are indented.
_KEPT_BACK = re.compile(r"packages have been kept back:|upgrades have been deferred due to phasing:")
_DOWNGRADED = re.compile(r"packages will be DOWNGRADED:")
_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]+(?::[a-z0-9-]+)?")
_MADISON = re.compile(r"^ *(\S+) \| +(\S+) \|", re.MULTILINE)
_DEB = re.compile(r"([^_/]+)_([^_/]+)_[^_/]+\.deb")
_MOST_FWUPD_BYTES = 4 << 20


def simulation(text: str) -> dict[str, Any]:
    """``{steps, kept_back, downgraded}`` of what ``apt-get --simulate dist-upgrade`` prints; steps as `simulated`."""
    return {"steps": simulated(text), "kept_back": _below(text, _KEPT_BACK), "downgraded": _below(text, _DOWNGRADED)}


def _below(text: str, heading: re.Pattern[str]) -> list[str]:
    found: list[str] = []
    inside = False
    for line in text.splitlines():
        if not line.startswith(" "):
            inside = bool(heading.search(line))
        elif inside:
            found += [word for word in line.split() if _NAME.fullmatch(word)]
    return found


def offered(madison: str) -> set[tuple[str, str]]:
    """Package and version of each line that ``apt-cache madison`` prints: what the lists say can be had."""
    return set(_MADISON.findall(madison))


def deb_of(file: str) -> tuple[str, str] | None:
    """Package and version of a file's name, as apt writes it; None for any other."""
    found = _DEB.fullmatch(file)
    return (found[1], found[2].replace("%3a", ":")) if found else None


def firmware_of(text: str) -> list[dict[str, str]]:
    """``{device, have, version}`` of what ``fwupdmgr get-updates --json`` offers; the first release is the newest.

    fwupd 1.9 and 2.0: ``{"Devices": [{"Name", "Version", "Releases": [{"Version"}]}]}``. ValueError for anything else.
    """
    printed = parsed(text.encode(), _MOST_FWUPD_BYTES, "what fwupdmgr prints")
    devices = printed.get("Devices") if isinstance(printed, Mapping) else None
    if not isinstance(devices, list):
        raise ValueError("what fwupdmgr prints has no list of devices")
    found = []
    for device in devices:
        releases = device.get("Releases") if isinstance(device, Mapping) else None
        if isinstance(releases, list) and releases and isinstance(releases[0], Mapping):
            words = (device.get("Name"), device.get("Version"), releases[0].get("Version"))
            found.append(dict(zip(("device", "have", "version"), map(_word, words), strict=True)))
    return found


def _word(value: object) -> str:
    return one_line(value, 200) if isinstance(value, str) else "?"
