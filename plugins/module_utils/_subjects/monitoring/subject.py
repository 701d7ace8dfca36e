# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host shows of itself, and on the monitoring host what collects it: files, units, secrets, ports."""

from collections.abc import Iterator

from ..._base import layout, worded
from ..._base.findings import Finding
from ..._base.gb10 import fact
from ..._base.managed import Managed, ManagedJson, managed
from ..._base.place import Place
from ..._base.slice import MonitoringSlice
from ..._base.subject import Differences, DriftContext, PreflightContext, Subject

# The kernel cuts names.
_PROCESSES = {"prometheus-node", "prometheus-node-exporter"}


def _files(part: MonitoringSlice) -> Iterator[Managed | ManagedJson]:
    yield from managed(part)
    for secret in part["secrets"]:
        yield Managed(secret["path"], "file", "0600", secret=True, source=secret["source"])


def _obstacles(look: PreflightContext) -> Iterator[Finding]:
    """Units of another inventory, and ports that another program has, as a Prometheus of the owner's."""
    part = look.slice.get("monitoring")
    if not part or not part["units"]:
        return
    yield from look.of_another_inventory(part, "monitoring")
    port = fact("monitoring", "exporter_port")
    if found := look.others_at(port, _PROCESSES):
        yield worded.host_error("monitoring-port-taken", Place(variable="fleet_monitoring"), found=found)


def _differences(view: DriftContext) -> Differences:
    """Units that an earlier declaration of the same inventory left."""
    part = view.slice["monitoring"]
    for unit in view.our_units:
        if unit in layout.MONITORING_UNITS and unit not in part["units"]:
            yield view.differs("warning", "monitoring-undeclared", f"unit {unit}")


MONITORING = Subject("monitoring", files=_files, differences=_differences, obstacles=_obstacles)
