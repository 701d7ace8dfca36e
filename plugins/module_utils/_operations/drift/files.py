# SPDX-License-Identifier: GPL-3.0-or-later
"""Files, folders, links and our keys of others' JSON files: content, owner, mode."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..._base.findings import Difference
from ..._base.managed import Managed, ManagedJson
from ..._base.owned import undeclared
from ..._base.reading import FileState
from ..._base.received import one_line
from ..._base.subject import DriftContext, Unknown, unified
from ..._host.settings.json_settings import merged
from .managed import managed_files, managed_json

NOT_THERE = "no such file"
_KINDS = {"file": "a file", "folder": "a folder", "link": "a link", "absent": NOT_THERE, "other": "something else"}


def of_files(view: DriftContext) -> Iterator[Difference | Unknown]:
    """Every managed path against what lies there."""
    found = view.state["files"]
    if found is None:
        return
    for file in managed_files(view.slice):
        have = found[file.path]
        if have["kind"] == "unreadable":
            yield Unknown(view.host, f"file {file.path}", one_line(have["why"], 4096))
        elif have["kind"] != file.kind:
            yield _path(view, file, "file-kind", _described(file), _shown(have))
        elif file.kind == "link" and have["target"] != file.target:
            yield _path(view, file, "file-target", f"a link to {file.target}", _shown(have))
        elif file.kind in ("file", "folder"):
            yield from _content(view, file, have)
            yield from _secret(view, file, have)
            yield from _access(view, file, have) if file.mode else ()


def of_owned(view: DriftContext) -> Iterator[Difference]:
    """Files under names of ours that nobody declares any more."""
    declared = {file.path for file in managed_files(view.slice)}
    for path in undeclared(map(one_line, view.state["owned"] or ()), declared):
        yield view.difference("warning", "file-undeclared", f"file {path}", found="it is there", expected=NOT_THERE)


def _described(managed: Managed) -> str:
    return f"a link to {managed.target}" if managed.kind == "link" else _KINDS[managed.kind]


def _shown(have: FileState) -> str:
    return f"a link to {one_line(have['target'])}" if have["kind"] == "link" else _KINDS[have["kind"]]


def _content(view: DriftContext, managed: Managed, have: FileState) -> Iterator[Difference]:
    if managed.content is not None and have["sha256"] != managed.sha256:
        want = f"sha256 {str(managed.sha256)[:12]}"
        diff = unified(managed.content, have["text"]) if "text" in have else ""
        yield _path(view, managed, "file-content", want, f"sha256 {have['sha256'][:12]}", diff)


def _secret(view: DriftContext, managed: Managed, have: FileState) -> Iterator[Difference | Unknown]:
    if managed.source and have["same"] is None:
        yield Unknown(view.host, f"file {managed.path}", one_line(have["why"], 4096))
    elif managed.source and not have["same"]:
        yield _path(view, managed, "file-content", f"what {managed.source} holds", "another content")


def _access(view: DriftContext, managed: Managed, have: FileState) -> Iterator[Difference]:
    want = f"root:root {managed.mode}"
    found = f"{have['owner']}:{have['group']} {have['mode']}"
    if want != found:
        yield _path(view, managed, "file-access", want, found)


def _path(view: DriftContext, managed: Managed, rule: str, want: str, have: str, diff: str = "") -> Difference:
    return view.difference(
        "error" if managed.secret or managed.service else "warning",
        rule,
        f"file {managed.path}",
        found=have,
        expected=want,
        service=managed.service,
        diff=diff,
    )


def of_json(view: DriftContext) -> Iterator[Difference]:
    """Our keys of JSON files that others also write."""
    found = view.state["json"]
    if found is None:
        return
    for item in managed_json(view.slice):
        have = found[item.path]
        if have is not None:  # a missing file is reported by `of_files`
            yield from _keys(view, item, have)


def _keys(view: DriftContext, one: ManagedJson, have: Mapping[str, Any]) -> Iterator[Difference]:
    if one.names_of:
        for name in one.names:
            if name not in have[one.names_of]:
                yield _key(view, one, f"{one.names_of}.{name}", "a login", "none")
        return
    if one.original:
        for key, (want, there) in have.items():
            yield _key(view, one, key, _compact(want), _compact(there))
        return
    for key, value in sorted(one.settings.items()):
        want = merged({key: have.get(key)} if have.get(key) is not None else {}, {key: value}).get(key)
        if want != have.get(key):
            yield _key(view, one, key, _compact(want), _compact(have.get(key)))


def _key(view: DriftContext, one: ManagedJson, key: str, want: str, have: str) -> Difference:
    return view.difference(
        "error" if one.service else "warning",
        f"json-key {key}",
        f"file {one.path}",
        found=f"{key}: {have}",
        expected=f"{key}: {want}",
        service=one.service,
    )


def _compact(value: object) -> str:
    return "not set" if value is None else json.dumps(value, sort_keys=True)
