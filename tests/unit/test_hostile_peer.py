# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SECURITY.md, "A host of the fleet": one that was taken over gets and gives what the stores hold, and nothing else.

Each table holds what such a host may send to one place where it is read; each property says the same of anything.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import struct
import tempfile
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.docker import Docker
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.layers import FileReader, SplitLayer
from ansible_collections.gb10.fleet.plugins.module_utils._stores.images.offer import Offer
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.contents import AbsentError, Contents
from ansible_collections.gb10.fleet.plugins.module_utils._stores.peers.server import serve
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.offer import Sources
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.parts import PART, unpack
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.peer import Connection, Peer, PeerError
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.places import Places
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.cache import Cache
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.manifest import File, Manifest
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.records import ModelRecords
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.store import Wanted, offered_manifest
from hypothesis import given
from hypothesis import strategies as st

SUM = "ab" * 32
COMMIT = "0123456789abcdef0123456789abcdef01234567"
DEEP = b"[" * 200_000
SECRET = b"the owner's own words"
NO_DOCKER = Docker(lambda arguments: (127, "", "there is no program docker"))

# Anything that JSON can say, with the words of our own messages among it.
WORDS = ["read", "recipe", "image", "model", "ranges", "packed", "digest", "revision", "files", "path", "size"]
WORDS += ["sha256", "repository", "manifest", "seal", "config", "layers", "diff_id", "compression", SUM, COMMIT]
WORDS += [f"sha256:{SUM}", "org/model", "../../x", "/etc/passwd", "a/../../b", ""]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(WORDS)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=4), inner, max_size=6)
    ),
    max_leaves=12,
)


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


# What a host asks for


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A host with one model file, beside things that are nobody else's business."""
    places = Places(tmp_path / "state", tmp_path / "state" / "hf", (f"{tmp_path}/home/*/hub",))
    for path in ("secret", "home/mallory/hub/models--org--model/blobs/" + "cd" * 32):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(SECRET)
    (tmp_path / "secret.gz").write_bytes(gzip.compress(SECRET))
    blobs = places.models / "hub" / "models--org--model" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / SUM).write_bytes(b"weights")
    (blobs / ("ee" * 32)).symlink_to(tmp_path / "secret")
    other = places.models / "hub" / "models--org--other"
    other.mkdir()
    (other / "blobs").symlink_to(tmp_path / "home/mallory/hub/models--org--model")
    (tmp_path / "home/mallory/hub/models--org--model" / ("aa" * 32)).write_bytes(SECRET)
    os.mkfifo(blobs / ("ff" * 32))
    places.unpacked.mkdir()
    return places


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def answer(places: Places, line: bytes) -> tuple[dict[str, Any], bytes]:
    """The last answer of a real server to one line, and all that it said."""
    output = io.BytesIO()
    serve(io.BytesIO(line + b"\n"), output, Contents(places, NO_DOCKER))
    lines = [each for each in output.getvalue().splitlines() if each != b'{"working": true}']
    return json.loads(lines[0]), output.getvalue()


def reading(sha256: Any = SUM, ranges: Any = ((0, 7),)) -> bytes:
    return encoded({"read": sha256, "ranges": ranges})


