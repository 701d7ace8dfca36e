# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a host's packet filter: our file of rules, what the kernel holds, and what both should be."""

import os
import shutil
from collections.abc import Mapping
from typing import Any

from ..._host.netplan.ssh_session import session_port
from ..._host.probe.parts import Part, Run, UnreadableError
from . import host as firewall
from .ruleset import closes, ruleset


def _asked(run: Run, ask: Mapping[str, Any]) -> dict[str, Any]:
    """``{text, planned, live, live_planned, why}``: our file of rules, our table in the kernel, what they should be.

    planned: for the SSH ports that this host has. why: the reason why the kernel's rules could not be compared.
    """
    ports = firewall.ssh_ports(run, session_port(os.getppid()))
    planned = ruleset(ask["firewall"], ports, firewall.networks(run, firewall.current()))
    live, live_planned, why = "", planned, ""
    if shutil.which("nft"):
        try:
            live, live_planned = firewall.in_kernel(run, planned)
        except (firewall.FirewallError, UnreadableError, OSError) as error:
            why = str(error)
    return {"text": firewall.current(), "planned": planned, "live": live, "live_planned": live_planned, "why": why}


READS: Mapping[str, Part] = {"firewall": _asked, "closed": lambda _run, _ask: closes(firewall.current())}
