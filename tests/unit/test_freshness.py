# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/freshness.py against an imitated index, registry and hub."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64


class Internet:
    """What each path answers: a status, a body, headers. Others: 404 for a model or image, empty JSON for the rest."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, Any, dict[str, str]]] = {}
        self.asked: list[str] = []
        self.digest, self.head = OLD, "c" * 40
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                status, body, headers = outer.answers.get(self.path.split("?")[0], outer.usual(self.path, self.headers))
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def usual(self, path: str, headers: Any) -> tuple[int, Any, dict[str, str]]:
        if path.startswith("/token"):
            return 200, {"token": "everybody"}, {}
        if "/manifests/" in path:
            if headers.get("Authorization") != "Bearer everybody":
                realm = f'Bearer realm="{self.url}/token",service="s",scope="pull"'
                return 401, {}, {"WWW-Authenticate": realm}
            return 200, {}, {"Docker-Content-Digest": self.digest}
        if path.startswith("/api/models/"):
            return 200, {"sha": self.head}, {}
        if path.endswith("/tags/list"):
            return 200, {"name": "x", "tags": ["latest"]}, {}
        return 200, {"info": {"version": "0.0.1"}, "tag_name": "b1"}, {}


@pytest.fixture
def internet() -> Iterator[Internet]:
    one = Internet()
    threading.Thread(target=one.server.serve_forever, daemon=True).start()
    yield one
    one.server.shutdown()
    one.server.server_close()


def run(internet: Internet, *more: str) -> tuple[int, list[str]]:
    usual = ["https://pypi.org", "https://api.github.com", "https://huggingface.co"]
    usual += ["https://registry-1.docker.io", "https://nvcr.io", "https://ghcr.io"]
    elsewhere = [word for one in usual for word in ("--elsewhere", f"{one}={internet.url}")]
    command = [sys.executable, str(ROOT / "tools" / "freshness.py"), *elsewhere, *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.splitlines()


def test_what_is_new_changed_and_broken(internet: Internet, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    internet.answers["/pypi/vllm/json"] = (200, {"info": {"version": "9.9.0"}}, {})
    code, lines = run(internet, "--state", str(state))
    assert any(line.startswith("new vllm 9.9.0; the catalogue ends at") for line in lines), lines
    assert code == 0 and not any(line.startswith("broken") for line in lines)
    pinned = [line for line in lines if line.startswith("changed image")]
    assert pinned and all("recipes pin sha256:" in line for line in pinned)
    kept = json.loads(state.read_text("utf-8"))
    assert set(kept["images"].values()) == {OLD} and set(kept["models"].values()) == {"c" * 40}

    internet.digest, internet.head = NEW, "d" * 40
    internet.answers["/api/models/nvidia/Qwen3-8B-NVFP4"] = (404, {}, {})
    gone, image = "nvidia/Qwen3-8B-NVFP4", next(iter(kept["images"]))
    code, lines = run(internet, "--state", str(state))
    assert code == 1 and f"broken model {gone}: HTTP 404" in lines
    assert lines[0].startswith("broken")
    assert any(line.startswith("changed model") and "the last run found" in line for line in lines)
    assert any(line.startswith(f"changed image {image}") for line in lines)


def test_no_answer_is_not_called_broken(internet: Internet, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text("[damaged", "utf-8")
    internet.answers["/pypi/sglang/json"] = (500, {}, {})
    internet.answers["/pypi/vllm/json"] = (200, b"<html>", {})
    internet.answers["/api/models/openai/gpt-oss-20b"] = (200, {"sha": "\x1b[2J"}, {})
    code, lines = run(internet, "--state", str(state))
    assert code == 0
    assert "unknown sglang: HTTP 500" in lines and "unknown vllm: no JSON" in lines
    assert not any("\x1b" in line for line in lines)


def test_a_registry_that_wants_a_password_elsewhere_gets_none(internet: Internet) -> None:
    realm = 'Bearer realm="http://127.0.0.1:1/steal"'
    internet.usual = lambda path, headers: (  # type: ignore[method-assign]
        (401, {}, {"WWW-Authenticate": realm}) if "/manifests/" in path else (200, {"sha": "c" * 40}, {})
    )
    _, lines = run(internet)
    assert any("asks for a password" in line for line in lines)
    assert not any(line.startswith("broken image") for line in lines)


def test_sources_that_cannot_be_are_broken(internet: Internet, tmp_path: Path) -> None:
    path = tmp_path / "sources.yml"
    path.write_text(
        json.dumps({"fleet_recipe_sources": [{"git": "https://127.0.0.1:1/x", "commit": "a" * 40}]}), "utf-8"
    )
    code, lines = run(internet, "--sources", str(path))
    assert code == 1 and any(line.startswith("broken source x") for line in lines)
    path.write_text(json.dumps({"fleet_recipe_sources": [{"git": "ext::sh", "commit": "main"}]}), "utf-8")
    code, lines = run(internet, "--sources", str(path))
    assert code == 1 and any(line.startswith("broken source:") for line in lines)


def test_a_page_as_it_was_on_28_november_2026(internet: Internet) -> None:
    page = json.loads((ROOT / "tests" / "data" / "pages" / "pypi-vllm.json").read_text("utf-8"))
    assert page["info"]["version"] == "0.33.0"
    internet.answers["/pypi/vllm/json"] = (200, page, {})
    code, lines = run(internet)
    assert code == 0 and not any(line.split()[1] == "vllm" for line in lines)
    page["info"]["version"] = "0.34.0"
    code, lines = run(internet)
    assert code == 0 and "new vllm 0.34.0; the catalogue ends at 0.33.0" in lines


PAGES = {
    "/pypi/vllm/json": ("vllm", "info.version"),
    "/repos/ggml-org/llama.cpp/releases/latest": ("llama.cpp", "tag_name"),
    "/api/models/openai/gpt-oss-20b": ("model openai/gpt-oss-20b", "sha"),
    "/v2/vllm/vllm-openai/tags/list": ("tags of vllm/vllm-openai", "tags"),
}
FORMS: list[Any] = [
    {},
    [],
    ["0.33.0"],
    {"info": []},
    {"info": {"version": 33}},
    {"tags": {}},
    {"sha": None},
    "text",
    7,
    None,
]


@pytest.mark.parametrize("form", FORMS, ids=json.dumps)
def test_a_page_of_another_form_is_named_and_ends_no_run(internet: Internet, form: Any, tmp_path: Path) -> None:
    for path in PAGES:
        internet.answers[path] = (200, form, {})
    state = tmp_path / "state.json"
    code, lines = run(internet, "--state", str(state))
    assert code == 1
    for what, missing in PAGES.values():
        assert f"broken {what}: the form of its answer has changed: no {missing}" in lines
    assert "openai/gpt-oss-20b" not in json.loads(state.read_text("utf-8"))["models"]


def test_a_registry_that_names_no_digest_has_another_form(internet: Internet) -> None:
    internet.digest = ""
    code, lines = run(internet)
    assert code == 1 and any("form of its answer has changed: no docker-content-digest" in line for line in lines)
    assert not any(line.startswith("changed image") for line in lines)


def test_a_page_without_end_of_brackets_ends_no_run(internet: Internet) -> None:
    internet.answers["/pypi/vllm/json"] = (200, b"[" * 200_000, {})
    code, lines = run(internet)
    assert code == 0 and "unknown vllm: no JSON" in lines


def test_newer_tags_of_the_same_form(internet: Internet) -> None:
    shown = ["latest", "v99.1.0", "v99.2.0", "v100.0.0-cpu", "nightly-2026", "v9\x1b[2J9.9.9", 7]
    internet.answers["/v2/vllm/vllm-openai/tags/list"] = (200, {"tags": shown}, {})
    code, lines = run(internet)
    assert code == 0
    (found,) = [line for line in lines if " of vllm/vllm-openai; recipes take v" in line]
    assert found.startswith("new tag v99.2.0 of")
