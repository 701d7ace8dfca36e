# SPDX-License-Identifier: GPL-3.0-or-later
"""A certificate as clients judge it, on a host and by the host's own clock: chain, time and names.

The standard library alone. One of the local CA is proved by that CA and for each of its names. One of the owner's may
have a CA that this host does not know, and counts by itself.
"""

import os
import re
import socket
import ssl
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.S)
_PATIENCE_S = 10.0
# What helps.
CLOCKS = "set the clock of this host or of the controller, whichever is wrong, and run site.yml again"


def refused(certificate: str, key: str, ca: str | None, names: Iterable[str]) -> str:
    """Why clients would refuse a certificate that is about to be brought, in a sentence; empty where they don't.

    certificate, key, ca: PEM; no ca for a certificate of the owner's.
    """
    folder = "/run" if os.access("/run", os.W_OK) else None  # in memory
    with tempfile.TemporaryDirectory(dir=folder) as place:
        files = Path(place, "certificate"), Path(place, "key")
        for file, text in zip(files, (certificate, key), strict=True):
            file.touch(0o600)
            file.write_text(text)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            server.load_cert_chain(*files)
            return next(
                filter(None, (_between(server, _client(certificate, ca), name) for name in _asked(ca, names))), ""
            )
        except ssl.SSLError as problem:
            return f"the certificate can't be used ({problem.reason or problem})"


def refused_at(address: str, port: int, certificate: str, ca: str | None, names: Iterable[str]) -> str:
    """The same of what a server on this host shows; also empty where nothing answers. certificate, ca: files."""
    texts = [Path(file).read_text("ascii", "replace") if file else None for file in (certificate, ca)]
    for name in _asked(ca, names):
        try:
            with socket.create_connection((address, port), _PATIENCE_S) as plain:
                _client(str(texts[0]), texts[1]).wrap_socket(plain, server_hostname=name).close()
        except ssl.SSLCertVerificationError as problem:
            return _sentence(problem, name)
        except OSError:
            return ""
    return ""


def _asked(ca: str | None, names: Iterable[str]) -> list[str]:
    return [*names] if ca else [next(iter(names), "localhost")]


def _client(certificate: str, ca: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found = _PEM.search(ca or certificate)
    if not ca:
        context.check_hostname = False  # a plan names what it lacks
        context.verify_flags = ssl.VerifyFlags(ssl.VERIFY_X509_PARTIAL_CHAIN)
    context.load_verify_locations(cadata=found[0] if found else "")
    return context


def _between(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> str:
    """Of a handshake in memory."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(back, there, server_hostname=name), server.wrap_bio(there, back, server_side=True)]
    while ends:
        for end in [*ends]:
            try:
                end.do_handshake()
                ends.remove(end)
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as problem:
                return _sentence(problem, name)
    return ""


def _sentence(problem: ssl.SSLCertVerificationError, name: str) -> str:
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"clients that ask for {name} refuse its certificate: {problem.verify_message} (by this host's clock, {now})"
