# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The community's benchmark through an endpoint: its key is in no list of processes, and half a result is none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.gb10.fleet.plugins.action import bench_owner
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.conditions import other_profile
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.form import NotWholeError, run
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.owner import (
    RELEASE,
    community_table,
    owner_measured,
    owner_points,
    owner_words,
)
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.report import recipe_lines
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bench.sweep import DEFAULTS, Point, wrong_points

POINT = Point("pp512 tg32 @ d1024", 512, 32, 1, 1, depth=1024)
KEY = "canary-key-5f1c"


def metric(*values: float) -> dict[str, Any]:
    return {"mean": 1.0, "std": 0.0, "values": [*values]}


def result(**changes: Any) -> dict[str, Any]:
    """As 0.4.0 writes it, of what is read; it writes more."""
    one = {
        "concurrency": 1,
        "context_size": 1024,
        "prompt_size": 512,
        "response_size": 32,
        "is_context_prefill_phase": False,
        "pp_throughput": metric(7381.0),
        "tg_throughput": metric(50.0),
        "e2e_ttft": metric(250.0),
        "throughput_over_time": None,
    }
    return {"version": RELEASE, "latency_ms": 41.1, "benchmarks": [one | changes]}


def test_its_result_has_the_figures_of_the_other_profile() -> None:
    found = owner_measured(POINT, json.dumps(result()).encode())
    assert found["figures"] == {"first token ms": 250.0, "next token ms": 20.0, "tokens/s": 32_000 / 870}
    assert found["shown"] == {"request ms": 870.0}
    assert found["raw"] == result()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        # llama-benchy leaves out what it can't compute, and requests that failed
        ({"tg_throughput": None}, "measured 0 values of tg_throughput"),
        ({"e2e_ttft": metric()}, "measured 0 values of e2e_ttft"),
        ({"e2e_ttft": metric(0.0)}, "expected one above 0"),
        ({"tg_throughput": metric(1.0, 2.0)}, "measured 2 values"),
        ({"context_size": 0}, "measured 0 runs of it"),
    ],
)
def test_half_a_result_is_none(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(NotWholeError, match=sentence):
        owner_measured(POINT, json.dumps(result(**change)).encode())


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", json.dumps(result() | {"version": "0.5.0"}).encode(), json.dumps(result(e2e_ttft=5)).encode()],
)
def test_what_is_no_result_of_its_release_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="llama-benchy"):
        owner_measured(POINT, content)


def test_its_depths_fit_and_have_its_own_names() -> None:
    asked = DEFAULTS["owner"]
    found = owner_points(10_000, asked["prompts"], asked["depths"], asked["answer"])
    assert [point.name for point in found] == ["pp2048 tg32", "pp2048 tg32 @ d4096"]
    assert len(owner_points(None, asked["prompts"], asked["depths"], asked["answer"])) == len(asked["depths"])


def test_what_it_does_not_sweep_is_refused() -> None:
    asked: dict[str, Any] = {"prompts": [512], "concurrency": (), "depths": [0], "rates": [], "images": []}
    assert [*wrong_points(asked | {"profile": "owner"})] == []
    (found,) = wrong_points(asked | {"profile": "owner", "rates": [2.0]})
    assert "expected none with profile=owner" in found.sentence()


def test_another_profile_is_not_compared() -> None:
    before = {"profile": "owner", "name": "chat-1"}
    assert [*other_profile("owner", before)] == []
    (found,) = other_profile("load", before)
    assert "write -e profile=owner" in found.sentence()


def test_what_a_person_reads() -> None:
    results = [
        {"point": POINT, "round": number, "figures": {"first token ms": 256.0, "next token ms": 20.0, "tokens/s": 40.0}}
        | {"shown": {}, "raw": result(pp_throughput=metric(*speed))}
        for number, speed in enumerate([(1.0,), (4.0,), (6.0,)])
    ]
    under = {"hosts": 1}
    found = run("chat-1", "t", {"name": "chat", "definition": "d"}, under, results, "owner")
    assert community_table(found) == [
        ["test", "t/s"],
        ["pp512 @ d1024", "5.00 ± 1.00"],
        ["tg32 @ d1024", "50.00 ± 0.00"],
    ]
    prefill, decode = recipe_lines(found)
    assert prefill["value"] == 6000.0  # 1536 tokens in 256 ms: what comes before the prompt is read, too
    assert decode["conditions"] == f"1 request, llama-benchy {RELEASE}, pp512 tg32 @ d1024"
    short = run(
        "chat-1",
        "t",
        {"name": "chat", "definition": "d"},
        under,
        [results[1], results[2] | {"raw": result(pp_throughput=None)}],
    )
    assert community_table(short)[1] == ["pp512 @ d1024", "too short to tell"]


