# SPDX-License-Identifier: GPL-3.0-or-later
"""How each kind of client is run: its image's start, its settings, and the secrets that it gets by files alone.

Hermes Agent 0.19.0 was run by these settings behind HAProxy 3.0.11 (its package; 23 November 2026).
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..._base import layout
from ..._base.gb10 import data_file, fact, filled, text_of
from ..gateway.clients import key_of
from .declared import HERMES, OPEN_WEBUI, Client, is_secret

IN_SETTINGS = "/run/gb10"  # the client's folder, in its container
IN_CERTIFICATES = "/run/gb10-certificates"  # what the host trusts
_BUNDLE = f"{IN_CERTIFICATES}/ca-certificates.crt"


@dataclass(frozen=True)
class Way:
    """To the gateway. url: with /v1. name, address: the host's name in it, and where that leads; empty where the
    client's own look-up finds it. models: clients' names of those that are served."""

    url: str
    name: str
    address: str
    models: tuple[str, ...]


@dataclass(frozen=True)
class Kind:
    """One program. port, data: in its container. start: the command that its image begins with. capabilities: what
    its start needs of root. memory_limit: bytes, beside the models' memory. key: the variable of the gateway's key.
    """

    title: str
    port: int
    data: str
    start: str
    memory_limit: int
    key: str
    capabilities: Sequence[str] = ()
    health: str = "/health"
    env: Mapping[str, str] = field(default_factory=dict)


KINDS = {name: Kind(**row) for name, row in data_file("clients").items()}


def environment(client: Client, way: Way) -> dict[str, str]:
    """Without secrets. client: as `_subjects.clients.declared.decide` completes it."""
    kind = KINDS[client["kind"]]
    trusted = dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), _BUNDLE)
    own = {}
    if client["kind"] == OPEN_WEBUI:
        # aiohttp has a setting of its own there
        trusted["AIOHTTP_CLIENT_SSL_CERT_FILE"] = _BUNDLE
        own = {"OPENAI_API_BASE_URL": way.url, "WEBUI_ADMIN_EMAIL": client["account"]}
    return dict(sorted({**kind.env, **trusted, **own, **client["env"]}.items()))


def settings(client: Client, way: Way, model: str, context: int | None) -> dict[str, str]:
    """Files of the client's folder, by name; without secrets."""
    if client["kind"] != HERMES:
        return {}
    length = {} if context is None else {"context_length": context}
    words = {
        "model": {
            "provider": "custom:fleet",
            "default": model,
            "max_tokens": fact("clients", "hermes_max_tokens"),
            **length,
        },
        "providers": {
            "fleet": {"name": "fleet", "base_url": way.url, "key_env": KINDS[HERMES].key, "default_model": model}
        },
    }
    return {"config.yaml": json.dumps(words, indent=1) + "\n"}


def start(client: Client) -> str:
    """What the container begins with: secrets become variables of its program, which `docker inspect` doesn't show."""
    return text_of("client.start", mark=layout.MARK, settings=IN_SETTINGS, start=KINDS[client["kind"]].start)


def gateway_secret(kind: str, key: str) -> Callable[[str], str]:
    """``gateway.env`` of the owner's file of keys. ValueError, without a word of it, where the name has none there."""
    return lambda text: f"{KINDS[kind].key}='{key_of(text, key)}'\n"


def own_secret(kind: str) -> Callable[[str], str]:
    """``own.env`` of the client's secret. Sessions of Open WebUI are signed by a further one that follows from it."""

    def rendered(text: str) -> str:
        words = text.strip()
        if not is_secret(words):
            raise ValueError("expected one word of at least 16 characters of A-Z, a-z, 0-9 and ._~+/=-")
        if kind == HERMES:
            return f"API_SERVER_KEY='{words}'\n"
        sessions = hmac.new(words.encode(), b"sessions", hashlib.sha256).hexdigest()
        return f"WEBUI_ADMIN_PASSWORD='{words}'\nWEBUI_SECRET_KEY='{sessions}'\n"

    return rendered


def unit(name: str, client: Client, words: list[str], inventory: str) -> str:
    """The systemd unit. words: of `docker run`. inventory: whose it is; systemd passes over sections of this kind."""
    container = layout.client_container(name)
    return filled(
        "client.service",
        title=KINDS[client["kind"]].title,
        name=name,
        clients_status=layout.CLIENTS_STATUS,
        client_started=layout.client_started(name),
        container=container,
        command=" ".join(map(_quoted, words)),
        inventory=inventory,
    )


def _quoted(word: str) -> str:
    """A word of a unit's command, in which systemd puts nothing in and takes nothing apart."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
