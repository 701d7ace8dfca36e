# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipes: how files are cut into parts, and what two versions of a layer have in common."""

from __future__ import annotations

import hashlib
import io
import random
import tarfile
from collections.abc import Callable

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._stores.transfer.parts import (
    PART,
    Recipe,
    cut_evenly,
    cut_tar,
    recipe_of,
    unpack,
)
from hypothesis import given
from hypothesis import strategies as st

FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


def tar_of(files: dict[str, bytes], mtime: int = 0, form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(content), mtime
            tar.addfile(member, io.BytesIO(content))
    return out.getvalue()


def cut(content: bytes, how: Callable[..., object] = cut_tar) -> Recipe:
    return recipe_of(how(io.BytesIO(content).read))  # type: ignore[arg-type]  # both cuts have this shape


def rebuilt(recipe: Recipe, content: bytes) -> bytes:
    """The file from its parts, each checked."""
    out = b""
    for part in recipe.parts:
        mine = content[part.offset : part.offset + part.length]
        assert mine == part.literal if part.literal else hashlib.sha256(mine).digest() == part.sha256
        out += mine
    return out


names = st.text("abc/é", min_size=1, max_size=120).map(lambda text: "x" + text)
files = st.dictionaries(names, st.integers(0, 5000).map(lambda size: random.Random(size).randbytes(size)), max_size=8)


@given(files, st.sampled_from(FORMATS))
def test_any_tar_is_the_sum_of_its_parts(content: dict[str, bytes], form: int) -> None:
    tar = tar_of(content, form=form)
    recipe = cut(tar)
    assert rebuilt(recipe, tar) == tar
    assert recipe.sha256 == hashlib.sha256(tar).hexdigest()
    assert unpack(recipe.pack()) == recipe


@given(st.binary(max_size=6000))
def test_what_is_no_tar_is_cut_all_the_same(content: bytes) -> None:
    for how in (cut_tar, cut_evenly):
        recipe = cut(content, how)
        assert rebuilt(recipe, content) == content
        assert unpack(recipe.pack()) == recipe


@given(files, st.integers(0, 4000))
def test_a_tar_that_is_cut_off_or_garbled_is_cut_all_the_same(content: dict[str, bytes], at: int) -> None:
    tar = tar_of(content)
    for corrupt in (tar[:-at], tar[:at] + b"\xff" * 600 + tar[at:]):
        assert rebuilt(cut(corrupt), corrupt) == corrupt


def sums(recipe: Recipe) -> set[bytes]:
    return {part.sha256 for part in recipe.parts if part.sha256}


@pytest.mark.parametrize("form", FORMATS)
def test_a_file_has_the_same_parts_wherever_it_lies(form: int) -> None:
    big, other = random.Random(1).randbytes(3 * PART + 77), random.Random(2).randbytes(5000)
    one = cut(tar_of({"a": other, "b": big}, mtime=1, form=form))
    two = cut(tar_of({"long/" * 30 + "name": big, "new": b"x" * 10, "a": other}, mtime=2, form=form))
    assert sums(one) == sums(two)


def test_times_and_small_files_cost_little() -> None:
    """A layer of 400 files that were all built anew with the same contents: what the recipe itself takes."""
    content = {f"lib/{number}.py": random.Random(number).randbytes(20_000) for number in range(400)}
    old, new = cut(tar_of(content, mtime=1)), cut(tar_of(content, mtime=2))
    assert sums(old) == sums(new)
    assert len(new.pack()) < 0.01 * new.size


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"{}\n", b'{"size": 1}\n', b'{"sha256":"","size":5,"lengths":0,"literals":0}\n', b"\xff\xfe"],
)
def test_what_is_no_recipe_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="no recipe"):
        unpack(content)


def test_a_recipe_that_was_cut_off_is_refused() -> None:
    packed = cut(tar_of({"a": b"x" * 5000})).pack()
    for length in range(0, len(packed) - 1, 7):
        with pytest.raises(ValueError, match="no recipe"):
            unpack(packed[:length])
