# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A pull through Docker's API: its bytes, its errors, its logins; Docker is a server on a socket of its own."""

from __future__ import annotations

import base64
import http.server
import json
import re
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images import pull


def event(status: str, layer: str, current: int | None = None, total: int | None = None) -> dict[str, Any]:
    sizes = {"current": current, "total": total} if current else {"hidecounts": True}  # as Docker says of "done"
    return {"status": status, "id": layer, "progressDetail": sizes}


def test_bytes_come_and_then_are_unpacked() -> None:
    """As Docker 26 tells it: b is small and says no size, c is here already."""
    tally = pull.Tally()
    seen = []
    for one in (
        {"status": "Pulling from vllm", "id": "v1"},
        event("Pulling fs layer", "a"),
        event("Pulling fs layer", "b"),
        event("Already exists", "c"),
        event("Downloading", "a", 10, 100),
        event("Download complete", "b"),
        event("Downloading", "a", 90, 100),
        event("Download complete", "a"),
        event("Extracting", "a", 50, 100),
        event("Pull complete", "a"),
        event("Pull complete", "b"),
        {"status": "Digest: sha256:1"},
    ):
        tally.take(one)
        seen.append((tally.all_received, tally.done, tally.total))
    assert seen == [
        (False, 0, 0),
        (False, 0, 0),
        (False, 0, 0),
        (False, 0, 0),
        (False, 10, 0),
        (False, 10, 100),
        (False, 90, 100),
        (True, 0, 100),
        (True, 50, 100),
        (True, 100, 100),
        (True, 100, 100),
        (True, 100, 100),
    ]


class Docker(http.server.BaseHTTPRequestHandler):
    """Answers each pull with what the test set."""

    answer = (200, b"")
    asked: tuple[str, str | None] = "", None

    def do_POST(self) -> None:
        Docker.asked = self.path, self.headers["X-Registry-Auth"]
        self.send_response(Docker.answer[0])
        self.end_headers()
        self.wfile.write(Docker.answer[1])

    def address_string(self) -> str:
        return "the test"

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Docker]]:
    monkeypatch.setattr(pull, "SOCKET", str(tmp_path / "socket"))
    monkeypatch.setattr(pull, "LOGINS", tmp_path / "config.json")
    with socketserver.UnixStreamServer(pull.SOCKET, Docker) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield Docker
        server.shutdown()
        thread.join()


def test_a_pull_reports_its_events(docker: type[Docker]) -> None:
    docker.answer = 200, b'{"status": "Pulling from vllm"}\n{"status": "Status: Downloaded"}\n'
    assert [one["status"] for one in pull.events("vllm@sha256:aa")] == ["Pulling from vllm", "Status: Downloaded"]
    assert docker.asked == ("/images/create?fromImage=vllm%40sha256%3Aaa", None)


@pytest.mark.parametrize(
    "answer",
    [
        (404, b'{"message": "manifest unknown"}'),
        (200, b'{"status": "Pulling"}\n{"error": "manifest unknown", "errorDetail": {}}\n'),
    ],
)
def test_a_pull_that_fails_gives_the_reason(docker: type[Docker], answer: tuple[int, bytes]) -> None:
    docker.answer = answer
    with pytest.raises(FleetError, match="docker pull vllm:1: manifest unknown"):
        list(pull.events("vllm:1"))


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        # what Docker 26 said in the lab, with the overlay2 and with the containerd store
        ("manifest for lab:5000/x@sha256:11 not found: manifest unknown: manifest unknown", "image-unknown"),
        ('failed to resolve reference "lab:5000/x@sha256:11": lab:5000/x@sha256:11: not found', "image-unknown"),
        ('Get "http://lab:5000/v2/x/manifests/1": no basic auth credentials', "registry-login"),
        (
            "pull access denied, repository does not exist or may require authorization: authorization failed: "
            "no basic auth credentials",
            "registry-login",
        ),
        ("unauthorized: authentication required", "registry-login"),
        ("unexpected status from HEAD request to http://lab:5000/v2/x/manifests/1: 401 Unauthorized", "registry-login"),
        ("failed to read expected number of bytes: unexpected EOF", "registry-unreachable"),
        ("dial tcp 10.77.0.11:5000: connect: connection refused", "registry-unreachable"),
        (
            'Head "https://lab/v2/x/manifests/1": dial tcp: lookup lab on 127.0.0.53:53: no such host',
            "registry-unreachable",
        ),
        ("write /var/lib/docker/tmp/GetImageBlob1: no space left on device", "disk-full"),
        ("toomanyrequests: You have reached your pull rate limit", "registry-limit"),
        ("something new", "docker-failed"),
    ],
)
def test_a_pull_that_fails_names_the_remedy(docker: type[Docker], message: str, rule: str) -> None:
    docker.answer = 200, json.dumps({"error": message}).encode()
    with pytest.raises(FleetError, match=re.escape(message)) as caught:
        list(pull.events("lab:5000/x@sha256:11"))
    [finding] = caught.value.findings
    assert finding.rule == rule
    if rule.startswith("registry"):
        assert "lab:5000" in finding.remedy


