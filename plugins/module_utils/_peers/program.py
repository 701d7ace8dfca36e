# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The peer server as files of a host: our own private utilities, what starts them, and what they may."""

from __future__ import annotations

from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._layout import CACHES, LIBRARY, MODELS, STATE, UNITS
from ansible_collections.gb10.fleet.plugins.module_utils._transfer.access import PLACES, PROGRAM
from ansible_collections.gb10.fleet.plugins.module_utils._transfer.staging import LOCKS

_PACKAGE = "ansible_collections/gb10/fleet/plugins/module_utils"
_FOLDER = f"{LIBRARY}/peer"
# All that the server imports of this collection: a test holds the list equal to what it loads.
MODULES = (
    "_findings",
    "_images/__init__",
    "_images/archive",
    "_images/docker",
    "_images/identity",
    "_images/layers",
    "_images/pull",
    "_images/records",
    "_layout",
    "_own_files",
    "_peers/__init__",
    "_peers/contents",
    "_peers/request",
    "_peers/server",
    "_schema",
    "_sizes",
    "_transfer/__init__",
    "_transfer/access",
    "_transfer/fetch",
    "_transfer/offer",
    "_transfer/parts",
    "_transfer/peer",
    "_transfer/places",
    "_transfer/received",
    "_transfer/route",
    "_transfer/spool",
    "_transfer/staging",
    "_weights/__init__",
    "_weights/access",
    "_weights/cache",
    "_weights/hub",
    "_weights/hub_api",
    "_weights/manifest",
    "_weights/records",
    "_weights/source",
    "_weights/store",
)
_SERVE = f"{_FOLDER}/serve"
START = f"""\
#!/usr/bin/env -S python3 -IB
# Managed by gb10.fleet: {PROGRAM} starts it for other hosts of the fleet.
import sys

sys.path.insert(0, "{_FOLDER}")

from {_PACKAGE.replace("/", ".")}._peers.server import main

main(sys.argv[1:])
"""
# All connections together: sshd lets in more of them than a host has memory for.
SLICE = "gb10-peer.slice"
_SLICE_TEXT = """\
# Managed by gb10.fleet: what serving other hosts of the fleet may take of this one, all connections together.
[Slice]
MemoryMax=2G
MemorySwapMax=0
TasksMax=512
"""
# It is root, since root's are Docker's store and socket, the cache that it takes models from, and the locks that it
# shares with a staging run. Of what root may it is left (systemd.exec(5)): to read the files that it sees, to write its
# stores, and to ask Docker. It sees no home, and next to nothing of /etc and /run.
_WRITES = (MODELS, *(f"{STATE}/{name}" for name in ("models", "recipes", "served", "unpacked")))
_SEES = (PLACES, "/etc/passwd", "-/etc/ld.so.cache", "-/run/docker.sock", *(f"-{cache}" for cache in CACHES))
_LIMITS = {
    "User": "root",
    "ProtectSystem": "strict",
    "ReadWritePaths": " ".join(_WRITES),
    "TemporaryFileSystem": "/etc:ro /run:ro",
    "BindReadOnlyPaths": " ".join(_SEES),
    "BindPaths": str(LOCKS),
    "ProtectHome": "tmpfs",
    "InaccessiblePaths": "-/var/log -/var/spool -/boot",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "PrivateNetwork": "yes",
    "RestrictAddressFamilies": "AF_UNIX",
    "CapabilityBoundingSet": "CAP_DAC_READ_SEARCH",
    "NoNewPrivileges": "yes",
    "RestrictNamespaces": "yes",
    "RestrictSUIDSGID": "yes",
    "LockPersonality": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectControlGroups": "yes",
    "ProtectClock": "yes",
    "ProtectHostname": "yes",
    "ProtectProc": "invisible",
    "SystemCallArchitectures": "native",
    # not in it is open_by_handle_at, which with this capability would open what is hidden
    "SystemCallFilter": "@system-service",
    "MemoryMax": "1G",
    "TasksMax": "128",
    "RuntimeMaxSec": "1d",
    "OOMScoreAdjust": "500",
}


def _start() -> str:
    """The program that sudo starts: the server within its limits. It ends when nobody asks any more."""
    properties = [f"--property='{name}={value}'" for name, value in _LIMITS.items()]
    words = ["exec systemd-run --quiet --pipe --wait --collect --service-type=exec", f"--slice={SLICE}", *properties]
    return "\n".join(
        (
            "#!/bin/sh",
            "# Managed by gb10.fleet: sshd starts it for other hosts of the fleet, by sudo, and without arguments.",
            f"mkdir -p -m 0700 {LOCKS}",
            f"mkdir -p {' '.join(_WRITES)}",
            " \\\n    ".join([*words, _SERVE]),
            "",
        )
    )


def program_files() -> dict[str, dict[str, Any]]:
    """``{path: {mode, content or source}}``. Without the empty files Ansible's packages would count."""
    parents = ["/".join(_PACKAGE.split("/")[:depth]) for depth in range(1, _PACKAGE.count("/") + 2)]
    return {
        PROGRAM: {"mode": "0755", "content": _start()},
        _SERVE: {"mode": "0755", "content": START},
        f"{UNITS}/{SLICE}": {"mode": "0644", "content": _SLICE_TEXT},
        **{f"{_FOLDER}/{parent}/__init__.py": {"mode": "0644", "content": ""} for parent in parents},
        **{
            f"{_FOLDER}/{_PACKAGE}/{name}.py": {"mode": "0644", "source": f"plugins/module_utils/{name}.py"}
            for name in MODULES
        },
    }
