# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTTP request to a service of this host, for its supervisor and for whoever proves it."""

import http.client
import io
import json
import re
import ssl
import urllib.error
import urllib.request
import wave
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..._base.received import Foreign, Unread


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer like another: the key goes where the plan says and nowhere else."""

    def redirect_request(self, *_arguments: Any) -> None:
        return None


# An owner's proxy is for the world outside, not for this host's own service.
_HANDLERS = (urllib.request.ProxyHandler({}), _NoRedirects())
_OPENER = urllib.request.build_opener(*_HANDLERS)
_PEM = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# X509_V_FLAG_NO_CHECK_TIME (openssl/x509_vfy.h), which Python's ssl does not name.
_NO_CHECK_TIME = 0x200000
_REPLY_BYTES = 16 << 20
# What engines say with a 503 while they take no more requests: admission limits, a full queue.
_FULL = re.compile(r"cannot accept new requests|backlog limit|queue is full|[Ww]aiting timeout|higher priority")
_BOUNDARY = "gb10-fleet-form"
_SAMPLES_A_SECOND = 16_000


@dataclass(frozen=True)
class Reply:
    """An HTTP reply; status 0 when there was none, with the reason as text. late: none in time."""

    status: int
    text: "Foreign"
    late: bool = False

    @property
    def shown(self) -> str:
        """Its beginning for a message: one line, without what a terminal obeys."""
        return "".join(letter if letter.isprintable() else " " for letter in self.read().strip()[:300])

    def read(self) -> str:
        """As it is, for a function that reads it."""
        return self.text  # type: ignore[return-value]

    def document(self) -> "Unread":
        """Of a JSON text. ValueError for what is none."""
        try:
            found: Unread = json.loads(self.read())
        except RecursionError:
            raise ValueError("it nests too deep") from None
        return found

    @property
    def is_full(self) -> bool:
        """The server works, and takes no more requests now."""
        return self.status == 429 or (self.status == 503 and bool(_FULL.search(self.read())))


def trusting(certificate: str | None) -> ssl.SSLContext | None:
    """What takes exactly the first certificate of a file for the service's; None without a file.

    Neither the system's CAs nor names count, since it is known itself. Its end doesn't either: to stop a service then
    helps nobody, and plan and drift name it long before. ValueError with one sentence for a file without one.
    """
    if certificate is None:
        return None
    found = _PEM.search(Path(certificate).read_text(encoding="ascii", errors="replace"))
    if found is None:
        raise ValueError(f"{certificate} holds no certificate in PEM form")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # it need not lead to a CA
    context.verify_flags = ssl.VerifyFlags(ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME)
    context.load_verify_locations(cadata=found[0])
    return context


def fetch(
    url: str,
    key: str,
    timeout_s: float,
    body: Mapping[str, Any] | None = None,
    sound_s: float = 0.0,
    tls: ssl.SSLContext | None = None,
) -> Reply:
    """GET, or POST of a JSON body, or of a form with it and so many seconds of silence; never raises for what a server
    or the network does. tls: of `trusting`."""
    kind, data = "application/json", json.dumps(body).encode() if body is not None else None
    if sound_s and body is not None:
        kind, data = f"multipart/form-data; boundary={_BOUNDARY}", _form(body, _silence(sound_s))
    headers = {"Content-Type": kind} | ({"Authorization": f"Bearer {key}"} if key else {})
    asked = urllib.request.Request(url, data, headers)
    https = urllib.request.HTTPSHandler(context=tls) if tls else None
    opener = urllib.request.build_opener(*_HANDLERS, https) if https else _OPENER
    try:
        with opener.open(asked, timeout=timeout_s) as reply:
            return Reply(reply.status, _text_of(reply.read(_REPLY_BYTES)))
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, _text_of(error.read(_REPLY_BYTES)))
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        words = (str(reason) or type(error).__name__).encode("utf-8", "replace")
        return Reply(0, _text_of(words), late=isinstance(reason, TimeoutError))


def _text_of(content: bytes) -> "Foreign":
    return content.decode("utf-8", "replace")  # type: ignore[return-value]


def _form(fields: Mapping[str, Any], sound: bytes) -> bytes:
    """The fields and a sound file as multipart/form-data (RFC 7578)."""
    parts = [(f'name="{name}"', str(value).encode()) for name, value in fields.items()]
    parts.append(('name="file"; filename="sound.wav"', sound))
    texts = [
        f"--{_BOUNDARY}\r\nContent-Disposition: form-data; {head}\r\n\r\n".encode() + data + b"\r\n"
        for head, data in parts
    ]
    return b"".join([*texts, f"--{_BOUNDARY}--\r\n".encode()])


def _silence(seconds: float) -> bytes:
    """A WAV file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, _SAMPLES_A_SECOND, 0, "NONE", ""))
        sound.writeframes(bytes(2 * int(seconds * _SAMPLES_A_SECOND)))
    return file.getvalue()