# {folder} is the folder of all of it.
PATHS = ["{folder}/secret", "../../../../../secret", "../../../../../../secret", "/etc/passwd", ".", "..", "", "*"]
PATHS += ["ab*"]
PATHS += [SUM.upper(), SUM[:-1], f"{SUM}0", f"{SUM}\n", f"{SUM}\0", f"sha256:{SUM}", f"./{SUM}", f"{SUM}/..", "g" * 64]
NOT_A_NAME = [None, 1, True, [], {}, [SUM], 0.5, *PATHS]
HOSTILE_REQUESTS: list[bytes] = [
    *(reading(name) for name in NOT_A_NAME),
    *(encoded({"recipe": name, "packed": None}) for name in NOT_A_NAME),
    *(encoded({"recipe": SUM, "packed": name}) for name in ("{folder}/secret.gz", SUM, 1, [], "sha256:../secret.gz")),
    encoded({"recipe": "{folder}/state/unpacked/evil", "packed": "{folder}/secret.gz"}),
    encoded({"recipe": SUM}),
    encoded({"read": SUM}),
    # sizes
    *(reading(ranges=ranges) for ranges in (None, {}, "[[0,1]]", [0, 1], [[0]], [[0, 1, 2]], [["0", 1]], [[0, 1.0]])),
    *(reading(ranges=[pair]) for pair in ([-1, 1], [0, -1], [True, 1], [0, None], [1 << 63, 1], [0, 1 << 40])),
    reading(ranges=[[0, (32 << 20) + 1]]),
    reading(ranges=[[0, 16 << 20]] * 3),
    reading(ranges=[[0, 0]] * 4097),
    # images and models
    *(
        encoded({"image": name, "digest": None})
        for name in (None, 1, "", "--format={{{{.}}}}", "-q", "a b", "a\nb", "ä", "A", "x" * 500, "../x", "a@sha256:1")
    ),
    *(encoded({"image": "demo:1", "digest": name}) for name in (1, "", SUM, "sha256:1", f"sha256:{SUM}/..")),
    *(
        encoded({"model": name, "revision": None})
        for name in (None, 1, "", "model", "a/b/c", "/a", "a/", "../../x/y", "a/b\n", "ä/b", "a b/c", "*/*", "x" * 300)
    ),
    *(
        encoded({"model": "org/model", "revision": name})
        for name in (1, "", "main", "*", "../../x", COMMIT[:-1], [COMMIT])
    ),
    encoded({"model": "org/model"}),
    # several at once, more than is asked for, nothing of it
    encoded({"read": SUM, "ranges": [[0, 1]], "path": "{folder}/secret"}),
    encoded({"read": SUM, "ranges": [[0, 1]], "recipe": SUM, "packed": None}),
    *(encoded(value) for value in (None, 1, "read", [], ["read"], {}, {"write": "x"}, [{"read": SUM}])),
    *(b"", b"{", b"\xff", b"\0", b"read", b'{"read": NaN}', b"9" * 5000, DEEP, b'{"read": ' * 90_000),
    b'{"read": "' + b"a" * (256 << 10) + b'"}',
]


@pytest.mark.parametrize("line", HOSTILE_REQUESTS, ids=lambda line: line[:60].decode(errors="replace"))
def test_a_hostile_request_is_refused_and_changes_nothing(places: Places, tmp_path: Path, line: bytes) -> None:
    before = tree(tmp_path)
    head, output = answer(places, line.replace(b"{folder}", str(tmp_path).encode()))
    assert list(head) == ["failed"]
    assert 0 < len(head["failed"]) < 500
    assert SECRET not in output
    assert tree(tmp_path) == before


@pytest.mark.parametrize("name", ["cd" * 32, "ee" * 32, "aa" * 32, "ff" * 32])
def test_what_is_no_file_of_a_store_is_not_given(places: Places, tmp_path: Path, name: str) -> None:
    """A user's own cache, a link, what lies behind a linked folder, something that is no file."""
    before = tree(tmp_path)
    for line in (reading(name), encoded({"recipe": name, "packed": None})):
        head, output = answer(places, line)
        assert list(head) in (["failed"], ["absent"])
        assert SECRET not in output
    assert {path for path in tree(tmp_path) if not path.endswith("/lock")} == set(before)


def test_the_server_goes_on_after_a_refusal_and_gives_what_it_should(places: Places) -> None:
    output = io.BytesIO()
    serve(io.BytesIO(b"{\n" + DEEP + b"\n" + reading() + b"\n"), output, Contents(places, NO_DOCKER))
    assert output.getvalue().endswith(b'{"ok": 7}\nweights')
    output = io.BytesIO()
    serve(io.BytesIO(b"x" * (256 << 10) + b"y\n" + reading() + b"\n"), output, Contents(places, NO_DOCKER))
    assert output.getvalue().count(b"\n") == 1, "after a line without an end nobody knows where the next one begins"


