# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""The peer server as files of a host: this collection's own private utilities, and a program that starts them."""

from __future__ import annotations

from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._layout import LIBRARY
from ansible_collections.gb10.fleet.plugins.module_utils._transfer.access import PROGRAM

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
    "_weights/cache",
    "_weights/hub",
    "_weights/hub_api",
    "_weights/manifest",
    "_weights/records",
    "_weights/source",
    "_weights/store",
)
START = f"""\
#!/usr/bin/env -S python3 -IB
# Managed by gb10.fleet: sshd starts it for other hosts of the fleet, by sudo, and without arguments.
import sys

sys.path.insert(0, "{_FOLDER}")

from {_PACKAGE.replace("/", ".")}._peers.server import main

main(sys.argv[1:])
"""


def program_files() -> dict[str, dict[str, Any]]:
    """``{path: {mode, content or source}}``. Without the empty files Ansible's packages would count."""
    parents = ["/".join(_PACKAGE.split("/")[:depth]) for depth in range(1, _PACKAGE.count("/") + 2)]
    return {
        PROGRAM: {"mode": "0755", "content": START},
        **{f"{_FOLDER}/{parent}/__init__.py": {"mode": "0644", "content": ""} for parent in parents},
        **{
            f"{_FOLDER}/{_PACKAGE}/{name}.py": {"mode": "0644", "source": f"plugins/module_utils/{name}.py"}
            for name in MODULES
        },
    }
