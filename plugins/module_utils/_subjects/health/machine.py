# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that restarts by itself, and what its kernel complains of."""

from collections.abc import Iterator, Mapping

from ..._base import worded
from ..._base.findings import Finding
from ..._base.gb10 import data_table
from ..._base.subject import PreflightContext
from ..system.next_boot import restart

# One start without a shutdown may be a plug that was pulled; two in a week are not.
_DAYS, _TIMES = 7, 2
_ADVICE: Mapping[str, Mapping[str, str]] = data_table("kernel_lines")


def machine(look: PreflightContext) -> Iterator[Finding]:
    health = look.part("health")
    cut = [boot for boot in health.get("boots") or () if boot["cut_off"] and boot["days_ago"] <= _DAYS]
    if len(cut) >= _TIMES:
        yield worded.host_warning("host-restarts", "its starts", times=len(cut), days=_DAYS)
    for kind, lines in sorted(health.get("lines", {}).items()):
        if advice := _ADVICE.get(kind):
            yield worded.host_warning(
                "kernel-warns",
                f"the kernel, {kind}",
                count=lines["count"],
                last=lines["last"],
                expected=advice["expected"],
                remedy=advice["remedy"].format(restart=restart(look)),
            )
