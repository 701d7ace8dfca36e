# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of `trtllm-serve` by release, with dashes for its underscores: ``data/trtllm_catalogue.json``.

The one entry is the list of its source at commit 00209af149e7 (tensorrt_llm/commands/serve.py), which belongs to no
release: images are not judged by it. Releases come in by ``tools/engine_catalogue.py``, from their images.
"""

import functools
from collections.abc import Mapping
from pathlib import Path

from ..options import Release, releases_of

DATA = Path(__file__).resolve().parents[4] / "data" / "trtllm_catalogue.json"
NEWEST = "0.0.0+main.00209af149e7"


@functools.cache
def load() -> Mapping[str, Release]:
    """The catalogued releases by version."""
    return releases_of(DATA.read_text("utf-8"))
