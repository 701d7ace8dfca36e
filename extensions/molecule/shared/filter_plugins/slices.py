# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that the plan adds to what a scenario writes by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._facts.builds.build import read
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers import subject as peers
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.fabric.plan import guard_files
from ansible_collections.gb10.fleet.plugins.module_utils._subjects.firewall import subject as firewall


def peer_access(who: Mapping[str, Any]) -> dict[str, Any]:
    return peers.with_files(who, "scenario")


def with_guard(files: Mapping[str, Any]) -> dict[str, Any]:
    return {**files, **guard_files()}


def image_build(data: Mapping[str, Any], folder: str) -> dict[str, Any]:
    """The entry of ``image_store_plan`` for the host that builds. data: of a ``build.yml``; folder: with its files."""
    files = {path.name: path.read_text("utf-8") for path in Path(folder).iterdir()}
    build, findings = read("demo-build", data, files, folder)
    if build is None:
        raise FleetError(*findings)
    source = {"kind": "build", "host": "titan"}
    # what is free on a lab host is what all beside it leave, and another number of jobs is another layer
    order = build.order | {"floor_gib": 0, "jobs": {**build.order["jobs"], "most": 1}}
    return {"reference": build.reference, "digest": None, "source": source, "build": order}


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "firewall_slice": firewall.with_files,
            "image_build": image_build,
            "peer_access_slice": peer_access,
            "with_guard": with_guard,
        }
