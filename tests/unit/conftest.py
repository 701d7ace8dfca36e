# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties: nothing is timed, since these machines are shared; CI looks at the same examples each time."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("gb10", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("gb10")


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """A module that writes secrets sets its process' umask, which here is that of all tests."""
    before = os.umask(0o022)
    yield
    os.umask(before)
