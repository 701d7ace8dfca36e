# SPDX-License-Identifier: GPL-3.0-or-later
"""``fleet_phoenix``: which host keeps the traces of requests, and at which of its addresses they are taken."""

import re
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TypedDict

from ..._base import secret_files, worded
from ..._base.addresses import wrong_listen
from ..._base.findings import Finding, error, unknown_host
from ..._base.forms import forms
from ..._base.gb10 import fact
from ..._base.place import Place
from ..._engines.placed import Host
from ..._engines.tracing.declared import MADE
from ..fleet.subject import Claims, DeclareContext, Port

PLACE = Place(variable="fleet_phoenix")
PHOENIX = forms("phoenix")["phoenix"]


class PhoenixDeclared(TypedDict):
    """``fleet_phoenix``, checked and completed by `decide`."""

    host: str
    listen: str
    port: int
    secret_file: str
    retention_days: int
    disk_gib: float


# What Phoenix itself asks of a key (phoenix/auth.py, REQUIREMENTS_FOR_PHOENIX_SECRET, 20.26), without what systemd's
# environment files give a meaning to.
_KEY = re.compile(r"(?=.*[0-9])(?=.*[a-z])[0-9A-Za-z._~+/=-]{32,1024}")


def decide(phoenix: PhoenixDeclared, context: DeclareContext) -> Iterator[Finding]:
    """Complete a checked ``fleet_phoenix``: ``secret_file`` becomes absolute, figures that nobody wrote are GB10's."""
    phoenix.setdefault("port", fact("phoenix", "port"))
    phoenix.setdefault("retention_days", fact("phoenix", "retention_days"))
    phoenix.setdefault("disk_gib", fact("phoenix", "disk_gib"))
    name = phoenix["host"]
    written, path = phoenix["secret_file"], context.folder / phoenix["secret_file"]
    phoenix["secret_file"] = str(path)
    if name not in context.hosts:
        yield unknown_host(PLACE.below("host"), name, context.hosts)
    yield from wrong_listen(PLACE, phoenix["listen"])
    key = yield from _key_problems(path)
    for service, declared in context.services.items():
        tracing = declared.get("tracing")
        file = Path(tracing["headers_file"] or "") if tracing else Path()
        if key and file.is_file() and key.encode() in (secret_files.read(file, 1 << 16) or b""):
            place = Place(service=service).below("tracing", "headers_file")
            yield worded.error("service-tracing-administrator", place, spans=spans(written))


def spans(secret_file: str) -> str:
    """The controller's file with the header by which services send spans, of a key that administers nothing."""
    return f"{secret_file}{MADE}"


def claims(phoenix: PhoenixDeclared, _hosts: Mapping[str, Host]) -> Claims:
    return Claims([Port(phoenix["host"], phoenix["port"], PLACE.below("port"))])


def _key_problems(path: Path) -> Generator[Finding, None, str]:
    """Returns the key, or an empty text where nothing can be judged."""
    rule, place = "input-phoenix-secret", PLACE.below("secret_file")
    expected = "one word of 32 to 1,024 letters, digits and ._~+/=-, with a digit and a small letter"
    make = f"(umask 077; mkdir -p {path.parent}; openssl rand -hex 32 > {path})"
    text = yield from secret_files.named(rule, place, path, expected=expected, remedy=make)
    if text is not None and not is_key(text):
        yield error(rule, place, found=f"{path} holds no key that Phoenix takes", expected=expected, remedy=make)
    return (text or "").strip()


def is_key(text: str) -> bool:
    """Whether a file's text is one that Phoenix takes."""
    return bool(_KEY.fullmatch(text.strip()))
