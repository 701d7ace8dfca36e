# SPDX-License-Identifier: GPL-3.0-or-later
"""What a part of a slice owns: patterns of paths that are ours, whoever chooses the names.

A part says ``owns: [pattern]``. Whatever matches and is no longer declared goes: `host_files` removes it, drift names
it, a removal takes it. So a pattern that could match anything of somebody else's is refused::

    /etc/udev/rules.d/91-gb10-udev-*           files of a folder, by a name that says gb10- and of what
    /usr/local/lib/gb10-fleet/peer/**          all files below a folder of ours
"""

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from . import layout

# Folders of ours that a pattern may lie in; of what else lies in them, a pattern names a folder.
_OURS = (layout.CONFIG, layout.LIBRARY, layout.OVERLAYS)
# What they hold that no pattern of one part may take.
_KEPT = (layout.SERVICES, layout.SECRETS, layout.INSTALLED, layout.UNDO, layout.NETPLAN)
# Where programs of the system read what others put there, so that a name has to say whose it is.
_SYSTEMS = ("/etc/", "/usr/local/lib/", "/usr/local/share/")
_BELOW = "/**"
_NAME = re.compile(r"[\w.-]*gb10-[a-z0-9]+(-[a-z0-9]+)*[-.][\w.*-]*")


def require_pattern(pattern: str) -> None:
    """ValueError, with what to write instead, for a pattern that may match what is not this part's."""
    folder, name = posixpath.split(pattern)
    if posixpath.normpath(pattern) != pattern or not pattern.startswith("/"):
        raise ValueError(f"{pattern}: expected a whole path without . and ..; write /FOLDER/NAME")
    if any(mark in folder for mark in "*?[") or any(mark in name for mark in "?["):
        raise ValueError(f"{pattern}: expected * only in its last name; write each folder by its name")
    if name == "**" or folder in _OURS or folder.startswith(tuple(f"{ours}/" for ours in _OURS)):
        _require_own(pattern, folder, name)
    elif not folder.startswith(_SYSTEMS) or not _NAME.fullmatch(name):
        raise ValueError(f"{pattern}: too wide; expected a name of ours in a folder of /etc: write .../gb10-ROLE-*")


def _require_own(pattern: str, folder: str, name: str) -> None:
    if not folder.startswith(tuple(f"{ours}/" for ours in _OURS)):
        raise ValueError(f"{pattern}: too wide; expected a folder below {' or '.join(_OURS)}: write this part's own")
    if any(kept == folder or kept.startswith(f"{folder}/") or folder.startswith(f"{kept}/") for kept in _KEPT):
        raise ValueError(f"{pattern}: too wide, other parts keep files there; expected a folder of this part only")


def matches(pattern: str, path: str) -> bool:
    """Whether a pattern has this path. `*` stays within a name, ``/**`` is all below a folder."""
    if pattern.endswith(_BELOW):
        return path.startswith(pattern.removesuffix("**"))
    folder, name = posixpath.split(pattern)
    return posixpath.dirname(path) == folder and fnmatchcase(posixpath.basename(path), name)


def patterns_of(part: object) -> Iterator[str]:
    """What ``owns`` anywhere in a part of a slice says."""
    if isinstance(part, list):
        for item in part:
            yield from patterns_of(item)
    elif isinstance(part, Mapping):
        for key, item in part.items():
            if key == "owns" and isinstance(item, list):
                yield from map(str, item)
            else:
                yield from patterns_of(item)


def undeclared(found: Iterable[str], declared: Collection[str]) -> list[str]:
    """Of the paths that match what a part owns, those that nobody declares."""
    return sorted({*found} - {*declared})
