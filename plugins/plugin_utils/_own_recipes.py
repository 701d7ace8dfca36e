# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes recipes into an owner's folder, and never over what he has."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible.errors import AnsibleActionFail

from ..module_utils._base.own_files import replace_file, unwritten


def recipes_folder(named: str | None, variables: Mapping[str, Any], variable: str) -> Path:
    """Where an owner's recipes go. variable: by which a person names it."""
    if named:
        return Path(named).absolute()
    sources = [Path(source) for source in variables.get("ansible_inventory_sources") or ()]
    folders = [source if source.is_dir() else source.parent for source in sources if source.exists()]
    if len({*folders}) == 1:
        return folders[0].absolute() / "recipes"
    raise AnsibleActionFail(
        "nothing was written: it is not said where the recipe goes; expected: one inventory, or a folder; do this: "
        f"write -i inventories/site, or -e {variable}=inventories/site/recipes"
    )


def as_yaml(recipe: Mapping[str, Any], origin: str) -> str:
    """A recipe's file. origin: in words."""
    body = yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True, width=120)
    return f"---\n# {origin}. Edit it: it is yours. docs/how-to/recipes.md explains each key.\n{body}"


def write_new(texts: Mapping[Path, str], variable: str, *, dry: bool) -> list[dict[str, str]]:
    """Write files that are not there yet, all or none; their diffs. dry: write nothing."""
    for path in texts:
        if path.exists() or path.is_symlink():
            raise AnsibleActionFail(
                f"nothing was written: {path} is there already, and is yours; expected: no such file; do this: mv "
                f"{path} away, or name another folder: -e {variable}=FOLDER"
            )
    for path, text in () if dry else texts.items():
        try:
            replace_file(path, text.encode())
        except OSError as problem:
            remedy = f"make it writable, or name another folder: -e {variable}=FOLDER"
            raise AnsibleActionFail(unwritten(problem, path, "a folder of yours", remedy)) from None
    return [
        {"before": "", "after": text, "before_header": "no file", "after_header": str(path)}
        for path, text in texts.items()
    ]
