# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The header of a GGUF file: what is read of a good one, and that nothing of a bad one gets further."""

from __future__ import annotations

import io
import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.forms import forms
from ansible_collections.gb10.fleet.plugins.module_utils._base.schema import check
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models import gguf
from ansible_collections.gb10.fleet.plugins.module_utils._facts.models.other_forms import gguf_form
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.vllm.gguf_files import Shape, header, write

SHAPE = Shape("small", layers=2)
TEXT, _ = header(SHAPE.metadata, SHAPE.tensors)
START = b"GGUF" + struct.pack("<I", 3)


def read(text: bytes) -> gguf.Header:
    return gguf.read_header(io.BytesIO(text).read)


def keyed(*pairs: tuple[bytes, bytes], tensors: bytes = b"", count: int = 0) -> bytes:
    """A header of raw keys with their values, and of raw tensors."""
    text = START + struct.pack("<QQ", count, len(pairs))
    for key, value in pairs:
        text += struct.pack("<Q", len(key)) + key + value
    return text + tensors


def tensor(name: bytes, dimensions: list[int], kind: int, offset: int) -> bytes:
    words = struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, offset)
    return struct.pack("<Q", len(name)) + name + words


def test_a_whole_header_is_read(tmp_path: Path) -> None:
    file = write(tmp_path / "small.gguf", SHAPE)
    with file.open("rb") as stream:
        found = gguf.read_header(stream.read)
    assert found.size == file.stat().st_size
    assert found.metadata["llama.block_count"] == 2
    assert found.metadata["tokenizer.ggml.token_type"][:4] == [2, 3, 3, 6]
    assert found.tensors["blk.1.ffn_down.weight"].dimensions == (512, 256)
    assert found.tensors["blk.1.ffn_down.weight"].size == 512 * 256 // 32 * 18


def test_a_plan_s_facts_are_checked_where_they_are_read() -> None:
    facts = gguf.facts_of([read(TEXT)])
    assert json.loads(json.dumps(facts)) == facts
    checked, findings = check(forms("gguf")["facts"], facts["gguf"], "here")
    assert (checked, findings) == (facts["gguf"], [])
    assert facts["gguf"]["kv_heads"] == [8, 8]
    assert sum(facts["gguf"]["blocks"]) + facts["gguf"]["input"] + facts["gguf"]["output"] == facts["gguf"]["total"]
    assert check(forms("gguf")["facts"], {**facts["gguf"], "blocks": "many"}, "here")[1]


@pytest.mark.parametrize("odd", [7, -1, True, 1.5, [], [1], "", "a b", "\x1b]52;c;cm0=\x07", "\u202e", "x" * 200])
@pytest.mark.parametrize("key", [*SHAPE.metadata, "general.type", "general.base_model.0.repo_url", "general.name"])
def test_no_value_of_a_key_is_shown_as_it_is_or_ends_otherwise(key: str, odd: Any) -> None:
    """Of another type, or text for a terminal: facts are plain, and so is each refusal (security, foreign text)."""
    whole = read(TEXT)
    file = gguf.Header({**whole.metadata, key: odd}, whole.tensors, whole.data)
    for made in (
        gguf.facts_of,
        lambda headers: gguf.projector_of(headers[0]),
        lambda headers: gguf_form(headers[0].metadata),
    ):
        try:
            shown = str(made([file]))
        except gguf.GgufError as refused:
            shown = str(refused)
        assert shown.isprintable()
    refused = {"architecture": odd, "kind": odd} if isinstance(odd, str) else {}
    for form in ("facts", "projector"):
        places = {finding.at.option for finding in check(forms("gguf")[form], refused, "here")[1] if refused}
        assert not refused or places & refused.keys()


