# SPDX-License-Identifier: GPL-3.0-or-later
"""``tracing`` of a service: the collector that its engine sends OpenTelemetry spans to, and headers for it that are
secret."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

from ..._base import secret_files, worded
from ..._base.findings import Finding, error
from ..._base.forms import forms
from ..._base.place import Place
from ..declaration import ServiceData

GRPC, HTTP = "grpc", "http/protobuf"
# How a file's name ends that a run makes; it begins with that of a secret.
MADE = ".spans"
TRACING = forms("tracing")["tracing"]
# Where OTLP over HTTP takes spans, below a base address (OpenTelemetry's protocol exporter specification).
_HTTP_PATH = "/v1/traces"
_HEADERS_BYTES = 8192
_EXPECTED = "a file of this machine with one header a line, as Authorization: Bearer ..."
_REMEDY = "write them into it, mode 0600 or encrypted with ansible-vault; or take headers_file out"
# The token of RFC 9110, and what a field's value may hold.
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:[ \t]*([\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?)")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


def decide(service_name: str, service: ServiceData, folder: Path) -> Iterator[Finding]:
    """``tracing`` of a checked service gets its whole endpoint, and an absolute ``headers_file``, None without one.

    folder: of the inventory. A file that isn't there or can't be sent would be missed when the service starts;
    the role phoenix makes one before that, beside its secret.
    """
    tracing = service.get("tracing")
    if tracing is None:
        return
    place = Place(service=service_name).below("tracing")
    tracing = service["tracing"] = {"headers_file": None, **tracing}
    endpoint = urlsplit(tracing["endpoint"])
    if endpoint.path in ("", "/") and tracing["protocol"] == HTTP:
        tracing["endpoint"] = f"{endpoint.scheme}://{endpoint.netloc}{_HTTP_PATH}"
    yield from _endpoint_problems(place.below("endpoint"), tracing["endpoint"], tracing["protocol"])
    if tracing["headers_file"] is None:
        return
    path = folder / tracing["headers_file"]
    tracing["headers_file"] = str(path)
    file = place.below("headers_file")
    if os.path.lexists(path) or path.suffix != MADE or not path.with_suffix("").is_file():
        text = yield from secret_files.named(
            "input-tracing-headers", file, path, expected=_EXPECTED, remedy=_REMEDY, most=_HEADERS_BYTES
        )
        yield from headers_problems(file, path, text) if text is not None else ()
    if endpoint.scheme == "http":
        yield worded.warning("service-tracing-clear", place.below("endpoint"), netloc=endpoint.netloc)


def _endpoint_problems(place: Place, written: str, protocol: str) -> Iterator[Finding]:
    try:
        endpoint = urlsplit(written)
        host, _port, credentials = endpoint.hostname, endpoint.port, "@" in endpoint.netloc
    except ValueError:
        host, credentials = None, False
    if credentials:
        found, remedy = "a user's name or password in the URL", "write them as a header into headers_file"
    elif not host:
        found, remedy = "no host, or no port that can be", "write http://HOST:PORT or https://HOST/PATH"
    elif host in _LOOPBACK:
        found, remedy = f"{host}, which in a container is the container", "write the collector's address in the network"
    elif protocol == GRPC and endpoint.path.strip("/"):
        found, remedy = f"{endpoint.path}, a path, which gRPC has none of", f"take it out, or write protocol: {HTTP}"
    else:
        return
    yield worded.error("input-tracing-endpoint", place, found=found, remedy=remedy)


def headers_problems(place: Place, path: Path, text: str) -> Iterator[Finding]:
    """Why headers can't be sent. Their values are nowhere in a finding."""
    try:
        headers_text(text)
    except ValueError as problem:
        yield error("input-tracing-headers", place, found=f"{path}: {problem}", expected=_EXPECTED, remedy=_REMEDY)


def headers_text(lines: str) -> str:
    """Lines ``NAME: VALUE`` as OpenTelemetry's variable has them, ``name=value,...``, values percent-encoded: what it
    can't read it writes into the log. ValueError, without any value, for what is no header."""
    if len(lines) > _HEADERS_BYTES:
        raise ValueError(f"more than {_HEADERS_BYTES} bytes")
    headers: dict[str, str] = {}
    for number, line in enumerate(lines.splitlines(), 1):
        if not line.strip():
            continue
        found = _HEADER.fullmatch(line.strip())
        if not found:
            raise ValueError(f"line {number} is no header, NAME: VALUE")
        name = found[1].lower()
        if name in headers:
            raise ValueError(f"line {number} names {name} again")
        headers[name] = found[2]
    if not headers:
        raise ValueError("it is empty")
    return ",".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in headers.items()) + "\n"
