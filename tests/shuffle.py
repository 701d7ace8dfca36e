# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests of a file run in an order of their own, so that none needs the test before it.

The order follows from the file's content: a run that was red is red again. ``GB10_SHUFFLE=NUMBER`` tries another one. A
file whose tests tell a story in order says so: ``pytestmark = pytest.mark.story``.
"""

from __future__ import annotations

import os
import random
import zlib
from itertools import groupby

import pytest

VARIABLE = "GB10_SHUFFLE"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "story: the tests of this file go on from each other, in the order of the file")


@pytest.hookimpl(tryfirst=True)  # what shares a fixture is brought together after it
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [item for _path, group in groupby(items, lambda item: item.path) for item in shuffled([*group])]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.stats.get("failed") and VARIABLE in os.environ:
        terminalreporter.write_line(f"the order of the tests was that of {VARIABLE}={os.environ[VARIABLE]}")


def shuffled(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests of one file in another order."""
    if items[0].get_closest_marker("story"):
        return items
    seed = zlib.crc32(items[0].path.read_bytes()) ^ int(os.environ.get(VARIABLE, "0"))
    return random.Random(seed).sample(items, len(items))
