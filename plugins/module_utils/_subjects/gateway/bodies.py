# SPDX-License-Identifier: GPL-3.0-or-later
"""The process beside a gateway that reads large bodies, and hands them back with their model in a header.

It knows no keys, and takes requests from the gateway alone: HAProxy's account can open its socket.
"""

from collections.abc import Iterable

from ..._base import layout
from .answers import MOST_BODY, TOO_LARGE, UNFINISHED, no_model
from .backends import Backend
from .reading import MODELS_MAP
from .timeouts import BODY, SHARED

# Headers, and what HAProxy notes of each part of a message beside it. Of a buffer only pages that were written take
# memory: 80 MB for a body of 28 MB, measured with 2.6.12.
_BUFFER = MOST_BODY + (256 << 10)


def config(offered: Iterable[Backend]) -> str:
    """``bodies.cfg``."""
    return _TEXT.format(
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


_TEXT = (
    f"{layout.MARK}\n"
    + """\
global
    log stdout format raw local0
    user haproxy
    group haproxy
    maxconn 4096
    hard-stop-after 24h
    tune.bufsize {buffer}
    # bodies under way at once; more wait, and the unit bounds their memory
    tune.buffers.limit 512

defaults
    mode http
    log global
    option dontlog-normal
    option http-no-delay
    option abortonclose
    timeout http-request {patience}
    # the gateway, which waits for the answer
    timeout client 1h
{timeouts}
frontend bodies
    bind {bodies} mode 660
    http-error {unfinished}
    http-request wait-for-body time {patience}
    # of a body without a length it is known only now
    http-request return {too_large} if {{ req.body_size gt {body} }}
    http-request set-header X-Model %[req.body,json_query('$.model')] unless {{ req.hdr(x-model) -m len gt 0 }}
    # here, since the gateway's own answer would come before it has taken the body
    http-request return {no_model} unless {{ req.hdr(x-model),map({models}) -m found }}
    default_backend gateway

backend gateway
    server gateway {large}
"""
)
