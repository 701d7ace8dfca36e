# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway as HAProxy's configuration, texts that 2.6, 2.8 and 3.0 read, and the maps and answers beside them.

OpenAI's clients write the model behind the messages, so that a body is read to its end before it is sent anywhere, and
a process of HAProxy has buffers of one size. To send a request anew it keeps a copy of its whole buffer, filled or not:
with buffers for the largest bodies that took 75 ms of a processor for each request (2.6.12, 3.0.11). So there are two
processes. The gateway itself reads bodies of `_USUAL_BODY`, which it can send anew. A larger one goes through the
second (`bodies_config`), which names the model in a header and hands all of it back. That one knows no keys, and takes
requests from the gateway alone: HAProxy's account can open its socket.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..._base import layout
from ..._base.addresses import in_url
from ..._base.gb10 import data_table, filled, text_of
from .backends import Backend, Endpoint
from .declared import GatewayDeclared
from .reading import HOLDS, MODELS_MAP

# For a whole body.
BODY = "60s"


# 20 MB of pictures are 27 MB in base64, and the words around them.
MOST_BODY = 32 << 20


def answer(status: int, code: str, message: str) -> str:
    """An answer in the form of OpenAI's errors, as words of ``http-request return``."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    body = json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})
    return f"status {status} content-type application/json string {quoted(body)}"


def no_model(offered: Iterable[Backend]) -> str:
    """The answer to a request for a model that nobody serves."""
    names = ", ".join(sorted(name for backend in offered for name in backend.names)) or "none"
    words = f"no such model; there are: {names}. Where a request is no JSON, name it by the header X-Model"
    return answer(404, "model_not_found", words)


def quoted(text: str) -> str:
    """A word of HAProxy's configuration: between single quotes nothing has a meaning but a single quote."""
    return "'" + text.replace("'", "'\\''") + "'"


# What both processes say.
TOO_LARGE = answer(413, "request_too_large", f"a request may have {MOST_BODY >> 20} MiB; send less at once")
UNFINISHED = answer(408, "request_timeout", "the request did not come to its end in time; send it again")


# Words of some 60,000 tokens.
_USUAL_BODY = 224 << 10
# Headers, and what HAProxy notes of each part of a message beside it.
_BESIDE_BODY = 32 << 10
# A service's name has no such letter.
_BODIES, _ADDRESSES, _CLIENTS = "_bodies", "_addresses", "_clients"
_RETRY_S = 5
_LATER = f"hdr Retry-After {_RETRY_S}"
# The gateway's connections. An address has a few of them until a request from it brings a key; then it may be a
# program with many people behind it.
_CONNECTIONS, _OF_ADDRESS, _OF_KNOWN_ADDRESS = 8192, 64, 1024
_NEW_IN_10S, _KEYLESS_IN_10S = 200, 300
# What all clients have of a queue, by what one has.
_OF_ALL = 2
# Requests of one client, at once and in 10 s.
_OF_CLIENT, _ASKED_IN_10S = 1024, 10_000
# How many bodies the second process holds at once, as its memory bears them: of up to so many bytes, and larger ones.
_MEDIUM_BODY, _MEDIUM_BODIES, _LARGEST_BODIES = 4 << 20, 192, 32
# What clients may ask, each with what lies below it (vLLM 0.33, SGLang 0.5.23, llama.cpp and OpenAI's own).
_ROUTES = (
    *("chat/completions", "completions", "responses", "messages", "embeddings", "rerank", "reranking", "score"),
    *("classify", "audio", "images", "realtime", "tokenize", "detokenize"),
)
MODELS = f"{layout.GATEWAY}/models.json"
MODEL_ANSWERS = f"{layout.GATEWAY}/model_answers.map"


