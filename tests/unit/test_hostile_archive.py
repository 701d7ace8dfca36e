# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SECURITY.md, "The publisher": an archive of an image is read in bounds, or refused in one sentence."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.archive import (
    ArchiveImage,
    digest_of,
    read_archive,
)
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.identity import parse_reference
from hypothesis import given, settings
from hypothesis import strategies as st

LAYER = b"base" * 300
CONFIG: dict[str, Any] = {
    "os": "linux",
    "architecture": "arm64",
    "config": {"Env": ["A=1"]},
    "rootfs": {"type": "layers", "diff_ids": [digest_of(LAYER)]},
}
ENTRY: dict[str, Any] = {"Config": "c.json", "RepoTags": ["demo:1"], "Layers": ["l.tar"], "LayerSources": {}}
INDEX: dict[str, Any] = {"schemaVersion": 2, "manifests": [{"digest": digest_of(b"x"), "size": 1}]}
MOST = 64 << 20
DEEP = b"[" * 200_000
Change = Callable[[tarfile.TarInfo], object]


def tar(change: dict[str, Change] | None = None, **files: Any) -> bytes:
    """An archive as docker save writes it. files: other contents, None for no file, ``c_json`` for c.json; change: of a
    member before it is written."""
    contents = {"c.json": CONFIG, "manifest.json": [ENTRY], "index.json": INDEX, "l.tar": LAYER}
    contents |= {name.replace("_", "."): content for name, content in files.items()}
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in contents.items():
            if content is not None:
                data = content if isinstance(content, bytes) else json.dumps(content).encode()
                member = tarfile.TarInfo(name)
                member.size = len(data)
                (change or {}).get(name, lambda _: None)(member)
                archive.addfile(member, io.BytesIO(data))
    return written.getvalue()


def becomes(**attributes: Any) -> Change:
    return lambda member: [setattr(member, key, value) for key, value in attributes.items()]


def config(**other: Any) -> bytes:
    return tar(c_json=CONFIG | other)


def entry(**other: Any) -> bytes:
    return tar(manifest_json=[ENTRY | other])