@given(JSON)
def test_no_request_raises_or_reads_outside(value: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        head, _ = answer(Places(Path(folder), Path(folder, "hf")), encoded(value))
    assert list(head) in (["failed"], ["absent"])


def test_a_layer_is_unpacked_under_its_own_sum_alone(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = Contents(places, NO_DOCKER)
    packed = places.unpacked / "packed"
    packed.write_bytes(gzip.compress(b"a layer"))
    reader = FileReader(packed, places.unpacked)
    monkeypatch.setattr(contents, "_layer", lambda sha256: reader if sha256 == "12" * 32 else None)
    with pytest.raises(AbsentError):
        contents.recipe(SUM[::-1], "sha256:" + "12" * 32)
    assert sorted(path.name for path in places.unpacked.iterdir()) == ["packed"]
    assert list(places.recipes.glob("*.recipe")) == []


def test_a_layer_is_not_read_through_its_own_links(tmp_path: Path) -> None:
    """A publisher's layer: a file below a folder, which a later entry of the same layer made a link to /."""
    split, files = tmp_path / "tar-split.json.gz", tmp_path / "diff"
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "shadow").write_bytes(SECRET)
    files.mkdir()
    (files / "etc").symlink_to(tmp_path / "host")
    (files / "direct").symlink_to(tmp_path / "host" / "shadow")
    for name in ("etc/shadow", "direct", "../host/shadow"):
        split.write_bytes(gzip.compress(encoded({"type": 1, "name": name, "size": len(SECRET)})))
        with pytest.raises(OSError, match=r"\w"):
            SplitLayer(split, files).read(0, len(SECRET))


# What a host answers


def lines(*heads: Any) -> bytes:
    return b"".join(encoded(head) + b"\n" for head in heads)


HOSTILE_ANSWERS: list[bytes] = [
    *(lines(head) for head in (None, 1, "ok", [], ["ok"], {}, {"no": 1}, {"ok": 1, "late": True}, {"OK": 1})),
    *(lines({"ok": size}) for size in (None, -1, 1.5, "7", True, 8, 1 << 40, [], {})),
    *(lines({key: value}) for key in ("absent", "failed") for value in (None, 1, [], {})),
    lines({"working": True}, {"working": 1}),
    *(b"\n", b"{\n", b"\xff\n", b"\0\n", b'{"ok": NaN}\n', b"9" * 5000 + b"\n", DEEP[:60_000] + b"\n"),
    b"x" * (80 << 10),
    b'{"failed": "' + b"y" * (80 << 10) + b'"}\n',
]


@pytest.mark.parametrize("content", HOSTILE_ANSWERS, ids=lambda content: content[:60].decode(errors="replace"))
def test_a_hostile_answer_ends_the_conversation(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "answer").write_bytes(content)
    connection = Connection(["sh", "-c", f"read request; cat {tmp_path}/answer; cat > /dev/null"])
    try:
        with pytest.raises(PeerError, match="its answer") as refused:
            connection.ask({"read": SUM, "ranges": [[0, 7]]})
        assert str(refused.value).isprintable()
        assert len(str(refused.value)) < 500
    finally:
        connection.close()


def test_a_hosts_sentence_is_one_line_that_no_terminal_obeys(tmp_path: Path) -> None:
    (tmp_path / "answer").write_bytes(lines({"failed": "\x1b[2J\n" + "x" * 5000}))
    connection = Connection(["sh", "-c", f"read request; cat {tmp_path}/answer"])
    try:
        with pytest.raises(PeerError, match=r"^\?\[2J x{1,300}$"):
            connection.ask({"model": "org/model", "revision": None})
    finally:
        connection.close()


def recipe(size: Any, parts: list[int], text: bytes, sums: bytes, **changed: Any) -> bytes:
    packed, inside = zlib.compress(struct.pack(f"<{len(parts)}q", *parts)), zlib.compress(text)
    head = {"sha256": SUM, "size": size, "lengths": len(packed), "literals": len(inside), **changed}
    return encoded(head) + b"\n" + packed + inside + sums


# 8 MB and more of memory for some kilobytes that are sent, as long as nothing bounds them.
HOSTILE_RECIPES: list[bytes] = [
    recipe(1 << 24, [-(1 << 23)] * 2, bytes(1 << 24), b""),
    recipe(1 << 27, [-(1 << 27)], bytes(1 << 27), b""),
    recipe(0, [0] * (1 << 20), b"", b""),
    recipe(1 << 20, [-1] * (1 << 20), bytes(1 << 20), b""),
    recipe(1 << 40, [1 << 40], b"", bytes(32)),
    recipe(PART + 1, [PART + 1], b"", bytes(32)),
    recipe(0, [5, -5], b"12345", bytes(32)),
    recipe(5, [-5], b"1234", b""),
    recipe(5, [-5], bytes(1 << 24), b""),
    recipe(5, [5], b"", bytes(33)),
    recipe(5, [5], b"", bytes(64)),
    recipe(-5, [5], b"", bytes(32)),
    recipe(True, [1], b"", bytes(32)),
    recipe(5, [5], b"", bytes(32), sha256="../../x"),
    recipe(5, [5], b"", bytes(32), lengths=-1),
    recipe(5, [5], b"", bytes(32), lengths=1 << 30),
    recipe(5, [5], b"", bytes(32), literals=None),
    recipe(5, [5], b"", bytes(32), more=1),
    DEEP,
    b"[" * 4000 + b"\n",
    b"x" * 5000 + b"\n",
]


@pytest.mark.parametrize("content", HOSTILE_RECIPES, ids=lambda content: content[:60].decode(errors="replace"))
def test_a_hostile_recipe_is_refused_and_takes_little_memory(content: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="no recipe"):
            unpack(content)
        assert tracemalloc.get_traced_memory()[1] < len(content) + (4 << 20)
    finally:
        tracemalloc.stop()


@given(st.lists(st.integers(-3000, 3000), max_size=6), st.binary(max_size=64), st.binary(max_size=200), JSON)
def test_no_recipe_leaves_its_file(lengths: list[int], literals: bytes, sums: bytes, size: Any) -> None:
    for content in (recipe(size, lengths, literals, sums), recipe(sum(map(abs, lengths)), lengths, literals, sums)):
        try:
            taken = unpack(content)
        except ValueError as refused:
            assert "no recipe" in str(refused)
            continue
        ends = [part.offset + part.length for part in taken.parts]
        assert [part.offset for part in taken.parts] == [0, *ends][: len(ends)]
        assert taken.size == (ends[-1] if ends else 0)


# What a host offers of a model


def manifest(*paths: Any, **changed: Any) -> dict[str, Any]:
    files = [{"path": path, "size": 1, "sha256": SUM} for path in paths or ("config.json",)]
    return {"repository": "org/model", "revision": COMMIT, "files": files, **changed}


def one_file(**changed: Any) -> dict[str, Any]:
    return manifest(files=[{"path": "config.json", "size": 1, "sha256": SUM, **changed}])


BAD_PATHS = ["/etc/cron.d/evil", "../x", "a/../../x", "a/..", "..", ".", "", "a//b", "a/", "/", "//x", "./a", "a/./b"]
BAD_PATHS += ["a\\b", "a\0b", "a\nb", "a\rb", "a\x1b[2Jb", "a\x7fb", "a\x85b", "a\u202eb", "\ud800", ".ssh/x"]
BAD_PATHS += ["a/.git/x", ".incomplete", "x" * 256, "é" * 200, "a/" * 600 + "b", "~/../x" + "/..", "a\u2028b"]
HOSTILE_MANIFESTS: list[Any] = [
    *(manifest(path) for path in [*BAD_PATHS, None, 1, True, [], {}]),
    manifest("a", "a"),
    manifest("a", "a/b"),
    manifest("a/b/c", "a/b"),
    *(manifest(revision=name) for name in (None, "", "..", "../../srv/precious", "/srv", "main", COMMIT.upper())),
    *(manifest(revision=name) for name in (COMMIT[1:], f"{COMMIT}\n", f"{COMMIT}/..", 1, [COMMIT])),
    *(manifest(repository=name) for name in (None, "", "x", "../../x", "a/b/c", "a/b\n", "a\0/b", 1, "ä/b")),
    *(one_file(sha256=name) for name in (None, "", "/etc/passwd", "../../x", SUM[1:], SUM.upper(), f"{SUM}\n", 1, [])),
    *(one_file(size=size) for size in (None, -1, 1.5, "1", True, (1 << 40) + 1, 10**30, [], float("inf"))),
    one_file(mode=0o4755),
    manifest(files=None),
    manifest(files={}),
    manifest(files=["config.json"]),
    manifest(files=[{"path": f"f{number}", "size": 0, "sha256": SUM} for number in range(20_001)]),
    manifest(seal=SUM),
    {},
    [],
    None,
    "manifest",
]


@pytest.mark.parametrize("value", HOSTILE_MANIFESTS, ids=lambda value: repr(value)[:80])
def test_a_hostile_manifest_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        Manifest.from_map(value)
    assert type(refused.value) is ValueError
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"\xff", b"{}", DEEP, b'{"manifest": {}}', b'{"manifest": {}, "seal": 1}', b" " * ((8 << 20) + 1)]
    + [encoded({"manifest": manifest(), "seal": seal}) for seal in (SUM, None, "", [])]
    + [
        encoded({"manifest": manifest(**{key: value}), "seal": "{seal}"})
        for key, value in (("repository", "org/another"), ("revision", "f" * 40))
    ],
    ids=lambda content: content[:60].decode(errors="replace"),
)
def test_an_answer_that_is_no_offer_of_this_model_is_refused(content: bytes) -> None:
    if b"{seal}" in content:
        seal = Manifest.from_map(json.loads(content)["manifest"]).seal
        content = content.replace(b"{seal}", seal.encode())
    with pytest.raises(ValueError, match=r"\w"):
        offered_manifest(Wanted("org/model", COMMIT, "hub"), content)