def config(gateway: GatewayDeclared, offered: Sequence[Backend]) -> str:
    """``haproxy.cfg``. gateway: the checked ``fleet_gateway`` (`_subjects.gateway.declared`)."""
    redirect = text_of(
        "haproxy_redirect.cfg",
        **gateway,
        by_address=_BY_ADDRESS,
        port_part="" if gateway["port"] == 443 else f":{gateway['port']}",
    )
    return filled(
        "haproxy.cfg",
        folder=layout.GATEWAY,
        status=layout.GATEWAY_STATUS,
        port=gateway["port"],
        body=MOST_BODY,
        usual_body=_USUAL_BODY,
        buffer=_USUAL_BODY + _BESIDE_BODY,
        timeouts=text_of("haproxy_timeouts.cfg"),
        patience=BODY,
        log=_LOG,
        unauthorized=answer(
            401, "invalid_api_key", "a key of this gateway is needed: Authorization: Bearer KEY; its owner gives one"
        ),
        no_path=answer(404, "not_found", "this gateway answers " + ", ".join(f"/v1/{route}" for route in _ROUTES)),
        routes=rf"^/v1/({'|'.join(_ROUTES)})(/[A-Za-z0-9_-]+)*/?$",
        no_model=no_model(offered),
        too_large=TOO_LARGE,
        connections=_CONNECTIONS,
        # the gateway's own sockets are beside the clients' connections
        all_connections=_CONNECTIONS + 1024,
        by_address=_BY_ADDRESS,
        keyless=_KEYLESS_IN_10S,
        of_client=_OF_CLIENT,
        asked=_ASKED_IN_10S,
        too_many=answer(429, "rate_limit_exceeded", "this client asks for too much at once; try again"),
        medium=_MEDIUM_BODY,
        medium_bodies=_MEDIUM_BODIES,
        largest_bodies=_LARGEST_BODIES,
        medium_share=_MEDIUM_BODIES // 2,
        largest_share=_LARGEST_BODIES // 2,
        bodies=_BODIES,
        addresses=_ADDRESSES,
        clients=_CLIENTS,
        bodies_status=layout.GATEWAY_BODIES_STATUS,
        unread=answer(503, "service_unavailable", "large requests are not read now; try again"),
        later=_LATER,
        malformed=answer(400, "bad_request", "this is no HTTP request that the gateway understands"),
        unfinished=UNFINISHED,
        redirect=redirect if gateway["redirect_port"] else "",
        # browsers come only by TLS to this name, from the first answer on
        strict=text_of("haproxy_strict.cfg", name=gateway["own_name"]) if gateway["own_name"] else "",
        holds=HOLDS,
        backends="".join(_backend(backend, gateway["queue"]) + _waiting(backend, gateway) for backend in offered),
    )


def _waiting(backend: Backend, gateway: GatewayDeclared) -> str:
    """Where requests go while a model is held (`gateway_hold`): they wait until one of its servers lets them in.

    HAProxy waits a second before it tries again a server that refuses a connection. So it tries one that always does,
    where nobody can listen, as long as it sees none of the others serve.
    """
    most, wait_s = _OF_ALL * gateway["queue"] + backend.slots, gateway["wait_s"]
    late = answer(503, "service_unavailable", f"{backend.model} did not serve again within {wait_s} s; try again")
    lines = [
        *_before(backend, gateway["queue"]),
        f"retries {wait_s}",
        f"timeout queue {wait_s}s",
        f"http-request deny {_busy(backend)} if {{ be_conn gt {most} }}",
        "http-request set-var(txn.came) date(0,ms)",
        "http-response set-header X-Gateway-Waited-Ms %[date(0,ms),sub(txn.came)]",
        "http-response set-header X-Gateway-Waits-For %[var(txn.held)]",
        f"http-error {late} {_LATER}",
        "default-server init-addr libc,none",
        *(f"{_server(server)} track {backend.name}/{server.service}" for server in backend.servers),
        "server nobody 127.0.0.1:1 backup",
    ]
    return f"\nbackend {backend.name}_waits\n" + "".join(f"    {line}\n" for line in lines)


def _busy(backend: Backend) -> str:
    words = f"{backend.model} has as many requests as it can take; try again"
    return f"{answer(429, 'rate_limit_exceeded', words)} {_LATER}"


def _before(backend: Backend, queue: int) -> Iterator[str]:
    """Whose turn it is, how a server is chosen, and what of a request it gets.

    One client has all places and a queue, and waits behind clients with fewer requests. As many more of the others may
    wait, so that no client keeps them out.
    """
    words = f"this client has as many requests to {backend.model} as one may have; try again"
    busy = f"{answer(429, 'rate_limit_exceeded', words)} {_LATER}"
    yield "stick-table type string len 64 size 10k expire 1m store conn_cur"
    yield "http-request track-sc2 var(txn.client)"
    yield f"http-request deny {busy} if {{ sc2_conn_cur gt {backend.slots + queue} }}"
    yield "http-request set-priority-class sc2_conn_cur"
    yield "balance leastconn"
    # the client's own key is the gateway's business alone
    yield "http-request del-header Authorization"
    yield "http-request del-header X-Api-Key"
    if backend.key:
        key = f'%[str(key),map({layout.gateway_key(backend.name)}),json_query("$.key")]'
        yield f"http-request set-header Authorization 'Bearer {key}'"