# Holes are no bytes of the archive, and would be read as zeros.
HOLES = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "manifest.json"}
NOT_A_SUM = (
    "../../../etc/cron.d/evil",
    "sha256:../../evil",
    f"sha256:{'A' * 64}",
    f"{digest_of(LAYER)}\n",
    "",
    1,
    None,
)
# What takes its time to be made is made by its own test.
HOSTILE: dict[str, bytes | Callable[[], bytes]] = {
    "nothing": b"",
    "no tar": b"x" * 10_000,
    "zeros": bytes(10_240),
    "cut off in a header": tar()[:700],
    "a header that was changed": tar()[:100] + b"\xff" * 60 + tar()[160:],
    "a size below nothing": tar()[:124] + b"\xff" * 12 + tar()[136:],
    "a size of 8 EiB": tar()[:124] + b"\x80\0\0\0\x7f" + b"\xff" * 7 + tar()[136:],
    "no list": tar(manifest_json=None),
    "no config": tar(c_json=None),
    "no layer": tar(l_tar=None),
    "a list of 20 MB": lambda: tar(manifest_json=b" " * (20 << 20)),
    "a config of 20 MB": lambda: tar(c_json=b" " * (20 << 20)),
    "an index of 20 MB": lambda: tar(index_json=b" " * (20 << 20)),
    "a header of 20 MB": lambda: tar({"c.json": becomes(pax_headers={"comment": "x" * (20 << 20)})}),
    "40,000 members": lambda: tar(**{f"m{number}": b"" for number in range(40_000)}),
    "a list that nests": tar(manifest_json=DEEP),
    "a config that nests": tar(c_json=DEEP),
    "an index that nests": tar(index_json=DEEP),
    "a list that links to itself": tar(
        {"manifest.json": becomes(type=tarfile.SYMTYPE, linkname="manifest.json", size=0)}
    ),
    "a config that links to a layer": tar({"c.json": becomes(type=tarfile.LNKTYPE, linkname="l.tar", size=0)}),
    "a list that is a folder": tar({"manifest.json": becomes(type=tarfile.DIRTYPE, size=0)}),
    "a list that is a device": tar({"manifest.json": becomes(type=tarfile.CHRTYPE, size=0)}),
    "a list of holes": tar(
        {"manifest.json": becomes(pax_headers={**HOLES, "GNU.sparse.realsize": str(1 << 40)})},
        manifest_json=b"0\n" * 512,
    ),
    "a layer that links to nothing": tar({"l.tar": becomes(type=tarfile.SYMTYPE, linkname="../x/layer.tar", size=0)}),
    "a layer that is a folder": tar({"l.tar": becomes(type=tarfile.DIRTYPE, size=0)}),
    **{f"a list of {value!r}": tar(manifest_json=value) for value in (None, {}, [], 1, "x", [1], [[]], [None], [{}])},
    **{f"a config of {value!r}": tar(c_json=value) for value in (None, {}, [], 1, "x")},
    **{f"an index of {value!r}": tar(index_json={"manifests": value}) for value in ([1], [{}], "x", 1, {"a": 1})},
    **{
        f"a name of {value!r}": entry(RepoTags=value)
        for value in ("demo:1", [1], [None], ["\x1b[2J"], [""], {}, ["a" * 999])
    },
    **{
        f"a layer of {value!r}": entry(Layers=value)
        for value in (None, "l.tar", [1], [None], [[]], ["x"], ["l.tar"] * 2, [])
    },
    **{
        f"a config called {value!r}": entry(Config=value)
        for value in (None, 1, [], "x", "", "/etc/passwd", "../c.json")
    },
    **{f"a DiffID of {value!r}": config(rootfs={"diff_ids": [value]}) for value in NOT_A_SUM},
    **{
        f"DiffIDs of {value!r}": config(rootfs={"diff_ids": value}) for value in ("x", 1, {}, [digest_of(LAYER)] * 2000)
    },
    **{f"roots of {value!r}": config(rootfs=value) for value in (None, [], 1, "x")},
    "an architecture of another": config(architecture="../../x"),
    "a system of none": config(os=None),
    "a configuration of text": config(config="x"),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_archive_is_refused_in_one_sentence_and_little_memory(
    tmp_path: Path, content: bytes | Callable[[], bytes]
) -> None:
    (tmp_path / "a.tar").write_bytes(content() if callable(content) else content)
    tracemalloc.start()
    with pytest.raises(FleetError) as refused:
        read_archive(tmp_path / "a.tar", parse_reference("demo:1"))
    _now, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < MOST
    sentence = str(refused.value)
    assert "image-archive" in sentence and len(sentence) < 1000
    assert sentence.isprintable()


def test_an_archive_as_docker_writes_it_is_taken(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar())
    found = read_archive(tmp_path / "a.tar", parse_reference("demo:1"))
    assert [layer.diff_id for layer in found.layers] == [digest_of(LAYER)]
    assert digest_of(b"x") in found.digests


SCALARS = st.none() | st.integers() | st.text(max_size=6) | st.sampled_from(["l.tar", "c.json", digest_of(LAYER)])
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*CONFIG, *ENTRY, *INDEX, "diff_ids"]), inner, max_size=4)
    ),
    max_leaves=8,
)


def taken(folder: Path, content: bytes) -> ArchiveImage | None:
    (folder / "a.tar").write_bytes(content)
    with contextlib.suppress(FleetError):
        return read_archive(folder / "a.tar", parse_reference("demo:1"))
    return None


@settings(max_examples=60)
@given(st.sampled_from(["manifest_json", "c_json", "index_json"]), JSON)
def test_any_document_is_one_or_refused(tmp_path_factory: pytest.TempPathFactory, name: str, value: Any) -> None:
    found = taken(tmp_path_factory.mktemp("any"), tar(**{name: value}))
    assert found is None or [layer.diff_id for layer in found.layers] == [digest_of(LAYER)]


@settings(max_examples=120)
@given(st.integers(0, len(tar()) - 1), st.binary(min_size=1, max_size=12))
def test_any_bytes_in_it_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, place: int, written: bytes
) -> None:
    whole = tar()
    taken(tmp_path_factory.mktemp("any"), whole[:place] + written + whole[place + len(written) :])
