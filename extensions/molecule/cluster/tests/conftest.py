# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
from pathlib import Path

import pytest
from cluster.pair import Pair, declared
from lab.fixtures import Fleet


@pytest.fixture(scope="session")
def pair() -> Pair:
    return Pair(Fleet(Path(os.environ["GB10_LAB_DIR"])), declared())
