# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that restarts by itself, and what its kernel complains of."""

import re
from collections.abc import Iterator, Mapping

from ..._base import worded
from ..._base.findings import Finding
from ..._base.gb10 import data_table
from ..._base.subject import PreflightContext

# One start without a shutdown may be a plug that was pulled; two in a week are not.
_DAYS, _TIMES = 7, 2
# Bits of NVM Express' critical warning but for heat: spare, reliability, read-only, its cache's backup.
_DYING, _WORN = 0b11101, 90
# Packets that arrived broken, which no queue makes: a cable or a port.
_DAMAGED = (
    "symbol_error",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "link_error_recovery",
    "rx_icrc_encapsulated",
)
_MOST_DAMAGED, _HOT_ADAPTER, _HOT_ZONE = 100, 105, 95
_UNIT = re.compile(r"[\w@.-]+\.(?:service|timer)")
_ADVICE: Mapping[str, Mapping[str, str]] = data_table("kernel_lines")


def machine(look: PreflightContext) -> Iterator[Finding]:
    health = look.part("health")
    cut = [boot for boot in health.get("boots") or () if boot["cut_off"] and boot["days_ago"] <= _DAYS]
    for boot in cut:
        if why := boot["why"]:
            yield worded.host_warning("host-panics", "its starts", days=f"{boot['days_ago']:.1f}", why=why)
    if len(cut) >= _TIMES:
        yield worded.host_warning("host-restarts", "its starts", times=len(cut), days=_DAYS)
    for kind, lines in sorted(health.get("lines", {}).items()):
        advice = _ADVICE.get(kind)
        if advice and lines["today" if "most" in advice else "count"] > int(advice.get("most", 0)):
            yield worded.host_warning(
                "kernel-warns",
                f"the kernel, {kind}",
                count=lines["count"],
                today=lines["today"],
                last=lines["last"],
                expected=advice["expected"],
                remedy=advice["remedy"],
                source=advice["source"],
            )
    yield from _parts(look)


def _parts(look: PreflightContext) -> Iterator[Finding]:
    """What holds the machine together besides: disks, adapters, and who else watches its engines."""
    for name, drive in sorted(look.part("drives").items()):
        shown = f"{drive['used']} % of its life used, {drive['spare']} % spare (at least {drive['spare_least']} %)"
        if drive["warning"] & _DYING or drive["spare"] < drive["spare_least"]:
            yield worded.host_error("drive-worn/fails", f"disk {name}", found=shown, errors=drive["errors"])
        elif drive["used"] >= _WORN:
            yield worded.host_warning("drive-worn/used", f"disk {name}", found=shown)
        elif drive["errors"]:
            yield worded.host_warning("drive-worn/errors", f"disk {name}", errors=drive["errors"])
        elif drive["warning"]:
            yield worded.host_warning("drive-hot", f"disk {name}", heat=drive["heat_c"])
    for name, errors in sorted(look.part("sensors").get("errors", {}).items()):
        damaged = {counter: errors[counter] for counter in _DAMAGED if errors.get(counter, 0) > _MOST_DAMAGED}
        if damaged:
            words = ", ".join(f"{counter} {count}" for counter, count in damaged.items())
            yield worded.host_warning("fabric-damaged", f"adapter {name}", found=f"{words} since it started")
    for hot, heat in sorted(look.part("sensors").get("heat_c", {}).items()):
        if heat >= (_HOT_ADAPTER if hot.startswith("mlx5") else _HOT_ZONE):
            yield worded.host_warning("machine-hot", hot, heat=f"{heat:.0f}")
    for watchdog in look.part("watchdogs") or ():
        name = watchdog["unit"]
        stop = f"sudo systemctl disable --now {name}" if _UNIT.fullmatch(name) else "take it out of that file"
        yield worded.host_warning("watchdog-foreign", name, found=watchdog["line"], stop=stop)
