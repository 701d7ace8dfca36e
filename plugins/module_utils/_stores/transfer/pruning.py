# SPDX-License-Identifier: GPL-3.0-or-later
"""What the modules that remove earlier images and models have in common."""

from collections.abc import Callable
from typing import Any

from ..._base.findings import FleetError


def run(module: Any, prune: Callable[[Any], list[Any]], line: Callable[[Any], str]) -> None:
    """Remove by ``prune`` and end the module. line: one of what was removed, or would be, as the diff shows it."""
    try:
        removed = prune(module)
    except FleetError as error:
        module.fail_json(msg=str(error), findings=[finding.as_dict() for finding in error.findings])
    diff = {"before": "".join(f"{line(one)}\n" for one in removed), "after": ""}
    module.exit_json(changed=bool(removed), removed=removed, diff=diff)
