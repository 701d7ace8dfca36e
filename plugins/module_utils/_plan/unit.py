# SPDX-License-Identifier: GPL-3.0-or-later
"""The systemd unit that owns a service's rank on one host."""

from .._base.gb10 import filled
from .._base.layout import container, rank_file, supervisor_file
from .._on_host.rank.service import Limits

# As Docker's daemon and containerd have it: who runs the service outlives it.
OWN_OOM_SCORE_ADJ = -500


def rank_unit(service: str, summary: str, limits: Limits, inventory: str = "") -> str:
    """The unit that owns a service's rank on one host, through its supervisor.

    The supervisor restarts the group and keeps the budget for it; systemd restarts the supervisor alone, and not after
    its status 3, which says that the budget is used up. A stop is the supervisor's business (KillMode): Docker's
    clients would hand SIGTERM on to a container whose answers are to end first. The start has no time limit: a large
    model loads for many minutes. The watchdog ends a supervisor that stands still: it could not notice that its rank is
    dead.

    A file beside it names the supervisor's folder, so that another supervisor leaves the unit as it is.

    limits: of its supervisor. inventory: whose service it is; systemd passes over sections of this kind.
    """
    return filled(
        "rank.service",
        summary=summary.replace("%", "%%"),
        supervisor_file=supervisor_file(service),
        rank_file=rank_file(service),
        own_oom_score_adj=OWN_OOM_SCORE_ADJ,
        stop_s=limits.drain_s + 2 * limits.stop_s + 60,
        container=container(service),
        inventory=inventory,
    )
