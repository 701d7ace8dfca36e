# SPDX-License-Identifier: GPL-3.0-or-later
"""What a restart of a host would bring, and whether that is known to fail: advice is judged before it is given."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from ..._base import worded
from ..._base.findings import F, Finding
from ..._base.reading import Boot, Kernel, State
from ..._base.subject import PreflightContext
from .known_bad import Row, bad_rows, numbers

_REBOOT = "sudo systemctl reboot --no-block"
# Below this folder GRUB's settings lie, the last file by name wins.
_GRUB = "/etc/default/grub.d/zz-kernel.cfg"
_FIRST = "mend `restart-known-bad` of this host first; then "
# Of the host itself: what a unit, a container or a service loads anew is nothing of the next boot.
RESTARTS = re.compile(
    r"systemctl (?:reboot|poweroff)|(?<!systemctl )(?<!docker )\brestart\b(?! the services| yet|-known)"
    r"|power(?:s|ed)? (?:it |both |this host |the machine )?off|AC power|cold start|power.?cycle"
)
# A host's word for a kernel stands in commands that a person types with sudo.
_RELEASE = re.compile(r"[\w.+~-]+")


def after_restart(state: State) -> State:
    """The reading as the next boot makes it: kernel, command line and driver; what is not known stays as it is."""
    kernel, boot = state.get("kernel"), state.get("boot")
    if not kernel or not boot:
        return state
    release, cmdline = _started(kernel, boot)
    after = {"kernel": {**kernel, "release": release, "cmdline": cmdline}}
    driver = (boot["driver"] or state["driver"]) if state.get("driver") else None
    return cast(State, {**state, **after, "driver": driver})


def _started(kernel: Kernel, boot: Boot) -> tuple[str, str]:
    """Kernel and command line of the entry that GRUB starts; without its menu the newest kernel, as GRUB sorts them."""
    entries, (menu, _, below) = boot["entries"], boot["default"].partition(">")
    if menu.isdecimal() and entries:
        # the first entry is one of its own, the others are below a menu
        at = 1 + int(below) if below.isdecimal() else int(menu)
        entry = entries[min(at, len(entries) - 1)]
        return entry["release"], entry["cmdline"]
    named = [entry for entry in entries if entry["release"] in boot["default"]]
    if named:
        longest = max(named, key=lambda entry: len(entry["release"]))
        return longest["release"], longest["cmdline"]
    newest = max([*boot["kernels"], kernel["release"]], key=numbers)
    return newest, next((entry["cmdline"] for entry in entries if entry["release"] == newest), kernel["cmdline"])


def restart_brings(look: PreflightContext) -> Iterator[Finding]:
    """The versions known to fail that a restart would bring, and that do not run now, with the way around them."""
    if "restart" not in look.judged:
        look.judged["restart"] = [*_brought(look)]
    yield from look.judged["restart"]


def _brought(look: PreflightContext) -> Iterator[Finding]:
    now = {row["id"] for row, _have, _version in bad_rows(look)}
    for row, have, version in bad_rows(replace(look, state=after_restart(look.state))):
        if row["id"] not in now and version.severity != "hint":
            yield worded.finding(
                version.severity,
                "restart-known-bad",
                "the next restart",
                kind="host",
                have=f"{row['what']} {have}",
                expected=version.expected,
                remedy=_way_out(look, row, have),
                reason=version.reason,
                source=f"{version.source} (known-bad {row['id']})",
            )


def _way_out(look: PreflightContext, row: Row, have: str) -> str:
    """The cure of the row first; for a kernel also how to boot the one that runs."""
    running = look.part("kernel")["release"]
    if row["what"] != "kernel" or not (_RELEASE.fullmatch(have) and _RELEASE.fullmatch(running)):
        return f"{row['remedy']}; then {_REBOOT}"
    entry = f"Advanced options for Ubuntu>Ubuntu, with Linux {running}"
    keep = f"echo 'GRUB_DEFAULT=\"{entry}\"' | sudo tee {_GRUB} && sudo update-grub"
    hold = f"sudo apt-mark hold linux-image-{have}"
    return f"{row['remedy']}; or boot the kernel that runs now: {keep} && {hold}; only then {_REBOOT}"


def refused(look: PreflightContext) -> Finding | None:
    """The error that a restart of this host would be."""
    return next((finding for finding in restart_brings(look) if finding.severity == "error"), None)


def judged(look: PreflightContext, found: F) -> F:
    """All advice about a host as it may be given: one that restarts it comes after what makes that restart good."""
    is_advice = found.rule != "restart-known-bad" and not found.remedy.startswith(_FIRST)
    if not (is_advice and RESTARTS.search(found.remedy) and refused(look)):
        return found
    return replace(found, remedy=f"{_FIRST}{found.remedy}")