U32 = struct.pack("<II", 4, 7)
MANY = struct.pack("<Q", 1 << 60)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "ends in its header, at its magic"),
        (b"GGML" + TEXT[4:], "does not begin with GGUF"),
        (b"GGUF" + struct.pack(">I", 3) + TEXT[8:], "of version 50331648"),
        (START + MANY + struct.pack("<Q", 0), "tensors; expected at most"),
        (START + struct.pack("<Q", 0) + MANY, "keys; expected at most"),
        (keyed((b"a b", U32)), "expected letters, digits and signs"),
        (keyed((b"k" * 300, U32)), "expected at most 256"),
        (keyed((b"k", U32), (b"k", U32)), "the key k twice"),
        (keyed((b"k", struct.pack("<I", 99))), "k is of type 99"),
        (keyed((b"k", struct.pack("<I", 8) + MANY)), "bytes of k; expected at most"),
        (keyed((b"k", struct.pack("<IIQ", 9, 9, 1))), "items of type 9"),
        (keyed((b"k", struct.pack("<II", 9, 8) + MANY)), "items of k; expected at most"),
        (keyed((b"k", struct.pack("<If", 6, float("nan")))), "k is no number"),
        (keyed((b"general.alignment", struct.pack("<II", 4, 24))), "a power of two"),
        (keyed((b"general.alignment", struct.pack("<II", 4, 0))), "a power of two"),
        (keyed(tensors=tensor(b"t", [], 0, 0), count=1), "0 dimensions"),
        (keyed(tensors=tensor(b"t", [0], 0, 0), count=1), "which none has"),
        (keyed(tensors=tensor(b"t", [1 << 40, 1 << 40], 0, 0), count=1), "which none has"),
        (keyed(tensors=tensor(b"t", [32], 4, 0), count=1), "of type 4"),
        (keyed(tensors=tensor(b"t", [33], 2, 0), count=1), "no blocks of Q4_0"),
        (keyed(tensors=tensor(b"t", [32], 0, 3), count=1), "aligned to 32"),
        (keyed(tensors=tensor(b"t", [32], 0, 0) * 2, count=2), "the tensor t twice"),
        (keyed(tensors=tensor(b"t", [32], 0, 0) + tensor(b"u", [32], 0, 64), count=2), "u overlaps"),
    ],
)
def test_what_no_model_has_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(gguf.GgufError, match=words):
        read(text)


@given(st.integers(0, len(TEXT) - 1), st.binary(min_size=1, max_size=12))
@settings(max_examples=300)
def test_a_damaged_header_is_refused_or_read(place: int, damage: bytes) -> None:
    """Nothing else is raised, and no more is asked for than there is."""
    text = TEXT[:place] + damage + TEXT[place + len(damage) :]
    try:
        found = read(text)
        gguf.facts_of([found])
    except gguf.GgufError:
        return
    assert found.data <= len(text) + 32


def test_a_count_of_layers_that_no_model_has_is_refused_before_a_list_is_made_of_it() -> None:
    """Two thousand million of them took all the memory of the controller."""
    many = SHAPE.metadata | {"llama.block_count": (1 << 31) - 1}
    text, _ = header(many, SHAPE.tensors)
    with pytest.raises(gguf.GgufError, match=r"2147483647 layers by llama\.block_count; expected at most 4096"):
        gguf.facts_of([read(text)])


@given(st.integers(0, len(TEXT) - 32))
def test_a_cut_header_is_refused(length: int) -> None:
    """Less than 32 bytes of padding end it."""
    with pytest.raises(gguf.GgufError):
        gguf.facts_of([read(TEXT[:length])])


@given(st.binary(max_size=200))
def test_nothing_is_asked_for_at_once_that_no_limit_bounds(text: bytes) -> None:
    asked: list[int] = []
    stream = io.BytesIO(START + text)

    def limited(size: int) -> bytes:
        asked.append(size)
        return stream.read(size)

    with pytest.raises(gguf.GgufError):
        gguf.facts_of([gguf.read_header(limited)])
    assert max(asked) <= 8 * (1 << 22)


def test_the_tool_writes_what_a_recipe_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "tools"))
    tool: Any = __import__("gguf_facts")
    file = write(tmp_path / "small.gguf", SHAPE)
    assert tool.main([str(file)]) == 0
    assert check(forms("gguf")["facts"], json.loads(capsys.readouterr().out)["gguf"], "here")[1] == []
    with file.open("r+b") as stream:
        stream.truncate(len(TEXT))
    assert tool.main([str(file)]) == 1
    assert "says its header" in capsys.readouterr().err
    assert tool.main([str(tmp_path / "m-00002-of-00002.gguf")]) == 1
    assert "not the first of its parts" in capsys.readouterr().err
    sys.modules.pop("gguf_facts")
