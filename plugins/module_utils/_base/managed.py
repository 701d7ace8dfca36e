# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's slice says about its files, folders and links: what roles write there, and what drift compares.

A subject's part of a slice may hold, at any depth::

    files    {path: {mode, content}}, or {mode, source} with a file of this collection by its path in it; content null
             where no file is to be
    links    {path: target}; target null where no link is to be
    folders  {path: mode}; mode null where it and the owner are left as they are

`host_files` writes them, and drift compares them; neither knows the subject.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from .gb10 import ROOT
from .slice import FileEntry


def content_of(file: FileEntry) -> str | None:
    """The text of an entry of ``files``; None where no file is to be."""
    if "source" in file:
        return shipped(file["source"])
    return file["content"]


@functools.cache
def shipped(source: str) -> str:
    """A file of this collection, read once: every host has the same ones."""
    return Path(ROOT, source).read_text(encoding="utf-8")


def as_it_is(text: str) -> str:
    """A file of the controller's on a host, but for the white space around it."""
    return f"{text.strip()}\n"


def keyed(form: str) -> Callable[[str], str]:
    """A key on a host. form: its file's text there, with ``%s`` for the key as JSON, or ``%t`` for its text."""
    if "%t" in form:
        return lambda key: form.replace("%t", key.strip())
    return lambda key: form % json.dumps(key.strip())


@dataclass(frozen=True)
class Managed:
    """One path. kind: what it is to be. mode: empty where mode and owner are not ours. content: of a file, None where
    only its access is ours. target: of a link.

    source: the controller's file that this one is made from, by ``rendered``; empty for any other.
    shared: a secret that has to be the same on several hosts.
    """

    path: str
    kind: Literal["file", "folder", "link", "absent"]
    mode: str = ""
    content: str | None = None
    target: str = ""
    secret: bool = False
    service: str = ""
    source: str = ""
    rendered: Callable[[str], str] = as_it_is
    shared: bool = False

    @property
    def sha256(self) -> str | None:
        return None if self.content is None else hashlib.sha256(self.content.encode()).hexdigest()


@dataclass(frozen=True)
class ManagedJson:
    """Our keys of a JSON file that others also write.

    settings: merged into what is there, or over the JSON file ``original``. names: what is to stand below the key
    ``names_of``, the values being secret.
    """

    path: str
    settings: Mapping[str, Any]
    original: str = ""
    names_of: str = ""
    names: tuple[str, ...] = ()
    service: str = ""


def managed(value: object, service: str = "") -> Iterator[Managed]:
    """What ``files``, ``links`` and ``folders`` anywhere in a part of a slice say."""
    if isinstance(value, list):
        for item in value:
            yield from managed(item, service)
    if not isinstance(value, Mapping):
        return
    service = str(value.get("service") or service)
    for key, item in value.items():
        if key == "files" and isinstance(item, Mapping):
            for path, file in item.items():
                yield from _file(path, file, service)
        elif key == "links" and isinstance(item, Mapping):
            for path, target in item.items():
                kind: Literal["link", "absent"] = "link" if target else "absent"
                yield Managed(path, kind, target=target or "", service=service)
        elif key == "folders" and isinstance(item, Mapping):
            for path, mode in item.items():
                yield Managed(path, "folder", mode or "", service=service)
        else:
            yield from managed(item, service)


def _file(path: str, file: FileEntry, service: str) -> Iterator[Managed]:
    content = content_of(file)
    if content is not None:
        yield Managed(path, "file", file["mode"], content, service=service)
    # A netplan file under our name may be the owner's own where no cable is declared.
    elif not path.startswith("/etc/netplan/"):
        yield Managed(path, "absent", service=service)
