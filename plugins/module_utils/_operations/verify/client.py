# SPDX-License-Identifier: GPL-3.0-or-later
"""A client of the gateway on its host, used as its people do: sign in, look at the models, chat."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from ..._base.findings import host_warning
from ..._base.received import ANYTHING, Unread, harmless, matching, one_line, words_of
from ..._host.probe.parts import Run
from ..._on_host.rank.client import Reply, fetch
from .service import changed_by, unit_state

# A first start fills its database, on a host that loads models beside it.
_START_S = 300.0
_ANSWER_S = 300.0
_HEALTH_S = 5.0
_WORDS = [{"role": "user", "content": "Say hello in one word."}]

Ask = Callable[..., Reply]


class ClientError(Exception):
    """One sentence: what it answered, and what it should."""


def prove(proof: Mapping[str, Any], secret: str, ask: Ask = fetch) -> str:
    """What a model answered through it. ClientError where it does not do what is promised.

    proof: of the host's slice. secret: the first account's password, or the key of its API.
    """
    _until_ready(proof, ask)
    if proof["kind"] == "open-webui":
        key = _signed_in(proof, secret, ask)
        path = "/api/chat/completions"
        model = _model(proof, ask(f"{proof['url']}/api/models", key, _ANSWER_S))
    else:
        key, path, model = secret, "/v1/chat/completions", "hermes-agent"
        if ask(f"{proof['url']}/v1/models", "", _ANSWER_S).status != 401:
            raise ClientError("its API answers without its key, expected 401")
    reply = ask(proof["url"] + path, key, _ANSWER_S, {"model": model, "messages": _WORDS, "stream": False})
    words = _read(reply, lambda answer: answer["choices"][0]["message"]["content"])
    if not words:
        raise ClientError(f"a chat with {model} gave {_shown(reply)}, expected an answer")
    return words


def read_client(run: Run, client: Mapping[str, Any], ask: Ask = fetch) -> dict[str, Any]:
    """``{client, unit, health, problems}`` of one of ``hosts.<host>.clients``, in seconds. health: what
    `status.yml` shows, ``answers`` where all is well. ValueError where systemd can't say."""
    state, proof, unit = unit_state(run, client["unit"]), client["proof"], client["unit"]
    place, health, found = f"the client {client['name']}", state["active"], ""
    if state["active"] in ("active", "activating"):
        reply = ask(proof["url"] + proof["health"], "", _HEALTH_S)
        health = "answers" if reply.status == 200 else "no answer"
        found = "" if reply.status == 200 else f"{proof['health']} gave {_shown(reply)}"
    else:
        found = f"its unit is {state['active']}: {state['result']}"
    remedy = f"journalctl -u {unit} -n 50 says why: its first start takes minutes; later systemctl restart {unit}"
    problems = [host_warning("client-silent", place, found=found, remedy=remedy)] if found else []
    return {
        "client": client["name"],
        "unit": state,
        "health": health,
        "problems": [problem.sentence() + changed_by(state, unit) for problem in problems],
    }


def _until_ready(proof: Mapping[str, Any], ask: Ask) -> None:
    until = time.monotonic() + _START_S
    while (reply := ask(proof["url"] + proof["health"], "", 10.0)).status != 200:
        if time.monotonic() > until:
            raise ClientError(f"{proof['health']} gave {_shown(reply)}, expected 200 after {_START_S:.0f} s")
        time.sleep(2)


def _signed_in(proof: Mapping[str, Any], secret: str, ask: Ask) -> str:
    body = {"email": proof["account"], "password": secret}
    reply = ask(f"{proof['url']}/api/v1/auths/signin", "", _ANSWER_S, body)
    token = _read(reply, lambda answer: answer["token"])
    if not token:
        raise ClientError(
            f"{proof['account']} can't sign in ({_shown(reply)}): the password that it was made with holds until it is "
            "changed there"
        )
    return token


def _model(proof: Mapping[str, Any], reply: Reply) -> str:
    """One of the gateway's, where it lists all of them."""
    try:
        listed = [one_line(words_of(model["id"])) for model in reply.document()["data"]] if reply.status == 200 else []
    except (ValueError, LookupError, TypeError):
        listed = []
    missing = [name for name in proof["models"] if name not in listed]
    if missing:
        raise ClientError(f"it lists {', '.join(listed) or 'no model'}, expected {', '.join(missing)} too")
    if not proof["models"]:
        raise ClientError("the gateway has no model yet")
    return str(proof["models"][0])


def _read(reply: Reply, part: Callable[[Unread], Unread]) -> str:
    """A text of its answer; empty where it has none."""
    try:
        found = part(reply.document()) if reply.status == 200 else None
    except (ValueError, LookupError, TypeError):
        found = None
    return harmless(matching(ANYTHING, found) or "").strip()


def _shown(reply: Reply) -> str:
    return f"{reply.status or 'no answer'}: {reply.shown}"
