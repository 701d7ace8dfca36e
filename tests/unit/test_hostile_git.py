# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources of recipes whose repository or server means harm: each is refused in words, or harmless."""

from __future__ import annotations

import http.server
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes import shelf
from ansible_collections.gb10.fleet.plugins.plugin_utils import _source_files
from ansible_collections.gb10.fleet.plugins.plugin_utils._source_files import files_of

sys.path.insert(0, str(Path(__file__).parents[1] / "stand_ins"))
import git_server
from hostile_source import git, recipe, repository

ADVERTISEMENT = "application/x-git-upload-pack-advertisement"


def source(**keys: str) -> shelf.RecipeSource:
    (one,), findings = shelf.read_sources_of([keys])
    assert not findings
    return one


def names(place: Path, commit: str, **keys: str) -> list[str]:
    files, refused = files_of(source(path=str(place), commit=commit, **keys), place)
    assert not refused
    return sorted(files)


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc", "ext::sh -c id", "fd::3", "http://h/x", "git://h/x", "ssh://h/x", "git@h:x", "-uHEAD"),
        *("https://", "https://h/x\ny", "https://h/--upload-pack=x", "https://h/$(id)", "https://u@h/x", "HTTPS://h/x"),
    ],
)
def test_only_https_to_a_path_without_a_user_is_declared(url: str) -> None:
    sources, findings = shelf.read_sources_of([{"git": url, "commit": "a" * 40}])
    assert sources == [] and findings


@pytest.mark.parametrize("path", ["-x", "--upload-pack=touch ran", "ext::sh -c 'touch ran'", "file:///etc", "a:b"])
def test_a_path_is_neither_an_option_nor_an_address(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FleetError, match="does not appear to be a git repository"):
        files_of(source(path=path, commit="a" * 40), tmp_path)
    assert not [*tmp_path.iterdir()]


def test_names_are_neither_options_nor_one_file(tmp_path: Path) -> None:
    files = dict.fromkeys(("--help.yaml", "HEAD.yaml", "A.yaml", "a.YAML", "a.yml", "d/a.yaml", "D/a.yaml"), b"")
    place = tmp_path / "them"
    commit = repository(place, {name: recipe("a/b") for name in files})
    assert names(place, commit) == sorted(files)
    kept = shelf.take(source(path="them"), {name: recipe("a/b") for name in files}, {}, "2026-11-28", None)
    assert sorted(kept["recipes"]) == ["them-a", "them-d-a", "them-head", "them-help"]
    assert len(kept["refused"]) == 3 and all("another file is called" in why for why in kept["refused"].values())


def test_no_branch_hides_the_commit(tmp_path: Path) -> None:
    place = tmp_path / "them"
    commit = repository(place, {"a.yaml": recipe("a/b")})
    empty = git(place, "commit-tree", "-m", "x", git(place, "mktree"))
    git(place, "update-ref", f"refs/heads/{commit}", empty)
    git(place, "update-ref", "refs/heads/--upload-pack=touch", empty)
    assert names(place, commit) == ["a.yaml"]


def test_settings_of_a_repository_lead_nowhere(tmp_path: Path) -> None:
    place, mark = tmp_path / "them", tmp_path / "ran"
    commit = repository(place, {"a.yaml": recipe("a/b")})
    (tmp_path / "more").write_text(f'[url "ext::sh -c touch% {mark} "]\n insteadOf = /\n')
    git(place, "config", "include.path", str(tmp_path / "more"))
    git(place, "config", "extensions.partialClone", "evil")
    git(place, "config", "remote.evil.url", f"ext::touch {mark}")
    git(place, "config", "remote.evil.promisor", "true")
    assert names(place, commit) == ["a.yaml"] and not mark.exists()


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "them"
    repository(place, {"a.yaml": recipe("a/b")})
    (place / "out").symlink_to("/etc")
    git(place, "add", "out")
    git(place, "commit", "-q", "-m", "x")
    for keys in ({"commit": git(place, "rev-parse", "HEAD")}, {}):
        with pytest.raises(FleetError, match=r"not a tree object|is no folder in it"):
            files_of(source(path=str(place), folder="out", **keys), tmp_path)


