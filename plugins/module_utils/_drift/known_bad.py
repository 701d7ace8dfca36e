# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""``data/known_bad.yml``: versions that are known to fail on GB10, against what runs."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._drift.difference import Difference, View
from ansible_collections.gb10.fleet.plugins.module_utils._drift.on_system import versions
from ansible_collections.gb10.fleet.plugins.module_utils._gb10 import ROOT
from ansible_collections.gb10.fleet.plugins.module_utils._yaml_text import read_yaml


@functools.cache
def known_bad() -> list[Mapping[str, Any]]:
    """The table: ``{id, what, pattern, unless_cmdline, severity, effect, remedy, source}``."""
    table: list[Mapping[str, Any]] = read_yaml((ROOT / "data" / "known_bad.yml").read_text("utf-8"))
    return table


def of_known_bad(view: View) -> Iterator[Difference]:
    found = {name: [version] for name, version in versions(view.state).items() if version}
    found["image"] = sorted({image["reference"] for image in view.slice["images"]})
    cmdline = (view.state["kernel"] or {"cmdline": ""})["cmdline"].split()
    for row in known_bad():
        for have in found.get(row["what"], []):
            if fnmatchcase(have, row["pattern"]) and row.get("unless_cmdline") not in cmdline:
                yield Difference(
                    view.host, f"{row['what']} {have}", f"known-bad {row['id']}", f"not {row['pattern']}", have,
                    row["severity"], row["remedy"], reason=row["effect"], source=row["source"],
                )  # fmt: skip
