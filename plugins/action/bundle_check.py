# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of gb10.fleet.bundle_check: every byte that hosts are about to get is read; runs on the controller."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..module_utils._base.findings import FleetError
from ..module_utils._base.layout import BUNDLE
from ..module_utils._base.sizes import size
from ..module_utils._operations.bundle.folder import Bundle
from ..module_utils._operations.bundle.sources import deliveries, environment
from ..plugin_utils._bundle_key import note_used, trusted_key
from ..plugin_utils._documented import OnController
from ..plugin_utils._screen import show

_LINE_SECONDS = 10


class ActionModule(OnController):
    _before = "nothing was changed: "

    def act(self, options: dict[str, Any], variables: dict[str, object]) -> dict[str, Any]:
        inventory = Path(options["inventory"])
        changing = {
            host: {kind: _names(options["readings"].get(host), f"{kind}_changing") for kind in ("images", "models")}
            for host, reasons in options["unconverged"].items()
            if reasons
        }
        bundle = Bundle.of([Path(folder) for folder in options["folders"]], trusted_key(inventory))
        given = deliveries(options["plan"], bundle.manifest, changing, installing=options["installing"])
        paths = sorted({path for files in given.values() for path in files.values()})
        if problems := _read(bundle, paths):
            raise FleetError(*problems)
        if not self._task.check_mode:
            note_used(inventory, bundle)
        return {"changed": False, "deliveries": given, "environment": environment(), "folder": BUNDLE}


def _names(reading: Any, part: str) -> list[str] | None:
    """What a host must be brought, by its answer; None where it could not say, as without Docker: all of it."""
    state = reading.get("state") if isinstance(reading, dict) else None
    names = state.get(part) if isinstance(state, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else None


def _read(bundle: Bundle, paths: Iterable[str]) -> list[Any]:
    paths = [*paths]
    whole = sum(bundle.manifest["files"][path]["bytes"] for path in paths)
    done, shown = 0, time.monotonic()

    def counted(count: int) -> None:
        nonlocal done, shown
        done += count
        if time.monotonic() - shown > _LINE_SECONDS:
            shown = time.monotonic()
            show(f"bundle: reading what the hosts are to get, {size(done)} of {size(whole)}")

    return bundle.damaged(paths, counted)
