# SPDX-License-Identifier: GPL-3.0-or-later
"""A reading with what only the controller can compare: secrets, and certificates, of which it has the library."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from ..module_utils._base.faults import Fault, fault_of
from ..module_utils._base.slice import Slice
from ..module_utils._operations.drift.managed import managed_files
from ..module_utils._operations.drift.secrets import compared
from ._certificates import described


def with_comparisons(
    state: Mapping[str, object], plan: Slice, salt: str, read: Callable[[str], str]
) -> tuple[dict[str, Any], list[Fault]]:
    """state: as `_subjects.form` took it. plan: the host's slice. read: a file of ours. A part in which a fault of ours
    is met is not known."""
    now = datetime.now(UTC)
    parts: dict[str, Callable[[Any], Any]] = {
        "files": lambda found: compared(found, managed_files(plan), salt, read),
        "certificates": lambda found: {path: described(text, now) for path, text in found.items() if text is not None},
    }
    result, faults = dict(state), []
    for name, compare in parts.items():
        try:
            result[name] = None if state[name] is None else compare(state[name])
        except Exception as problem:  # whatever it is: the other parts are compared
            result[name] = None
            faults.append(fault_of(problem, "", name))
    return result, faults
