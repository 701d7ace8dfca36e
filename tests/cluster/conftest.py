# Copyright: gb10.fleet contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.fixtures import Fleet, need_lab
from lab.vllm import images

from .group import HOSTS, Group


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Group]:
    """Two hosts with a cable, Docker, the stand-in and the supervisor; the lab ends with the tests of its module."""
    need_lab()
    folder = images.default_directory()
    images.ensure_model(folder)
    facts = images.ensure_image(images.STAND_IN, folder)
    fleet = Fleet(Path(tmp_path_factory.mktemp("cluster")) / "lab")
    fleet.lab("up", "--hosts", ",".join(HOSTS), "--cable", "spark-2:1=spark-3:1", "--share", f"{folder}:/srv/lab")
    try:
        made = Group(fleet, facts["reference"])
        made.install()
        yield made
    finally:
        fleet.lab("down")
