# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._engines.vllm.catalogue.version import (
    as_range,
    neighbours,
    parse,
    parse_range,
)
from hypothesis import given
from hypothesis import strategies as st

RELEASES = [
    "0.11.0",
    "0.17.1",
    "0.18.0",
    "0.18.1",
    "0.19.0",
    "0.19.1",
    "0.20.0",
    "0.23.0",
    "0.24.0",
    "0.27.1",
    "0.33.0",
]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("0.24.0", ("0.24.0",)),
        ("v0.24.0", ("0.24.0",)),
        ("0.27.1+93523f72.nv26.8.64249418", ("0.27.1",)),
        ("0.12.0+nv25.12", ("0.11.0",)),
        ("0.17.1.post1", ("0.17.1",)),
        ("0.17.2rc1.dev93+g0123abc", ("0.17.1", "0.18.0")),
        ("0.18.1rc1", ("0.18.0", "0.19.0")),
        ("0.18.2-dev", ("0.18.1", "0.19.0")),
        ("0.19.0rc2", ("0.18.1", "0.19.0")),
        ("0.19.1.dev6+g6d4a8e6d2", ("0.19.0", "0.19.1")),
        ("0.19.2rc1.dev134+gfe9c3d6c5", ("0.19.1", "0.20.0")),
        ("0.23.1rc1.dev1053", ("0.23.0", "0.24.0")),
        ("0.35.0", ("0.33.0",)),
        ("0.33.1rc1.dev1", ("0.33.0",)),
        ("0.10.2", ("0.11.0",)),
    ],
)
def test_neighbours(text: str, expected: tuple[str, ...]) -> None:
    build = parse(text)
    assert build is not None
    assert neighbours(build, RELEASES) == expected


@pytest.mark.parametrize(
    "text", ["", "nightly", "0.1.dev21830+g8244d1c44", "latest", "1", "0.24", "a" * 10_000, "0.24.x"]
)
def test_no_version(text: str) -> None:
    assert (parse(text) is None) == (text != "0.24")


@pytest.mark.parametrize(
    "text, inside, outside",
    [
        ("..", "0.11.0", None),
        ("0.24.0..", "0.24.0", "0.23.0"),
        ("0.15.0..0.19.1, 0.22.0..0.27.1", "0.22.0", "0.20.0"),
        ("..0.12.0", "0.12.0", "0.13.0"),
        ("..<0.17.0", "0.16.9", "0.17.0"),
        ("0.18.0..<0.28.1", "0.28.0", "0.28.1"),
        ("..<1.0.0", "0.33.0", "1.0.0"),
        ("0.27.1..", "0.27.1+93523f72.nv26.8", "0.1.dev1+g0"),
        ("0.15..<0.27", "0.26.1rc1.dev5", "0.27.0rc1"),
        ("0.32..<0.33", "0.32.7", "0.31.9"),
    ],
)
def test_ranges(text: str, inside: str, outside: str | None) -> None:
    assert inside in parse_range(text)
    assert outside is None or outside not in parse_range(text)


@pytest.mark.parametrize("text", ["", "0.24.0", "a..b", ">=0.24"])
def test_no_range(text: str) -> None:
    with pytest.raises(ValueError, match="not a range"):
        parse_range(text)


@given(st.lists(st.booleans(), min_size=len(RELEASES), max_size=len(RELEASES)).filter(any))
def test_a_range_shows_what_it_was_made_from(present: list[bool]) -> None:
    made = parse_range(as_range(present, RELEASES))
    assert [release in made for release in RELEASES] == present


@given(st.text())
def test_any_text_has_an_answer(text: str) -> None:
    build = parse(text)
    assert build is None or neighbours(build, RELEASES)
