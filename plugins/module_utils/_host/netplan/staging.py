# SPDX-License-Identifier: GPL-3.0-or-later
"""Preparing a network change on the host: its record, and a script that takes it back without our program.

The script needs a shell, netplan or `ip`, nothing else. It runs where the guard's own program can't: its copy in /run
after a change whose settling failed, that in /etc at boot.
"""

import base64
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..._base.slice import Interface
from ..._on_host.netplan import record
from ..._on_host.netplan.links import RENDERED, differences, read_links, read_routes

_HEAD = """#!/bin/sh
# Written by gb10.fleet before a network change: takes it back where its guard can't.
put() {  # path, mode, owner, content as base64
  printf %s "$4" | base64 -d > "$1.gb10" && chmod "$2" "$1.gb10" && chown "$3" "$1.gb10" && mv -f "$1.gb10" "$1"
}
ip() {  # a driver that hangs keeps every one waiting
  timeout 10 ip "$@"
}"""
_APPLY = """sync
if [ "$1" = boot ]; then
  systemctl daemon-reload
  exit 0
fi
again() {  # unit, one of the files that netplan has written for it
  [ ! -e "$2" ] || timeout 20 systemctl restart "$1"
}
if ! timeout 20 netplan apply; then
  timeout 20 systemctl daemon-reload"""
_APPLIED = """fi
sleep 5"""


def stage(
    identity: str, files: Mapping[str, Mapping[str, object] | None], interfaces: Sequence[Interface]
) -> record.Change:
    """Prepare a change of files (path -> as in `record.snapshot`, None to remove) without making it.

    interfaces: what must be there afterwards, {name, address, mtu}. OSError when the record can't be kept.
    """
    last = record.load()
    if last is not None:
        put_back(last)
    change = {
        "id": identity,
        "step": last["step"] if last is not None else 0,
        "before": {path: record.snapshot(Path(path)) for path in files},
        "after": dict(files),
        "interfaces": [*interfaces],
        "links": read_links(),
        "routes": read_routes(),
        "reason": "",
        "unwritten": {},
    }
    record.reserve_room()
    record.save(change, strict=True, phase="staged")
    (record.RUN / record.CONFIRMED).unlink(missing_ok=True)
    for folder in (record.STATE, record.RUN):
        record.put(folder / record.WAY_BACK, record.own_file(way_back(change).encode("ascii")))
    return change


def put_back(last: record.Change) -> None:
    """The files that the last change's guard could not put back, as on a disk that was read-only then."""
    for path, shadow in last["unwritten"].items():
        record.put(Path(path), last["before"][path])
        if shadow:
            record.put(Path(shadow), None)


def owed(last: record.Change | None, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """netplan's files as they will be once `put_back` has run."""
    present = dict(files)
    for path, shadow in (last or {"unwritten": {}})["unwritten"].items():
        old = (last or {})["before"][path]
        present = {name: text for name, text in present.items() if name not in (path, shadow)}
        if old is not None and "content" in old:
            present[path] = base64.b64decode(old["content"])
    return present


def way_back(change: record.Change) -> str:
    """The script. With the argument ``boot`` it stops before touching the network, which starts from the files."""
    again = (f"  again {unit} {folder}/{pattern}" for unit, folder, pattern in RENDERED)
    lines = [_HEAD, *_files(change), *_status(change), _APPLY, *again, _APPLIED, *_addresses(change)]
    return "".join(f"{line}\n" for line in lines)


def _files(change: record.Change) -> Iterator[str]:
    for path, file in change["before"].items():
        target = shlex.quote(path)
        if file is None:
            yield f"rm -f {target}"
        elif "link" in file:
            yield f"ln -sfn {shlex.quote(file['link'])} {target}"
        else:
            yield f"put {target} {file['mode']:o} {file['uid']}:{file['gid']} {file['content']}"


def _status(change: record.Change) -> Iterator[str]:
    """What the controller reads; newer than all that the guard writes of this change."""
    reason = "the program that takes changes back did not work, the script written before the change did it"
    status = {"id": change["id"], "phase": "restored", "reason": reason, "step": change["step"] + 100}
    yield f"mkdir -p {record.RUN} && printf '%s\\n' {shlex.quote(json.dumps(status))} > {record.RUN / record.STATUS}"


def _addresses(change: record.Change) -> Iterator[str]:
    """Without reading what is there: the addresses and routes go, and those of before come."""
    bare = [{**link, "addr_info": []} for link in change["links"]]
    for link in bare:
        if "UP" in link["flags"]:
            yield f"ip link set {shlex.quote(link['ifname'])} up"
        if link["ifname"] != "lo":
            yield f"ip -4 address flush dev {shlex.quote(link['ifname'])}"
    yield "ip -4 route flush table main"
    for command in differences(change, bare, []):
        yield shlex.join(["ip", *command])