PARTS = st.text(st.characters(codec="utf-8") | st.sampled_from("./\\\0\n .."), max_size=12)


@given(st.lists(PARTS | st.lists(PARTS, max_size=4).map("/".join), max_size=5) | JSON)
def test_no_manifest_names_a_path_outside_of_its_folder(paths: Any) -> None:
    value = manifest(*paths) if isinstance(paths, list) else paths
    try:
        accepted = Manifest.from_map(value)
    except ValueError:
        return
    names = [file.path for file in accepted.files]
    for name in names:
        assert os.path.normpath(f"/store/{name}") == f"/store/{name}"
        assert not Path(name).is_absolute()
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("path", ["/{folder}/evil", "../../../../evil", "sub/../../../../../evil"])
def test_nothing_is_published_outside_of_the_snapshot(tmp_path: Path, path: str) -> None:
    """Also if somebody made a manifest without looking at it."""
    cache = Cache(tmp_path / "hf", "org/model")
    path = path.replace("/{folder}", str(tmp_path))
    with pytest.raises(FleetError, match="outside of its snapshot"):
        cache.publish(Manifest("org/model", COMMIT, (File(path, 1, SUM),)))
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize("revision", ["../../precious", "/srv/precious", "", "main", "*"])
def test_a_record_has_the_name_of_a_commit(tmp_path: Path, revision: str) -> None:
    records = ModelRecords(Places(tmp_path, tmp_path / "hf"))
    with pytest.raises(ValueError, match="40 hex digits"):
        records.seal(Manifest("org/model", revision, ()), None)
    assert list(tmp_path.iterdir()) == []


