# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a model's publisher may write into its index and its weights' headers: read in bounds, refused in a sentence."""

from __future__ import annotations

import hashlib
import json
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.foreign_files import content_of
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.manifest import git_sum
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.reading import indexed_bytes
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.source import read_source, safetensors_size
from hypothesis import given, settings
from hypothesis import strategies as st
from test_hostile_answer import JSON

INDEX = "model.safetensors.index.json"
LARGE = 33 << 20


def shards(*names: Any) -> bytes:
    return json.dumps({"weight_map": dict(enumerate(names))}).encode()


INDEXES: dict[str, bytes] = {
    "no JSON": b"[",
    "no text": b"\xff\xfe\x00",
    "nothing": b"",
    "a list": b"[]",
    "a number": b"5",
    "not a number": b'{"weight_map": {"a": NaN}}',
    "100,000 brackets": b"[" * 100_000,
    "100,000 braces": b'{"weight_map":' * 100_000,
    "33 levels": b'{"weight_map": {"a": ' + b"[" * 33 + b"]" * 33 + b"}}",
    "a list of tensors": b'{"weight_map": ["model-1.safetensors"]}',
    "text for tensors": b'{"weight_map": "model-1.safetensors"}',
    "33 MiB": b'{"weight_map": {}, "x": "' + b"y" * LARGE + b'"}',
    "a number for a shard": shards(5),
    "a list for a shard": shards(["model-1.safetensors"]),
    "none for a shard": shards(None),
    "no name": shards(""),
    "a path above": shards("../../../etc/shadow"),
    "another root": shards("/etc/shadow"),
    "a hidden file": shards(".ssh/id_ed25519"),
    "an escape sequence": shards("\x1b[2J"),
    "a line of its own": shards("a\nb"),
    "a NUL": shards("a\0b"),
    "a long name": shards("a" * 5000),
    "one that is missing": shards("model-2.safetensors"),
    "100,000 that are missing": shards(*(f"model-{number}.safetensors" for number in range(100_000))),
}


@pytest.mark.parametrize("content", INDEXES.values(), ids=INDEXES)
def test_a_hostile_index_is_refused_in_a_few_sentences(tmp_path: Path, content: bytes) -> None:
    (tmp_path / INDEX).write_bytes(content)
    with pytest.raises(FleetError, match="model-file") as refused:
        read_source(tmp_path, None)
    sentences = [finding.sentence() for finding in refused.value.findings]
    assert len(sentences) <= 20
    assert all(text.isprintable() and len(text) < 1000 for text in sentences)
    assert indexed_bytes(tmp_path / INDEX) is None


def test_an_index_of_another_folder_names_files_beside_it(tmp_path: Path) -> None:
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / INDEX).write_bytes(shards("model-1.safetensors"))
    (tmp_path / "encoder" / "model-1.safetensors").write_bytes(headed(b"{}"))
    read_source(tmp_path, None)


def headed(header: bytes, length: int | None = None) -> bytes:
    return (len(header) if length is None else length).to_bytes(8, "little") + header


HEADERS: dict[str, bytes] = {
    "no header": b"",
    "half a length": b"abcd",
    "more than there is": headed(b"{}", 1 << 20),
    "more than any disk has": headed(b"{}", (1 << 64) - 1),
    "no JSON": headed(b"{"),
    "a list": headed(b"[]"),
    "100,000 brackets": headed(b"[" * 100_000),
    "100,000 braces": headed(b'{"a":' * 100_000),
    "33 MiB": headed(b'{"w": {"x": "' + b"y" * LARGE + b'"}}'),
    "a tensor of text": headed(b'{"w": "x"}'),
    "no offsets": headed(b'{"w": {}}'),
    "one offset": headed(b'{"w": {"data_offsets": [0]}}'),
    "offsets of text": headed(b'{"w": {"data_offsets": ["a", "b"]}}'),
    "offsets of lists": headed(b'{"w": {"data_offsets": [[], []]}}'),
    "offsets of maps": headed(b'{"w": {"data_offsets": {"0": 1}}}'),
    "text and numbers": headed(b'{"v": {"data_offsets": [0, 1]}, "w": {"data_offsets": [0, "x"]}}'),
    "no number": headed(b'{"w": {"data_offsets": [0, NaN]}}'),
    "without end": headed(b'{"w": {"data_offsets": [0, 1e999]}}'),
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=HEADERS)
def test_a_hostile_header_is_that_of_no_weights(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    assert safetensors_size(path) in (0, 8 + int.from_bytes(content[:8], "little"))
    with pytest.raises(FleetError, match="model-file"):
        read_source(tmp_path, None)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200) | JSON.map(json.dumps).map(str.encode), st.sampled_from([None, 0, 7, 1 << 40]))
def test_any_header_gives_a_size(tmp_path_factory: pytest.TempPathFactory, header: bytes, length: int | None) -> None:
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    path.write_bytes(headed(header, length))
    assert isinstance(safetensors_size(path), int)


@settings(deadline=None, max_examples=200)
@given(
    JSON | st.dictionaries(st.just("weight_map"), st.dictionaries(st.text(max_size=3), JSON | st.text()), min_size=1)
)
def test_any_index_is_one_or_refused(tmp_path_factory: pytest.TempPathFactory, index: Any) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")
    try:
        read_source(folder, None)
    except FleetError as refused:
        assert all(finding.sentence().isprintable() for finding in refused.findings)


def test_a_file_of_any_size_takes_little_memory_for_gits_sum(tmp_path: Path) -> None:
    """The publisher decides of which files the hub says it."""
    path = tmp_path / "small"
    path.write_bytes(b"hello\n")
    assert git_sum(path) == "ce013625030ba8dba906f756967f9e9ca394464a"
    os.truncate(path, 64 << 20)
    tracemalloc.start()
    try:
        found = git_sum(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    content = path.read_bytes()
    assert found == hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def test_only_a_file_is_read_and_not_more_than_it_may_have(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    os.mkfifo(tmp_path / "pipe")
    assert content_of(tmp_path / "file", 5) == b"12345"
    for name, words in (("file", "more than 4 bytes"), ("pipe", "no regular file")):
        with pytest.raises(ValueError, match=words):
            content_of(tmp_path / name, 4)
    for name, kind in (("absent", FileNotFoundError), (".", IsADirectoryError)):
        with pytest.raises(kind):
            content_of(tmp_path / name, 4)
