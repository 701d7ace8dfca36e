# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of `sglang.launch_server` by release, as its own parser has them: ``data/sglang_catalogue.json``."""

import functools
from collections.abc import Mapping
from pathlib import Path

from ..options import Release, releases_of

DATA = Path(__file__).resolve().parents[4] / "data" / "sglang_catalogue.json"
NEWEST = "0.5.23"


@functools.cache
def load() -> Mapping[str, Release]:
    """The catalogued releases by version."""
    return releases_of(DATA.read_text("utf-8"))
