# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.gb10.fleet.plugins.module_utils._base.sizes import GIB, gib, room_for, size


@pytest.mark.parametrize(
    "count, words",
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (32 << 20, "32.0 MiB"),
        (18 * GIB, "18.0 GiB"),
        (2048 * GIB, "2048.0 GiB"),
        (-2 * GIB, "-2.0 GiB"),
        (488_281.25, "476.8 KiB"),
    ],
)
def test_bytes_for_people(count: float | None, words: str) -> None:
    assert size(count) == words


def test_bytes_of_gib_and_the_room_that_they_need() -> None:
    assert gib(1.5) == 3 << 29
    assert room_for(gib(100)) == gib(110)