def _backend(backend: Backend, queue: int) -> str:
    away = answer(503, "service_unavailable", f"no host serves {backend.model} now; try again")
    broken = answer(502, "bad_gateway", f"the host that served {backend.model} failed; try again")
    slow = answer(504, "gateway_timeout", f"{backend.model} was silent for too long")
    lines = [
        *_READINESS,
        f"http-request deny {_busy(backend)} if {{ queue gt {_OF_ALL * queue} }}",
        *_before(backend, queue),
        f"http-error {broken}",
        f"http-error {away} {_LATER}",
        f"http-error {slow}",
        *(f"{_server(server)} port {server.readiness}" for server in backend.servers),
    ]
    return f"\nbackend {backend.name}\n" + "".join(f"    {line}\n" for line in lines)


# Its supervisor says whether a server takes requests: a change of its word counts within a second. A request that
# failed (5xx, or no HTTP) is a failed check, which brings the next one at once; that shows it, and the supervisor asks
# a canary before it answers. So a sick server is out after its first failures, and whoever sends requests that fail
# everywhere takes no sound one out. Who comes back gets its part little by little.
_READINESS: tuple[str, ...] = data_table("haproxy_readiness")


def _server(server: Endpoint) -> str:
    """A host that its name doesn't lead to yet is one that is away (init-addr), and keeps no other from starting."""
    tls = f" ssl verify required ca-file @system-ca sni str({server.tls_name}) verifyhost {server.tls_name}"
    words = f"server {server.service} {in_url(server.address)}:{server.port} maxconn {server.slots}"
    return words + (tls if server.tls_name else "")


def models_map(offered: Iterable[Backend]) -> str:
    """``{model: backend}`` as HAProxy's map."""
    rows = sorted((name, backend.name) for backend in offered for name in backend.names)
    return "".join(f"{name} {backend}\n" for name, backend in rows)


def models_json(offered: Iterable[Backend]) -> str:
    """What ``GET /v1/models`` answers: the plan's models, whether they serve now or not."""
    return json.dumps({"object": "list", "data": [*_models(offered).values()]}, indent=1) + "\n"


def model_answers(offered: Iterable[Backend]) -> str:
    """``{model: answer}`` of ``GET /v1/models/MODEL`` as HAProxy's map."""
    return "".join(f"{name} {json.dumps(model)}\n" for name, model in _models(offered).items())


def _models(offered: Iterable[Backend]) -> dict[str, dict[str, Any]]:
    return {
        name: {
            "id": name,
            "object": "model",
            # clients compare it with nothing, and a clock would make each plan another
            "created": 0,
            "owned_by": "gb10.fleet",
            **({} if backend.context is None else {"max_model_len": backend.context}),
        }
        for name, backend in sorted((name, backend) for backend in offered for name in backend.names)
    }


_BY_ADDRESS = f"""\
    tcp-request connection track-sc0 src table {_ADDRESSES}
    tcp-request connection reject if {{ sc0_conn_cur gt {_OF_ADDRESS} }} ! {{ sc0_get_gpt0 gt 0 }}
    tcp-request connection reject if {{ sc0_conn_cur gt {_OF_KNOWN_ADDRESS} }}
    tcp-request connection reject if {{ sc0_conn_rate gt {_NEW_IN_10S} }} ! {{ sc0_get_gpt0 gt 0 }}
"""

_LOG = (
    """'{"client":"%[var(txn.client)]","from":"%[var(txn.from)]","model":"%[var(txn.backend)]","host":"%s","status":%ST,"""
    """"queued_ms":%Tw,"first_byte_ms":%Tr,"ms":%Ta,"sent":%U,"received":%B,"ended":"%tsc"}'"""
)


# Headers, and what HAProxy notes of each part of a message beside it. Of a buffer only pages that were written take
# memory: 80 MB for a body of 28 MB, measured with 2.6.12.
_BUFFER = MOST_BODY + (256 << 10)


def bodies_config(offered: Iterable[Backend]) -> str:
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
        timeouts=text_of("haproxy_timeouts.cfg"),
        patience=BODY,
    )