# What a host offers of an image

CONFIG = {"os": "linux", "architecture": "arm64", "config": {"Cmd": ["a"]}, "rootfs": {"diff_ids": [f"sha256:{SUM}"]}}
LAYER = {"diff_id": f"sha256:{SUM}", "digest": f"sha256:{SUM}", "size": 1, "compression": ""}


def image(config: Any = CONFIG, layers: Any = (LAYER,)) -> bytes:
    return encoded({"config": base64.b64encode(encoded(config)).decode(), "layers": layers})


def layer(**changed: Any) -> bytes:
    return image(layers=[{**LAYER, **changed}])


DIGESTS = [None, 1, "", SUM, f"sha256:{SUM[1:]}", f"sha256:{SUM.upper()}", f"sha512:{SUM}", f"sha256:{SUM}\n"]
DIGESTS += ["/etc/logrotate.d/x", "sha256:/etc/logrotate.d/x", "sha256:../../x", [], {}]
HOSTILE_OFFERS: list[bytes] = [
    *(layer(digest=digest) for digest in DIGESTS),
    *(layer(diff_id=digest) for digest in DIGESTS),
    *(layer(size=size) for size in (None, -1, 1.5, "1", True, (1 << 40) + 1)),
    *(layer(compression=name) for name in (None, "xz", 1, [])),
    layer(path="/x"),
    *(image(layers=layers) for layers in (None, {}, [], [LAYER] * 2, [LAYER] * 1025, [None], ["x"])),
    *(image(config=config) for config in (None, [], "x", 1, {})),
    *(image(config={**CONFIG, "os": value}) for value in (None, 1, "", "a b", "x" * 99)),
    *(image(config={**CONFIG, "architecture": value}) for value in (None, 1, "", "a b", "x" * 99)),
    *(image(config={**CONFIG, "config": value}) for value in (1, [], "x")),
    *(image(config={**CONFIG, "rootfs": value}) for value in (None, [], {"diff_ids": {}}, {"diff_ids": ["x"]}, {})),
    encoded({"config": "no base64!", "layers": [LAYER]}),
    encoded({"config": base64.b64encode(DEEP).decode(), "layers": [LAYER]}),
    encoded({"config": base64.b64encode(b"\xff").decode(), "layers": [LAYER]}),
    encoded({"config": 1, "layers": [LAYER]}),
    encoded({"layers": [LAYER]}),
    *(b"", b"[]", b"null", b"{}", b"\xff", DEEP, b" " * ((8 << 20) + 1)),
]


