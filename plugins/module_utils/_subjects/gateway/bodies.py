# SPDX-License-Identifier: GPL-3.0-or-later
"""The process beside a gateway that reads large bodies, and hands them back with their model in a header.

It knows no keys, and takes requests from the gateway alone: HAProxy's account can open its socket.
"""

from collections.abc import Iterable

from ..._base import layout
from ..._base.gb10 import filled
from .answers import BODY, MOST_BODY, SHARED, TOO_LARGE, UNFINISHED, no_model
from .backends import Backend
from .reading import MODELS_MAP

# Headers, and what HAProxy notes of each part of a message beside it. Of a buffer only pages that were written take
# memory: 80 MB for a body of 28 MB, measured with 2.6.12.
_BUFFER = MOST_BODY + (256 << 10)


def config(offered: Iterable[Backend]) -> str:
    """``bodies.cfg``."""
    return filled(
        "bodies.cfg",
        large=f"{layout.GATEWAY_STATUS}/large.sock",
        bodies=f"{layout.GATEWAY_BODIES_STATUS}/bodies.sock",
        body=MOST_BODY,
        buffer=_BUFFER,
        too_large=TOO_LARGE,
        no_model=no_model(offered),
        models=MODELS_MAP,
        unfinished=UNFINISHED,
        timeouts=SHARED,
        patience=BODY,
    )
