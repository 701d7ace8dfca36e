# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the files of an inventory, whatever they declare."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from .._base import worded
from .._base.findings import Finding
from .._base.yaml_text import written_twice


def inventory_folder(named: object) -> str:
    """Where lies what belongs to an inventory: beside its file, else where the command is typed.

    named: Ansible's ``inventory_dir``, which is the text None of an inventory that is no file (``-i spark.local,``).
    """
    return str(Path.cwd() if named in (None, "", "None") else named)


def declared_twice(texts: Mapping[str, str]) -> Iterator[Finding]:
    """Keys that a file of the inventory has twice: YAML keeps the last one, and what the first declared is lost.

    texts: of the files, by their names.
    """
    for file, text in sorted(texts.items()):
        for key, line, before in written_twice(text):
            yield worded.error("input-key-twice", f"{file}, line {line}", key=key, before=before)


# Folders of an owner's site that hold no inventory. Ansible reads them as one where it is given the site's folder.
_NO_INVENTORY = frozenset({"drift", "observed", "recipes", "secrets"})


def not_inventories(sources: Mapping[str, str | None], given: Iterable[str]) -> list[Finding]:
    """A finding where hosts come from files that are no inventories.

    sources: {host: the file that Ansible took it from}. given: what followed ``-i``; Ansible reads the files below a
    folder, and a file that is named itself is what its owner means. Hosts' names are not repeated: the line of a key
    file becomes one.
    """
    files = {file: folder for file in sources.values() if file and (folder := _no_inventory(Path(file), given))}
    if not files:
        return []
    folders = ", ".join(sorted({*files.values()}))
    return [worded.error("input-not-an-inventory", "the inventory", files=len(files), folders=folders)]


def _no_inventory(file: Path, given: Iterable[str]) -> str | None:
    """The folder without inventories that a file lies in, below a folder that was given as inventory."""
    for source in map(Path, given):
        if file != source and file.is_relative_to(source):
            return next((part for part in file.relative_to(source).parts[:-1] if part in _NO_INVENTORY), None)
    return None