@pytest.mark.parametrize("content", HOSTILE_OFFERS, ids=lambda content: content[:60].decode(errors="replace"))
def test_a_hostile_image_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        Offer.from_answer(content)
    assert type(refused.value) is ValueError


@given(JSON, JSON)
def test_no_image_names_a_file_that_is_no_sum(config: Any, value: Any) -> None:
    for content in (encoded(config), image(config, value), image({**CONFIG, "config": config}, [value]), image(config)):
        try:
            offer = Offer.from_answer(content)
        except ValueError:
            continue
        assert offer.identity.digest
        assert all(int(each.digest.removeprefix("sha256:"), 16) >= 0 for each in offer.layers)


def test_what_is_well_formed_is_taken() -> None:
    assert Offer.from_answer(image()).layers[0].size == 1
    assert Manifest.from_map(manifest("config.json", "a b/ö.bin", "sub/x", "a-1+2=3@(4).jinja")).size == 4


class Answering:
    """A host that answers anything with the same bytes."""

    coming = False

    def __init__(self, content: bytes) -> None:
        self._content = content

    def ask(self, request: dict[str, Any]) -> bytes:
        return self._content

    def close(self) -> None:
        pass


def test_a_host_that_offers_nonsense_is_passed_over_and_named() -> None:
    offers = {"a": layer(digest="sha256:../x"), "b": image()}
    peers = [Peer("b", "10.0.0.2"), Peer("a", "10.0.0.1")]
    sources = Sources(peers, 1, lambda peer: Answering(offers[peer.host]), lambda: True)  # type: ignore[arg-type,return-value]
    assert sources.look("an image", {}, Offer.from_answer) == Offer.from_answer(image())
    offers["b"] = b"{}"
    with pytest.raises(FleetError, match=r"a \(10.0.0.1\) offers what can't be taken: its answer.layers.*; b "):
        sources.look("an image", {}, Offer.from_answer)
