# SPDX-License-Identifier: GPL-3.0-or-later
"""Files, folders, links and our keys of others' JSON files: content, owner, mode."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..._base.findings import Difference
from ..._base.managed import Managed, ManagedJson
from ..._base.owned import undeclared
from ..._base.reading import FileState
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
    for one in managed_files(view.slice):
        have = found[one.path]
        if have["kind"] == "unreadable":
            yield Unknown(view.host, f"file {one.path}", have["why"])
        elif have["kind"] != one.kind:
            yield _path(view, one, "file-kind", _described(one), _shown(have))
        elif one.kind == "link" and have["target"] != one.target:
            yield _path(view, one, "file-target", f"a link to {one.target}", f"a link to {have['target']}")
        elif one.kind in ("file", "folder"):
            yield from _content(view, one, have)
            yield from _secret(view, one, have)
            yield from _access(view, one, have) if one.mode else ()


def of_owned(view: DriftContext) -> Iterator[Difference]:
    """Files under names of ours that nobody declares any more."""
    declared = {one.path for one in managed_files(view.slice)}
    for path in undeclared(view.state["owned"] or (), declared):
        yield view.differs("warning", "file-undeclared", f"file {path}", found="it is there", expected=NOT_THERE)


def _described(one: Managed) -> str:
    return f"a link to {one.target}" if one.kind == "link" else _KINDS[one.kind]


def _shown(have: FileState) -> str:
    return f"a link to {have['target']}" if have["kind"] == "link" else _KINDS[have["kind"]]


def _content(view: DriftContext, one: Managed, have: FileState) -> Iterator[Difference]:
    if one.content is not None and have["sha256"] != one.sha256:
        want = f"sha256 {str(one.sha256)[:12]}"
        diff = unified(one.content, have["text"]) if "text" in have else ""
        yield _path(view, one, "file-content", want, f"sha256 {have['sha256'][:12]}", diff)


def _secret(view: DriftContext, one: Managed, have: FileState) -> Iterator[Difference | Unknown]:
    if one.source and have["same"] is None:
        yield Unknown(view.host, f"file {one.path}", have["why"])
    elif one.source and not have["same"]:
        yield _path(view, one, "file-content", f"what {one.source} holds", "another content")


def _access(view: DriftContext, one: Managed, have: FileState) -> Iterator[Difference]:
    want = f"root:root {one.mode}"
    found = f"{have['owner']}:{have['group']} {have['mode']}"
    if want != found:
        yield _path(view, one, "file-access", want, found)


def _path(view: DriftContext, one: Managed, rule: str, want: str, have: str, diff: str = "") -> Difference:
    return view.differs(
        "error" if one.secret or one.service else "warning",
        rule,
        f"file {one.path}",
        found=have,
        expected=want,
        service=one.service,
        diff=diff,
    )


def of_json(view: DriftContext) -> Iterator[Difference]:
    """Our keys of JSON files that others also write."""
    found = view.state["json"]
    if found is None:
        return
    for one in managed_json(view.slice):
        have = found[one.path]
        if have is not None:  # a missing file is reported by `of_files`
            yield from _keys(view, one, have)


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
    return view.differs(
        "error" if one.service else "warning",
        f"json-key {key}",
        f"file {one.path}",
        found=f"{key}: {have}",
        expected=f"{key}: {want}",
        service=one.service,
    )


def _compact(value: object) -> str:
    return "not set" if value is None else json.dumps(value, sort_keys=True)
