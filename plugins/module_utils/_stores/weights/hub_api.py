# SPDX-License-Identifier: GPL-3.0-or-later
"""The hub's HTTP API, as far as a model's page and its small files go: within a time, a size, and with the token kept
to the hub's own address."""

import contextlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPMessage
from pathlib import Path
from typing import IO
from urllib.parse import quote, urlsplit

from ..._base.received import Unread, is_map, matching, parsed

_HUB = "https://huggingface.co"
_ANSWER_SECONDS = 10
# For one answer from its first to its last byte.
_WHOLE_SECONDS = 60
_BLOCK = 1 << 16
# A list of the most files that a model may have, each with its sums.
_MOST_ANSWER = 32 << 20
_WORDS = {
    401: "it asks for a token, or has no such model (HTTP 401)",
    403: "the token's owner has no access to it (HTTP 403)",
    404: "it has no such model, revision or file (HTTP 404)",
    429: "it has been asked too often (HTTP 429)",
}


# Of a hub that gives no answer.
NO_PAGE = parsed("{}", 2, "nothing")


class HubError(Exception):
    """Why the hub gave no answer that can be used, in words. status: of HTTP, 0 where none came."""

    def __init__(self, words: str, status: int = 0) -> None:
        super().__init__(words)
        self.status = status


class _SameAddress(urllib.request.HTTPRedirectHandler):
    """Follows the hub to where it keeps a file. The token goes no further than the hub's own address, and nothing that
    began encrypted goes on in the open."""

    max_redirections = 5

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        before, after = urlsplit(req.full_url), urlsplit(newurl)
        if after.scheme not in ("http", "https") or (before.scheme == "https" and after.scheme != "https"):
            raise HubError(f"it leads to an address of {after.scheme or 'no scheme'}, which is not followed", code)
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        token = req.unredirected_hdrs.get("Authorization")
        if following and token and (before.scheme, before.netloc) == (after.scheme, after.netloc):
            following.add_unredirected_header("Authorization", token)
        return following


@dataclass(frozen=True)
class HubApi:
    """address: of the hub. token: of its user, empty without one; it appears in no message."""

    address: str = _HUB
    token: str = ""

    @classmethod
    def of_environment(cls, token_file: Path | None = None) -> "HubApi":
        """As the hub's own tool takes them: HF_ENDPOINT, and HF_TOKEN unless there is a file for it."""
        token = os.environ.get("HF_TOKEN", "") if token_file is None else _first_word(token_file)
        return cls(os.environ.get("HF_ENDPOINT", _HUB).rstrip("/"), token.strip())

    def model(self, repository: str, revision: str | None) -> Unread:
        """What it says of a revision, of ``main`` without one: its commit (``sha``), its files with their sizes
        (``siblings``), what it is for. Raises HubError."""
        url = f"{self.address}/api/models/{quote(repository)}/revision/{quote(revision or 'main', safe='')}?blobs=true"
        try:
            value = parsed(self._read(url, _MOST_ANSWER), _MOST_ANSWER, "its answer")
        except ValueError as problem:
            raise HubError(str(problem)) from None
        if not is_map(value):
            raise HubError("its answer is no JSON object")
        return value

    def file(self, repository: str, commit: str, name: str, most: int) -> bytes:
        """A small file of a commit, of at most so many bytes. Raises HubError."""
        return self._read(f"{self.address}/{quote(repository)}/resolve/{quote(commit, safe='')}/{quote(name)}", most)

    @contextlib.contextmanager
    def beginning(self, repository: str, commit: str, name: str) -> Iterator[Callable[[int], bytes]]:
        """A file of a commit, of which a reader takes as many bytes as it asks for; the rest is not fetched."""
        with self._opened(f"{self.address}/{quote(repository)}/resolve/{quote(commit, safe='')}/{quote(name)}") as read:
            yield read

    def _read(self, url: str, most: int) -> bytes:
        content = b""
        with self._opened(url) as read:
            while block := read(min(_BLOCK, most + 1 - len(content))):
                content += block
        if len(content) > most:
            raise HubError(f"its answer is longer than {most} bytes")
        return content

    @contextlib.contextmanager
    def _opened(self, url: str) -> Iterator[Callable[[int], bytes]]:
        request = urllib.request.Request(url, headers={"User-Agent": "gb10.fleet"})
        if self.token:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        until = time.monotonic() + _WHOLE_SECONDS
        with _in_words():
            # of variables alone: a Mac ends a forked worker that asks its system for proxies
            proxies = urllib.request.ProxyHandler(urllib.request.getproxies_environment())
            answer = urllib.request.build_opener(_SameAddress, proxies).open(request, timeout=_ANSWER_SECONDS)

        def read(size: int) -> bytes:
            if time.monotonic() > until:
                raise HubError(f"its answer has not come to its end within {_WHOLE_SECONDS} s")
            with _in_words():
                content: bytes = answer.read(size)
            return content

        with answer:
            yield read


def commit_of(page: Unread) -> str | None:
    """The commit that the hub's page is of; None for a text that is none, which would be a folder's name."""
    return matching("[0-9a-f]{40}", page.get("sha"))


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except urllib.error.HTTPError as problem:
        raise HubError(_WORDS.get(problem.code, f"HTTP {problem.code}"), problem.code) from None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        raise HubError(_plain(getattr(problem, "reason", None) or problem)) from None


def _first_word(file: Path) -> str:
    try:
        return file.read_text("utf-8")[:512]
    except (OSError, ValueError):
        return ""


def _plain(problem: BaseException) -> str:
    """One line of what a library says, without the control characters of whoever answered."""
    return re.sub(r"[^\x20-\x7e]+", " ", str(problem))[:200].strip() or type(problem).__name__
