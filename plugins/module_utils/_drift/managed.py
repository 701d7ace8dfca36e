# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The files that a host has by the plan: what their roles write, found in the host's slice and nowhere else.

Any part of a slice may hold ``files``, ``{path: {mode, content}}`` with content null where no file is to be, and
``links``, ``{path: target}``: a role that writes files takes them from there, and drift compares them without knowing
the role.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ansible_collections.gb10.fleet.plugins.module_utils import _layout
from ansible_collections.gb10.fleet.plugins.module_utils._gb10 import ROOT

_RANK = "plugins/module_utils/_rank"
_GUARD = f"{_layout.LIBRARY}/netplan"
# Programs and units that roles copy as they lie in this collection: path on the host -> path here.
SHIPPED = {
    "vllm": {
        f"{_layout.LIBRARY}/gids.py": "plugins/module_utils/_fabric/gids.py",
        **{f"{_layout.LIBRARY}/gb10_rank/{path.name}": f"{_RANK}/{path.name}" for path in (ROOT / _RANK).glob("*.py")},
    },
    "firewall": {
        "/etc/systemd/system/gb10-firewall.service": "roles/firewall/files/gb10-firewall.service",
        "/etc/systemd/system/nftables.service.d/gb10-fleet.conf": "roles/firewall/files/nftables.conf",
    },
    "fabric": {
        f"{_GUARD}/__main__.py": "roles/fabric/files/netplan_main.py",
        f"{_GUARD}/gb10_netplan/guard.py": "plugins/module_utils/_netplan/guard.py",
        f"{_GUARD}/gb10_netplan/links.py": "plugins/module_utils/_netplan/links.py",
        f"{_GUARD}/gb10_netplan/record.py": "plugins/module_utils/_netplan/record.py",
        "/etc/systemd/system/gb10-netplan-change.service": "roles/fabric/files/gb10-netplan-change.service",
        "/etc/systemd/system/gb10-netplan-recover.service": "roles/fabric/files/gb10-netplan-recover.service",
    },
}


@dataclass(frozen=True)
class Managed:
    """One path. kind: what it is to be. content: of a file, None where only its access is ours. target: of a link.

    source: the controller's file with the secret that stands here, as JSON in ``form``; empty for any other.
    """

    path: str
    kind: Literal["file", "folder", "link", "absent"]
    mode: str = ""
    content: str | None = None
    target: str = ""
    secret: bool = False
    service: str = ""
    source: str = ""
    form: str = ""

    @property
    def sha256(self) -> str | None:
        return None if self.content is None else hashlib.sha256(self.content.encode()).hexdigest()


@dataclass(frozen=True)
class ManagedJson:
    """Our keys of a JSON file that others also write.

    settings: laid over what is there, or over the JSON file ``original``. names: what is to stand below the key
    ``names_of``, the values being secret.
    """

    path: str
    settings: Mapping[str, Any]
    original: str = ""
    names_of: str = ""
    names: tuple[str, ...] = ()
    service: str = ""


def managed_files(host: Mapping[str, Any]) -> list[Managed]:
    """All files, folders and links of a host's slice, by path."""
    found = {one.path: one for one in (*_declared(host), *_of_services(host), *_shipped(host), *_engine(host))}
    return [found[path] for path in sorted(found)]


def managed_json(host: Mapping[str, Any]) -> list[ManagedJson]:
    """The JSON files of which a part is ours."""
    engine = host["container_engine"]
    found = [ManagedJson("/etc/docker/daemon.json", engine["daemon"])]
    if engine["registries"]:
        names = tuple(sorted(registry["key"] for registry in engine["registries"]))
        found.append(ManagedJson("/root/.docker/config.json", {}, names_of="auths", names=names))
    for service in host["services"]:
        found += [
            ManagedJson(one["path"], one["json_merge"], original=one["original"], service=service["name"])
            for one in service["merged"]
        ]
    return found


def _declared(value: Any, service: str = "") -> Iterator[Managed]:
    """What ``files`` and ``links`` anywhere in the slice say."""
    if isinstance(value, list):
        for item in value:
            yield from _declared(item, service)
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
        else:
            yield from _declared(item, service)


def _file(path: str, file: Mapping[str, Any], service: str) -> Iterator[Managed]:
    if file["content"] is not None:
        yield Managed(path, "file", file["mode"], file["content"], service=service)
    # A netplan file under our name may be the owner's own where no cable is declared.
    elif not path.startswith("/etc/netplan/"):
        yield Managed(path, "absent", service=service)


def _of_services(host: Mapping[str, Any]) -> Iterator[Managed]:
    yield Managed(_layout.SECRETS, "folder", "0700")
    for service in host["services"]:
        name = service["name"]
        for path, file in service["files"].items():
            yield from _file(path, file, name)
        for folder in service["folders"]:
            yield Managed(folder, "folder", "0755", service=name)
        for merged in service["merged"]:
            yield Managed(merged["path"], "file", "0644", service=name)
        if service["secret"]:
            yield Managed(service["secret"]["path"], "file", "0600", secret=True, service=name)
        if service["key"]:
            key = service["key"]
            yield Managed(
                key["path"], "file", "0600", secret=True, service=name, source=key["source"], form=key["form"]
            )


def _shipped(host: Mapping[str, Any]) -> Iterator[Managed]:
    conditions = {"fabric": bool(host["fabric"]["interfaces"]), "firewall": host["firewall"]["state"] == "closed"}
    for role in (role for role in SHIPPED if conditions.get(role, True)):
        for path, source in SHIPPED[role].items():
            content = (ROOT / source).read_text(encoding="utf-8")
            yield Managed(path, "file", "0644", content)


def _engine(host: Mapping[str, Any]) -> Iterator[Managed]:
    yield Managed("/etc/docker/daemon.json", "file", "0644")
    if host["container_engine"]["registries"]:
        yield Managed("/root/.docker/config.json", "file", "0600", secret=True)
