# SPDX-License-Identifier: GPL-3.0-or-later
"""What another host sent: checked by type, form and size before anything is done with it.

Each function raises ValueError with one sentence for what it does not take, and nothing else.
"""

import json
import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .place import plain
from .schema import UNSHOWN, Spec, check

if TYPE_CHECKING:

    class Foreign:
        """Text that a host, a hub, an engine or a medium wrote. To mypy it is no text: nothing shows it, runs it, or
        opens a file by it, but what took it from one function below. At run time it is str, as Ansible's variables are.
        """

        def __eq__(self, other: object, /) -> bool: ...
        def __hash__(self) -> int: ...
        def __lt__(self, other: "Foreign | str", /) -> bool: ...
        def __contains__(self, part: str, /) -> bool: ...
        def __getitem__(self, part: slice, /) -> "Foreign": ...
        def startswith(self, part: str | tuple[str, ...], /) -> bool: ...

    class Unread:
        """A value of a JSON text that others wrote: to mypy neither a text nor a number, however deep, before
        `checked` has found it in a form, or its own reader has asked what it is."""

        def __getitem__(self, key: str | int | slice, /) -> "Unread": ...
        def __contains__(self, key: object, /) -> bool: ...
        def __iter__(self) -> Iterator["Unread"]: ...
        def get(self, key: str, default: object = None, /) -> "Unread": ...
        def items(self) -> Iterator[tuple[Foreign, "Unread"]]: ...

else:
    Foreign, Unread = str, object

# Sizes of files; nothing that is moved comes near.
MOST_BYTES = 1 << 40
# No JSON text of ours nests deeper; an image's config (its history, health check, labels) stays far below.
_MOST_LEVELS = 32
_MOST_PATH = 1024
_MOST_PART = 255

SHA256: Spec = {"type": "str", "required": True, "pattern": "[0-9a-f]{64}", "expected": "64 hex digits"}
DIGEST: Spec = {
    "type": "str",
    "required": True,
    "pattern": "sha256:[0-9a-f]{64}",
    "expected": "sha256: and 64 hex digits",
}
REVISION: Spec = {"type": "str", "required": True, "pattern": "[0-9a-f]{40}", "expected": "a commit of 40 hex digits"}
SIZE: Spec = {"type": "int", "required": True, "min": 0, "max": MOST_BYTES}
# Text of any number of lines, for a reader of ours; text on one line that any file can hold and that a terminal shows.
ANYTHING, LINE = r"(?s:.*)", rf"[^{UNSHOWN}]*"


def parsed(content: bytes | str, most: int, what: str) -> Unread:
    """The value of a JSON text of at most ``most`` bytes. what: its name, for the sentence."""
    if len(content) > most:
        raise ValueError(f"{what} has more than {most} bytes")
    try:
        value: Any = json.loads(content, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise ValueError(f"{what} is no JSON text") from None
    level = [value]
    for _ in range(_MOST_LEVELS):
        level = [child for item in level for child in _children(item)]
    if level:
        raise ValueError(f"{what} nests deeper than {_MOST_LEVELS} levels")
    found: Unread = value
    return found


def _no_number(name: str) -> None:
    raise ValueError(name)


def _children(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def checked(spec: Spec, value: object, what: str) -> Any:
    """The value, which fits the spec."""
    result, findings = check(spec, value, what)
    if findings:
        more = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
        raise ValueError(one_line(f"{findings[0].place}: {findings[0].found}; expected {findings[0].expected}{more}"))
    return result


def require_paths(paths: list[str], what: str) -> None:
    """Names of files below a folder: each leads to a place of its own in there, and to no other."""
    folders = {parent for path in paths for parent in _parents(path)}
    seen: set[str] = set()
    for path in paths:
        problem = path_problem(path)
        if path in seen:
            problem = "is there twice"
        elif path in folders:
            problem = "is a file and a folder"
        if problem:
            raise ValueError(f"{what}: the path {one_line(path, 80)!a} {problem}")
        seen.add(path)


def file_name(path: Foreign | str) -> str:
    """The name of a file below a folder that another one wrote. ValueError for what is none."""
    if problem := path_problem(path):
        raise ValueError(f"the path {one_line(path, 80)!a} {problem}")
    return to_read(path)


def path_problem(path: Foreign | str) -> str:
    """Why this is no name of a file below a folder, with slashes; an empty string if it is one."""
    path = to_read(path)
    parts = path.split("/")
    if not path.isprintable() or "\\" in path:
        return "holds a character that no file's name should"
    if not all(parts):
        return "has an empty part"
    if any(part.startswith(".") for part in parts):
        return "has a part that begins with a dot"
    if len(path) > _MOST_PATH or any(len(part.encode()) > _MOST_PART for part in parts):
        return "is too long"
    return ""


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))] if len(path) <= _MOST_PATH else []


def one_line(text: Foreign | str, most: int | None = 300) -> str:
    """Text of another host for a message: one line, without what a terminal would obey."""
    return harmless(text[:most]).translate({9: " ", 10: " "})


def harmless(text: Foreign | str) -> str:
    """Text of several lines for a terminal, a page or a finding, without what a terminal would obey."""
    return plain(to_read(text))


def shell_word(text: Foreign | str) -> str:
    """Text of another host as one word of a command that a person types."""
    return shlex.quote(one_line(text))


def text_of(content: bytes) -> Foreign:
    """What others wrote as bytes."""
    return content.decode("utf-8", "replace")  # type: ignore[return-value]


def words_of(value: Unread) -> Foreign:
    """The text that a value is, or what stands in its place."""
    return value if isinstance(value, str) else text_of(json.dumps(value).encode())  # type: ignore[misc]


def matching(pattern: str, value: object) -> str | None:
    """The text that a value of others is, where all of it has this form."""
    return value if isinstance(value, str) and re.fullmatch(pattern, value) else None


def is_map(value: object) -> bool:
    """Of a value of others, which stays one: after `isinstance` mypy would no longer know it as foreign."""
    return isinstance(value, dict)


def is_list(value: object) -> bool:
    return isinstance(value, list)


def to_read(text: Foreign | str) -> str:
    """The text as it is, for a function that reads it. What comes out is a value of that function's own form."""
    return text  # type: ignore[return-value]
