# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This module util is PRIVATE to the collection.
"""``data/known_bad.yml``: versions that are known to fail on GB10."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from ansible_collections.gb10.fleet.plugins.module_utils._gb10 import ROOT
from ansible_collections.gb10.fleet.plugins.module_utils._yaml_text import read_yaml


@functools.cache
def known_bad() -> list[Mapping[str, Any]]:
    """The table: ``{id, what, pattern, unless_cmdline, severity, effect, remedy, source}``."""
    table: list[Mapping[str, Any]] = read_yaml((ROOT / "data" / "known_bad.yml").read_text("utf-8"))
    return table
