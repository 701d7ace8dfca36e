"""The rota of weights: each byte is read once in so many days, whatever the sizes and the nights that fell out."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._operations.drift.compare import compare
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.access import writable
from ansible_collections.gb10.fleet.plugins.module_utils._stores.weights.reading import due
from drift_fleet import changed, planned
from hypothesis import given
from hypothesis import strategies as st

SIZES = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=3), st.integers(0, 10**12), min_size=1, max_size=20)


@given(SIZES, st.integers(1, 40))
def test_every_file_is_read_at_least_every_so_many_days(sizes: dict[str, int], days: int) -> None:
    seen: dict[str, int] = {}
    for today in range(100, 100 + 3 * days):
        seen |= dict.fromkeys(due(sizes, seen, today, days), today)
        if today >= 100 + days - 1:
            assert all(today - seen[file] < days for file in sizes if sizes[file])


@given(SIZES, st.integers(1, 40), st.sets(st.integers(100, 180)))
def test_after_nights_that_fell_out_what_is_overdue_is_read_first(
    sizes: dict[str, int], days: int, out: set[int]
) -> None:
    seen = dict.fromkeys(sizes, 100)
    for today in range(101, 181):
        if today in out:
            continue
        chosen = due(sizes, seen, today, days)
        assert {file for file in sizes if seen[file] + days <= today} <= {*chosen}
        seen |= dict.fromkeys(chosen, today)


@given(SIZES, st.integers(1, 40))
def test_a_second_run_of_the_day_has_nothing_left_to_read(sizes: dict[str, int], days: int) -> None:
    chosen = due(sizes, {}, 100, days)
    again = due(sizes, dict.fromkeys(chosen, 100), 100, days)
    assert [file for file in again if sizes[file]] == []


def test_a_night_takes_its_share_and_no_more() -> None:
    sizes = {f"shard-{number:02}": 5_000_000_000 for number in range(30)}
    assert len(due(sizes, {}, 100, 30)) == 1
    assert len(due(sizes, {}, 100, 10)) == 3


@pytest.mark.skipif(os.getuid() != 0, reason="needs root: files of another user")
@pytest.mark.parametrize(
    "harm",
    [
        lambda model: os.chown(model.parent.parent, 65534, 65534),
        lambda model: (os.chown(model, 65534, 65534), model.chmod(0o700)),
        lambda model: (model / "blobs" / "a").chmod(0o666),
        lambda model: os.chown(model / "blobs" / "a", 65534, 0),
        lambda model: (os.chown(model / "blobs" / "a", 65534, 0), (model / "snapshots").chmod(0o777)),
    ],
)
def test_what_others_may_change_is_found_and_the_remedy_ends_it(tmp_path: Path, harm: Callable[[Path], object]) -> None:
    """An owner's file that is linked here stays his."""
    root = tmp_path / "hf"
    model = root / "hub" / "models--a--b"
    for folder in ("blobs", "snapshots"):
        (model / folder).mkdir(parents=True)
    (model / "blobs" / "a").write_text("x")
    (tmp_path / "mine").write_text("y")
    os.chown(tmp_path / "mine", 65534, 65534)
    os.link(tmp_path / "mine", model / "blobs" / "b")
    (model / "snapshots" / "a").symlink_to("../blobs/a")
    assert writable(root, model) == []
    harm(model)
    found = writable(root, model)
    assert found
    plan = planned()

    def change(state: dict[str, object]) -> None:
        state["models"]["models"]["gb10-lab/tiny"]["access"] = found  # type: ignore[index]

    [one] = compare(plan, changed(plan, "titan", change), "2026-11-21").differences
    subprocess.run(["sh", "-c", one.remedy.partition("then: ")[2]], check=True)
    assert writable(root, model) == []
    assert (tmp_path / "mine").stat().st_uid == 65534
