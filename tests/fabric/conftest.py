# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.fixtures import need_lab

from .fleet import FabricFleet


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FabricFleet]:
    """A lab that ends with the tests of its module, however they end."""
    need_lab()
    one = FabricFleet(Path(tmp_path_factory.mktemp("fabric")) / "lab")
    yield one
    one.lab("down")
