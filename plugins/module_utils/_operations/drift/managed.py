# SPDX-License-Identifier: GPL-3.0-or-later
"""All files, folders and links of a host's slice, and its keys in files of others, over all subjects."""

from collections.abc import Iterator

from ..._base.managed import Managed, ManagedJson
from ..._base.owned import patterns_of
from ..._base.slice import Slice, part_of
from ..._subjects.registry import SUBJECTS


def managed_files(host: Slice) -> list[Managed]:
    """By path. host: the host's slice of the plan."""
    found = {item.path: item for item in _all(host) if isinstance(item, Managed)}
    return [found[path] for path in sorted(found)]


def owned(host: Slice) -> list[str]:
    """The patterns of what is ours, over all subjects."""
    return sorted({pattern for subject in SUBJECTS for pattern in patterns_of(part_of(host, subject.name))})


def managed_json(host: Slice) -> list[ManagedJson]:
    """The JSON files of which a part is ours."""
    return [item for item in _all(host) if isinstance(item, ManagedJson)]


def _all(host: Slice) -> Iterator[Managed | ManagedJson]:
    for subject in SUBJECTS:
        yield from subject.files(part_of(host, subject.name))
