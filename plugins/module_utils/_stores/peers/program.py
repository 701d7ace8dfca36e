# SPDX-License-Identifier: GPL-3.0-or-later
"""The peer server as files of a host: our own private utilities, what starts them, and what they may."""

from ..._base.gb10 import data_table
from ..._base.layout import LIBRARY, UNITS
from ..._base.slice import Files
from ..transfer.access import PROGRAM
from .start import SLICE

_PACKAGE = "ansible_collections/gb10/fleet/plugins/module_utils"
_FOLDER = f"{LIBRARY}/peer"
OWNS = f"{_FOLDER}/**"  # another release has other modules
# All that the server and what starts it import of this collection: a test holds the list equal to what they load.
MODULES: tuple[str, ...] = data_table("peer_modules")
_SERVE = f"{_FOLDER}/serve"


def _starting(module: str, arguments: str, started_by: str) -> str:
    """A program that runs a module's `main`."""
    return f"""\
#!/usr/bin/env -S python3 -IB
# Managed by gb10.fleet. It is started by {started_by}.
import sys

sys.path.insert(0, "{_FOLDER}")

from {_PACKAGE.replace("/", ".")}._stores.peers.{module} import main

main({arguments})
"""


_SLICE_TEXT = """\
# Managed by gb10.fleet: what serving other hosts of the fleet may take of this one, all connections together.
[Slice]
MemoryMax=2G
MemorySwapMax=0
TasksMax=512
"""


def program_files() -> Files:
    """``{path: {mode, content or source}}``. Without the empty files Ansible's packages would count."""
    parents = ["/".join(_PACKAGE.split("/")[:depth]) for depth in range(1, _PACKAGE.count("/") + 2)]
    return {
        PROGRAM: {"mode": "0755", "content": _starting("start", f'"{_SERVE}"', "sshd for other hosts, by sudo")},
        _SERVE: {"mode": "0755", "content": _starting("server", "sys.argv[1:]", f"{PROGRAM}, within limits")},
        f"{UNITS}/{SLICE}": {"mode": "0644", "content": _SLICE_TEXT},
        **{f"{_FOLDER}/{parent}/__init__.py": {"mode": "0644", "content": ""} for parent in parents},
        **{
            f"{_FOLDER}/{_PACKAGE}/{name}.py": {"mode": "0644", "source": f"plugins/module_utils/{name}.py"}
            for name in MODULES
        },
    }
