# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd unit that owns a service's rank on one host."""

from .._base import layout
from .._base.layout import LIBRARY, container, rank_file
from .._on_host.rank.service import Limits

# As Docker's daemon and containerd have it: who runs the service outlives it.
OWN_OOM_SCORE_ADJ = -500


def rank_unit(service: str, summary: str, limits: Limits, inventory: str) -> str:
    """The unit that owns a service's rank on one host, through its supervisor.

    The supervisor restarts the group and keeps the budget for it; systemd restarts the supervisor alone, and not after
    its status 3, which says that the budget is used up. A stop is the supervisor's business (KillMode): Docker's
    clients would hand SIGTERM on to a container whose answers are to end first. The start has no time limit: a large
    model loads for many minutes. The watchdog ends a supervisor that stands still: it could not notice that its rank is
    dead.

    limits: of its supervisor. inventory: whose service it is; systemd passes over sections of this kind.
    """
    return f"""\
{layout.MARK}
[Unit]
Description=gb10.fleet: {summary.replace("%", "%%")}
Wants=network-online.target
Requires=docker.service
After=network-online.target docker.service
StartLimitIntervalSec=0

[Service]
Type=exec
NotifyAccess=main
WorkingDirectory={LIBRARY}
ExecStart=/usr/bin/python3 -m gb10_rank.supervise {rank_file(service)}
Restart=always
RestartSec=5
RestartPreventExitStatus=3
WatchdogSec=120
WatchdogSignal=SIGKILL
OOMScoreAdjust={OWN_OOM_SCORE_ADJ}
KillMode=mixed
TimeoutStopSec={limits.drain_s + 2 * limits.stop_s + 60}
SyslogIdentifier={container(service)}

[Install]
WantedBy=multi-user.target docker.service

[X-Gb10Fleet]
Inventory={inventory}
"""