def test_folders_without_end_are_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_source_files, "_MOST_WHOLE", 1 << 20)
    place = tmp_path / "them"
    repository(place, {"a.yaml": recipe("a/b")})
    row = f"100644 blob {git(place, 'rev-parse', 'HEAD:a.yaml')}\tf%s.yaml\n"
    for _ in range(8):
        tree = git(place, "mktree", given="".join(row % at for at in range(10)).encode())
        row = f"040000 tree {tree}\td%s\n"
    commit = git(place, "commit-tree", "-m", "x", tree)
    git(place, "update-ref", "refs/heads/x", commit)
    with pytest.raises(FleetError, match="more than 1 MiB"):
        files_of(source(path=str(place), commit=commit), tmp_path)


class Hostile(http.server.BaseHTTPRequestHandler):
    """/to/ADDRESS sends on; the others are what they are called."""

    asked: list[str]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.asked.append(self.path)
        kind, _, rest = self.path.removeprefix("/").partition("/")
        if kind == "to":
            own = f"https://{self.headers['Host']}/inner"
            to = rest.partition("/info/")[0].replace("..", "://").replace("own", own)
            self.head(302, ("Location", f"{to}/info/refs?service=git-upload-pack"))
        elif kind == "password":
            self.head(401, ("WWW-Authenticate", 'Basic realm="x"'))
        elif kind in ("slow", "endless"):
            self.send_response(200)
            self.send_header("Content-Type", ADVERTISEMENT)
            self.end_headers()
            self.pour(b"0" if kind == "slow" else b"fff0" + b"x" * 65516, 0.2 if kind == "slow" else 0)
        elif kind == "escapes":
            words = b"ERR \x1b[2J\x07 evil\n"
            body = b"001e# service=git-upload-pack\n0000%04x%s" % (len(words) + 4, words)
            self.head(200, ("Content-Type", ADVERTISEMENT), body)
        else:
            self.head(404, ("X", "y"))

    def head(self, status: int, field: tuple[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header(*field)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def pour(self, what: bytes, pause: float) -> None:
        try:
            while True:
                self.wfile.write(what)
                time.sleep(pause)
        except OSError:
            pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    pem = git_server.certificate(tmp_path / "pem", "127.0.0.1")
    monkeypatch.setenv("GIT_SSL_CAINFO", f"{pem}.crt")
    Hostile.asked = []
    one = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    one.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    one.socket = context.wrap_socket(one.socket, server_side=True)
    threading.Thread(target=one.serve_forever, daemon=True).start()
    yield f"https://127.0.0.1:{one.server_port}"
    one.shutdown()
    one.server_close()


def refusal(url: str, place: Path) -> str:
    with pytest.raises(FleetError) as caught:
        files_of(source(git=url, commit="a" * 40), place)
    words = str(caught.value)
    assert words.isprintable() and "run gb10.fleet.shelf again" in words
    return words


@pytest.mark.parametrize("where", ["own", "https..169.254.169.254/x", "http..127.0.0.1/x", "file..etc/passwd"])
def test_a_server_sends_nobody_on(server: str, tmp_path: Path, where: str) -> None:
    words = refusal(f"{server}/to/{where}", tmp_path)
    assert "302" in words, words
    assert len(Hostile.asked) == 1 and not any(path.startswith("/inner") for path in Hostile.asked)


@pytest.mark.parametrize(
    ("kind", "words"), [("password", "could not read Username"), ("nothing", "not found"), ("escapes", "evil")]
)
def test_a_server_that_gives_no_repository_is_named(server: str, tmp_path: Path, kind: str, words: str) -> None:
    assert words in refusal(f"{server}/{kind}/x", tmp_path)


@pytest.mark.parametrize("kind", ["slow", "endless"])
def test_a_server_that_never_ends_is_left(
    server: str, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_source_files, "_LIMIT_S", 2)
    assert "did not end within 2 s" in refusal(f"{server}/{kind}/x", tmp_path)


def test_a_certificate_that_nobody_vouches_for_is_refused(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GIT_SSL_CAINFO")
    assert "certificate" in refusal(f"{server}/nothing/x", tmp_path) and not Hostile.asked
