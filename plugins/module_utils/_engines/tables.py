# SPDX-License-Identifier: GPL-3.0-or-later
"""``data/engines/``: what holds for an engine whatever the service, as fields of `interface.EngineSpec`."""

from typing import Any

from .._base.gb10 import data_file

# Fields whose names come behind what they have in common there.
TOGETHER = ("planned_flags", "planned_env", "secrets", "code_names")


def table_of(name: str) -> dict[str, Any]:
    """The fields in ``data/engines/<name>.yml``."""
    fields: dict[str, Any] = data_file(f"engines/{name}")
    together = {field: fields[field] for field in TOGETHER if field in fields}
    return fields | {
        field: {name: common for common, names in rows.items() for name in names} for field, rows in together.items()
    }
