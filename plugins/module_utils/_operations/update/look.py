# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a host: what apt and fwupd would do, what can be put back, and the record of an update that is under way."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._base import layout
from ..._base.own_files import look
from ..._base.received import ANYTHING, Unread, is_list, is_map, matching, one_line, parsed
from ..._host.probe.machine import simulated
from ..._host.probe.parts import Run, UnreadableError, output
from ..._host.probe.units import read_units
from .form import record_of

FOLDER = Path(layout.UPDATE)
RECORD = Path(layout.UPDATE_RECORD)
DEBS = FOLDER / "debs"
ARCHIVES = Path("/var/cache/apt/archives")
_TOOK = Path(layout.UPDATE_TOOK)
_BOOT = Path("/boot")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Ubuntu brings an update to some machines days before others, by their machine-id (apt_preferences(5), phased updates):
# hosts of one fleet would end with different versions. None is taken before it is for all.
APT = ("apt-get", "--option", "APT::Get::Never-Include-Phased-Updates=true")
_ASKED = ("linux-image-*", "linux-modules-nvidia-*", "nvidia-*", "libnvidia-*")
_MOST_WORDS = 2000


def read_updates(run: Run, units: Iterable[str]) -> dict[str, Any]:
    """`form.READING`. units: of services, asked whether they run or would at boot."""
    simulated, why = simulate(run)
    record, record_why = look(RECORD, record_of)
    firmware, firmware_why = _firmware(run)
    return {
        **simulated,
        "why": why,
        "boot_id": boot_id(),
        "kernels": sorted(path.name.removeprefix("vmlinuz-") for path in _BOOT.glob("vmlinuz-*")),
        "held": output(run, ["apt-mark", "showhold"]).split(),
        "installed": _installed(run, _ASKED),
        "lost": lost(run, simulated["steps"]),
        "broken": _shown(run(["dpkg", "--audit"])[1]),
        "firmware": firmware,
        "firmware_why": firmware_why,
        "units": {
            name: one["active"] in ("active", "activating") or one["enabled"] == "enabled"
            for name, one in read_units(run, units).items()
        },
        "record": record,
        "record_why": _shown(record_why),
        "took_s": _took(),
    }


def simulate(run: Run) -> tuple[dict[str, Any], str]:
    """`apt.simulation`, by the package lists that are here and without a lock; and why there is none."""
    code, out, err = run([*APT, "--option", "Debug::NoLocking=true", "--simulate", "dist-upgrade"])
    if code == 0:
        return simulation(out), ""
    return simulation(""), _shown(err.strip() or out) or f"apt-get ended with {code}"


def lost(run: Run, steps: Sequence[Mapping[str, str]]) -> list[str]:
    """Packages that move whose installed version is neither a file here nor offered by the lists."""
    moves = {(step["package"], step["have"]) for step in steps if step["action"] == "upgrade"}
    missing = sorted(moves - {*kept_debs()})
    if missing:
        found = offered(output(run, ["apt-cache", "madison", *(name for name, _version in missing)]))
        missing = [item for item in missing if item not in found]
    return [name for name, _version in missing]


def kept_debs() -> dict[tuple[str, str], Path]:
    """Files of packages that are here, by package and version."""
    files = [*ARCHIVES.glob("*.deb"), *DEBS.glob("*.deb")]
    return {named: path for path in files if (named := deb_of(path.name))}


def versions(run: Run, names: Iterable[str]) -> dict[str, str]:
    """The installed version of each of these packages that is installed."""
    asked = [*names]
    return _installed(run, asked) if asked else {}


def boot_id() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip()


def _installed(run: Run, patterns: Sequence[str]) -> dict[str, str]:
    form = "${binary:Package} ${db:Status-Status} ${Version}\n"
    _code, out, _err = run(["dpkg-query", "--show", f"--showformat={form}", *patterns])
    rows = (line.split() for line in out.splitlines())
    return {_plain(row[0]): row[2] for row in rows if row[1:2] == ["installed"] and len(row) == 3}


def _plain(name: str) -> str:
    """As apt names it: with its architecture only where that is not the machine's own, which dpkg adds to libraries."""
    package, _, architecture = name.partition(":")
    return name if architecture in ("i386", "armhf") else package


def _firmware(run: Run) -> tuple[list[dict[str, str]] | None, str]:
    """What is offered, by the metadata that is here; None where the machine has no fwupd, or it can't say."""
    try:
        code, out, err = run(["fwupdmgr", "get-updates", "--json"])
        # 2 and 3: nothing to do, nothing found (fwupdmgr(1))
        return ([] if code in (2, 3) and not out.strip() else firmware_of(out)), ""
    except FileNotFoundError:
        return None, ""
    except ValueError as problem:
        return None, _shown(f"{problem}: {(err or out)[-200:]}")
    except UnreadableError as problem:
        return None, _shown(str(problem))


def _shown(text: str) -> str:
    """On one line, of a text of several its end."""
    return one_line(" | ".join(line.strip() for line in text.strip().splitlines())[-_MOST_WORDS:], _MOST_WORDS)


def _took() -> float | None:
    found, _why = look(_TOOK, json.loads)
    seconds = found.get("took_s") if isinstance(found, dict) else None
    return seconds if isinstance(seconds, int | float) and 0 <= seconds <= 1e6 else None


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
    devices = printed.get("Devices") if is_map(printed) else None
    if devices is None or not is_list(devices):
        raise ValueError("what fwupdmgr prints has no list of devices")
    found = []
    for device in devices:
        if not is_map(device):
            continue
        releases = device.get("Releases", [])
        if is_list(releases) and releases and is_map(releases[0]):
            words = (device.get("Name"), device.get("Version"), releases[0].get("Version"))
            found.append(dict(zip(("device", "have", "version"), map(_word, words), strict=True)))
    return found


def _word(value: Unread) -> str:
    return one_line(matching(ANYTHING, value) or "?", 200)
