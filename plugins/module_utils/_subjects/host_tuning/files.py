# SPDX-License-Identifier: GPL-3.0-or-later
"""The files and links that keep a host's tuning over a boot."""

from collections.abc import Mapping

from ..._base import layout
from ..._base.slice import Files, TuningSlice

# Sorts behind 99-sysctl.conf, the link to /etc/sysctl.conf: the file that is read last wins at boot.
SYSCTL = "/etc/sysctl.d/99-zz-gb10-fleet.conf"
READ_AHEAD = "/etc/udev/rules.d/90-gb10-fleet-read-ahead.rules"
LIMITS = "/etc/security/limits.d/90-gb10-fleet.conf"
SYSTEMD = "/etc/systemd/system.conf.d/90-gb10-fleet.conf"
DEFAULT_TARGET = "/etc/systemd/system/default.target"
SWAP_TARGET = "/etc/systemd/system/swap.target"
# A unit that leads there can't be started (systemd.unit(5)).
MASKED = "/dev/null"


def tuning_files(plan: TuningSlice) -> Files:
    """``{path: {mode, content}}`` for a host_tuning slice; content null where no file of ours is to be."""
    sysctl, read_ahead, memlock = plan.get("sysctl"), plan.get("read_ahead_kb"), plan.get("memlock")
    texts = {
        SYSCTL: _sysctl(sysctl) if sysctl else None,
        READ_AHEAD: _read_ahead(read_ahead) if read_ahead is not None else None,
        LIMITS: _limits(memlock) if memlock is not None else None,
        SYSTEMD: f"[Manager]\nDefaultLimitMEMLOCK={systemd_limit(memlock)}\n" if memlock is not None else None,
    }
    return {
        path: {"mode": "0644", "content": None if text is None else f"{layout.MARK}\n{text}"}
        for path, text in texts.items()
    }


def tuning_links(plan: TuningSlice) -> dict[str, str | None]:
    """``{path: target}`` for a host_tuning slice: what systemd takes at the next boot; null where no link is to be."""
    links: dict[str, str | None] = {}
    if "default_target" in plan:
        links[DEFAULT_TARGET] = f"/usr/lib/systemd/system/{plan['default_target']}"
    if "swap" in plan:
        links[SWAP_TARGET] = None if plan["swap"] else MASKED
    return links


def systemd_limit(memlock: str) -> str:
    """A limit of KiB or ``unlimited`` as systemd.exec(5) writes it."""
    return "infinity" if memlock == "unlimited" else f"{memlock}K"


def _sysctl(sysctl: Mapping[str, object]) -> str:
    return "".join(f"{key} = {value}\n" for key, value in sorted(sysctl.items()))


def _read_ahead(kib: int) -> str:
    disks = 'ACTION=="add|change", SUBSYSTEM=="block", KERNEL=="nvme[0-9]*n[0-9]*", ENV{DEVTYPE}=="disk"'
    return f'{disks}, ATTR{{queue/read_ahead_kb}}="{kib}"\n'


def _limits(memlock: str) -> str:
    """The wildcard does not cover root."""
    return f"* - memlock {memlock}\nroot - memlock {memlock}\n"
