# SPDX-License-Identifier: GPL-3.0-or-later
"""In which file and line the owner wrote something. Ansible keeps it with the values that it read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..module_utils._base.place import SERVICES, keys_of

try:
    from ansible._internal._datatag._tags import Origin
except ImportError:  # a core that keeps it otherwise: places are named without file and line
    Origin = None


def origin(row: Mapping[str, Any], variables: Mapping[str, Mapping[str, object]]) -> tuple[str, int] | None:
    """File and line of what a finding of the plan is about, or of the nearest thing around it that is there.

    variables: by host, as Ansible read them.
    """
    service = "" if row["variable"] or row["thing"] else row["service"]
    name = SERVICES if service else row["variable"]
    if not name or Origin is None:
        return None
    hosts = [row["host"]] if row["host"] in variables else [*variables]
    value: Any = next((variables[host][name] for host in hosts if name in variables[host]), None)
    found = _tag(value)
    for key in [*([service] if service else []), *keys_of(row["option"])]:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            break
        found = _tag(value) or found
    return found


def files_of(variables: Mapping[str, Mapping[str, object]], prefix: str, folder: Path) -> dict[str, str]:
    """The texts of the files that the variables of this prefix come from, by their names as seen from the folder.

    An encrypted file is not looked into.
    """
    values = {id(value): value for own in variables.values() for name, value in own.items() if name.startswith(prefix)}
    paths = {Path(found[0]) for value in values.values() if Origin is not None and (found := _tag(value))}
    texts = {}
    for path in sorted(paths):
        name = str(path.relative_to(folder) if path.is_relative_to(folder) else path)
        try:
            texts[name] = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue  # Ansible has read it; what can't be read now has nothing to add
    return {name: text for name, text in texts.items() if not text.startswith("$ANSIBLE_VAULT")}


def _tag(value: object) -> tuple[str, int] | None:
    tag = Origin.get_tag(value)
    return (tag.path, tag.line_num or 1) if tag is not None and tag.path else None


def located(row: Mapping[str, object], variables: Mapping[str, Mapping[str, object]], folder: Path) -> str:
    """A finding's place with file and line, the file as seen from the inventory's folder."""
    place, found = str(row["place"]), origin(row, variables)
    if found is None:
        return place
    path = Path(found[0])
    return f"{place} ({path.relative_to(folder) if path.is_relative_to(folder) else path}:{found[1]})"
