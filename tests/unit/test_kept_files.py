# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each file that the controller keeps beside the inventory, damaged in each way: it is made again, or one sentence
names it. The files are found by what the product writes and by the names in its code."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.findings import FleetError
from ansible_collections.gb10.fleet.plugins.module_utils._base.gb10 import ROOT
from ansible_collections.gb10.fleet.plugins.module_utils._base.own_files import unwritten
from ansible_collections.gb10.fleet.plugins.module_utils._engines import observed
from ansible_collections.gb10.fleet.plugins.module_utils._engines.recipes import kept_models, shelf
from ansible_collections.gb10.fleet.plugins.module_utils._operations.bundle.signature import require_signed, signed
from ansible_collections.gb10.fleet.plugins.module_utils._stores.lock import file as lock_file
from ansible_collections.gb10.fleet.plugins.module_utils._stores.lock.lock import EMPTY, dump
from ansible_collections.gb10.fleet.plugins.plugin_utils import _bundle_key, _publisher, _who
from ansible_collections.gb10.fleet.plugins.plugin_utils._made_certificates import Made

NOW = datetime.now(UTC)
LARGE = 200_000
DAMAGES: dict[str, bytes | None] = {
    "empty": b"",
    "binary": b"\xff\x00\xfe" * 50,
    "zeros": bytes(4096),
    "a list": b"[1]",
    "a text": b'"x"',
    "null": b"null",
    "deep": b"[" * LARGE,
    "other types": b'{"serial": {"a": 1}, "files": "abc", "form": []}',
    "no number": b'{"serial": 1e999}',
}
WAYS = (*DAMAGES, "half", "lost", "a folder", "a link to nowhere", "a link to itself")


def certificates(root: Path) -> None:
    tls = {kind: {"source": str(root / f".fleet/certificates/a.{end}")} for kind, end in KINDS.items()}
    Made(root / ".fleet/ca/ca.crt", NOW, 3650, 365, 30).bring("site", [{**tls, "names": ["a.lab"]}], dry=False)


KINDS = {"certificate": "crt", "key": "key"}


def bundle_key(root: Path) -> None:
    secret, public = _bundle_key.kept_key(root)
    require_signed(root, b"x", signed(secret, b"x", clear=False), public)


def bundle_used(root: Path) -> None:
    file = root / ".fleet/bundle.json"
    if not (root / "begun").exists():
        file.write_text(json.dumps({"serial": 3}))
        (root / "begun").touch()
    _bundle_key.used(root)


def publisher(root: Path) -> None:
    key = root / ".fleet/publisher/key"
    _publisher.made_key(key, "site")
    _publisher.signed("{}", key)
    assert _publisher.public_of(key).read_text("ascii").startswith("ssh-ed25519 ")


def lock(root: Path) -> None:
    file = root / ".fleet.lock"
    if not (root / "begun").exists():
        file.write_text(dump(EMPTY))
        (root / "begun").touch()
    lock_file.read(file)


def seen(root: Path) -> None:
    file = root / ".fleet/observed/boots/titan/a.json"
    if not (root / "begun").exists():
        file.parent.mkdir(parents=True)
        file.write_text("{}")
        (root / "begun").touch()
    observed.read_observed(root)


def models(root: Path) -> None:
    _written(root, ".fleet/models/a.json")
    kept_models.read_kept(root, lambda _text: None)


def sources(root: Path) -> None:
    _written(root, ".fleet/shelf/a.json")
    shelf.read_kept(root, "a", lambda _text: None)


def _written(root: Path, name: str) -> None:
    if not (root / "begun").exists():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text("{}")
        (root / "begun").touch()


def form(root: Path) -> None:
    _who.refuse_older({"release": "1", "form": "1", "person": "me"}, root, {}, dry=False)


USES: list[Callable[[Path], None]] = [
    certificates, bundle_key, bundle_used, publisher, lock, seen, models, sources, form,
]  # fmt: skip
# What lies there is read whole as bytes, only looked for, or has a test of its own.
ELSEWHERE = {".fleet/escrow", ".fleet/doctor", ".fleet/keys"}


def damage(file: Path, way: str) -> None:
    content = file.read_bytes()
    mode = file.stat().st_mode
    file.unlink()
    if way == "a folder":
        (file / "x").mkdir(parents=True)
    elif way.startswith("a link"):
        file.symlink_to(file if way == "a link to itself" else "nowhere")
    elif way != "lost":
        file.write_bytes(content[: len(content) // 2] if way == "half" else DAMAGES[way] or b"")
        file.chmod(mode)


def used(use: Callable[[Path], None], root: Path) -> str:
    """The sentence of its refusal, as a person reads it; empty where it goes on."""
    try:
        use(root)
    except FleetError as problem:
        return str(problem)
    except _publisher.KeygenError as problem:  # as action publish words it
        return f"{root}/.fleet/publisher/key: nothing can be signed with it: {problem}"
    except OSError as problem:  # as `plugin_utils._documented` words it
        return unwritten(problem, "a file", "a file of yours", "make it yours, and run again")
    return ""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_a_damaged_file_is_made_again_or_named(tmp_path: Path, use: Callable[[Path], None], way: str) -> None:
    first = tmp_path / "first"
    (first / ".fleet").mkdir(parents=True)
    assert not used(use, first)
    files = [path.relative_to(first) for path in sorted(first.rglob("*")) if path.is_file() and path.name != "begun"]
    for number, name in enumerate(files):
        root = tmp_path / str(number)
        shutil.copytree(first, root)
        damage(root / name, way)
        sentence = used(use, root)
        assert "None:" not in sentence and "Traceback" not in sentence
        assert not sentence or str(root / name.parent) in sentence, sentence
        if not sentence:
            assert not used(use, root)


@pytest.mark.parametrize("lost", ["ca.key", "ca.crt"])
@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("lost", "a link to nowhere")])
def test_one_half_of_the_ca_is_lost_and_the_other_damaged(tmp_path: Path, lost: str, way: str) -> None:
    (tmp_path / ".fleet").mkdir()
    certificates(tmp_path)
    folder = tmp_path / ".fleet" / "ca"
    (folder / lost).unlink()
    damage(folder / ("ca.crt" if lost == "ca.key" else "ca.key"), way)
    assert str(folder) in used(certificates, tmp_path)
    assert not (folder / lost).exists() or way == "a link to itself"


def test_every_name_in_the_code_is_damaged_here(tmp_path: Path) -> None:
    (tmp_path / ".fleet").mkdir()
    made: set[str] = set()
    for use in USES:
        (tmp_path / "begun").unlink(missing_ok=True)
        assert not used(use, tmp_path)
        made |= {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
    code = "\n".join(path.read_text("utf-8") for path in (ROOT / "plugins").rglob("*.py"))
    for name in set(re.findall(r'"(\.fleet[./][\w./-]+)"', code)):
        known = any(one.startswith(name) for one in made) or name.startswith(tuple(ELSEWHERE))
        assert known, f"{name} is kept beside the inventory: damage it here"


def test_a_public_part_of_another_key_is_not_written_over(tmp_path: Path) -> None:
    """It may be another site's, which this one trusts."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        bundle_key(tmp_path / name)
    public = tmp_path / "one" / ".fleet" / "bundle.gpg"
    other: Any = (tmp_path / "other" / ".fleet" / "bundle.gpg").read_bytes()
    public.write_bytes(other)
    with pytest.raises(FleetError, match="bundle-key"):
        bundle_key(tmp_path / "one")
    assert public.read_bytes() == other
