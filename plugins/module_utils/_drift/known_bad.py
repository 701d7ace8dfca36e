# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""Versions and images that are known to fail on GB10, in ``data/{known_bad,vllm_images}.yml``, against what runs."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._drift.difference import Difference, View
from ansible_collections.gb10.fleet.plugins.module_utils._drift.on_system import versions
from ansible_collections.gb10.fleet.plugins.module_utils._findings import Severity
from ansible_collections.gb10.fleet.plugins.module_utils._gb10 import ROOT
from ansible_collections.gb10.fleet.plugins.module_utils._vllm.image_facts import Fault, image_of, moving_tag
from ansible_collections.gb10.fleet.plugins.module_utils._yaml_text import read_yaml


@functools.cache
def known_bad() -> list[Mapping[str, Any]]:
    """The table: ``{id, what, pattern, unless_cmdline, severity, effect, remedy, source}``."""
    table: list[Mapping[str, Any]] = read_yaml((ROOT / "data" / "known_bad.yml").read_text("utf-8"))
    return table


def of_known_bad(view: View) -> Iterator[Difference]:
    found = {name: [version] for name, version in versions(view.state).items() if version}
    cmdline = (view.state["kernel"] or {"cmdline": ""})["cmdline"].split()
    for row in known_bad():
        for have in found.get(row["what"], []):
            if fnmatchcase(have, row["pattern"]) and row.get("unless_cmdline") not in cmdline:
                yield Difference(
                    view.host, f"{row['what']} {have}", f"known-bad {row['id']}", f"not {row['pattern']}", have,
                    row["severity"], row["remedy"], reason=row["effect"], source=row["source"],
                )  # fmt: skip
    for image in map(image_of, sorted({_pinned(each) for each in view.slice["images"]})):
        if image.bad:
            yield _bad_image(view.host, image.reference, "bad-tag", "error", image.bad)
        if image.moving and not image.digest:
            yield _bad_image(view.host, image.reference, "moving-tag", "hint", moving_tag())


def _pinned(image: Mapping[str, Any]) -> str:
    return f"{image['reference']}@{image['digest']}" if image["digest"] else str(image["reference"])


def _bad_image(host: str, reference: str, identity: str, severity: Severity, fault: Fault) -> Difference:
    return Difference(
        host, f"image {reference}", f"known-bad {identity}", "another tag, or a digest", reference,
        severity, fault.remedy, reason=fault.effect, source=fault.source,
    )  # fmt: skip
