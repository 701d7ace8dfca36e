"""The rota of weights: each byte is read once in so many days, whatever the sizes and the nights that fell out."""

from __future__ import annotations

from ansible_collections.gb10.fleet.plugins.module_utils._weights.reading import due
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