def test_a_docker_that_is_not_there_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull, "SOCKET", "/nowhere")
    with pytest.raises(FleetError, match="No such file"):
        list(pull.events("vllm:1"))


@pytest.mark.parametrize(
    ("name", "config", "sent"),
    [
        ("nvcr.io/nvidia/vllm:1", {}, None),
        ("vllm:1", {"auths": {"nvcr.io": {"auth": "dTpw"}}}, None),
        (
            "nvcr.io/nvidia/vllm:1",
            {"auths": {"nvcr.io": {"auth": base64.b64encode(b"$oauthtoken:a:b").decode()}}},
            {"username": "$oauthtoken", "password": "a:b", "serveraddress": "nvcr.io"},
        ),
        (
            "vllm/vllm-openai:1",
            {"auths": {"https://index.docker.io/v1/": {"auth": "dTpw"}}},
            {"username": "u", "password": "p", "serveraddress": "https://index.docker.io/v1/"},
        ),
    ],
)
def test_the_login_of_the_images_registry_is_sent(
    docker: type[Docker], name: str, config: dict[str, Any], sent: dict[str, str] | None
) -> None:
    docker.answer = 200, b""
    pull.LOGINS.write_text(json.dumps(config))
    list(pull.events(name))
    header = docker.asked[1]
    assert (json.loads(base64.urlsafe_b64decode(header)) if header else None) == sent


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"\xff", b'{"auths": []}', b'{"auths": {"nvcr.io": {"auth": "/w=="}}}', b"[" * 200_000]
)
def test_logins_that_can_not_be_read_are_named(docker: type[Docker], content: bytes) -> None:
    pull.LOGINS.write_bytes(content)
    with pytest.raises(FleetError, match=rf"^{pull.LOGINS}: .*move it away and log in again.*\[docker-logins\]$"):
        list(pull.events("nvcr.io/nvidia/vllm:1"))


@pytest.mark.parametrize("program", ["", "#!/bin/sh\necho no JSON\n", "#!/bin/sh\necho []\n"])
def test_a_credential_helper_that_gives_nothing_is_named(
    docker: type[Docker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    if program:
        (tmp_path / "docker-credential-lab").write_text(program)
        (tmp_path / "docker-credential-lab").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    pull.LOGINS.write_text(json.dumps({"credsStore": "lab"}))
    with pytest.raises(FleetError, match="docker-credential-lab, which it names, gives no login"):
        list(pull.events("ghcr.io/x:1"))


def test_an_empty_file_of_logins_holds_none(docker: type[Docker]) -> None:
    pull.LOGINS.write_bytes(b"")
    docker.answer = 200, b""
    list(pull.events("ghcr.io/x:1"))
    assert docker.asked[1] is None


def test_a_credential_helper_is_asked(docker: type[Docker], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-lab"
    helper.write_text(
        '#!/bin/sh\nread registry; echo "{\\"Username\\": \\"<token>\\", \\"Secret\\": \\"of $registry\\"}"\n'
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    pull.LOGINS.write_text(json.dumps({"credsStore": "lab"}))
    docker.answer = 200, b""
    list(pull.events("ghcr.io/x:1"))
    assert json.loads(base64.urlsafe_b64decode(docker.asked[1] or ""))["identitytoken"] == "of ghcr.io"
