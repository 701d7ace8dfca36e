# SPDX-License-Identifier: GPL-3.0-or-later
"""How a network change ended, as the controller learns of it: the host's status, and words for a change that failed.

The controller reads and writes plain files with `cat` and `printf`, so that it needs no program of ours on the host.
"""

import json
import shlex
from dataclasses import dataclass, field
from typing import Any

from ..._on_host.netplan.record import CONFIRMED, RUN, STATE, STATUS

READ_STATUS = f"cat {RUN / STATUS} {STATE / STATUS} 2>/dev/null; true"
_JOURNAL = "`journalctl -u gb10-netplan-change`"


def confirmation(change: str) -> str:
    """The command that confirms a change."""
    return f"umask 077; mkdir -p {RUN} && printf %s {shlex.quote(change)} > {RUN / CONFIRMED}"


def newest(answer: str, change: str) -> dict[str, Any] | None:
    """The newer of the status files' texts that speak of this change; None where none does, or none can be read."""
    found = []
    for line in answer.splitlines():
        try:
            status = json.loads(line)
        except ValueError:
            continue
        if isinstance(status, dict) and status.get("id") == change:
            found.append(status)
    return max(found, key=lambda status: status.get("step", 0), default=None)


@dataclass
class Contact:
    """What the controller knows of a change so far.

    status: the newest one. answered: whether the last attempt to reach the host succeeded. error: its message where it
    was reached and could not be asked.
    """

    status: dict[str, Any] = field(default_factory=dict)
    answered: bool = False
    error: str = ""

    @property
    def phase(self) -> str:
        return str(self.status.get("phase", ""))


def refusal(contact: Contact) -> str:
    """Why the change is not in force, or not known to be, and what to do."""
    reason = contact.status.get("reason", "")
    if contact.phase == "restored" and "could not be put back" in reason:
        return (
            f"the host took the network change back: {reason}; make /etc writable again (`findmnt /etc /`, `dmesg`, "
            "`df /etc`) and run again, the files are then put back first [netplan-restored]"
        )
    if contact.phase == "restored":
        return (
            f"the host took the network change back, the old files are in place and applied: {reason}; "
            "correct fleet_fabric or the host's files and run again [netplan-restored]"
        )
    if contact.error:
        return (
            f"the host can be reached, but not asked how the network change ended: {contact.error}; mend that and look "
            f"there: {_JOURNAL}; the next run first takes back what was not confirmed [netplan-unconfirmed]"
        )
    if contact.answered:
        seen = f"its record still says {contact.phase}" if contact.phase else "it has no readable record of the change"
        return (
            f"the host can be reached, but did not record how the network change ended: {seen}; look there: "
            f"{_JOURNAL}; run again: what was not confirmed is taken back first [netplan-unconfirmed]"
        )
    return (
        "the network change was not confirmed, and the host has not been reachable since; it takes the change back by "
        f"itself: look at it through its console, {_JOURNAL}; a restart takes it back, too [netplan-unconfirmed]"
    )
