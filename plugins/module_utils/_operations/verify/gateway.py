# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway on its host: what it answers to a client, and how it does."""

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ..._base.findings import Finding, host_warning
from ..._base.received import one_line, words_of
from ..._on_host.rank.client import Reply, fetch, trusting
from ..._subjects.tls.clients_view import CLOCKS, refused_at
from .service import answered

# How long it may take to see that a service serves, by its own looks a second apart, and to read its files.
_PATIENCE_S = 30.0
_ANSWER_S = 300.0
_NO_KEY = "no-key-of-this-gateway"

Ask = Callable[..., Reply]


class GatewayError(Exception):
    """One sentence: what it answered, and what it should."""


# A client's view --------------------------------------------------------------------------------------------------


def prove(proof: Mapping[str, Any], key: str, elsewhere: Collection[str] = ()) -> dict[str, str]:
    """Ask the gateway of this host as its clients do. ``{model: answer}`` of those that are asked by JSON. GatewayError
    where it does not do what is promised.

    proof: of the host's slice. key: of a client. elsewhere: models that may give no answer, which are left out then.
    """
    url, tls = f"https://127.0.0.1:{proof['port']}", trusting(proof["certificate"])

    def ask(path: str, key: str, body: Mapping[str, Any] | None = None) -> Reply:
        return fetch(url + path, key, _ANSWER_S, body, tls=tls)

    _until(lambda: ask("/health", ""), "its /health")
    problem = refused_at("127.0.0.1", proof["port"], proof["certificate"], proof["ca"], proof["names"])
    if problem:
        raise GatewayError(f"{problem}; {CLOCKS}")
    _require_keys(ask)
    _require_models(_until(lambda: ask("/v1/models", key), "/v1/models with a client's key"), proof["models"])
    answers = {}
    for request in proof["requests"]:
        with contextlib.suppress(*([GatewayError] if request["model"] in elsewhere else ())):
            answers[request["model"]] = _answer(ask, key, request)
    return answers


def _until(look: Callable[[], Reply], what: str) -> Reply:
    """Until it answers 200: a gateway that has just read its files knows some seconds later who serves."""
    until = time.monotonic() + _PATIENCE_S
    while (reply := look()).status != 200:
        if reply.status not in (0, 502, 503) or time.monotonic() > until:
            waits = (
                "" if reply.status else "; ansible-playbook gb10.fleet.status says whether it waits here for a rollout"
            )
            raise GatewayError(f"{what} gave {reply.status or 'no answer'}, expected 200: {reply.shown}{waits}")
        time.sleep(1)
    return reply


def _require_keys(ask: Ask) -> None:
    for key in ("", _NO_KEY):
        reply = ask("/v1/models", key)
        if reply.status != 401:
            raise GatewayError(f"without a client's key it gave {reply.status}, expected 401")


def _require_models(reply: Reply, wanted: list[str]) -> None:
    try:
        found = sorted(one_line(words_of(model_row["id"])) for model_row in reply.document()["data"])
    except (ValueError, LookupError, TypeError):
        raise GatewayError(f"/v1/models gave no list of models: {reply.shown}") from None
    if found != sorted(wanted):
        names = ", ".join(sorted(wanted))
        raise GatewayError(f"/v1/models lists {', '.join(found) or 'nothing'}, expected {names}: run site.yml")


def _answer(ask: Ask, key: str, wanted: Mapping[str, Any]) -> str:
    example = wanted["example"]
    reply = _until(lambda: ask(example["path"], key, example["body"]), f"a request for {wanted['model']}")
    read = answered(example["answers"], reply)
    if not read["ok"]:
        raise GatewayError(f"a request for {wanted['model']} came back without an answer: {read['error']}")
    return str(read["answer"])


# How it does ------------------------------------------------------------------------------------------------------


def problems(host: str, part: Mapping[str, Any], read: Mapping[str, Any]) -> Iterator[Finding]:
    """What an owner should know or do. part: ``gateway`` of the host's slice. read: ``unit`` as `unit_state` says, and
    what `_subjects.gateway.reading.read_gateway` found."""
    place, unit = f"the gateway on {host}", part["unit"]
    if read["unit"]["active"] != "active":
        remedy = f"journalctl -u {unit} -n 50 says why; then run site.yml"
        yield host_warning("gateway-down", place, found="does not run", expected="a running gateway", remedy=remedy)
        return
    if read["servers"] is None:
        yield host_warning("gateway-silent", place, found=read["why"], remedy=f"systemctl restart {unit}")
        return
    if read.get("twins"):
        found = f"{', '.join(read['twins'])} also answers for the address {part['address']}"
        remedy = "look in the switch or router for that MAC address, and give that machine another address"
        yield host_warning("gateway-address-twice", place, found=found, expected="this host alone", remedy=remedy)
    if read["unread"]:
        found = f"{', '.join(read['unread'])} changed since it read them"
        yield host_warning("gateway-unread", place, found=found, remedy="run site.yml")
    for backend, why in sorted(read["holds"].items()):
        found = f"requests for the model of {backend} wait here ({why})"
        remedy = f"wait for the rollout; where none is under way: systemctl reload {unit}"
        yield host_warning("gateway-held", place, found=found, remedy=remedy)
    for backend, servers in part["servers"].items():
        for server, where in servers.items():
            seen = read["servers"].get(backend, {}).get(server)
            if seen is None or not seen["up"]:
                found = f"{server} on {where} gets no requests: {seen['status'] if seen else 'not known to it'}"
                yield host_warning("gateway-server", place, found=found, expected="a service that serves")


def model_rows(
    part: Mapping[str, Any], read: Mapping[str, Any] | None, names: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """One row a model. read: as above, None where it is not known. names: the models, by their backends."""
    for backend, servers in part["servers"].items():
        seen = ((read or {}).get("servers") or {}).get(backend, {})
        total = seen.get("BACKEND")
        up = sum(bool(seen.get(server, {}).get("up")) for server in servers)
        yield {
            "model": names.get(backend, backend),
            "servers up": f"{up} of {len(servers)}" if seen else "-",
            "running + waiting": f"{total['running'] - total['waiting']} + {total['waiting']}" if total else "-",
        }
