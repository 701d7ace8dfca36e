# SPDX-License-Identifier: GPL-3.0-or-later
"""Phoenix on its host: its virtual environment, units, secrets."""

from collections.abc import Iterator

from ..._base import layout, worded
from ..._base.findings import Finding
from ..._base.managed import Managed, ManagedJson, managed, shipped
from ..._base.place import Place
from ..._base.slice import PhoenixSlice
from ..._base.subject import Differences, DriftContext, PreflightContext, Subject
from .plan import LOCK, secrets_text

_SYSTEMD = "systemd"


def _files(part: PhoenixSlice) -> Iterator[Managed | ManagedJson]:
    yield from managed({key: part[key] for key in ("files", "folders")})
    if part["tool"]:
        # by which `python_tool` knows what is installed
        lock = shipped(LOCK).strip()
        yield Managed(f"{part['tool']}/.lock", "file", content=f"{lock}\n")
    for secret in part["secrets"]:
        yield Managed(secret["path"], "file", "0600", secret=True, source=secret["source"], rendered=secrets_text)


def _obstacles(look: PreflightContext) -> Iterator[Finding]:
    """Units of another inventory, and ports that another program has: nobody is cut off unasked."""
    part = look.slice.get("phoenix")
    if not part or part["port"] is None:
        return
    yield from look.of_another_inventory(part, "phoenix")
    if found := look.others_at(part["port"], [_SYSTEMD, "systemd-socket-", "systemd-socket-proxyd"]):
        yield worded.host_error("phoenix-port-taken", Place(variable="fleet_phoenix", option="port"), found=found)


def _differences(view: DriftContext) -> Differences:
    """Units that an earlier declaration of the same inventory left."""
    part = view.slice["phoenix"]
    for unit in view.our_units:
        if f"{layout.UNITS}/{unit}" in part["gone"]:
            yield view.differs("warning", "phoenix-undeclared", f"unit {unit}")


PHOENIX = Subject("phoenix", files=_files, differences=_differences, obstacles=_obstacles)
