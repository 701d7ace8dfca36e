# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""STAND-IN for the hub: the part of its HTTP API that ``hf download`` of a model uses, for the real ``hf``.

Large files are in LFS, as there: their ETag is their sha256, and they come from another address, in ranges if asked.
Small ones have git's sum of a blob. (huggingface_hub 1.17, ``file_download.get_hf_file_metadata``.)
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

LFS = (".safetensors", ".gguf")


@dataclass
class Hub:
    """One repository. token: without it nobody gets in. stalls: files of which nothing comes after so many bytes.

    claims: sizes that it tells of files, instead of their own. sent: bytes that were sent of each file. url: where it
    listens.
    """

    repository: str
    commit: str
    files: dict[str, bytes]
    token: str | None = None
    stalls: dict[str, int] = field(default_factory=dict)
    claims: dict[str, int] = field(default_factory=dict)
    sent: Counter[str] = field(default_factory=Counter)
    url: str = ""
    over: threading.Event = field(default_factory=threading.Event)

    def sum_of(self, name: str) -> str:
        content = self.files[name]
        if name.endswith(LFS):
            return hashlib.sha256(content).hexdigest()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # what git has

    def sibling(self, name: str) -> dict[str, object]:
        """A file as the API tells of it with ``blobs=true``."""
        row = {"rfilename": name, "size": len(self.files[name]), "blobId": self.sum_of(name)}
        large = {"sha256": self.sum_of(name), "size": row["size"], "pointerSize": 134}
        return row | ({"lfs": large} if name.endswith(LFS) else {})


@contextlib.contextmanager
def serving(hub: Hub, *others: Hub, address: str = "127.0.0.1", port: int = 0) -> Iterator[Hub]:
    """Let the hub listen, on this machine alone unless told otherwise. others: repositories beside the first."""
    sums = {(one.repository, name): one.sum_of(name) for one in (hub, *others) for name in one.files}

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        hub: Hub

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            self.hub = next((one for one in others if f"/{one.repository}/" in f"{path}/"), hub)
            api, files = f"/api/models/{self.hub.repository}/", f"/{self.hub.repository}/resolve/"
            cdn = f"/cdn/{self.hub.repository}/"
            if path.startswith(cdn):
                self.content(path.removeprefix(cdn))
            elif self.hub.token and self.headers["Authorization"] != f"Bearer {self.hub.token}":
                self.refuse(401, "GatedRepo", f"Access to model {self.hub.repository} is restricted.")
            elif path == f"/api/models/{self.hub.repository}":
                self.send({"id": self.hub.repository, "sha": self.hub.commit})
            elif path.startswith((api, files)):
                kind, _, rest = path.removeprefix(api).removeprefix(files.removesuffix("resolve/")).partition("/")
                revision, _, name = rest.partition("/")
                if revision not in ("main", self.hub.commit):
                    self.refuse(404, "RevisionNotFound", f"Invalid rev id: {revision}")
                elif kind == "revision":
                    siblings = [self.hub.sibling(name) for name in self.hub.files]
                    self.send({"id": self.hub.repository, "sha": self.hub.commit, "siblings": siblings})
                elif kind == "resolve" and name in self.hub.files:
                    self.resolve(name)
                else:
                    self.refuse(404, "EntryNotFound", name)
            else:
                self.refuse(404, "RepoNotFound", "Repository not found")

        do_HEAD = do_GET  # noqa: N815

        def send(self, value: object) -> None:
            body = json.dumps(value).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def refuse(self, status: int, code: str, message: str) -> None:
            self.send_response(status)
            self.send_header("X-Error-Code", code)
            self.send_header("X-Error-Message", message)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def resolve(self, name: str) -> None:
            large = name.endswith(LFS)
            if not large and self.command == "GET":
                self.content(name)
                return
            size = str(self.hub.claims.get(name, len(self.hub.files[name])))
            self.send_response(302 if large else 200)
            self.send_header("X-Repo-Commit", self.hub.commit)
            self.send_header("X-Linked-Etag" if large else "ETag", f'"{sums[self.hub.repository, name]}"')
            if large:
                self.send_header("X-Linked-Size", size)
                self.send_header("Location", f"{hub.url}/cdn/{self.hub.repository}/{name}")
            self.send_header("Content-Length", "0" if large else size)
            self.end_headers()

        def content(self, name: str) -> None:
            content = self.hub.files[name]
            first, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").split("-")
            start, end = int(first), int(last or len(content) - 1) + 1
            self.send_response(206 if "Range" in self.headers else 200)
            self.send_header("Content-Length", str(end - start))
            if "Range" in self.headers:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
            self.end_headers()
            if self.command == "HEAD":
                return
            stall = min(end, self.hub.stalls.get(name, end))
            self.hub.sent[name] += max(0, stall - start)
            self.wfile.write(content[start:stall])
            if stall < end:
                hub.over.wait()
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer((address, port), Handler) as server:
        hub.url = f"http://{address}:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield hub
        finally:
            hub.over.set()
            server.shutdown()
            thread.join()


def folder_of(path: Path) -> dict[str, bytes]:
    """A folder's files by their path in it."""
    return {each.relative_to(path).as_posix(): each.read_bytes() for each in path.rglob("*") if each.is_file()}
