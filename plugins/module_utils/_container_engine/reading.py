# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Reads Docker's engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._probe.parts import Part, Run, UnreadableError

_DOWN = ("Cannot connect to the Docker daemon", "failed to connect to the docker API", "Is the docker daemon running")


def read_engine(run: Run) -> dict[str, Any]:
    """``{installed, running, version, store, root}``; store: ``containerd``, or the graph driver's name."""
    try:
        code, out, err = run(["docker", "info", "--format", "{{json .}}"])
    except FileNotFoundError:
        return {"installed": False, "running": False}
    info = json.loads(out) if out.strip() else {}
    message = " ".join([*(info.get("ServerErrors") or []), err])
    if any(mark in message for mark in _DOWN):
        return {"installed": True, "running": False}
    if code != 0 or not info.get("ServerVersion"):
        raise UnreadableError(message.strip() or f"docker info ended with {code}")
    driver = dict(info.get("DriverStatus") or ()).get("driver-type", "")
    store = "containerd" if driver.startswith("io.containerd.snapshotter") else info["Driver"]
    return {"installed": True, "running": True, "version": info["ServerVersion"], "store": store}


READS: Mapping[str, Part] = {"engine": lambda run, _ask: read_engine(run)}
