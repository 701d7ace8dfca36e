# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every path of ours is written once, in `_base.layout`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base import layout
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.netplan import record
from ansible_collections.gb10.fleet.plugins.module_utils._on_host.rank import evidence, report

ROOT = Path(__file__).parents[2]
LAYOUT = "plugins/module_utils/_base/layout.py"
OURS = re.compile(r"/(?:var/lib|var/cache|etc|run|usr/local/lib|opt)/gb10-fleet[\w./{}-]*")

# where else one of our paths may be written, and why
ELSEWHERE = {
    "plugins/module_utils/_on_host/netplan/record.py": "copied to hosts as it is; compared below",
    "plugins/module_utils/_on_host/rank/evidence.py": "copied to hosts as it is; compared below",
    "plugins/module_utils/_on_host/rank/report.py": "copied to hosts as it is; compared below",
    "plugins/plugin_utils/_watched.py": "a file of a random name for one run, gone after it",
    "roles/drift_timer/defaults/main.yml": "options of a role that needs no plan; compared below",
    "roles/drift_timer/meta/argument_specs.yml": "says the default of an option again, as Ansible wants it",
    "roles/drift_timer/vars/main.yml": "a role that needs no plan; compared below",
    "roles/fabric/files/gb10-netplan-change.service": "a unit as it is shipped; compared below",
    "roles/fabric/files/gb10-netplan-recover.service": "a unit as it is shipped; compared below",
    "roles/fabric/meta/argument_specs.yml": "documentation; compared below",
    "roles/firewall/files/gb10-firewall.service": "a unit as it is shipped; compared below",
    "roles/firewall/files/nftables.conf": "a unit as it is shipped; compared below",
    "roles/model_store/vars/main.yml": "a tool that one role installs for itself; compared below",
    "roles/pull/vars/main.yml": "a role whose host knows no plan before; compared below",
    "roles/verify/tasks/main.yml": "a cache that one task uses; compared below",
}
# of these, what is no path of `_base.layout` or below one
TEMPORARY = {"/run/gb10-fleet-progress-"}
KNOWN = [value for value in vars(layout).values() if isinstance(value, str) and OURS.match(value)]


def _code(text: str) -> Iterator[str]:
    """The strings of a Python file, but for docstrings and a plugin's documentation: those show examples."""
    tree = ast.parse(text)
    shown = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    shown |= {
        id(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("DOCUMENTATION", "EXAMPLES", "RETURN")
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in shown:
            yield node.value


@cache
def _found() -> dict[str, set[str]]:
    """The paths of ours that each file writes."""
    found: dict[str, set[str]] = {}
    for folder in ("plugins", "roles", "playbooks"):
        for path in sorted((ROOT / folder).rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            text = path.read_text("utf-8")
            if "gb10" in text and path.suffix == ".py":
                text = "\n".join(_code(text))
            if paths := set(OURS.findall(text)):
                found[path.relative_to(ROOT).as_posix()] = paths
    return found


def test_our_paths_are_written_in_layout_alone() -> None:
    assert _found().keys() - {LAYOUT} == ELSEWHERE.keys()


@pytest.mark.parametrize("file", sorted(ELSEWHERE))
def test_what_is_written_elsewhere_agrees(file: str) -> None:
    strange = {
        path
        for path in _found()[file]
        if not any(path == known or path.startswith(f"{known}/") for known in KNOWN)
        and not any(path.startswith(known) for known in TEMPORARY)
    }
    assert strange == set()


def test_programs_on_hosts_have_the_layouts_paths() -> None:
    assert (str(record.STATE), str(evidence.EVIDENCE), str(report.RUN)) == (
        layout.NETPLAN,
        layout.EVIDENCE,
        layout.STATUS,
    )