STUBS = {
    "numpy/__init__.py": "",
    "numpy/random.py": "def seed(value): print('seed', value)",
    "llama_benchy/__init__.py": "",
    "llama_benchy/corpus.py": """
class LightweightTokenizer:
    @classmethod
    def from_pretrained(cls, name):
        if name == "broken":
            raise ValueError("no JSON")
        return cls()
    def encode(self, text):
        return [*text]
class TokenizedCorpus:
    def __init__(self, book_url, name, model):
        self.tokenizer = self._get_tokenizer(model, name)
        self.tokens = self._load_data()
""",
    "llama_benchy/__main__.py": """
import sys
from . import corpus
def main():
    tokens = corpus.TokenizedCorpus("", sys.argv[1], "m").tokens
    with open("/proc/self/cmdline") as shown:
        print(sys.argv[-1], sys.argv[-1] in shown.read(), len(tokens))
""",
}


def started(tmp_path: Path, tokenizer: str) -> subprocess.CompletedProcess[str]:
    for name, text in STUBS.items():
        path = tmp_path / "stubs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (tmp_path / "stubs/numpy/__init__.py").write_text("from . import random", "utf-8")
    book = tmp_path / "book.txt"
    book.write_text("four", "utf-8")
    given = {"words": [tokenizer], "key": KEY, "seed": 2**32 + 5, "book": str(book)}
    return subprocess.run(
        [sys.executable, str(bench_owner.PROGRAM)],
        input=json.dumps(given),
        env={"PYTHONPATH": str(tmp_path / "stubs")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_key_is_in_no_list_of_processes(tmp_path: Path) -> None:
    done = started(tmp_path, "folder")
    assert done.stdout == f"seed 5\n{KEY} False 4\n", done.stderr


def test_a_tokenizer_that_cant_be_read_is_not_replaced_by_another_one(tmp_path: Path) -> None:
    done = started(tmp_path, "broken")
    assert done.returncode != 0
    assert done.stderr == "the tokenizer in broken can't be used: no JSON\n"
    assert KEY not in "".join(owner_words(POINT, "http://x/v1", "m", "folder", "r.json"))


SEEN = {"image": "sha256:1", "kernel": "6.11", "driver": None, "model": "m"}
# In place of its Python: what it is given goes to a file, and this is what becomes of it.
TOOL = """#!/bin/sh
cat > {given}
{does}
"""


def writes(content: dict[str, Any]) -> str:
    """A shell's words; {given} is the file of what the tool was given, which names the result's."""
    text = json.dumps(content).replace("{", "{{").replace("}", "}}")
    place = """$(sed 's/.*--save-result", "\\([^"]*\\).*/\\1/' {given})"""
    return f"cat > {place} <<'END'\n{text}\nEND"


HALF = writes(result(tg_throughput=None))


class SentRequest:
    """The action, with a tool that is a script, and a host that answers so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, does: str) -> None:
        self.given = tmp_path / "given.json"
        (tmp_path / "tool/bin").mkdir(parents=True)
        tool = tmp_path / "tool/bin/python"
        tool.write_text(TOOL.format(given=self.given, does=does.format(given=self.given)), "utf-8")
        tool.chmod(0o755)
        (tmp_path / "key").write_text(f"{KEY}\n", "utf-8")
        self.arguments: dict[str, Any] = {
            "load": {"service": "chat", "engine": "vllm"},
            "owner": {"url": "https://titan:8000/v1", "served": "chat", "key": str(tmp_path / "key")}
            | {"authority": "/ca.crt", "model": "/srv/m"},
            "point": {"name": "pp512 tg32 @ d1024", "prompt": 512, "answer": 32, "at_once": 1, "requests": 1}
            | {"depth": 1024},
            "seed": 7,
            "tool": str(tmp_path / "tool"),
            "tokenizers": str(tmp_path / "tokenizers"),
            "book": "",
        }
        self.tokenizer: dict[str, Any] = {"content": "eyJhIjogMX0="}
        self.looks: list[dict[str, float]] = [
            {"busy": 0, "answered": 100, "prompted": 0},
            {"busy": 0, "answered": 137, "prompted": 0},
        ]
        self.action = bench_owner.ActionModule.__new__(bench_owner.ActionModule)
        self.action._task = SimpleNamespace(action="gb10.fleet.bench_owner", args=self.arguments, check_mode=False)
        self.action._loader = SimpleNamespace(get_text_file_contents=lambda path: Path(path).read_text("utf-8"))
        monkeypatch.setattr(ActionBase, "run", lambda *_given, **_named: {})
        monkeypatch.setattr(self.action, "validate_argument_spec", lambda _spec: (None, self.arguments))
        monkeypatch.setattr(self.action, "_execute_module", self._answered)

    def _answered(self, module: str, *_given: Any, **_named: Any) -> dict[str, Any]:
        if module.endswith("slurp"):
            return self.tokenizer
        return {"seen": SEEN, "before": self.looks.pop(0)}

    def run(self) -> dict[str, Any]:
        found: dict[str, Any] = self.action.run(task_vars={})
        return found


def test_a_run_through_the_endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = SentRequest(monkeypatch, tmp_path, writes(result()))
    asked.looks[1]["a_step"] = 2.7  # SGLang's gauge
    found = asked.run()
    assert found["figures"]["first token ms"] == 250.0 and found["shown"]["tokens a step"] == 2.7
    assert found["seen"] == SEEN
    given = json.loads(asked.given.read_text("utf-8"))
    assert given["key"] == KEY
    assert given["seed"] == 7


@pytest.mark.parametrize(
    ("does", "sentence"),
    [
        ("echo HTTP 401: Unauthorized; exit 1", "llama-benchy ended with 1: HTTP 401: Unauthorized"),
        # it ends so where it printed its result in another form
        ("true", "llama-benchy left no result"),
        (HALF, "llama-benchy measured 0 values of tg_throughput, expected one above 0; "),
    ],
)
def test_what_is_not_whole_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, does: str, sentence: str
) -> None:
    with pytest.raises(AnsibleActionFail) as refused:
        SentRequest(monkeypatch, tmp_path, does).run()
    assert f"chat can't be measured at pp512 tg32 @ d1024: {sentence}" in refused.value.message
    assert "nothing of this benchmark was kept" in refused.value.message
    assert KEY not in refused.value.message


def test_others_that_ask_before_or_meanwhile_are_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = SentRequest(monkeypatch, tmp_path, writes(result()))
    asked.looks[1]["answered"] = 900
    with pytest.raises(AnsibleActionFail, match="others were answered 763 tokens meanwhile"):
        asked.run()
    asked.looks = [{"busy": 2, "answered": 0, "prompted": 0}]
    with pytest.raises(AnsibleActionFail, match="2 requests of others run there"):
        asked.run()


def test_the_models_own_tokenizer_is_brought(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = SentRequest(monkeypatch, tmp_path, "exit 1")
    asked.arguments["point"] = None
    assert asked.run()["seen"] == SEEN
    assert json.loads((tmp_path / "tokenizers/chat/tokenizer.json").read_text("utf-8")) == {"a": 1}


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"failed": True, "msg": "file not found: \x1b[2J"}, "/srv/m/tokenizer.json can't be read there"),
        ({"content": "%%%"}, "is not what this collection reads"),
        ({"content": "W10="}, "is no tokenizer of at most 64 MiB"),
        ({}, "is not what this collection reads"),
    ],
)
def test_what_is_no_tokenizer_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: dict[str, Any], sentence: str
) -> None:
    asked = SentRequest(monkeypatch, tmp_path, "exit 1")
    asked.arguments["point"] = None
    asked.tokenizer = answer
    with pytest.raises(AnsibleActionFail) as refused:
        asked.run()
    assert sentence in refused.value.message
    assert "\x1b" not in refused.value.message
    assert not (tmp_path / "tokenizers").exists()
