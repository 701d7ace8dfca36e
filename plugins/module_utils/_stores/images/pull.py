# SPDX-License-Identifier: GPL-3.0-or-later
"""Pulls an image through Docker's API: the docker command shows no bytes where nobody sits at a terminal.

API: "Create an image" (POST /images/create), version 1.44: one JSON object an event. Logins are those of the command.
"""

import base64
import contextlib
import http.client
import json
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ..._base.findings import FleetError
from ..._base.own_files import look
from ..._base.received import Foreign, Unread, checked, harmless, is_map, parsed, text_of, words_of
from ..._base.schema import Spec
from ..._base.staging import refusal

SOCKET = "/run/docker.sock"
_MOST_LINE = 1 << 20
LOGINS = Path("/root/.docker/config.json")
# Docker's own name for its registry in the logins (docker/cli, ``cli/config/configfile``).
_HUB = "https://index.docker.io/v1/"


@dataclass(frozen=True)
class _Cause:
    """Why a pull fails. marks: what Docker says then, on either store. In what is expected and in the remedy,
    {registry} is what logins call the registry."""

    rule: str
    marks: tuple[str, ...]
    expected: str
    remedy: str


# The first whose mark is found counts: a registry that wants a login says of any image that it may not exist.
_CAUSES = (
    _Cause(
        "registry-limit",
        ("toomanyrequests", "429 Too Many Requests"),
        "a pull within the limit of {registry}",
        "wait, or log in on that host, as root: docker login {registry}",
    ),
    _Cause(
        "registry-login",
        ("unauthorized", "401 Unauthorized", "no basic auth credentials", "access denied", "denied:", "403 Forbidden"),
        "an image that {registry} gives to this host",
        "see that its name is right, and log in on that host, as root: docker login {registry}",
    ),
    _Cause(
        "image-unknown",
        ("not found", "manifest unknown", "name unknown"),
        "an image that {registry} has",
        "correct image.reference or image.digest in the recipe or the service",
    ),
    _Cause(
        "disk-full",
        ("no space left on device",),
        "room for the image, packed and unpacked",
        "free some where Docker keeps its images (docker system df shows what holds it), and run again",
    ),
    _Cause(
        "registry-unreachable",
        (
            "dial tcp",
            "unexpected EOF",
            "i/o timeout",
            "connection reset",
            "TLS handshake",
            "x509:",
            "failed to do request",
        ),
        "a registry that answers until all has come",
        "see to {registry}, and to that host's way there (DNS, route, Docker's proxy and CA), and run again",
    ),
)
_OTHERWISE = _Cause(
    "docker-failed",
    (),
    "the image",
    "run it on that host by hand to see more; journalctl -u docker has the daemon's side",
)


_WORD: Spec = {"type": "str", "default": ""}
_BYTES: Spec = {"type": "number", "nullable": True, "default": None}
_EVENT: Spec = {"type": "map", "options": {"id": _WORD, "status": _WORD, "current": _BYTES, "total": _BYTES}}


class Tally:
    """How far a pull is, in bytes: first the layers come, then they are unpacked."""

    def __init__(self) -> None:
        self._awaited: set[str] = set()
        self._sizes: dict[str, int] = {}
        self._received: dict[str, int] = {}
        self._unpacked: dict[str, int] = {}

    def take(self, event: Unread) -> None:
        """One event: ``{status, id, progressDetail: {current, total}}``."""
        # of a layer that is small Docker also writes `hidecounts` there, and `units` while it waits
        sizes = event.get("progressDetail")
        shown = {key: event[key] for key in ("id", "status") if key in event}
        if is_map(sizes):
            shown |= {key: sizes[key] for key in ("current", "total") if key in sizes}
        found = checked(_EVENT, shown, "what Docker prints")
        layer, status = found["id"], found["status"]
        detail = {key: found[key] for key in ("current", "total") if found[key] is not None}
        if status == "Pulling fs layer":
            self._awaited.add(layer)
        elif status == "Downloading" and len(detail) == 2:
            self._sizes[layer], self._received[layer] = detail["total"], detail["current"]
        elif status == "Extracting" and "current" in detail:
            self._unpacked[layer] = detail["current"]
        elif status in ("Download complete", "Already exists", "Pull complete"):
            self._awaited.discard(layer)
            if layer in self._sizes:
                self._received[layer] = self._sizes[layer]
            if status == "Pull complete":
                self._unpacked[layer] = self._sizes.get(layer, 0)

    @property
    def all_received(self) -> bool:
        return bool(self._sizes) and not self._awaited

    @property
    def total(self) -> int:
        """Bytes to come in all; 0 until every layer's size is known."""
        return 0 if self._awaited - set(self._sizes) else sum(self._sizes.values())

    @property
    def done(self) -> int:
        """Bytes received; once all are, bytes that are unpacked."""
        return sum((self._unpacked if self.all_received else self._received).values())


def events(name: str) -> Iterator[Unread]:
    """Pull ``name`` (with its tag, or @digest) and report Docker's events until it is there. Raises FleetError."""
    connection = _Connection("localhost")
    with contextlib.closing(connection):
        try:
            connection.request("POST", "/images/create?" + urlencode({"fromImage": name}), headers=_login(name))
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                message = parsed(answer.read(_MOST_LINE), _MOST_LINE, "its answer")
                raise _failed(name, words_of(message.get("message", "")))
            while line := answer.readline(_MOST_LINE):
                event = parsed(line, _MOST_LINE, "what Docker prints")
                if "error" in event:
                    raise _failed(name, words_of(event["error"]))
                yield event
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise _failed(name, text_of(str(error).encode())) from None


class _Connection(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(SOCKET)


def _login(name: str) -> dict[str, str]:
    """The header by which Docker logs in to the image's registry; none where there is no login."""
    registry = registry_of(name)
    entry, why = look(LOGINS, lambda content: _entry(json.loads(content or b"{}"), registry))
    if why:
        raise _unusable_logins(why)
    helper, user, secret = entry or ("", "", "")
    if helper:
        user, secret = _from_helper(helper, registry)
    if not secret:
        return {}
    # A user of that name is none: the secret is a token (docker-credential-helpers, README).
    known = {"identitytoken": secret} if user == "<token>" else {"username": user, "password": secret}
    text = json.dumps({**known, "serveraddress": registry})
    return {"X-Registry-Auth": base64.urlsafe_b64encode(text.encode()).decode()}


def _entry(config: Mapping[str, Any], registry: str) -> tuple[str, str, str]:
    """What the command's file says of a registry: the helper that knows its login, or user and secret."""
    helper = config.get("credHelpers", {}).get(registry) or config.get("credsStore") or ""
    login = base64.b64decode(config.get("auths", {}).get(registry, {}).get("auth", "")).decode()
    user, _, secret = login.partition(":")
    return helper, user, secret


def _from_helper(helper: str, registry: str) -> tuple[str, str]:
    """What a credential helper knows (docker/docker-credential-helpers): JSON on stdout, a status for "not found"."""
    program = f"docker-credential-{helper}"
    try:
        done = subprocess.run([program, "get"], input=registry.encode(), capture_output=True, check=False)
        known = json.loads(done.stdout) if done.returncode == 0 else {}
        return known.get("Username", ""), known.get("Secret", "")
    except (OSError, ValueError, AttributeError) as error:
        raise _unusable_logins(f"{program}, which it names, gives no login: {error}") from None


def _unusable_logins(why: str) -> FleetError:
    expected = "the JSON that docker login writes"
    remedy = "mend the file on that host, or move it away and log in again, as root: docker login REGISTRY"
    return refusal("docker-logins", str(LOGINS), found=why, expected=expected, remedy=remedy)


def registry_of(name: str) -> str:
    """What logins call the registry of an image: ``nvcr.io/nvidia/vllm:26.04`` -> ``nvcr.io``."""
    first, slash, _ = name.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else _HUB


def _failed(name: str, printed: Foreign) -> Exception:
    output = harmless(printed)
    cause = next((cause for cause in _CAUSES if any(mark in output for mark in cause.marks)), _OTHERWISE)
    registry = registry_of(name)
    return refusal(
        cause.rule,
        f"docker pull {name}",
        found=output.strip() or "failed without a word",
        expected=cause.expected.format(registry=registry),
        remedy=cause.remedy.format(registry=registry),
    )
